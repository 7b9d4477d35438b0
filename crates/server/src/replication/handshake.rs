//! The dialogue with the primary up to the copy or the stream.

use super::wire::Wire;
use crate::config::Config;
use petrel_commands::VALKEY_VERSION;
use petrel_replication::frame::{IS_PETREL, READS_FRAMES, WANTS_COMMANDS};
use petrel_replication::primary::{NoOffer, Offer};
use petrel_resp::encode_command;
use std::io;

/// Beginning of the error after a refused `PSYNC`.
pub(super) const REFUSES: &str = "it refuses PSYNC";

/// Contents of a replica's handshake.
pub(super) struct Introduction<'c> {
    pub config: &'c Config,
    /// The history that this server has, and how many bytes of it; none if it needs a copy.
    pub history: Option<(String, i64)>,
    /// The replica that is spoken to is asked to be the primary.
    pub hands_over: bool,
    /// This server's support for frames.
    pub frames: Frames,
}

/// Support of a replica for frames in place of commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Frames {
    /// Reads frames.
    Reads,
    /// Reads frames, but wants commands from now on.
    WantsCommands,
    /// Nothing.
    Silent,
}

/// Introduces this server and requests the missing part of the stream.
///
/// # Errors
/// The primary's failure, as one line.
pub(super) fn shake_hands(
    wire: &mut Wire,
    introduction: &Introduction<'_>,
) -> Result<Offer, String> {
    let Introduction { config, history, hands_over, frames } = introduction;
    let settings = &config.replication;
    let reply = ask(wire, &[b"PING"])?;
    let is_alive = [&b"+"[..], b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted"];
    if !is_alive.iter().any(|start| reply.starts_with(start)) {
        return Err(format!("it answers PING with '{}'", shown(&reply)));
    }
    if settings.masterauth.is_set() {
        let user = settings.masteruser.bytes();
        let mut request = vec![&b"AUTH"[..]];
        request.extend((!user.is_empty()).then_some(user));
        request.push(settings.masterauth.bytes());
        let reply = ask(wire, &request)?;
        if reply.starts_with(b"-") {
            return Err(format!("it refuses masteruser and masterauth: {}", shown(&reply)));
        }
    }
    let port = match (settings.replica_announce_port, settings.tls_replication) {
        (0, true) => config.tls.tls_port,
        (0, false) => config.port,
        (port, _) => port,
    };
    state(wire, &[b"listening-port", port.to_string().as_bytes()])?;
    if !settings.replica_announce_ip.is_empty() {
        state(wire, &[b"ip-address", settings.replica_announce_ip.bytes()])?;
    }
    let mut capabilities = vec!["eof", "psync2", IS_PETREL];
    match frames {
        Frames::Reads => capabilities.push(READS_FRAMES),
        Frames::WantsCommands => capabilities.extend([READS_FRAMES, WANTS_COMMANDS]),
        Frames::Silent => {}
    }
    let capabilities = capabilities.iter().flat_map(|name| [&b"capa"[..], name.as_bytes()]);
    state(wire, &capabilities.collect::<Vec<_>>())?;
    // Valkey sends the formats of the announced version, and older ones if none is announced; Redis
    // does not know this option.
    ask(wire, &[b"REPLCONF", b"version", VALKEY_VERSION.as_bytes()])?;
    let (id, first) = match history {
        Some((id, offset)) => (&id[..], (offset + 1).to_string()),
        None => ("?", "-1".into()),
    };
    let mut request = vec![&b"PSYNC"[..], id.as_bytes(), first.as_bytes()];
    request.extend(hands_over.then_some(&b"FAILOVER"[..]));
    let reply = ask(wire, &request)?;
    offer(&reply)
}

/// Parses the reply to `PSYNC`.
fn offer(reply: &[u8]) -> Result<Offer, String> {
    let shown = shown(reply);
    Offer::read(reply).map_err(|why| match why {
        NoOffer::NotNow => format!("it cannot serve replicas at this moment: {shown}"),
        NoOffer::Refused => format!("{REFUSES}: {shown}"),
        NoOffer::Malformed => format!("it answers PSYNC with '{shown}'"),
    })
}

/// Says something of this server; a primary that does not understand it may go on without.
fn state(wire: &mut Wire, what: &[&[u8]]) -> Result<(), String> {
    let request = [&[&b"REPLCONF"[..]], what].concat();
    let reply = ask(wire, &request)?;
    if reply.starts_with(b"-") {
        tracing::info!("the primary does not take REPLCONF: {}", shown(&reply));
    }
    Ok(())
}

fn ask(wire: &mut Wire, request: &[&[u8]]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    encode_command(request, &mut bytes);
    let failed = |error: io::Error| {
        let what = String::from_utf8_lossy(request[0]).into_owned();
        format!("no answer to {what}: {error}")
    };
    wire.send(&bytes).map_err(failed)?;
    let reply = wire.line().map_err(failed)?;
    match reply.first() {
        Some(b'+' | b'-') => Ok(reply),
        _ => Err(format!("it is no primary: it answers '{}'", shown(&reply))),
    }
}

/// The beginning of a reply, for the log.
pub(super) fn shown(reply: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    let head = &reply[..reply.len().min(SHOWN_MAX)];
    String::from_utf8_lossy(head).escape_default().to_string()
}
