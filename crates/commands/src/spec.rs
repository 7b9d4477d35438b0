//! Command specifications with code: joins the entries of [`petrel_table`] to their handlers.
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

/// Command handler. It reads `ctx.args()` and writes one reply to `ctx.reply`, or returns an error.
pub type Handler = fn(&mut Ctx<'_>) -> Outcome;

/// Command, or subcommand of a container such as `CLIENT`.
pub type CommandSpec = command_spec::CommandSpec<Handler>;

/// Command in the registry.
pub type Command = registry::Command<Handler>;

/// Registry of commands and subcommands.
pub type Registry = registry::Registry<Handler>;

/// Parsed request.
pub type Request<'a> = request::Request<'a, Handler>;

/// Commands queued for `EXEC`.
pub type Queue = queue::Queue<Handler>;

/// Command queued for `EXEC`.
pub type Queued = queue::Queued<Handler>;

impl CommandSpec {
    /// Creates a command with subcommands that cannot be called without one: its arity must be -2
    /// or stricter.
    pub const fn container(meta: &'static Meta, subcommands: &'static [Self]) -> Self {
        assert!(meta.arity <= -2, "a container needs a subcommand");
        Self::with_subcommands(meta, subcommand_missing, subcommands)
    }
}

/// Handler of a container called without a subcommand. The arity check of `execute` rejects it
/// first, with the same error.
fn subcommand_missing(_: &mut Ctx<'_>) -> Outcome {
    Err(Fail::fixed("ERR wrong number of arguments"))
}
