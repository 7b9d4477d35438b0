//! Relays: connections to a member through a third one, for as long as two members cannot reach
//! each other directly, as when a link is cut in one direction.
//!
//! ```text
//! dialer ------ TCP ------ neighbour ------ TCP ------ member
//! R, TLS, hello, RelayTo ->
//!                <- whether the member was reached; the neighbour copies bytes from here on
//! L or C, TLS, hello ............................... ->   as on a direct connection
//! ```
//!
//! The inner connection is encrypted from end to end: the neighbour cannot read it.

use crate::bus::{Bus, ConnectError, Peer, Secure};
use crate::settings::Role;
use crate::state::MemberInfo;
use crate::wire::{HELLO_MAX, Kind, decode, encode, read_frame, write_frame};
use petrel_cluster::{Identity, Node};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// Maximum number of neighbours asked for a relay in one attempt.
const NEIGHBOURS_MAX: usize = 3;

/// Buffer size of each direction, in bytes.
const BUFFER: usize = 64 * 1024;

/// The member to reach: the first frame on a relay's connection.
#[derive(Deserialize, Serialize)]
struct RelayTo {
    number: u16,
    incarnation: u32,
}

/// A connection to a member.
pub(crate) struct Dialed {
    pub stream: Secure,
    pub peer: Peer,
    /// Number of the neighbour that relays it.
    pub via: Option<u16>,
}

/// Connects to a member at this address, or through a neighbour if that takes long.
pub(crate) async fn dial(
    bus: &Bus,
    kind: Kind,
    member: &MemberInfo,
    address: &str,
) -> Result<Dialed, ConnectError> {
    let direct = bus.dial(kind, address);
    let relayed = async {
        tokio::time::sleep(bus.timing.patience).await;
        dial_neighbours(bus, kind, member).await
    };
    tokio::pin!(direct, relayed);
    let (mut failed, mut has_asked) = (None, false);
    loop {
        tokio::select! {
            direct = &mut direct, if failed.is_none() => match direct {
                Ok((stream, peer)) => return Ok(Dialed { stream, peer, via: None }),
                Err(error) if has_asked || !is_unreachable(&error) => return Err(error),
                Err(error) => failed = Some(error),
            },
            relayed = &mut relayed, if !has_asked => match (relayed, failed.take()) {
                (Some(relayed), _) => return Ok(relayed),
                (None, Some(error)) => return Err(error),
                (None, None) => has_asked = true,
            },
        }
    }
}

/// Whether packets were lost on the way: not where the other host or node has answered.
fn is_unreachable(error: &ConnectError) -> bool {
    match error {
        ConnectError::Io(error) => error.kind() != io::ErrorKind::ConnectionRefused,
        ConnectError::TooLong => true,
        _ => false,
    }
}

/// Connects to a member through one of the others.
async fn dial_neighbours(bus: &Bus, kind: Kind, member: &MemberInfo) -> Option<Dialed> {
    let (own, reported) = (bus.uuid(), bus.reported.lock().clone());
    let is_neighbour = |other: &&MemberInfo| {
        other.role != Role::Cache && other.uuid != own && other.uuid != member.uuid
    };
    let mut neighbours: Vec<&MemberInfo> = reported.iter().filter(is_neighbour).collect();
    let attempt = bus.relayed.fetch_add(NEIGHBOURS_MAX, Relaxed);
    let begin = attempt % neighbours.len().max(1);
    neighbours.rotate_left(begin);
    for neighbour in neighbours.into_iter().take(NEIGHBOURS_MAX) {
        let dial = dial_through(bus, kind, member, neighbour);
        if let Ok(Ok((stream, peer))) = tokio::time::timeout(bus.timing.patience * 4, dial).await {
            return Some(Dialed { stream, peer, via: Some(neighbour.number) });
        }
    }
    None
}

async fn dial_through(
    bus: &Bus,
    kind: Kind,
    member: &MemberInfo,
    neighbour: &MemberInfo,
) -> Result<(Secure, Peer), ConnectError> {
    let (mut stream, peer) = bus.dial(Kind::Relay, &bus.discovery.address_of(neighbour)).await?;
    if peer.uuid != neighbour.uuid {
        return Err(ConnectError::Another);
    }
    let to = RelayTo { number: member.number, incarnation: member.incarnation };
    write_frame(&mut stream, &encode(&to)?).await?;
    stream.flush().await?;
    let is_reached: bool = decode(&read_frame(&mut stream, HELLO_MAX).await?)?;
    if !is_reached {
        return Err(io::Error::from(io::ErrorKind::HostUnreachable).into());
    }
    bus.identify(kind, socket_of(stream), &member.bus).await
}

/// Serves another member as a relay until one of the two connections ends. It relays to members to
/// which this node has a link.
pub(crate) async fn serve(
    bus: &Bus,
    mut stream: Secure,
    is_linked: impl Fn(Identity) -> bool,
) -> io::Result<()> {
    let begin = async {
        let to: RelayTo = decode(&read_frame(&mut stream, HELLO_MAX).await?)?;
        let to = Identity { node: Node(to.number), incarnation: to.incarnation };
        let member = bus.reported_member(to).filter(|_| is_linked(to));
        let onward = connect(bus, member).await;
        write_frame(&mut stream, &encode(&onward.is_some())?).await?;
        stream.flush().await?;
        Ok::<_, io::Error>(onward)
    };
    let begun = tokio::time::timeout(bus.timing.handshake, begin).await;
    let Some(mut onward) = begun.map_err(io::Error::from)?? else { return Ok(()) };
    let mut stream = socket_of(stream);
    tokio::io::copy_bidirectional_with_sizes(&mut stream, &mut onward, BUFFER, BUFFER).await?;
    Ok(())
}

/// Connects to the bus of a member.
async fn connect(bus: &Bus, member: Option<MemberInfo>) -> Option<TcpStream> {
    let connect = TcpStream::connect(member?.bus);
    let connected = tokio::time::timeout(bus.timing.patience * 2, connect).await;
    let stream = connected.ok()?.ok()?;
    bus.prepare(&stream).ok()?;
    Some(stream)
}

/// Ends the encryption. No encrypted bytes are under way: each side has answered the other's last
/// message.
fn socket_of(stream: Secure) -> TcpStream {
    match stream {
        TlsStream::Client(stream) => stream.into_inner().0,
        TlsStream::Server(stream) => stream.into_inner().0,
    }
}
