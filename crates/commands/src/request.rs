//! A command as a client sends it.

use crate::registry::Command;
use bytes::Bytes;
use petrel_keyspace::KeyHash;

/// A command as it was read, with what `Executor::prepare` found out about it.
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
