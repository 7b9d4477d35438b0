//! Commands with their code: what [`petrel_table`] says of each, joined to its handler.
//!
//! ```text
//! pub static COMMANDS: &[CommandSpec] = &[
//!     CommandSpec::new(&table::GET, get),
//!     CommandSpec::container(&table::CLIENT, CLIENT),
//! ];
//! ```

pub use crate::command_spec::{KeyShape, Locks};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::{command_spec, queue, registry, request};
pub use petrel_table::{
    Arg, ArgFlags, ArgKind, BeginSearch, Categories, Channels, FindKeys, Flags, GateFlags, Group,
    KeyFlags, KeyRange, KeySpec, Meta, Place,
};

/// A command handler. It reads `ctx.args()` and writes one reply to `ctx.reply`, or returns the
/// error.
pub type Handler = fn(&mut Ctx<'_>) -> Outcome;

/// Command, or subcommand of a container such as `CLIENT`.
pub type CommandSpec = command_spec::CommandSpec<Handler>;

/// A command as found in the registry.
pub type Command = registry::Command<Handler>;

/// Every command and subcommand that the server knows.
pub type Registry = registry::Registry<Handler>;

/// A command as it was read.
pub type Request<'a> = request::Request<'a, Handler>;

/// Commands that wait for `EXEC`.
pub type Queue = queue::Queue<Handler>;

/// A command that waits for `EXEC`.
pub type Queued = queue::Queued<Handler>;

impl CommandSpec {
    /// Creates a command with subcommands that cannot be called without one: its arity must be -2
    /// or stricter.
    pub const fn container(meta: &'static Meta, subcommands: &'static [Self]) -> Self {
        assert!(meta.arity <= -2, "a container needs a subcommand");
        Self::with_subcommands(meta, subcommand_missing, subcommands)
    }
}

/// The handler of a container called alone. The arity check of `execute` answers first; the reply
/// is the same for a caller that skips it.
fn subcommand_missing(_: &mut Ctx<'_>) -> Outcome {
    Err(Fail::fixed("ERR wrong number of arguments"))
}
