//! The connection of invalidations, as the store of a near cache sees it.

use std::sync::Arc;

use petrel_resp::{Protocol, Value};

use super::shared::Shared;
use crate::argument::ArgWriter;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::PushSink;
use crate::request::Command;

/// Takes the invalidations of one connection.
pub(super) struct Tracking {
    pub(super) shared: Arc<Shared>,
    /// Identifies the replies that depend on this connection.
    pub(super) owner: u64,
}

impl PushSink for Tracking {
    fn push(&self, items: Vec<Value>) {
        let store = &self.shared.store;
        let mut items = items.into_iter();
        if items.next().is_none_or(|kind| kind.as_bytes() != Some(b"invalidate")) {
            return;
        }
        match items.next() {
            Some(Value::Array(keys)) => {
                keys.iter().filter_map(Value::as_bytes).for_each(|key| store.invalidate(key))
            }
            // `FLUSHALL` and `FLUSHDB`.
            _ => store.clear_of(self.owner),
        }
    }

    fn opening(&self, protocol: Protocol) -> Result<Vec<Command>> {
        if protocol != Protocol::Resp3 {
            let text =
                "a near cache needs RESP3, which this server does not speak or the options forbid";
            return Err(Error::new(ErrorKind::Configuration(text.into())));
        }
        let prefixes = &self.shared.options.prefixes;
        let mut command = Command::raw("CLIENT TRACKING ON");
        let mut to = ArgWriter(&mut command.buffer);
        to.write(if prefixes.is_empty() { b"OPTIN" } else { b"BCAST" });
        for prefix in prefixes {
            to.write(b"PREFIX");
            to.write(prefix);
        }
        Ok(vec![command])
    }

    fn disconnected(&self) {
        self.shared.store.clear_of(self.owner);
    }

    fn closed(&self) {
        self.shared.store.clear_of(self.owner);
    }
}
