//! Petrel's commands: the table, the handlers, and the one gate through which all of them run.
//!
//! A newcomer finds GET in `strings.rs`, what the table says of it in `table/strings.rs`, and the
//! path of every call in `execute.rs`. A family of commands is a file with its own `COMMANDS`;
//! session commands live with the server and join the same [`Registry`].

pub mod acl;
mod admit;
mod big_uint;
mod bitmaps;
pub mod blocking;
pub mod clock;
mod cluster;
mod command;
mod counters;
mod ctx;
mod databases;
mod double;
mod draws;
mod dump;
pub mod elsewhere;
mod events;
mod execute;
mod expire;
mod expiry;
mod extended;
mod fail;
mod generic;
mod geo;
pub mod glob;
mod hash_expiry;
mod hash_import;
mod hashes;
pub mod help;
mod hindrance;
pub mod hotkeys;
mod hyperloglog;
mod increx;
pub mod latency;
mod lcs;
mod list_moves;
mod lists;
mod lolwut;
pub mod memory;
mod module;
mod object;
mod queue;
mod random;
mod recent;
pub mod redact;
pub mod registry;
mod replication;
mod scan;
pub mod scripting;
mod serving;
mod session;
mod set_algebra;
mod sets;
pub mod slowlog;
mod sort;
mod sorted_sets;
pub mod spec;
pub mod stats;
mod streams;
mod string_parts;
mod strings;
mod time;
mod tracking;
pub mod transactions;
mod walk;

pub use blocking::{Answer, Awaited, Block, Blocked, Standing, Ticket};
pub use ctx::{Ctx, Host};
pub use execute::{Execution, Executor, Request, watches_keys};
pub use fail::{Fail, Outcome};
pub use hash_import::Fieldsets;
pub use hindrance::Hindrance;
pub use module::NO_MODULES;
pub use petrel_resp::Dialect;
pub use queue::{Queue, Queued};
pub use registry::{Command, Registry};
pub use serving::WaitEnd;
pub use session::{Access, Extras, Modes, Replies, Session, Transaction};
pub use spec::CommandSpec;
pub use stats::Shared;
pub use tracking::{Tracking, TrackingMode};

/// The release of Redis whose behaviour is kept to.
pub const REDIS_VERSION: &str = "8.8.0";

/// The release of Valkey whose words are spoken in its dialect.
pub const VALKEY_VERSION: &str = "9.1.0";

/// The version of Redis that a server says it is: in Valkey's dialect the one that Valkey says.
pub fn redis_version(dialect: Dialect) -> &'static str {
    dialect.choose(REDIS_VERSION, "7.2.4")
}

/// The families of commands that need nothing but a keyspace.
pub static FAMILIES: &[&[CommandSpec]] = &[
    strings::COMMANDS,
    string_parts::COMMANDS,
    lcs::COMMANDS,
    counters::COMMANDS,
    increx::COMMANDS,
    streams::COMMANDS,
    bitmaps::COMMANDS,
    hyperloglog::COMMANDS,
    sets::COMMANDS,
    set_algebra::COMMANDS,
    hashes::COMMANDS,
    hash_expiry::COMMANDS,
    hash_import::COMMANDS,
    lists::COMMANDS,
    list_moves::COMMANDS,
    sorted_sets::members::COMMANDS,
    sorted_sets::ranges::COMMANDS,
    sorted_sets::pop::COMMANDS,
    sorted_sets::sample::COMMANDS,
    sorted_sets::algebra::COMMANDS,
    geo::COMMANDS,
    geo::search::COMMANDS,
    generic::COMMANDS,
    dump::COMMANDS,
    expire::COMMANDS,
    walk::COMMANDS,
    databases::COMMANDS,
    sort::COMMANDS,
    transactions::COMMANDS,
    scripting::COMMANDS,
    scripting::functions::COMMANDS,
    object::COMMANDS,
    command::COMMANDS,
    slowlog::COMMANDS,
    latency::COMMANDS,
    replication::COMMANDS,
    cluster::COMMANDS,
    module::COMMANDS,
    time::COMMANDS,
    lolwut::COMMANDS,
];
