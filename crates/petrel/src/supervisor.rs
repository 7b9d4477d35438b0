//! `supervised`: telling systemd or upstart when the server is ready.
//!
//! systemd takes datagrams on the socket that `NOTIFY_SOCKET` names (sd_notify(3)); upstart watches
//! for a process that stops itself with SIGSTOP.

use petrel_server::config::Supervised;
use rustix::process::{Signal, getpid, kill_process};
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The supervisor of this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Supervisor {
    /// None, or one that wants to hear nothing.
    None,
    /// systemd.
    Systemd,
    /// upstart.
    Upstart,
}

impl Supervisor {
    /// The supervisor that the configuration names, if the environment shows it.
    pub fn find(supervised: Supervised) -> Self {
        let has = |name| std::env::var_os(name).is_some();
        let found = match supervised {
            Supervised::Systemd if has("NOTIFY_SOCKET") => Supervisor::Systemd,
            Supervised::Upstart if has("UPSTART_JOB") => Supervisor::Upstart,
            Supervised::Auto if has("UPSTART_JOB") => Supervisor::Upstart,
            Supervised::Auto if has("NOTIFY_SOCKET") => Supervisor::Systemd,
            _ => Supervisor::None,
        };
        match (supervised, found) {
            (Supervised::Systemd, Supervisor::None) => {
                tracing::warn!("supervised is systemd, but NOTIFY_SOCKET is not set");
            }
            (Supervised::Upstart, Supervisor::None) => {
                tracing::warn!("supervised is upstart, but UPSTART_JOB is not set");
            }
            _ => {}
        }
        found
    }

    /// Name shown in `INFO`.
    pub fn name(self) -> &'static str {
        match self {
            Supervisor::None => "no",
            Supervisor::Systemd => "systemd",
            Supervisor::Upstart => "upstart",
        }
    }

    /// Says that connections are accepted.
    pub fn ready(self) {
        match self {
            Supervisor::None => {}
            Supervisor::Systemd => notify("READY=1\nSTATUS=Ready to accept connections\n"),
            // SIGSTOP tells upstart that the server is ready. Cannot fail: a process may send
            // signals to itself.
            Supervisor::Upstart => drop(kill_process(getpid(), Signal::STOP)),
        }
    }

    /// Says that the server is about to end.
    pub fn stopping(self) {
        if self == Supervisor::Systemd {
            notify("STOPPING=1\n");
        }
    }
}

fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = address(path)
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!("cannot notify systemd: {error}");
    }
}

/// A path, or a name in the abstract namespace after `@`.
fn address(path: OsString) -> std::io::Result<SocketAddr> {
    match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(path),
    }
}
