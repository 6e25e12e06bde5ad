//! Which group of tasks a nursery is in, and so whose share of CPU time its tasks have.
//!
//! Room: driver. Knows options, capabilities and groups; knows nothing of queues.
//!
//! # Invariants
//! - No task leaves its group: a group that it opens is inside its own.
//! - What runs under a capability with a weight is in the group of that tenant: one for all its nurseries that are inside the same group. What is derived from it is in a group inside that one. So no
//!   tenant gets more by opening nurseries, by deriving capabilities, or by entering another runtime.
//!
//! # Why they hold
//! [`group_of`] begins with the group of the task. It then goes through the tenants that the task or the nursery belongs to, from the outermost on, and opens those that the group is not inside of yet. A
//! nursery's own weight comes last.
//!
//! # Rejected
//! A group for each capability at the top, with at most the weight of the one above: ten derived ones would have ten shares.

use std::sync::Arc;

use policy_admission::{CapSpawn, Lease, Tenant};
use policy_cpu::{DEPTH_MAX, Weight};

use crate::{
    context::Context,
    error::{Reason, TaskError},
    kernel::{
        cpu_server::CpuServer,
        shared::Shared,
        shares::{self, About, Membership, SLICE, ShareGroup},
    },
    options::{CpuOptions, NurseryOptions},
    strand::Strand,
};

/// The group of a nursery that `strand` opens, if it is in one.
#[inline(always)]
pub(crate) fn group_of(
    strand: &Strand,
    shared: &'static Shared,
    options: &NurseryOptions,
) -> Result<Option<Membership>, TaskError> {
    let says_nothing = options.cpu.is_none() && !options.authority.has_tenant();
    if says_nothing && !shared.has_groups() && !strand.has_tenant() {
        return Ok(None);
    }
    open_group(strand, shared, options)
}

/// Apart, for its frame.
#[cold]
#[inline(never)]
fn open_group(
    strand: &Strand,
    shared: &'static Shared,
    options: &NurseryOptions,
) -> Result<Option<Membership>, TaskError> {
    let around = strand.scope.get().filter(|scope| std::ptr::eq(scope.shared(), shared));
    let mut group = around.and_then(|scope| scope.group().cloned());
    if strand.has_tenant()
        && let Some(credentials) = strand.credentials()
    {
        for lease in credentials.of_tenants().rev() {
            group = inside_tenants(shared, group, lease);
        }
    }
    if options.authority.has_tenant()
        && let Some(lease) = options.authority.to_spawn()
    {
        group = inside_tenants(shared, group, lease);
    }
    match &options.cpu {
        None => Ok(group),
        Some(cpu) => with_weight(shared, group, cpu, options),
    }
}

/// The group of the tenants that a lease belongs to, inside `group` as far as that is not inside them.
fn inside_tenants(
    shared: &'static Shared,
    mut group: Option<Membership>,
    lease: &Lease<CapSpawn>,
) -> Option<Membership> {
    let is_around = |tenant: &Tenant<'_>, group: &Option<Membership>| {
        group.as_ref().is_some_and(|group| group.outwards().any(|group| group.tenant() == Some(tenant.id())))
    };
    let mut missing: Vec<Tenant<'_>> = lease.tenants().take_while(|tenant| !is_around(tenant, &group)).collect();
    while let Some(tenant) = missing.pop() {
        if group.as_ref().is_some_and(|group| group.is_deepest()) {
            break; // they divide nothing any more
        }
        let about = About {
            name: Some(tenant.name()),
            weight: tenant.weight() * Weight::NORMAL.get(),
            slice: SLICE,
            tenant: Some(tenant.id()),
        };
        group = Some(ShareGroup::open(shared, group, about, None));
    }
    group
}

/// A group of its own, inside `around`.
fn with_weight(
    shared: &'static Shared,
    around: Option<Membership>,
    cpu: &CpuOptions,
    options: &NurseryOptions,
) -> Result<Option<Membership>, TaskError> {
    if around.as_ref().is_some_and(|around| around.is_deepest()) {
        return match cpu.context {
            None => Ok(around), // it divides nothing any more
            Some(context) => Err(TaskError::msg(format!(
                "a context of {context} cannot be: groups are {} levels deep at most; open it further outside",
                DEPTH_MAX - 1
            ))),
        };
    }
    let server = cpu.context.map(|context| server(shared, &around, context, options)).transpose()?;
    let about = About {
        name: options.name.clone(),
        weight: cpu.weight.unwrap_or(Weight::NORMAL.get()),
        slice: cpu.slice.map_or(SLICE, shares::slice_for),
        tenant: None,
    };
    Ok(Some(ShareGroup::open(shared, around, about, server)))
}

/// The time of a context, which is reserved if it is in no group.
#[cold]
#[inline(never)]
fn server(
    shared: &'static Shared,
    around: &Option<Membership>,
    context: Context,
    options: &NurseryOptions,
) -> Result<Arc<CpuServer>, TaskError> {
    let Some(spec) = context.spec() else {
        return Err(TaskError::msg(format!(
            "a context of {context} cannot be: it takes 0 < budget <= deadline <= period <= 100 years"
        )));
    };
    let admitted = match around {
        Some(_) => None,
        None => {
            let name = options.name.as_deref().unwrap_or("a nursery");
            Some(shared.shares.admit(name, spec).map_err(|refused| TaskError::new(Reason::Failed(refused), None))?)
        }
    };
    Ok(CpuServer::new(shared, context, spec, admitted, around.as_deref()))
}
