//! Petrel's commands: the table, the handlers, and the one gate through which all of them run.
//!
//! ```text
//! request ─ prepare ─ execute ─ admit ─ lock the keys' stripes ─ handler ─ unlock ─ reply
//!           name,     │         run, queue, pause,               │
//!           hashes    │         refuse                           └─ Err(Fail): nothing is written
//!                     └─ sockets, EXEC, scripts, files, a primary
//! ```
//!
//! A newcomer finds GET in `strings.rs`, its row of the command table in `petrel-table`'s
//! `commands/strings`, and the path of every call in `execute.rs`. A family of commands is a file
//! or a folder with `COMMANDS`; session commands live with the server and join the same
//! [`Registry`].

pub mod acl;
mod admit;
mod answer;
mod apart_keys;
mod arguments;
mod arrays;
pub mod aux_state;
mod aux_values;
mod bitmaps;
mod blocked;
pub mod blocking;
pub mod clock;
mod cluster;
mod command_spec;
mod ctx;
mod events;
mod execute;
mod fail;
mod geo;
pub mod glob;
mod hashes;
mod host;
mod hyperloglog;
mod json;
mod keys;
mod lists;
mod long;
mod modes;
mod moment;
mod numbers;
mod offload;
mod queue;
mod random;
mod recent;
pub mod registry;
mod reply_slots;
mod request;
pub mod scripting;
mod search;
pub mod server;
mod session;
mod sets;
mod shown;
mod sketches;
mod sorted_sets;
pub mod spec;
mod streams;
mod strings;
pub mod topology;
mod tracking;
pub mod transactions;
mod unblock;
mod vectors;
mod watched_away;
mod watches;

pub use acl::Access;
pub use admit::apart::{add_keys_apart, admit_apart};
pub use admit::pause::{Pause, PauseReason};
pub use answer::{Answer, Ticket, WaitEnd};
pub use blocked::{Blocked, Standing};
pub use blocking::{Awaited, Block};
pub use cluster::{
    Call, Cluster, ClusterLink, HashSlot, HeldFigures, PeerFigures, Primary, Rest, UnsafeChanges,
    UnservedFigures,
};
pub use ctx::Ctx;
pub use execute::{Execution, Executor};
pub use fail::{Fail, Outcome};
pub use hashes::fieldsets::Fieldsets;
pub use host::{Attendant, Host};
pub use long::{Helped, LongHeld};
pub use modes::Modes;
pub use moment::Moment;
pub use numbers::integer;
pub use offload::Offloaded;
pub use petrel_resp::Dialect;
pub use reply_slots::{Merge, ReplySlots, part_of};
pub use search::{OnOom, SearchDefaults, SearchSettings, SearchState};
pub use server::module::{NO_MODULES, built_in_modules};
pub use server::state::ServerState;
pub use server::stats::Shared;
pub use session::{Extras, Replies, Session, Transaction};
pub use shown::ShownSlots;
pub use sketches::{CuckooDefaults, SketchDefaults};
pub use spec::{Command, CommandSpec, Queue, Queued, Registry, Request};
pub use tracking::mode::{Tracking, TrackingMode};

/// Compatible release of Redis.
pub const REDIS_VERSION: &str = "8.10.0";

/// Compatible release of Valkey, for its dialect.
pub const VALKEY_VERSION: &str = "9.1.0";

/// Redis version that the server reports: in Valkey's dialect, the one that Valkey reports.
pub fn redis_version(dialect: Dialect) -> &'static str {
    dialect.choose(REDIS_VERSION, "7.2.4")
}

/// Families of commands that need only a keyspace.
pub static FAMILIES: &[&[CommandSpec]] = &[
    strings::COMMANDS,
    strings::parts::COMMANDS,
    strings::lcs::COMMANDS,
    strings::counters::COMMANDS,
    strings::increx::COMMANDS,
    streams::COMMANDS,
    vectors::COMMANDS,
    json::COMMANDS,
    sketches::bloom::COMMANDS,
    sketches::count_min::COMMANDS,
    sketches::cuckoo::COMMANDS,
    sketches::top_k::COMMANDS,
    sketches::t_digest::COMMANDS,
    arrays::COMMANDS,
    search::COMMANDS,
    bitmaps::COMMANDS,
    hyperloglog::COMMANDS,
    sets::COMMANDS,
    sets::algebra::COMMANDS,
    hashes::COMMANDS,
    hashes::expiry::COMMANDS,
    hashes::import::COMMANDS,
    lists::COMMANDS,
    lists::moves::COMMANDS,
    sorted_sets::members::COMMANDS,
    sorted_sets::ranges::COMMANDS,
    sorted_sets::pop::COMMANDS,
    sorted_sets::sample::COMMANDS,
    sorted_sets::algebra::COMMANDS,
    geo::COMMANDS,
    geo::search::COMMANDS,
    keys::generic::COMMANDS,
    keys::dump::COMMANDS,
    keys::expire::COMMANDS,
    keys::iterate::COMMANDS,
    keys::databases::COMMANDS,
    keys::sort::COMMANDS,
    transactions::COMMANDS,
    scripting::COMMANDS,
    scripting::functions::COMMANDS,
    keys::object::COMMANDS,
    server::command::COMMANDS,
    server::slowlog::commands::COMMANDS,
    server::latency::commands::COMMANDS,
    server::replication::COMMANDS,
    server::cluster::COMMANDS,
    server::module::COMMANDS,
    server::time::COMMANDS,
    server::lolwut::COMMANDS,
];
