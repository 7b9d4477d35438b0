//! The log as a source of effect sinks.

use super::{Log, Policy};
use petrel_keyspace::{EffectSink, SinkSource};
use std::sync::Arc;

/// Gives every thread of a keyspace a recorder of a log.
pub struct LogSource(pub Arc<Log>);

impl LogSource {
    /// Name of the log's sinks in [`petrel_keyspace::Handle::set_sinks`].
    pub const NAME: &str = "log";
}

impl SinkSource for LogSource {
    fn sink(&self) -> Box<dyn EffectSink> {
        Box::new(self.0.recorder())
    }

    fn owns_epochs(&self) -> bool {
        true
    }

    fn is_strict(&self) -> bool {
        self.0.policy() == Policy::Always
    }
}
