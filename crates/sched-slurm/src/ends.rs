//! A mark of an end as the end of a command.
//!
//! Room: values.
//!
//! Pure: no clock, no file, no thread.

use core::time::Duration;

use sched_jobs::process::{End, How};

use crate::decide::prologue_ended;
use crate::key::Key;
use crate::marks::{self, EndKind};

/// What `timeout` exits with: after TERM, and after KILL.
const OUT_OF_TIME: [i32; 2] = [124, 137];

/// The end of an attempt with this time limit. Its peak of memory is not measured.
pub fn measured(key: Key, mark: &marks::End, limit: Option<Duration>, was_cancelled: bool) -> End {
    let how = how(mark, limit, was_cancelled);
    End { token: key.token(), how, peak_rss_kb: 0, cpu: mark.cpu, wall: mark.wall, in_force: None }
}

fn how(mark: &marks::End, limit: Option<Duration>, was_cancelled: bool) -> How {
    let name = mark.missing.as_deref().unwrap_or_default();
    match (mark.kind, limit) {
        (EndKind::NoFolder, _) => {
            How::CouldNotStart(format!("its folder {name} is not there on its node: `cwd` must be on a file system that all nodes share"))
        }
        (EndKind::NoModule, _) => How::CouldNotStart(format!(
            "its node cannot load the module `{name}` of [slurm]; its log says why, and `module avail` on the node what there is"
        )),
        (EndKind::Prologue, _) => How::CouldNotStart(prologue_ended(mark.code)),
        (EndKind::NoSpace, _) => How::CouldNotStart(
            "its node cannot write to the folder of the run: make room on its disk, or set BURSAR_STATE_DIR to another that all nodes share".to_owned(),
        ),
        _ if was_cancelled && mark.code != 0 && mark.was_asked() => How::Cancelled,
        (EndKind::Exit, Some(after)) if OUT_OF_TIME.contains(&mark.code) && mark.wall >= after => {
            How::TimedOut { after }
        }
        _ => How::Exit(mark.code),
    }
}
