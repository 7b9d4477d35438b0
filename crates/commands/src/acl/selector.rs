//! Selectors: commands, keys, channels and databases that are allowed together. A call is allowed
//! if one selector of the user allows all of it.

use crate::glob::{self, Case};
use crate::registry::{Command, Registry};
use petrel_table::bitset;
use petrel_table::{Categories, KeyFlags};
use std::collections::BTreeMap;

bitset! {
    /// Access to the keys that match a pattern.
    Access: u8 {
        /// Reading their data.
        READ = 0 "R",
        /// Writing.
        WRITE = 1 "W",
    }
}

/// Both.
pub(super) const READ_WRITE: Access = Access::READ.with(Access::WRITE);

/// A set of rules. A call has to be allowed by all of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Selector {
    /// Allowed commands and subcommands: one bit for each, by its number in the registry.
    commands: Box<[u64]>,
    /// Commands that are allowed only with certain first arguments: those arguments, in lower case,
    /// by the command's number.
    first_args: BTreeMap<u16, Vec<Box<[u8]>>>,
    /// Whether the rules on commands begin with `+@all`.
    begins_with_all: bool,
    /// Further rules on commands, in order: whether it is `+`, and a lower-case name such as
    /// `@read`, `get`, `config|get`, `select|0`.
    rules: Vec<(bool, Box<str>)>,
    pub(super) keys: Vec<(Box<[u8]>, Access)>,
    pub(super) all_keys: bool,
    pub(super) channels: Vec<Box<[u8]>>,
    pub(super) all_channels: bool,
    /// Allowed databases, ascending; `None`: all.
    pub(super) databases: Option<Vec<u32>>,
}

impl Selector {
    /// Allows nothing, except all channels if that is the default (`acl-pubsub-default`). Applies
    /// to all databases.
    pub fn new<H>(registry: &Registry<H>, all_channels: bool) -> Self {
        Selector {
            commands: vec![0; registry.len().div_ceil(64)].into(),
            first_args: BTreeMap::new(),
            begins_with_all: false,
            rules: Vec::new(),
            keys: Vec::new(),
            all_keys: false,
            channels: Vec::new(),
            all_channels,
            databases: None,
        }
    }

    /// Allows everything.
    pub fn everything<H>(registry: &Registry<H>) -> Self {
        let mut selector = Selector::new(registry, true);
        selector.all_commands(registry, true);
        selector.all_keys = true;
        selector
    }

    /// Whether no call is ever denied.
    pub fn is_everything<H>(&self, registry: &Registry<H>) -> bool {
        let all_commands = registry.all().all(|command| self.has_bit(command.index));
        all_commands && self.all_keys && self.all_channels && self.databases.is_none()
    }

    /// `+@all` or `-@all`.
    pub(super) fn all_commands<H>(&mut self, registry: &Registry<H>, allow: bool) {
        self.begins_with_all = allow;
        self.rules.clear();
        self.first_args.clear();
        registry.all().for_each(|command| self.set_bit(command.index, allow));
    }

    /// `+@category` or `-@category`.
    pub(super) fn category<H>(
        &mut self,
        registry: &Registry<H>,
        category: Categories,
        allow: bool,
    ) {
        for command in registry.all() {
            if command.spec.meta.categories().contains(category) {
                self.set_command(registry, command, allow);
            }
        }
        let name = category.names().next().unwrap_or_default();
        self.note_rule(allow, format!("@{name}"));
    }

    /// `+command` or `-command`, also for a subcommand.
    pub(super) fn command<H>(&mut self, registry: &Registry<H>, command: Command<H>, allow: bool) {
        self.set_command(registry, command, allow);
        self.note_rule(allow, registry.full_name(command.index).to_owned());
    }

    /// `+command|argument`, for a command without subcommands.
    pub(super) fn first_arg<H>(
        &mut self,
        registry: &Registry<H>,
        command: Command<H>,
        argument: &[u8],
    ) {
        let argument = argument.to_ascii_lowercase();
        let name = registry.full_name(command.index);
        let rule = format!("{name}|{}", String::from_utf8_lossy(&argument));
        let known = self.first_args.entry(command.index).or_default();
        if !known.iter().any(|other| **other == argument) {
            known.push(argument.into());
        }
        self.note_rule(true, rule);
    }

    /// Number of rules on commands.
    pub(super) fn rules(&self) -> usize {
        self.rules.len()
    }

    fn set_command<H>(&mut self, registry: &Registry<H>, command: Command<H>, allow: bool) {
        for command in std::iter::once(command).chain(registry.subcommands(command)) {
            self.set_bit(command.index, allow);
            self.first_args.remove(&command.index);
        }
    }

    fn set_bit(&mut self, index: u16, allow: bool) {
        let (word, bit) = (usize::from(index / 64), 1 << (index % 64));
        if allow {
            self.commands[word] |= bit;
        } else {
            self.commands[word] &= !bit;
        }
    }

    /// Appends a rule on commands. Removes earlier rules that it overrides: those on the same name
    /// and on subcommands of it.
    fn note_rule(&mut self, allow: bool, name: String) {
        self.rules.retain(|(_, other)| {
            let rest = other.strip_prefix(&*name);
            !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        });
        self.rules.push((allow, name.into()));
    }

