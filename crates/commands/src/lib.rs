//! Petrel's commands: the table, the handlers, and the one gate through which all of them run.
//!
//! A newcomer finds GET in `strings.rs`, what the table says of it in `table/strings.rs`, and the path of every call in
//! `execute.rs`. A family of commands is a file with its own `COMMANDS`; session commands live with the server and
//! join the same [`Registry`].

pub mod argument;
mod bitset;
pub mod clock;
mod counters;
mod ctx;
mod execute;
mod expiry;
mod fail;
pub mod key_spec;
pub mod keys;
pub mod latency;
pub mod registry;
mod session;
pub mod slowlog;
pub mod spec;
pub mod stats;
mod strings;
pub mod table;
pub mod transactions;

pub use ctx::{Ctx, Host};
pub use execute::{Executor, Request};
pub use fail::{Fail, Outcome};
pub use registry::{Command, Registry};
pub use session::{Queued, Session, Transaction};
pub use spec::CommandSpec;
pub use stats::Shared;

/// The families of commands that need nothing but a keyspace.
pub static FAMILIES: &[&[CommandSpec]] =
    &[strings::COMMANDS, counters::COMMANDS, transactions::COMMANDS];
