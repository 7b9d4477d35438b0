//! What nodes say to each other on the bus.
//!
//! ```text
//! connection   preamble, one byte (C control, L lanes), then TLS 1.3, then frames both ways
//! frame        length, 4 bytes, little-endian, then so many bytes
//! first        who connects: Hello; the other side: Welcome, and nothing follows a refusal
//! C            then (number, Request) one way, (number, Reply) the other, in any order
//! L            then frames of the data plane, which this crate does not look into
//! ```
//!
//! Messages are postcard; enums and structs grow at their ends only, and what follows a message in
//! its frame is ignored.

use crate::state::{Admission, Applicant};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The versions of these messages that this node speaks.
pub(crate) const PROTOCOL_OLDEST: u16 = 1;
pub(crate) const PROTOCOL_NEWEST: u16 = 1;

/// Bytes of a frame before both sides know each other.
pub(crate) const HELLO_MAX: usize = 4096;
/// Bytes of a control frame: a snapshot of what 64 members agree on, and room.
pub(crate) const CONTROL_MAX: usize = 16 << 20;
/// Bytes of a frame of the data plane.
pub const FRAME_MAX: usize = 64 << 20;

/// What a connection is for, by its first byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Control,
    Lanes,
}

impl Kind {
    pub fn preamble(self) -> u8 {
        match self {
            Kind::Control => b'C',
            Kind::Lanes => b'L',
        }
    }

    pub fn of(preamble: u8) -> Option<Self> {
        [Kind::Control, Kind::Lanes].into_iter().find(|kind| kind.preamble() == preamble)
    }
}

/// Who speaks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Hello {
    pub oldest: u16,
    pub newest: u16,
    pub uuid: u128,
    /// None before the node has been let in for the first time.
    pub cluster: Option<u128>,
    /// The number and incarnation of a member.
    pub member: Option<(u16, u32)>,
}

/// The answer to a hello.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Welcome {
    Hello(Hello),
    Refused(Refusal),
}

/// Why a node is turned away.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Refusal {
    /// It speaks none of these versions.
    Protocol { oldest: u16, newest: u16 },
    /// It has the data of another cluster.
    OtherCluster,
    /// Its uuid belongs to another key.
    OtherKey,
    /// A node with its uuid is alive, at this address.
    Twice { bus: String },
    /// There are as many members as there can be.
    Full,
    /// It is not the member that it says it is, in the view of who was asked.
    NotAMember,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Request {
    /// Consensus, which knows how to read it.
    Raft(Vec<u8>),
    /// Failure detection, which knows how to read it. It has no reply.
    Gossip(Vec<u8>),
    Join(Applicant),
    Renew {
        number: u16,
        incarnation: u32,
    },
    Hold {
        number: u16,
        incarnation: u32,
        holds: bool,
    },
    Leave {
        number: u16,
        incarnation: u32,
    },
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Reply {
    Done,
    Raft(Vec<u8>),
    Joined(Admission),
    /// The leader is there.
    Redirect(String),
    /// Nobody leads as far as this node knows.
    NoLeader,
    /// Ask again: another life of the node may not be over.
    Wait,
    Refused(Refusal),
    Failed(String),
}

/// A message as bytes.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(io::Error::other)
}

/// The message that bytes begin with.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    postcard::take_from_bytes(bytes).map(|(message, _)| message).map_err(malformed)
}

/// Reads one frame of at most `max` bytes. Memory grows as they arrive, not by what was announced.
pub(crate) async fn read_frame<S>(stream: &mut S, max: usize) -> io::Result<Vec<u8>>
where
    S: AsyncRead + Unpin,
{
    let len = stream.read_u32_le().await? as usize;
    if len > max {
        let error = format!("a frame of {len} bytes, at most {max} are taken");
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    let mut frame = Vec::with_capacity(len.min(64 * 1024));
    let read = stream.take(len as u64).read_to_end(&mut frame).await?;
    if read < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(frame)
}

/// Writes one frame; it is on its way once the stream is flushed.
pub(crate) async fn write_frame<S>(stream: &mut S, frame: &[u8]) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let len = u32::try_from(frame.len()).map_err(io::Error::other)?;
    stream.write_all(&len.to_le_bytes()).await?;
    stream.write_all(frame).await
}

/// Whatever a peer may send before and after it is known; for fuzzing.
#[doc(hidden)]
pub fn decode_anything(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let kind = Kind::of(*first);
    if kind.is_none() && *first != 0 {
        return;
    }
    drop(decode::<Hello>(rest));
    drop(decode::<Welcome>(rest));
    drop(decode::<(u64, Request)>(rest));
    drop(decode::<(u64, Reply)>(rest));
    if let Ok((_, Request::Gossip(packet))) = decode::<(u64, Request)>(rest) {
        crate::swim::Swim::for_fuzzing().receive(&packet);
    }
    crate::swim::Swim::for_fuzzing().receive(rest);
    crate::raft::decode_anything(rest);
    let mut stream = rest;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    if let Ok(runtime) = runtime {
        runtime.block_on(async { while read_frame(&mut stream, HELLO_MAX).await.is_ok() {} });
    }
}
