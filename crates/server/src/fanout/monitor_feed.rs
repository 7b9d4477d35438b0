//! MONITOR, and the lines that monitoring connections are sent.

use crate::client::{Client, Flag};
use crate::host::ServerHost;
use crate::server::Server;
use crate::state::outbox::Push;
use crate::unix_time::unix_now;
use petrel_commands::server::stats::Observer;
use petrel_commands::{CommandSpec, Ctx, Fail, Modes, Outcome};
use petrel_net::Endpoint;
use petrel_table::commands as meta;
use std::io::Write;
use std::sync::Arc;

/// `MONITOR`.
pub const MONITOR: CommandSpec = CommandSpec::new(&meta::MONITOR, monitor);

impl Server {
    fn add_monitor(&self, client: &Arc<Client>) {
        let mut clients = self.monitors.clients.lock();
        client.set(Flag::Monitor, true);
        clients.push(client.clone());
        self.commands.observe(Observer::Monitor, true);
    }

    /// The connection monitors no more, if it did: it is gone, or was reset.
    pub fn remove_monitor(&self, client: &Client) {
        if !client.has(Flag::Monitor) {
            return;
        }
        let mut clients = self.monitors.clients.lock();
        client.set(Flag::Monitor, false);
        clients.retain(|other| other.id != client.id);
        self.commands.observe(Observer::Monitor, !clients.is_empty());
    }
}

/// `MONITOR`. No reply to a client that is monitoring already.
fn monitor(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.session.in_exec {
        return Err(Fail::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let ServerHost { server, client, .. } = ServerHost::of(ctx);
    if client.has(Flag::Monitor) {
        return Ok(());
    }
    server.add_monitor(client);
    ctx.session.set(Modes::MONITOR, true);
    ctx.ok()
}

impl ServerHost {
    /// Sends a command of the connection being served, or of its script, to monitoring connections.
    #[cold]
    pub(crate) fn send_to_monitors(&mut self, db: u16, in_script: bool, args: &[&[u8]]) {
        let monitors = self.server.monitors.clients.lock().clone();
        let caller = match self.client.peer() {
            _ if in_script => "lua".to_string(),
            Endpoint::Unix => format!("unix:{}", self.socket_path()),
            peer => peer.to_string(),
        };
        let push = Push::raw(line(db, &caller, args));
        self.push_all(monitors.iter().map(|client| &**client), &push);
    }
}

fn line(db: u16, caller: &str, args: &[&[u8]]) -> Vec<u8> {
    let now = unix_now();
    let mut line = Vec::with_capacity(64 + args.iter().map(|arg| arg.len() + 3).sum::<usize>());
    // Writing to a vector cannot fail.
    let _ = write!(line, "+{}.{:06} [{db} {caller}]", now.as_secs(), now.subsec_micros());
    for arg in args {
        line.push(b' ');
        quote(arg, &mut line);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Appends an argument in quotation marks, so that it is one line of printable characters.
fn quote(arg: &[u8], line: &mut Vec<u8>) {
    line.push(b'"');
    for &byte in arg {
        match byte {
            b'\\' | b'"' => line.extend([b'\\', byte]),
            b'\n' => line.extend(b"\\n"),
            b'\r' => line.extend(b"\\r"),
            b'\t' => line.extend(b"\\t"),
            0x07 => line.extend(b"\\a"),
            0x08 => line.extend(b"\\b"),
            b' '..=b'~' => line.push(byte),
            // Writing to a vector cannot fail.
            _ => drop(write!(line, "\\x{byte:02x}")),
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted() {
        let line = line(3, "lua", &[b"set", b"", b"a\x00\n\r\t\x07\x08\"\\\xff ~\x7f"]);
        let line = String::from_utf8(line).unwrap();
        let (time, rest) = line.split_once(' ').unwrap();
        let (seconds, micros) = time[1..].split_once('.').unwrap();
        assert!(line.starts_with('+') && seconds.len() == 10 && micros.len() == 6, "{line}");
        let expected = r#"[3 lua] "set" "" "a\x00\n\r\t\a\b\"\\\xff ~\x7f""#;
        assert_eq!(rest, format!("{expected}\r\n"));
    }
}
