//! A fill: the request for a reply that is to be cached, and the handling of the answer.

use std::sync::Arc;
use std::time::Duration;

use petrel_resp::Value;

use super::clock;
use super::shared::Shared;
use super::store::Fill;
use crate::argument::{ArgWriter, ToArg};
use crate::buffer::CommandBuffer;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::Outcome;
use crate::request::Command;
use crate::telemetry::Operation;

/// A fill under way. If its task is dropped its readers do not wait for ever.
pub(super) struct Filling {
    shared: Arc<Shared>,
    key: Vec<u8>,
    fill: Arc<Fill>,
    operation: Operation,
    is_finished: bool,
}

impl Filling {
    pub(super) fn new(
        shared: Arc<Shared>,
        key: Vec<u8>,
        fill: Arc<Fill>,
        operation: Operation,
    ) -> Self {
        Self { shared, key, fill, operation, is_finished: false }
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Before anything is sent: the connection by which the server will send invalidations.
    pub(super) fn adopt(&self, owner: u64) {
        self.shared.store.adopt(&self.key, &self.fill, owner);
    }

    /// Requests to send: the command, and one for the key's remaining time to live. In the mode by
    /// key, the server is first asked to track the key.
    pub(super) fn buffers(&self, command: CommandBuffer) -> Vec<CommandBuffer> {
        let mut buffers = Vec::with_capacity(3);
        buffers.extend(self.is_by_key().then(|| Command::raw("CLIENT CACHING YES").buffer));
        let mut pttl = Command::raw("PTTL");
        self.key[..].write_arg(&mut ArgWriter(&mut pttl.buffer));
        buffers.extend([command, pttl.buffer]);
        buffers
    }

    fn is_by_key(&self) -> bool {
        self.shared.options.prefixes.is_empty()
    }

    /// Ends the fill with the replies to its requests, sent at `began` of the [`clock`].
    pub(super) fn answered(self, outcome: Result<Outcome>, began: u64) {
        let replies = match outcome {
            Ok(Outcome::Many(replies)) => replies,
            Ok(_) => return self.finish(Err(Error::new(ErrorKind::Closed)), None),
            Err(error) => return self.finish(Err(error), None),
        };
        let mut replies = replies.into_iter().skip(usize::from(self.is_by_key()));
        let (value, left) = (replies.next().unwrap_or(Value::Null), replies.next());
        if let Value::Error(text) = &value {
            return self.finish(Err(Error::from_reply(text)), None);
        }
        let left = match left {
            // No key, hence no value; or it expired between the two commands.
            Some(Value::Integer(-2)) if !value.is_null() && !is_empty(&value) => {
                return self.finish(Ok(value), None);
            }
            Some(Value::Integer(-2 | -1)) => None,
            Some(Value::Integer(left)) => u64::try_from(left).ok().map(Duration::from_millis),
            _ => return self.finish(Ok(value), None),
        };
        let left = match (left, self.shared.options.ttl_max) {
            (Some(left), Some(max)) => Some(left.min(max)),
            (left, max) => left.or(max),
        };
        // From the moment before it was asked for, so that it never lives longer than the key.
        let expires = left.map_or(clock::NEVER, |left| clock::expiry(began, left));
        self.finish(Ok(value), Some(expires));
    }

    /// Ends with a result; `keep` says until when it is kept, if it is.
    pub(super) fn finish(mut self, result: Result<Value>, keep: Option<u64>) {
        self.is_finished = true;
        self.operation.end(result.as_ref().err());
        self.shared.store.finish(&self.key, &self.fill, result, keep);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if !self.is_finished {
            let error = Err(Error::new(ErrorKind::Closed));
            self.shared.store.finish(&self.key, &self.fill, error, None);
        }
    }
}

/// Whether a reply is what commands say of a key that does not exist.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Integer(0) => true,
        Value::Bulk(text) => text.is_empty(),
        Value::Simple(text) => &text[..] == b"none",
        Value::Array(items) | Value::Set(items) => {
            items.iter().all(|item| item.is_null() || is_empty(item))
        }
        Value::Map(pairs) => pairs.is_empty(),
        Value::Boolean(is) => !is,
        _ => false,
    }
}
