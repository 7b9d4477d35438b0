//! The command table: names, syntax, arity, flags, ACL categories, key specs and documentation of
//! every command. It knows no server, so that a client, a proxy or a page of documentation can be
//! made of it as well.
//!
//! Its source is `commands/`, a text file per family, which the build script turns into
//! constants. An entry is a syntax line as on a command page, and indented lines below it:
//!
//! ```text
//! GETEX key [EX seconds | PX milliseconds | PERSIST]{expiration}
//!   Returns the string stored at a key and changes the key's expiry.
//!   string since 6.2.0: write fast @string
//!   keys: 1 RW access update; RW because the expiry may change
//!   complexity: O(N) where N is the length of the string
//!   tips: nondeterministic_output
//!   changed: 7.0.0 What changed.
//!   deprecated: 8.0.0 `OTHER`
//! ```
//!
//! That is: a summary; group, release, flags and ACL categories; a key spec for each way of naming
//! keys, with a remark; the complexity, if it is not O(1) (`-` for none); command tips; a line for
//! each change; the release that deprecated the command, and what replaces it.
//!
//! Further lines: `arity: N` where it does not follow from the syntax, `container` of a command
//! with subcommands (whose entries begin with its name), `channels: first | all | patterns`,
//! `system`, `gate: ...` ([`GateFlags`]), and `help: SYNTAX` with indented lines of text that
//! `HELP` prints in place of syntax and summary. Of [`options`]: `options: Name` of commands that
//! share one enum, `undocumented: [WORD a]` for accepted words that are not shown.
//!
//! | in a syntax line | is |
//! |---|---|
//! | `WORD` | a token; with an argument behind it, that argument's token |
//! | `name` | an argument; its type follows from its name (`commands/types`) or stands in braces |
//! | `[a]`, `[a b]` | optional; several are a block |
//! | `[a \| b]`, `<a \| b>` | one of several, optional or not |
//! | `<a b>` | a block |
//! | `a...` | repeatable: `a [a ...]` on a command page |
//! | `{...}` | the group's name, `name N`, a type, `since V`, `deprecated V`, `spec N`, `repeat-token` |
//! | `WORD{}` | a token alone, although an argument follows |
//!
//! | in a key spec | is |
//! |---|---|
//! | `1`, `WORD@1`, `?` | begins at argument 1; behind a keyword, searched from 1 on; unknown |
//! | `..-1`, `/2`, `%2` | up to that argument, in steps, only the first half |
//! | `#` | a count, and that many keys |
//! | `by f`, `found by f` | a function of [`keys`] tells the flags of a call, or finds its keys |

pub mod argument;
mod bitset;
mod key_spec;
pub mod keys;
mod meta;
pub mod options;

pub use argument::{Arg, ArgFlags, ArgKind, Syntax};
pub use key_spec::{BeginSearch, FindKeys, KeyFlags, KeyRange, KeySpec, LocateKeys, NarrowFlags};
pub use meta::{Categories, Channels, Flags, GateFlags, Group, Meta, Place};

/// A constant for every command, by its full name in upper case (`CLIENT_SETNAME`), and lists of
/// them.
pub mod commands {
    use crate::{Arg, ArgFlags, BeginSearch, Categories, Channels, FindKeys, Flags, GateFlags};
    use crate::{Group, KeyFlags, KeySpec, Meta, keys};

    include!(concat!(env!("OUT_DIR"), "/commands.rs"));
}

/// Commands, and subcommands by their whole names, that are not answered by one reply: but by
/// messages, by nothing, or without end. A client needs another way to them.
pub const UNANSWERED: [&str; 10] = [
    "CLIENT REPLY",
    "MONITOR",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
];

#[cfg(test)]
mod tests;