    #[inline]
    fn has_bit(&self, index: u16) -> bool {
        let word = self.commands.get(usize::from(index / 64)).copied().unwrap_or(0);
        word >> (index % 64) & 1 != 0
    }

    /// Whether a command may be called with these arguments, not considering keys and channels.
    #[inline]
    pub(super) fn allows_command<H>(&self, command: Command<H>, args: &[&[u8]]) -> bool {
        self.has_bit(command.index)
            || self.first_args.get(&command.index).is_some_and(|known| {
                let given = args.get(1);
                given.is_some_and(|given| known.iter().any(|arg| arg.eq_ignore_ascii_case(given)))
            })
    }

    /// Whether a command with these flags may access a key. A command that neither reads nor writes
    /// data needs any matching pattern.
    pub(super) fn allows_key(&self, key: &[u8], flags: KeyFlags) -> bool {
        const WRITES: KeyFlags = KeyFlags::INSERT.with(KeyFlags::UPDATE).with(KeyFlags::DELETE);
        let mut needed = Access::NONE;
        if flags.contains(KeyFlags::ACCESS) {
            needed = needed.with(Access::READ);
        }
        if flags.intersects(WRITES) {
            needed = needed.with(Access::WRITE);
        }
        self.all_keys
            || self.keys.iter().any(|(pattern, access)| {
                access.contains(needed) && glob::matches(pattern, key, Case::Sensitive)
            })
    }

    /// Whether every key may be read.
    pub(super) fn reads_every_key(&self) -> bool {
        let is_all = |(pattern, access): &(Box<[u8]>, Access)| {
            **pattern == *b"*" && access.contains(Access::READ)
        };
        self.all_keys || self.keys.iter().any(is_all)
    }

    /// Whether a channel may be used. A pattern of channels has to be equal to an allowed pattern.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || self.channels.iter().any(|allowed| match is_pattern {
                true => **allowed == *channel,
                false => glob::matches(allowed, channel, Case::Sensitive),
            })
    }

    /// Whether every key that begins with a prefix may be read: a pattern that ends with `*` and
    /// matches the prefix matches whatever follows it.
    pub(super) fn reads_prefix(&self, prefix: &[u8]) -> bool {
        let is_open = |pattern: &[u8]| {
            let escapes = pattern.iter().rev().skip(1).take_while(|&&byte| byte == b'\\').count();
            pattern.ends_with(b"*") && escapes % 2 == 0
        };
        self.all_keys
            || self.keys.iter().any(|(pattern, access)| {
                access.contains(Access::READ)
                    && is_open(pattern)
                    && glob::matches(pattern, prefix, Case::Sensitive)
            })
    }

    pub(super) fn allows_database(&self, db: u32) -> bool {
        self.databases.as_ref().is_none_or(|allowed| allowed.binary_search(&db).is_ok())
    }

    /// Whether it is limited to certain databases.
    pub fn is_restricted_to_databases(&self) -> bool {
        self.databases.is_some()
    }

    /// Rules on commands as text: `-@all +get`.
    pub fn commands_text(&self) -> String {
        let mut text = String::from(if self.begins_with_all { "+@all" } else { "-@all" });
        for (allow, name) in &self.rules {
            text.push_str(if *allow { " +" } else { " -" });
            text.push_str(name);
        }
        text
    }

    /// Key patterns as text: `~a %R~b`.
    pub fn keys_text(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let patterns = self.keys.iter().map(|(pattern, access)| {
            let sign: &[u8] = match *access {
                Access::READ => b"%R~",
                Access::WRITE => b"%W~",
                _ => b"~",
            };
            [sign, pattern].concat()
        });
        patterns.collect::<Vec<_>>().join(&b' ')
    }

    /// Channel patterns as text: `&a &b`.
    pub fn channels_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let patterns = self.channels.iter().map(|pattern| [b"&", &pattern[..]].concat());
        patterns.collect::<Vec<_>>().join(&b' ')
    }

    /// Databases as text: `alldbs`, `db=0,1`, or empty if none is allowed.
    pub fn databases_text(&self) -> String {
        match self.databases.as_deref() {
            None => "alldbs".to_owned(),
            Some([]) => String::new(),
            Some(databases) => {
                let numbers: Vec<_> = databases.iter().map(u32::to_string).collect();
                format!("db={}", numbers.join(","))
            }
        }
    }

    /// The rules that create this selector from an empty one, independent of `acl-pubsub-default`.
    pub fn text(&self) -> Vec<u8> {
        let channels = self.channels_text();
        let mut words = vec![self.keys_text()];
        if !self.all_channels {
            words.push(b"resetchannels".to_vec());
        }
        words.push(channels);
        words.push(match self.databases.as_deref() {
            None => Vec::new(),
            Some([]) => b"resetdbs".to_vec(),
            Some(_) => self.databases_text().into_bytes(),
        });
        words.push(self.commands_text().into_bytes());
        words.retain(|word| !word.is_empty());
        words.join(&b' ')
    }
}
