//! TLS: a layer between the driver, which knows sockets, and the worker, which knows commands.
//!
//! ```text
//! driver ─ bytes ─▶ Session::absorb ─ plaintext, one piece a turn ─▶ worker: parsed and executed where it lies
//! driver ◀─ records ─ Session::seal ◀─ outputs of the turn, joined into as few records as they fit ─ worker
//! ```
//!
//! settings.rs     the configuration and the files that it names ──▶ what handshakes go by
//! client_side.rs  the same for connections that this server makes: to its primary
//! suites.rs       OpenSSL's words for ciphers and versions
//! certificate.rs  what is read out of a certificate: serial number, end, names
//! sessions.rs     sessions that clients may resume
//! reload.rs       looks whether the files have changed
//! login.rs        clients that are the user whom their certificate names
//! session.rs      one connection: records in, plaintext out, and back
//! secured.rs      the driver around a driver: which connections have a session, what waits in them

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
