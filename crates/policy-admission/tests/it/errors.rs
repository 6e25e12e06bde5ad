//! An error names the value, the limit and the way out.

use policy_admission::{CapError, CapErrorKind, CapId, ChannelLimit, ExecutorLimit, Kind};
use vocab::Component;

fn every_error() -> Vec<(CapError, &'static [&'static str])> {
    let id = CapId::from_bits(2 << 32 | 7);
    let from = CapId::from_bits(1 << 32);
    let (limit, in_use, wanted) = (41, 39, 5);
    let channel = |what| CapError::ChannelLimitExceeded { what, limit, in_use, wanted };
    let executor = |what| CapError::ExecutorLimitExceeded { what, limit, in_use, wanted };
    vec![
        (CapError::NoSpawnCapability, &["CapSpawn", "give"]),
        (CapError::NoBudgetCapability, &["CapBudget", "give"]),
        (CapError::NoChannelCapability, &["CapChannel", "give"]),
        (CapError::NoExecutorCapability, &["CapExecutor", "give"]),
        (CapError::TaskLimitExceeded { limit, in_use }, &["41", "39", ".max_tasks(42)"]),
        (channel(ChannelLimit::Channels), &["41", "39", ".max_channels(44)"]),
        (channel(ChannelLimit::Buffer), &["41", ".max_buffer(5)"]),
        (
            CapError::BudgetLimitExceeded { component: Component::ChannelOps, wanted, limit },
            &["5 of channel ops", "41", "new CapBudget", ".limit"],
        ),
        (executor(ExecutorLimit::Workers), &["5 workers", "39", "41", ".max_workers(44)"]),
        (executor(ExecutorLimit::BlockingThreads), &["blocking", ".max_blocking_threads(44)"]),
        (CapError::NotDelegatable { id }, &["7v2", "Delegation::Allowed"]),
        (CapError::Revoked { id }, &["7v2", "new one"]),
        (CapError::Stale { id }, &["7v2", "live one"]),
        (CapError::NotDerived { id, from }, &["7v2", "0v1", "ask"]),
        (CapError::Foreign, &["another ledger", "derive it"]),
    ]
}

#[test]
fn every_error_says_what_is_wrong_and_what_to_do() {
    for (error, words) in every_error() {
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{word:?} is missing: {text}");
        }
    }
}

#[test]
fn every_kind_has_its_own_number_and_its_errors() {
    let errors = every_error();
    for (number, kind) in CapErrorKind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, number);
        assert!(errors.iter().any(|(error, _)| error.kind() == kind), "{kind:?}");
    }
}

#[test]
fn what_is_missing_is_named_by_its_kind() {
    for kind in [Kind::Spawn, Kind::Budget, Kind::Channel, Kind::Executor] {
        assert!(CapError::none(kind).to_string().contains(&kind.to_string()));
    }
}
