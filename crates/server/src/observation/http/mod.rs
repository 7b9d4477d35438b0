//! The port for operators: `/metrics` for Prometheus, `/health`, `/ready`, and the console.
//! HTTP/1.1, one request per connection; WebSockets.
//!
//! One thread polls all connections and never blocks on one of them; metrics are collected on
//! another, so that probes are answered meanwhile. Connections are bounded in number, in bytes of a
//! request and in time; where there are too many, the oldest is closed for a new one.
//!
//! | file | holds |
//! |---|---|
//! | `stream` | the socket of a connection, with or without TLS |
//! | `exchange` | one request and its answer, as text |
//! | `connection` | one connection, from its first byte to its end |
//! | `event_loop` | the thread that serves all connections |
//! | `probes` | liveness and readiness |
//! | `metrics` | the text for Prometheus |
//! | `console` | the pages of the console, and the requests that are refused |
//! | `bridge` | a WebSocket of the console and the connection of its client |

mod bridge;
mod connection;
mod console;
mod event_loop;
mod exchange;
mod metrics;
mod probes;
mod stream;

use crate::config::Config;
use crate::server::Server;
use event_loop::EventLoop;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

/// Descriptors that the port uses at most: its connections, two of each WebSocket, and its
/// listeners.
const DESCRIPTORS_MAX: usize = event_loop::CONNECTIONS_MAX + 4 * event_loop::BRIDGES_MAX + 8;

/// Descriptors that are kept for the port, if it is turned on.
pub fn descriptors(config: &Config) -> u64 {
    if config.http_port == 0 { 0 } else { DESCRIPTORS_MAX as u64 }
}

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
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                listeners.push(listener);
            }
            Err(_) if bind.optional => {}
            Err(error) => {
                let text =
                    format!("cannot listen on {address}, http-port {}: {error}", config.http_port);
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    let event_loop = EventLoop::new(Arc::downgrade(server), listeners, config.http_tls);
    std::thread::Builder::new().name("petrel-http".into()).spawn(move || event_loop.run())?;
    tracing::info!("listening for HTTP on port {}", config.http_port);
    Ok(())
}
