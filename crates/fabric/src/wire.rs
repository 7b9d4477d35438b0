//! What nodes say to each other on the bus.
//!
//! ```text
//! connection   preamble, one byte (C control, L lanes), then TLS 1.3, then frames both ways
//! frame        length, 4 bytes, little-endian, then so many bytes
//! first        who connects: Hello; the other side: Welcome, and nothing follows a refusal;
//!              behind either the sender's clock, in Unix milliseconds
//! C            then (number, Request) one way, (number, Reply) the other, in any order
//! L            then frames of the data plane, which this crate does not look into
//! ```
//!
//! Messages are postcard; enums and structs grow at their ends only, and what follows a message in
//! its frame is ignored.

use crate::functions::FunctionsChange;
use crate::state::{Admission, Applicant};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The versions of these messages that this node speaks.
pub(crate) const PROTOCOL_OLDEST: u16 = 3;
pub(crate) const PROTOCOL_NEWEST: u16 = 3;

/// Bytes of a frame before both sides know each other.
pub(crate) const HELLO_MAX: usize = 4096;
/// Bytes of a control frame: a snapshot of what 64 members agree on, and room.
pub(crate) const CONTROL_MAX: usize = 16 << 20;

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
    HoldUnheld {
        number: u16,
        incarnation: u32,
        epoch: u64,
    },
    /// `slots` are runs, each by its first and last.
    Arrived {
        number: u16,
        incarnation: u32,
        epoch: u64,
        slots: Vec<(u16, u16)>,
    },
    SetFunctions(FunctionsChange),
    /// Whether the host has these libraries of functions, or newer ones: done, or wait.
    HasFunctions {
        version: u64,
    },
    Forget {
        uuid: u128,
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

/// A message and the clock of this moment behind it.
pub(crate) fn dated<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut bytes = encode(message)?;
    bytes.extend(encode(&u64::try_from(unix.as_millis()).unwrap_or(u64::MAX))?);
    Ok(bytes)
}

/// What [`dated`] has written; without the clock if it is not there, or none that could be.
pub(crate) fn decode_dated<T: DeserializeOwned>(
    bytes: &[u8],
) -> io::Result<(T, Option<SystemTime>)> {
    let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let (message, rest) = postcard::take_from_bytes(bytes).map_err(malformed)?;
    let unix_ms = postcard::take_from_bytes::<u64>(rest).ok().map(|(unix_ms, _)| unix_ms);
    let clock =
        unix_ms.and_then(|ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    Ok((message, clock))
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
    drop(decode_dated::<Welcome>(rest));
    drop(decode::<(u64, Request)>(rest));
    drop(decode::<(u64, Reply)>(rest));
    if let Ok((_, Request::Gossip(packet))) = decode::<(u64, Request)>(rest) {
        crate::swim::Swim::for_fuzzing().receive(&packet);
    }
    crate::swim::Swim::for_fuzzing().receive(rest);
    crate::raft::decode_anything(rest);
    let mut stream = rest;
    let frames =
        std::pin::pin!(async { while read_frame(&mut stream, HELLO_MAX).await.is_ok() {} });
    // Bytes that are there are read at once.
    let read = frames.poll(&mut Context::from_waker(Waker::noop()));
    assert!(read.is_ready());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Role;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::task::Poll;

    fn samples() -> Vec<Vec<u8>> {
        let hello =
            Hello { oldest: 1, newest: 1, uuid: 77, cluster: Some(5), member: Some((3, 9)) };
        let applicant = Applicant {
            uuid: 77,
            key: [3; 32],
            boot: 4,
            bus: "host:17000".into(),
            client: "host:7000".into(),
            role: Role::Data,
            zone: "a".into(),
            waits_for_data: true,
        };
        let mut swim = crate::swim::Swim::for_fuzzing();
        swim.announce(2, 1);
        let gossip = swim.next_packet().expect("it was announced").1;
        let encoded = [
            encode(&hello),
            encode(&Welcome::Refused(Refusal::Twice { bus: "host:17000".into() })),
            encode(&(1u64, Request::Join(applicant))),
            encode(&(2u64, Request::Gossip(gossip.clone()))),
            encode(&(3u64, Reply::Redirect("host:17000".into()))),
        ];
        let mut samples: Vec<Vec<u8>> =
            encoded.into_iter().map(|bytes| bytes.expect("it is plain data")).collect();
        samples.push(gossip);
        samples
    }

    #[test]
    fn whatever_arrives_is_read_or_refused() {
        let mut random = SmallRng::seed_from_u64(24);
        let samples = samples();
        for _ in 0..20_000 {
            let mut bytes = vec![[b'C', b'L', 0][random.random_range(0..3)]];
            bytes.extend(&samples[random.random_range(0..samples.len())]);
            for _ in 0..random.random_range(0..4) {
                let at = random.random_range(1..bytes.len());
                match random.random_range(0..3) {
                    0 => bytes[at] = random.random(),
                    1 => bytes.truncate(at + 1),
                    _ => bytes.insert(at, random.random()),
                }
            }
            decode_anything(&bytes);
        }
    }

    #[test]
    fn what_follows_a_message_is_of_a_newer_version() {
        let hello = samples().swap_remove(0);
        let read: Hello = decode(&hello).expect("a hello");
        let longer = [hello, vec![1, 2, 3]].concat();
        assert_eq!(decode::<Hello>(&longer).expect("a hello"), read);
        // One without a clock is of an older version.
        let (undated, clock) = decode_dated::<Hello>(&samples().swap_remove(0)).expect("a hello");
        assert!(undated == read && clock.is_none());
        let now = SystemTime::now();
        let (_, clock) = decode_dated::<Hello>(&dated(&read).expect("a hello")).expect("a hello");
        let late = clock.and_then(|clock| now.duration_since(clock).ok());
        assert!(clock.is_some() && late.is_none_or(|late| late < Duration::from_secs(60)));
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
        let bytes = 5000u32.to_le_bytes();
        let mut stream = bytes.as_slice();
        let read = std::pin::pin!(read_frame(&mut stream, HELLO_MAX));
        let read = read.poll(&mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(read, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::InvalidData)
        );
    }
}
