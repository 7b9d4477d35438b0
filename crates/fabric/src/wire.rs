//! Messages between nodes on the bus.
//!
//! ```text
//! connection   preamble, one byte (C control, L lanes, R relay), then TLS 1.3, then frames
//!              both ways
//! frame        length, 4 bytes, little-endian, then that many bytes
//! first        the client: Hello; the server: Welcome, final if it is a refusal;
//!              each followed by the sender's clock, in Unix milliseconds
//! C            then (number, Request) one way, (number, Reply) the other, in any order
//! L            then frames of the data plane, opaque to this crate
//! R            then the member to reach, and whether it was; then, instead of TLS, a
//!              connection to it
//! ```
//!
//! Messages are encoded with postcard. Enums and structs are only extended at their ends, and bytes
//! after a message in its frame are ignored.

use crate::aux_states::{AuxChange, FunctionsChange};
use crate::state::restart::Reported;
use crate::state::{Admission, Applicant};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Range of protocol versions that this node speaks.
pub(crate) const PROTOCOL_OLDEST: u16 = 3;
pub(crate) const PROTOCOL_NEWEST: u16 = 3;

/// Maximum size of a frame before identification, in bytes.
pub(crate) const HELLO_MAX: usize = 4096;
/// Maximum size of a control frame, in bytes: a snapshot of the state of 64 members, with reserve.
pub(crate) const CONTROL_MAX: usize = 16 << 20;

/// Purpose of a connection, by its first byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Control,
    Lanes,
    Relay,
}

impl Kind {
    pub fn preamble(self) -> u8 {
        match self {
            Kind::Control => b'C',
            Kind::Lanes => b'L',
            Kind::Relay => b'R',
        }
    }

    pub fn of(preamble: u8) -> Option<Self> {
        let kinds = [Kind::Control, Kind::Lanes, Kind::Relay];
        kinds.into_iter().find(|kind| kind.preamble() == preamble)
    }
}

/// Identification of the sender.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Hello {
    pub oldest: u16,
    pub newest: u16,
    pub uuid: u128,
    /// None before the node was admitted for the first time.
    pub cluster: Option<u128>,
    /// Number and incarnation of a member.
    pub member: Option<(u16, u32)>,
}

/// The answer to a hello.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Welcome {
    Hello(Hello),
    Refused(Refusal),
}

/// Reason to reject a node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Refusal {
    /// No common protocol version; these are supported.
    Protocol { oldest: u16, newest: u16 },
    /// The node has data of another cluster.
    OtherCluster,
    /// The node's uuid is registered with another key.
    OtherKey,
    /// A node with its uuid is alive, at this address.
    Twice { bus: String },
    /// The maximum number of members is reached.
    Full,
    /// Not a member of the receiver's view.
    NotAMember,
    /// The node's cluster has lost its majority; this one continues it.
    Superseded,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Request {
    /// Message of Raft.
    Raft(Vec<u8>),
    /// Packet of failure detection; has no reply.
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
    /// `slots` are ranges, each by first and last.
    Arrived {
        number: u16,
        incarnation: u32,
        epoch: u64,
        slots: Vec<(u16, u16)>,
    },
    SetFunctions(FunctionsChange),
    /// Whether the host has this auxiliary state or newer state: `Done`, or `Wait`.
    HasAux {
        version: u64,
    },
    Forget {
        uuid: u128,
    },
    SetAux(AuxChange),
    KeepsData {
        number: u16,
        incarnation: u32,
    },
    TakeOver {
        epoch: u64,
    },
    /// Extents with which a member has joined, while slots have no owner: there may be another
    /// leader since.
    Extents {
        number: u16,
        incarnation: u32,
        extents: Vec<u8>,
    },
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Reply {
    Done,
    Raft(Vec<u8>),
    Joined(Admission),
    /// Address of the leader.
    Redirect(String),
    /// No leader is known.
    NoLeader,
    /// Ask again: a former incarnation may still be alive.
    Wait,
    Refused(Refusal),
    Failed(String),
}

/// Encodes a message.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(io::Error::other)
}

/// Decodes a message from the beginning of the bytes.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    postcard::take_from_bytes(bytes).map(|(message, _)| message).map_err(malformed)
}

/// Encodes a request with its number. The extents of an applicant follow; older versions ignore
/// them.
pub(crate) fn encode_request(number: u64, request: &Request) -> io::Result<Vec<u8>> {
    let mut frame = encode(&(number, request))?;
    if let Request::Join(applicant) = request
        && let Some(attached) = applicant.extents.attached()
    {
        frame.extend(encode(&attached)?);
    }
    Ok(frame)
}

