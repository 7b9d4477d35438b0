//! What the gate reads of a command, with the command's code.
//!
//! The code is a type parameter, a function pointer in the end: what it is called with (`Ctx`, with
//! the session and the executor in it) lies above everything that needs only to know which command
//! is meant: registry, permissions, queue, logs. They are written for any code; `spec.rs` names the
//! one that this crate has.

use petrel_table::{Flags, GateFlags, KeyFlags, KeySpec, Meta, Place};

/// What `execute` locks before it calls the handler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Locks {
    /// The stripes of the command's keys.
    Keys,
    /// The whole keyspace.
    Everything,
    /// Nothing: the handler locks stripe by stripe, or needs none.
    Itself,
}

/// What `execute` has to do to find the keys of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyShape {
    /// There are none.
    None,
    /// The first argument, and nothing else.
    First,
    /// As the key specs say: [`petrel_table::keys::key_positions`].
    Specs,
}

impl KeyShape {
    /// The shape that a command's key specs come to.
    pub const fn of(keys: &[KeySpec]) -> Self {
        let mut real = 0;
        let mut first_only = true;
        let mut i = 0;
        while i < keys.len() {
            if !keys[i].flags.contains(KeyFlags::NOT_KEY) {
                real += 1;
                first_only = first_only && keys[i].is_first_argument();
            }
            i += 1;
        }
        match (real, first_only) {
            (0, _) => Self::None,
            (1, true) => Self::First,
            _ => Self::Specs,
        }
    }
}

/// One command, or one subcommand of a container such as `CLIENT`: its [`Meta`] and its code. All
/// that `execute` reads of a command lies in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct CommandSpec<H: 'static> {
    /// Runs the command: arity is checked, and what `locks` says is locked.
    pub handler: H,
    /// [`Meta::flags`].
    pub flags: Flags,
    /// [`Meta::gate`].
    pub gate: GateFlags,
    /// [`Meta::arity`].
    pub arity: i16,
    /// How to find the keys.
    pub keys: KeyShape,
    /// What is locked before the handler runs.
    pub locks: Locks,
    /// Where it runs in a cluster: [`Meta::place`].
    pub place: Place,
    /// Subcommands. A first argument that names none of them is an error.
    pub subcommands: &'static [CommandSpec<H>],
    /// Everything else.
    pub meta: &'static Meta,
}

impl<H: Copy> CommandSpec<H> {
    /// A command without subcommands.
    pub const fn new(meta: &'static Meta, handler: H) -> Self {
        Self::with_subcommands(meta, handler, &[])
    }

    /// A command that may be called with a subcommand, or alone, like `COMMAND`.
    pub const fn with_subcommands(
        meta: &'static Meta,
        handler: H,
        subcommands: &'static [Self],
    ) -> Self {
        Self {
            handler,
            flags: meta.flags,
            gate: meta.gate,
            arity: meta.arity,
            keys: KeyShape::of(meta.keys),
            locks: Locks::Keys,
            place: meta.place(),
            subcommands,
            meta,
        }
    }

    /// The same command with other locks.
    pub const fn locking(self, locks: Locks) -> Self {
        Self { locks, ..self }
    }
}

impl<H> CommandSpec<H> {
    /// Whether a call of `len` arguments, the name included, meets the arity.
    #[inline]
    pub const fn accepts(&self, len: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        len == least || self.arity < 0 && len > least
    }
}
