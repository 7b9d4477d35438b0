//! Reply to a blocked client, and the ticket that identifies it.

use crate::fail::Fail;
use bytes::Bytes;
use petrel_resp::{Protocol, Reply, RespWriter};
use std::any::Any;
use std::sync::Arc;

const UNBLOCKED: Fail = Fail::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");
const DEMOTED: Fail = Fail::fixed(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);

/// Writes one reply.
pub(crate) type WriteReply = fn(&mut dyn Reply);

/// Identifies a blocked client to the host.
pub type Ticket = Arc<dyn Any + Send + Sync>;

/// Reply to a blocked command, in the protocol of its client.
#[derive(Debug, Default)]
pub struct Answer {
    /// RESP.
    pub bytes: Vec<u8>,
    /// Large values, each with the offset in `bytes` before which it belongs.
    pub shared: Vec<(usize, Bytes)>,
}

impl Answer {
    /// Encodes the reply that `write` writes.
    pub fn new(protocol: Protocol, write: impl FnOnce(&mut dyn Reply)) -> Self {
        let mut answer = Answer::default();
        write(&mut RespWriter::new(&mut answer.bytes, &mut answer.shared, protocol));
        answer
    }

    /// The whole reply, with the large values in their places.
    pub fn into_bytes(self) -> Vec<u8> {
        let Answer { bytes, shared } = self;
        if shared.is_empty() {
            return bytes;
        }
        let values: usize = shared.iter().map(|(_, value)| value.len()).sum();
        let mut whole = Vec::with_capacity(bytes.len() + values);
        let mut from = 0;
        for (at, value) in shared {
            whole.extend_from_slice(&bytes[from..at]);
            whole.extend_from_slice(&value);
            from = at;
        }
        whole.extend_from_slice(&bytes[from..]);
        whole
    }
}

/// External end of a wait.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WaitEnd {
    /// Timeout, or `CLIENT UNBLOCK` without `ERROR`.
    Timeout,
    /// `CLIENT UNBLOCK … ERROR`.
    Error,
    /// The server has become a replica.
    Demoted,
    /// Like [`WaitEnd::Demoted`], but the client reconnects to the primary itself: `host:port`.
    Redirected(String),
}

impl WaitEnd {
    /// The error to reply, if it is one.
    pub(crate) fn fail(&self) -> Option<Fail> {
        match self {
            WaitEnd::Timeout => None,
            WaitEnd::Error => Some(UNBLOCKED),
            WaitEnd::Demoted => Some(DEMOTED),
            WaitEnd::Redirected(address) => Some(Fail::redirect(address)),
        }
    }
}
