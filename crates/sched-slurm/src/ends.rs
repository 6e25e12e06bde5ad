//! A mark of an end as the end of a command.
//!
//! Room: values.
//!
//! Pure: no clock, no file, no thread.

use core::time::Duration;

use sched_jobs::process::{End, How};

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
    match (mark.kind, limit) {
        (EndKind::NotStarted, _) => {
            How::CouldNotStart("its folder, a module or the prologue is not there on the node; see its log".to_owned())
        }
        (EndKind::Asked, _) if was_cancelled && mark.code != 0 => How::Cancelled,
        (EndKind::Exit, Some(after)) if OUT_OF_TIME.contains(&mark.code) && mark.wall >= after => {
            How::TimedOut { after }
        }
        _ => How::Exit(mark.code),
    }
}
