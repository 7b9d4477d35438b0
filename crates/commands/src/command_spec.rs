//! Command descriptions as the gate reads them, generic over the handler type.
//!
//! The handler type is a parameter because it refers to `Ctx`, and so to the session and the
//! executor. The registry, the ACL, the queue and the logs need only the description, and must not
//! depend on those. `spec.rs` names the handler type of this crate.

use petrel_table::{Flags, GateFlags, KeyFlags, KeySpec, Meta, Place};

/// Stripes that `execute` locks before it calls the handler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Locks {
    /// The stripes of the command's keys.
    Keys,
    /// All stripes.
    Everything,
    /// None: the handler locks stripe by stripe, or needs no lock.
    Itself,
}

/// Location of the keys in the arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyShape {
    /// No keys.
    None,
    /// Only the first argument.
    First,
    /// As given by the key specs: [`petrel_table::keys::key_positions`].
    Specs,
}

impl KeyShape {
    /// The shape of a command's key specs.
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

/// Whether a call may name more than one key, or other arguments that are routed like keys.
const fn may_name_several(keys: &[KeySpec]) -> bool {
    !(keys.is_empty() || keys.len() == 1 && keys[0].is_first_argument())
}

/// A command, or a subcommand of a container such as `CLIENT`: its [`Meta`] and its handler. All
/// fields that `execute` reads are in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct CommandSpec<H: 'static> {
    /// Runs the command. The arity is checked and `locks` are locked.
    pub handler: H,
    /// [`Meta::flags`], and [`Flags::SEVERAL_KEYS`].
    pub flags: Flags,
    /// [`Meta::gate`].
    pub gate: GateFlags,
    /// [`Meta::arity`].
    pub arity: i16,
    /// Location of the keys.
    pub keys: KeyShape,
    /// Locked before the handler runs.
    pub locks: Locks,
    /// Node that runs it in a cluster: [`Meta::place`].
    pub place: Place,
    /// Subcommands. Any other first argument is an error.
    pub subcommands: &'static [CommandSpec<H>],
    /// All other metadata.
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
            flags: match may_name_several(meta.keys) {
                true => meta.flags.with(Flags::SEVERAL_KEYS),
                false => meta.flags,
            },
            gate: meta.gate,
            arity: meta.arity,
            keys: KeyShape::of(meta.keys),
            locks: Locks::Keys,
            place: meta.place(),
            subcommands,
            meta,
        }
    }

    /// Replaces the locks.
    pub const fn locking(self, locks: Locks) -> Self {
        Self { locks, ..self }
    }
}

impl<H> CommandSpec<H> {
    /// Whether a call with `len` arguments, including the name, matches the arity.
    #[inline]
    pub const fn accepts(&self, len: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        len == least || self.arity < 0 && len > least
    }
}
