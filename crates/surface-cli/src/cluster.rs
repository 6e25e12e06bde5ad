//! The way to the cluster that a plan names: the commands of Slurm, or slurmrestd.
//!
//! Room: driver.

use std::sync::Arc;

use sched_slurm::{Cluster, Commands, Credentials, Rest, SlurmError};
use surface_jobfile::Plan;

use crate::exit::{Exit, Failure};

/// The way to the cluster that the plan names.
pub(crate) fn cluster(plan: &Plan) -> Result<Arc<dyn Cluster>, Failure> {
    let slurm = &plan.slurm;
    if let Some(address) = &slurm.rest {
        let rest = Rest::new(address, Credentials::of_env(), &slurm.options).map_err(failure)?;
        return Ok(Arc::new(rest));
    }
    if let Some(command) = Commands::missing() {
        return Err(failure(SlurmError::Missing { command: command.to_owned() }));
    }
    Ok(Arc::new(Commands::new(slurm.options.clone()).map_err(failure)?))
}

/// The exit code of each reason.
pub(crate) fn failure(error: SlurmError) -> Failure {
    let exit = match error {
        SlurmError::Missing { .. } | SlurmError::NoUser { .. } => Exit::NoSlurm,
        SlurmError::Unreachable { .. } | SlurmError::Unusable { .. } => Exit::SlurmSilent,
        SlurmError::Option { .. } | SlurmError::Rest { .. } => Exit::BadFile,
        SlurmError::NoPartition { .. } | SlurmError::Refused { .. } => Exit::SlurmRefuses,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}
