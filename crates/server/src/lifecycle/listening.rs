//! The sockets that the server listens on: at start, and after `CONFIG SET` of `bind` and `port`.

use crate::config::Config;
use crate::lifecycle::process::Process;
use petrel_net::{ListenerId, bind_tcp, bind_unix_for, listen_again, stop_listening};
use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A listener as the driver of the accepting worker knows it.
pub type Listener = (ListenerId, Arc<OwnedFd>);

/// The file of a Unix socket; removed when dropped.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that is gone already is as it should be.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Time for which a start waits for an address that another process has, ...
const ADDRESS_PATIENCE: Duration = Duration::from_secs(3);
/// ... and how long it rests between two tries, at first and later.
const ADDRESS_PAUSE_MIN: Duration = Duration::from_millis(2);
const ADDRESS_PAUSE_MAX: Duration = Duration::from_millis(100);

/// Flag in the numbers of listeners with TLS.
const TLS: u32 = 1 << 31;

/// Number of no listener, for connections without TLS that none has accepted.
pub const PLAIN: ListenerId = ListenerId(TLS - 1);

/// Whether the connections of a listener speak TLS.
pub fn is_tls(id: ListenerId) -> bool {
    id.0 & TLS != 0
}

/// Listens on an address, waiting some seconds for one in use: sockets of a killed process may
/// outlive it by some milliseconds, and a server may be restarted before its old process has quite
/// ended.
pub(crate) fn once_free<T>(
    process: &dyn Process,
    listen: impl Fn() -> io::Result<T>,
) -> io::Result<T> {
    let start = Instant::now();
    let mut pause = ADDRESS_PAUSE_MIN;
    loop {
        let error = match listen() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
            listens => return listens,
        };
        if start.elapsed() >= ADDRESS_PATIENCE {
            return Err(error);
        }
        if pause == ADDRESS_PAUSE_MIN {
            let seconds = ADDRESS_PATIENCE.as_secs();
            tracing::warn!("{error}; waiting {seconds} seconds at most for it to become free");
        }
        if !process.pause(pause) {
            let text = format!("{error}; a signal ended the wait for it");
            return Err(io::Error::new(io::ErrorKind::Interrupted, text));
        }
        pause = ADDRESS_PAUSE_MAX.min(2 * pause);
    }
}

/// TCP listeners of the server.
#[derive(Default)]
pub struct Listening {
    tcp: Vec<Tcp>,
    next_id: u32,
}

/// A TCP listener.
struct Tcp {
    ip: String,
    port: u16,
    id: ListenerId,
    socket: Arc<OwnedFd>,
}

/// Change of listeners, for the accepting worker.
#[derive(Debug)]
pub struct Exchange {
    /// Listeners to accept on.
    pub opened: Vec<Listener>,
    /// Listeners to drop.
    pub closed: Vec<ListenerId>,
}

impl Listening {
    /// Opens the configured listeners.
    ///
    /// # Errors
    /// One line that says what cannot be listened on, or that there is nothing to listen on.
    pub fn open(&mut self, config: &Config) -> io::Result<(Vec<Listener>, Option<SocketFile>)> {
        let mut listeners = self.change(config)?.opened;
        let mut file = None;
        if let Some(path) = &config.unixsocket {
            let mode = (config.unixsocketperm != 0).then_some(config.unixsocketperm);
            let group = config.unixsocketgroup.lossy();
            let group = Some(&*group).filter(|name| !name.is_empty());
            let bound = bind_unix_for(path, mode, group, config.tcp_backlog);
            // All or nothing: it may be tried again.
            let socket = Arc::new(bound.inspect_err(|_| self.tcp.clear())?);
            listeners.push((self.number(false), socket));
            // Absolute, since the working directory may change.
            file = Some(SocketFile(std::path::absolute(path)?));
        }
        if listeners.is_empty() {
            return Err(io::Error::other(
                "nothing to listen on: set port, tls-port, bind or unixsocket",
            ));
        }
        Ok((listeners, file))
    }

