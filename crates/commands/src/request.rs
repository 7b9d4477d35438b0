//! Request: a command as sent by a client.

use crate::registry::Command;
use bytes::Bytes;
use petrel_keyspace::KeyHash;

/// Parsed command, with the results of `Executor::prepare`.
pub struct Request<'a, H: 'static> {
    /// Arguments, the name included; at least one.
    pub args: &'a [&'a [u8]],
    /// The command; none if the name is unknown.
    pub command: Option<Command<H>>,
    /// Hash of the key if the first argument is the only key.
    pub hash: Option<KeyHash>,
    /// The allocation that holds the arguments, if a large value may keep it.
    pub owner: Option<&'a Bytes>,
}

impl<H> Clone for Request<'_, H> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Request<'_, H> {}