/// Decodes what [`encode_request`] has written, or an older version.
pub(crate) fn decode_request(frame: &[u8]) -> io::Result<(u64, Request)> {
    let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let ((number, mut request), rest): ((u64, Request), &[u8]) =
        postcard::take_from_bytes(frame).map_err(malformed)?;
    if let Request::Join(applicant) = &mut request
        && let Ok((attached, _)) = postcard::take_from_bytes::<Option<Vec<u8>>>(rest)
    {
        applicant.extents = Reported::of_attached(attached);
    }
    Ok((number, request))
}

/// Encodes a message followed by the current time.
pub(crate) fn dated<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut bytes = encode(message)?;
    bytes.extend(encode(&u64::try_from(unix.as_millis()).unwrap_or(u64::MAX))?);
    Ok(bytes)
}

/// Follows a hello and a welcome; older versions send neither.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attached {
    /// The sender's clock.
    pub clock: Option<SystemTime>,
    /// The clusters that the sender's cluster continues.
    pub ancestors: Vec<u128>,
}

/// Decodes a message of [`dated`], and what follows it, as far as that is valid.
pub(crate) fn decode_dated<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<(T, Attached)> {
    let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let (message, rest) = postcard::take_from_bytes(bytes).map_err(malformed)?;
    let Ok((unix_ms, rest)) = postcard::take_from_bytes::<u64>(rest) else {
        return Ok((message, Attached::default()));
    };
    let clock = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
    let ancestors = postcard::take_from_bytes(rest).map(|(ancestors, _)| ancestors);
    Ok((message, Attached { clock, ancestors: ancestors.unwrap_or_default() }))
}

/// Reads one frame of at most `max` bytes. Memory grows with the bytes received, not with the
/// announced length.
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

/// Writes one frame; it is sent when the stream is flushed.
pub(crate) async fn write_frame<S>(stream: &mut S, frame: &[u8]) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let len = u32::try_from(frame.len()).map_err(io::Error::other)?;
    stream.write_all(&len.to_le_bytes()).await?;
    stream.write_all(frame).await
}

/// Decodes everything that a peer may send before and after identification; for fuzzing.
#[doc(hidden)]
pub fn decode_anything(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let kind = Kind::of(*first);
    if kind.is_none() && *first != 0 {
        return;
    }
    drop(decode::<Hello>(rest));
    drop(decode_dated::<Welcome>(rest));
    drop(decode_request(rest));
    drop(decode::<(u64, Reply)>(rest));
    if let Ok((_, Request::Gossip(packet))) = decode::<(u64, Request)>(rest) {
        crate::swim::Swim::for_fuzzing().receive(&packet);
    }
    crate::swim::Swim::for_fuzzing().receive(rest);
    crate::raft::decode_anything(rest);
    let mut stream = rest;
    let frames =
        std::pin::pin!(async { while read_frame(&mut stream, HELLO_MAX).await.is_ok() {} });
    // The bytes are available, so the future does not wait.
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
            extents: Reported::Known(vec![1, 2]),
        };
        let mut swim = crate::swim::Swim::for_fuzzing();
        swim.announce(2, 1);
        let gossip = swim.next_packet().expect("it was announced").1;
        let encoded = [
            encode(&hello),
            encode(&Welcome::Refused(Refusal::Twice { bus: "host:17000".into() })),
            encode_request(1, &Request::Join(applicant)),
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
        // Older versions send no clock.
        let (undated, attached) =
            decode_dated::<Hello>(&samples().swap_remove(0)).expect("a hello");
        assert!(undated == read && attached.clock.is_none() && attached.ancestors.is_empty());
        let now = SystemTime::now();
        let dated = [dated(&read).expect("a hello"), encode(&vec![7_u128]).expect("a list")];
        let (_, attached) = decode_dated::<Hello>(&dated.concat()).expect("a hello");
        assert_eq!(attached.ancestors, [7]);
        // Older versions send no extents with a request to join.
        let (joins, request) =
            (samples().swap_remove(2), |bytes: &[u8]| match decode_request(bytes) {
                Ok((1, Request::Join(applicant))) => applicant.extents,
                other => panic!("{other:?}"),
            });
        assert_eq!(request(&joins), Reported::Known(vec![1, 2]));
        assert_eq!(request(&joins[..joins.len() - 4]), Reported::Unreported);
        let loading = [&joins[..joins.len() - 4], &[0]].concat();
        assert_eq!(request(&loading), Reported::Loading);
        let clock = attached.clock;
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
