//! TLS: a layer between the driver, which knows sockets, and the worker, which knows commands.
//!
//! ```text
//! driver ─ bytes ─▶ Session::absorb ─ plaintext, one piece a turn ─▶ worker: parsed in place
//! driver ◀─ records ─ Session::seal ◀─ outputs of the turn, in as few records as possible ─ worker
//! ```
//!
//! settings.rs     reads the configuration and its files ──▶ settings of handshakes
//! client_side.rs  settings of connections to other servers, such as the primary
//! suites.rs       OpenSSL's names of ciphers and versions
//! certificate.rs  fields of certificates: serial number, expiry, names
//! sessions.rs     cache of resumable sessions
//! reload.rs       checks whether the files have changed
//! login.rs        authenticates clients by their certificates
//! session.rs      one connection: records in, plaintext out, and back
//! secured.rs      driver around a driver: connections with their sessions and buffered bytes

mod certificate;
mod client_side;
mod login;
mod reload;
mod secured;
mod session;
mod sessions;
mod settings;
mod suites;

pub use certificate::Certificate;
pub(crate) use client_side::client_settings;
pub use reload::watch;
pub use secured::Secured;
pub use settings::{Settings, Trouble};
