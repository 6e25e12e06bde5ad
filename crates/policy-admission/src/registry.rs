//! What a ledger keeps, and every capability of it reaches: which capabilities are alive, and the log.
//!
//! Room: state.
//!
//! # Locks
//! The arena's is taken to derive, to revoke and to forget, never to use. The log's is taken inside it, or alone.

use std::sync::{Arc, PoisonError};

use crate::{
    AuditEvent, CapError, CapId, Kind,
    arena::{Account, Arena},
    audit::AuditLog,
    sync::{AtomicU32, Mutex, MutexGuard},
};

pub(crate) struct Registry {
    /// No other ledger of the process ever has it.
    pub(crate) number: u64,
    arena: Mutex<Arena>,
    log: AuditLog,
}

impl Registry {
    /// No capability is alive yet, and the log keeps `audit_capacity` records.
    pub(crate) fn new(audit_capacity: usize) -> Self {
        // The standard library's counter, also in models: no decision depends on it.
        static LEDGERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = LEDGERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self { number, arena: Mutex::new(Arena::default()), log: AuditLog::new(audit_capacity) }
    }

    /// Enters a capability below `above`, in the arena and in the log; `None` if that one was revoked.
    pub(crate) fn enter(
        &self,
        above: Option<CapId>,
        account: Account,
        event: AuditEvent,
    ) -> Option<(CapId, Arc<AtomicU32>)> {
        let (kind, label) = (account.kind, account.label.clone());
        let mut arena = self.arena();
        let entered = arena.enter(above)?;
        arena.set_account(entered.0, account);
        self.log.write(event, Some(kind), Some(entered.0), above, label);
        Some(entered)
    }

    /// Revokes the capability of that name, if it was derived from `above`, and everything derived from it: how many that were.
    pub(crate) fn revoke_below(&self, above: Option<CapId>, id: CapId) -> Result<usize, CapError> {
        let mut arena = self.arena();
        let outcome = match above {
            Some(from) if arena.is_alive(id) && !(arena.is_alive(from) && arena.is_below(id, from)) => {
                Err(CapError::NotDerived { id, from })
            }
            _ => arena.revoke(id).ok_or(CapError::Stale { id }),
        };
        let event = match outcome {
            Ok(reached) => AuditEvent::Revoked { reached },
            Err(error) => AuditEvent::Refused(error.kind()),
        };
        self.log.write(event, None, Some(id), above, None);
        outcome
    }

    /// Revokes on behalf of the holder; 0 if it has ended already.
    pub(crate) fn revoke_own(&self, id: CapId, kind: Kind, parent: Option<CapId>, label: Option<Arc<str>>) -> usize {
        let mut arena = self.arena();
        let Some(reached) = arena.revoke(id) else { return 0 };
        self.log.write(AuditEvent::Revoked { reached }, Some(kind), Some(id), parent, label);
        reached
    }

    pub(crate) fn forget(&self, id: CapId) {
        self.arena().forget(id);
    }

    pub(crate) fn log(&self) -> &AuditLog {
        &self.log
    }

    pub(crate) fn arena(&self) -> MutexGuard<'_, Arena> {
        // The arena panics only before it changes anything.
        self.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
