//! Without the feature `opentelemetry`: nothing is recorded, and nothing is paid.

use std::time::Instant;

use super::NearFigures;
use crate::error::Error;
use crate::options::Options;
use crate::request::Command;

/// Records nothing.
#[derive(Clone, Debug)]
pub(crate) struct Telemetry;

/// A command that is not recorded.
#[derive(Debug)]
pub(crate) struct Operation;

/// A connection that is not counted.
pub(crate) struct Connected;

impl Telemetry {
    pub(crate) fn of(_: &Options) -> Self {
        Self
    }

    pub(crate) fn begin(&self, _: &Command) -> Operation {
        Operation
    }

    pub(crate) fn observe_near(&self, _: impl Fn() -> Option<NearFigures> + Send + Sync + 'static) {
    }

    pub(crate) fn begin_batch(&self, _: &[Command], _: bool) -> Operation {
        Operation
    }

    pub(crate) fn connected(&self, _: Instant) -> Connected {
        Connected
    }
}

impl Operation {
    pub(crate) fn note_peer(&mut self, _: &str, _: u16) {}

    pub(crate) fn end(&mut self, _: Option<&Error>) {}
}
