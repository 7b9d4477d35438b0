//! Checks a call against permissions, and reports the part of it that is denied.

use super::permissions::Permissions;
use super::selector::Selector;
use crate::registry::Command;
use petrel_keyspace::parse_int;
use petrel_table::keys::{KeyRef, key_positions};
use petrel_table::{Categories, Channels, Flags};
use std::ops::Range;

/// The part of a call that the permissions do not allow, in the order of the checks. If all
/// selectors deny a call, the reason of the selector that passed the most checks is reported.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// The database.
    Database,
    /// The command or subcommand, or its first argument.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
}

/// A denied call.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Denial {
    /// The denied part.
    pub reason: Reason,
    /// Index of the denied argument; 0 is the command itself.
    pub index: usize,
}

/// A call of a command.
pub struct Call<'a, H: 'static> {
    /// The command.
    pub command: Command<H>,
    /// The arguments, including the command's name. Their number matches the arity.
    pub args: &'a [&'a [u8]],
    /// The selected database.
    pub db: u16,
    /// Number of databases.
    pub databases: u16,
}

impl Permissions {
    /// Whether a call is within the permissions.
    ///
    /// # Errors
    /// The denial of the selector that passed the most checks.
    pub fn check<H>(&self, call: &Call<'_, H>) -> Result<(), Denial> {
        let mut keys = Vec::new();
        // A call with invalid key arguments gets the command's own error.
        if key_positions(call.command.spec.meta.keys, call.args, &mut keys).is_err() {
            keys.clear();
        }
        let mut most_relevant = None;
        for selector in self.all_selectors() {
            match selector.check(call, &keys) {
                Ok(()) => return Ok(()),
                Err(denial) => most_relevant = most_relevant.max(Some(denial)),
            }
        }
        most_relevant.map_or(Ok(()), Err)
    }

    /// Whether the permissions allow the command and reading every key. A command that takes key
    /// patterns (`SORT ... GET`) needs this.
    pub fn read_every_key<H>(&self, command: Command<H>, args: &[&[u8]]) -> bool {
        self.all_selectors()
            .any(|selector| selector.allows_command(command, args) && selector.reads_every_key())
    }
}

impl Selector {
    fn check<H>(&self, call: &Call<'_, H>, keys: &[KeyRef]) -> Result<(), Denial> {
        let deny = |reason, index| Err(Denial { reason, index });
        if self.databases.is_some() {
            self.check_databases(call)?;
        }
        let needs_no_login = call.command.spec.flags.contains(Flags::NO_AUTH);
        if !needs_no_login && !self.allows_command(call.command, call.args) {
            return deny(Reason::Command, 0);
        }
        if !self.all_keys {
            for key in keys {
                if !self.allows_key(call.args[key.index as usize], key.flags) {
                    return deny(Reason::Key, key.index as usize);
                }
            }
        }
        if !self.all_channels {
            let (indexes, are_patterns) = channels(call);
            for index in indexes {
                if !self.allows_channel(call.args[index], are_patterns) {
                    return deny(Reason::Channel, index);
                }
            }
        }
        Ok(())
    }

    fn check_databases<H>(&self, call: &Call<'_, H>) -> Result<(), Denial> {
        let deny = |index| Err(Denial { reason: Reason::Database, index });
        let scope = DatabaseScope::of(call);
        if scope.all && !(0..call.databases).all(|db| self.allows_database(db.into())) {
            return deny(0);
        }
        for index in scope.named {
            // An invalid database number is left to the command, which returns its own error.
            let number = parse_int(call.args[index]).and_then(|number| u16::try_from(number).ok());
            let named = number.filter(|&db| db < call.databases);
            if named.is_some_and(|db| !self.allows_database(db.into())) {
                return deny(index);
            }
        }
        if scope.selected && !self.allows_database(call.db.into()) {
            return deny(0);
        }
        Ok(())
    }
}

/// The arguments that are channels, and whether they are patterns of channels.
fn channels<H>(call: &Call<'_, H>) -> (Range<usize>, bool) {
    match call.command.spec.meta.channels {
        Channels::None => (0..0, false),
        Channels::First => (1..2, false),
        Channels::All => (1..call.args.len(), false),
        Channels::Patterns => (1..call.args.len(), true),
    }
}

/// The databases that a call accesses.
struct DatabaseScope {
    selected: bool,
    all: bool,
    /// Indices of arguments that are database numbers.
    named: Vec<usize>,
}

impl DatabaseScope {
    fn of<H>(call: &Call<'_, H>) -> Self {
        const OF_DATA: Categories =
            Categories::READ.with(Categories::WRITE).with(Categories::KEYSPACE);
        let meta = call.command.spec.meta;
        let uses_data = !meta.keys.is_empty() || meta.categories().intersects(OF_DATA);
        let (selected, all, named) = match meta.name {
            "select" => (false, false, vec![1]),
            "swapdb" => (false, false, vec![1, 2]),
            "flushall" | "flushslot" => (false, true, Vec::new()),
            "move" => (true, false, vec![2]),
            "copy" => {
                let is_db = |&at: &usize| call.args[at].eq_ignore_ascii_case(b"DB");
                (true, false, (3..call.args.len() - 1).filter(is_db).map(|at| at + 1).collect())
            }
            _ => (uses_data, false, Vec::new()),
        };
        DatabaseScope { selected, all, named }
    }
}
