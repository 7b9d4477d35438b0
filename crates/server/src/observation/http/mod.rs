//! The port for operators: `/metrics` for Prometheus, `/health`, `/ready`. HTTP/1.1, one request
//! per connection.
//!
//! It runs on threads of its own and takes no lock that a worker holds for longer than a few
//! instructions. Connections are bounded: in number, in bytes asked with, in time taken.

mod exchange;
mod metrics;

use crate::config::Config;
use crate::server::Server;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Connections served at once; more are closed.
const CONNECTIONS_MAX: usize = 16;

/// Between two looks whether the server still runs, while there are no connections.
const IDLE: Duration = Duration::from_millis(200);

/// Listens where the configuration says, if it does.
///
/// # Errors
/// One line that says what cannot be listened on.
pub fn start(server: &Arc<Server>, config: &Config) -> io::Result<()> {
    if config.http_port == 0 {
        return Ok(());
    }
    let mut listeners = Vec::new();
    for bind in config.http_bind.iter() {
        let address = match bind.address.as_str() {
            "*" => "0.0.0.0",
            "::*" => "::",
            address => address.trim_matches(['[', ']']),
        };
        match TcpListener::bind((address, config.http_port)) {
            Ok(listener) => listeners.push(listener),
            Err(_) if bind.optional => {}
            Err(error) => {
                let text =
                    format!("cannot listen on {address}, http-port {}: {error}", config.http_port);
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    let open = Arc::new(AtomicUsize::new(0));
    for listener in listeners {
        listener.set_nonblocking(true)?;
        let (server, open) = (Arc::downgrade(server), open.clone());
        let accept = move || accept(&server, &listener, &open);
        std::thread::Builder::new().name("petrel-http".into()).spawn(accept)?;
    }
    tracing::info!("listening for HTTP on port {}", config.http_port);
    Ok(())
}

fn accept(server: &Weak<Server>, listener: &TcpListener, open: &Arc<AtomicUsize>) {
    while server.upgrade().is_some_and(|server| !server.is_stopping()) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(IDLE);
            continue;
        };
        let place = ConnectionPermit::take(open.clone());
        let Some((server, place)) = server.upgrade().zip(place) else { continue };
        let serve = move || {
            let _place = place;
            // A peer that goes away has nothing to complain of.
            let _ = stream.set_nonblocking(false).and_then(|()| exchange::serve(&server, stream));
        };
        if let Err(error) = std::thread::Builder::new().name("petrel-http".into()).spawn(serve) {
            tracing::warn!("no thread for an HTTP request: {error}");
        }
    }
}

/// One of the connections that may be open.
struct ConnectionPermit(Arc<AtomicUsize>);

impl ConnectionPermit {
    fn take(open: Arc<AtomicUsize>) -> Option<Self> {
        let place = ConnectionPermit(open);
        (place.0.fetch_add(1, Relaxed) < CONNECTIONS_MAX).then_some(place)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
