//! The standard input of this process as a source.
//!
//! Room: driver.
//!
//! # Invariant
//! Reading is a task of the node, so it ends with the node: an idle terminal keeps no graph alive.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bursar::flow::{NodeError, NodeResult, NodeSpec, Out, Produced, Source};
use serde_json::Value;

use super::pump::{Pipe, read_all};
use super::wire::{self, Intake, Next};
use crate::action::Reading;

struct Input {
    open: Arc<dyn Fn() -> io::Result<File> + Send + Sync>,
    reading: Reading,
    intake: Option<Intake>,
}

pub(crate) fn node(open: Arc<dyn Fn() -> io::Result<File> + Send + Sync>, reading: Reading) -> NodeSpec {
    NodeSpec::source(Input { open, reading, intake: None })
}

impl Source for Input {
    type Out = Value;

    fn on_start(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        let wrong = |error: io::Error| NodeError::msg(format!("standard input cannot be read: {error}"));
        let pipe = (self.open)().and_then(Pipe::shared).map_err(wrong)?;
        let (feed, intake) = wire::intake(out.waker());
        self.intake = Some(intake);
        let reading = self.reading;
        out.spawn(move || read_all(&pipe, reading, &feed, || true));
        Ok(())
    }

    fn produce(&mut self, out: &mut Out<'_, Value>) -> Result<Produced, NodeError> {
        match self.intake.as_mut().map_or(Next::Over, Intake::next) {
            Next::Item(item) => {
                out.emit(item?);
                Ok(Produced::More)
            }
            Next::Nothing => Ok(Produced::Idle),
            Next::Over => Ok(Produced::End),
        }
    }
}