    /// Listens on TCP as the configuration says from now on. What stays the same stays open.
    ///
    /// # Errors
    /// One line that says what cannot be listened on; nothing has changed then.
    pub fn change(&mut self, config: &Config) -> io::Result<Exchange> {
        let wanted = wanted(config)?;
        let stays = |tcp: &Tcp| wanted.iter().any(|place| place.is(tcp));
        // A listener on all addresses is in the way of one on a single address of the same port,
        // and the other way round.
        let in_the_way: Vec<Arc<OwnedFd>> = self
            .tcp
            .iter()
            .filter(|tcp| wanted.iter().any(|place| place.port == tcp.port) && !stays(tcp))
            .map(|tcp| tcp.socket.clone())
            .collect();
        in_the_way.iter().for_each(|socket| stop_listening(socket.as_fd()));
        let opened = match self.open_missing(config, &wanted) {
            Ok(opened) => opened,
            Err(error) => {
                for socket in &in_the_way {
                    // It listened a moment ago; if its place is taken since, there is nothing to be
                    // done.
                    let _ = listen_again(socket, config.tcp_backlog);
                }
                return Err(error);
            }
        };
        let closed = self.tcp.extract_if(.., |tcp| !stays(tcp)).map(|tcp| tcp.id).collect();
        let listeners = opened.iter().map(|tcp| (tcp.id, tcp.socket.clone())).collect();
        self.tcp.extend(opened);
        Ok(Exchange { opened: listeners, closed })
    }

    fn open_missing(&mut self, config: &Config, wanted: &[ListenAddress]) -> io::Result<Vec<Tcp>> {
        let mut opened = Vec::new();
        for place in wanted {
            if self.tcp.iter().any(|tcp| place.is(tcp)) {
                continue;
            }
            match bind_tcp(&place.ip, place.port, config.tcp_backlog) {
                Ok(socket) => {
                    let (id, socket) = (self.number(place.tls), Arc::new(socket));
                    opened.push(Tcp { ip: place.ip.clone(), port: place.port, id, socket });
                }
                Err(error) if place.optional && is_unavailable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(opened)
    }

    fn number(&mut self, tls: bool) -> ListenerId {
        self.next_id += 1;
        ListenerId(if tls { self.next_id | TLS } else { self.next_id })
    }
}

/// A place to listen on.
struct ListenAddress {
    ip: String,
    port: u16,
    tls: bool,
    /// Ignore the address if it cannot be used.
    optional: bool,
}

impl ListenAddress {
    fn is(&self, tcp: &Tcp) -> bool {
        self.ip == tcp.ip && self.port == tcp.port && self.tls == is_tls(tcp.id)
    }
}

/// The places to listen on, each once; none for a port that is turned off.
fn wanted(config: &Config) -> io::Result<Vec<ListenAddress>> {
    let mut wanted: Vec<ListenAddress> = Vec::new();
    for (port, tls) in [(config.port, false), (config.tls.tls_port, true)] {
        if port == 0 {
            continue;
        }
        for address in config.bind.iter() {
            for ip in resolve(&address.address, port)? {
                if !wanted.iter().any(|other| other.ip == ip && other.tls == tls) {
                    wanted.push(ListenAddress { ip, port, tls, optional: address.optional });
                }
            }
        }
    }
    Ok(wanted)
}

/// The IP addresses of an address as it was configured: one itself, `*`, `::*`, or the name of a
/// host.
fn resolve(address: &str, port: u16) -> io::Result<Vec<String>> {
    match address {
        "*" => return Ok(vec!["0.0.0.0".into()]),
        "::*" => return Ok(vec!["::".into()]),
        _ => {}
    }
    let bare = address.trim_matches(['[', ']']);
    if bare.parse::<std::net::IpAddr>().is_ok() {
        return Ok(vec![bare.into()]);
    }
    let found = (bare, port).to_socket_addrs().map_err(|error| {
        let text = format!("cannot listen on {address}, port {port}: {error}");
        io::Error::new(error.kind(), text)
    })?;
    let mut ips: Vec<String> = found.map(|found| found.ip().to_string()).collect();
    ips.dedup();
    Ok(ips)
}

/// Whether an address is one that this machine does not have, which an optional address may be.
fn is_unavailable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
}
