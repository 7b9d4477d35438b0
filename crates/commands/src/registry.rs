//! Command registry: finds a command by its name. Built once from the families' tables, read by
//! every worker.
//!
//! The table is open-addressed and at most a quarter full. A slot holds the lower-cased name as two
//! words, so that a lookup is two loads, a few shifts, a multiplication and a comparison: no loop
//! over the name, no allocation, one cache line. Subcommands live
//! in the same table under the number of their container.

use std::fmt::Write;

use crate::command_spec::CommandSpec;

/// Command in the registry.
#[derive(Debug)]
pub struct Command<H: 'static> {
    /// Specification in the command table.
    pub spec: &'static CommandSpec<H>,
    /// Number below [`Registry::len`]: an index for statistics and permission bits.
    pub index: u16,
}

impl<H> Clone for Command<H> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Command<H> {}

/// Registry of commands and subcommands.
#[derive(Debug)]
pub struct Registry<H: 'static> {
    slots: Box<[Slot<H>]>,
    entries: Box<[Entry<H>]>,
}

/// Command with its names.
#[derive(Debug)]
struct Entry<H: 'static> {
    spec: &'static CommandSpec<H>,
    /// `client|setname`.
    full_name: Box<str>,
    /// Current name in lower case, without the container; `None` if the command is disabled.
    called: Option<Box<str>>,
    /// The number of the container plus one; 0 for a command of its own.
    container: u16,
}

/// Slot of the hash table; exactly half a cache line.
#[derive(Debug)]
#[repr(align(32))]
struct Slot<H: 'static> {
    words: [u64; 2],
    spec: Option<&'static CommandSpec<H>>,
    scope: Scope,
    index: u16,
}

const _: () = assert!(size_of::<Slot<()>>() == 32);

impl<H> Slot<H> {
    const EMPTY: Self = Slot { words: [0; 2], spec: None, scope: 0, index: 0 };
}

/// The length of a name in the low half, the number of its container in the high one.
type Scope = u32;

/// A name in a form that is quick to compare.
#[derive(Clone, Copy)]
struct Name {
    /// All of a name of up to 16 bytes, else its first and last eight.
    words: [u64; 2],
    scope: Scope,
}

/// Longer names are compared in full.
const NAME_IN_WORDS_MAX: usize = 16;

/// Maximum length of a command's name, in bytes.
const NAME_LEN_MAX: usize = 255;

/// Lower bound of slots per command.
const SLOTS_PER_COMMAND: usize = 4;

/// Maximum bytes of a name, and of all arguments together, quoted in an error.
const QUOTED_BYTES_MAX: usize = 128;

impl<H> Registry<H> {
    /// A registry of all commands of `families`.
    ///
    /// # Panics
    ///
    /// At start, if two commands have one name (or names of one length over 16 that begin and end
    /// with the same eight bytes), a name is not lower case or longer than 255 bytes, or there
    /// are more than 65,534 commands: mistakes in the tables.
    pub fn new(families: &[&'static [CommandSpec<H>]]) -> Self {
        let mut entries = Vec::new();
        for spec in families.iter().copied().flatten() {
            let called = Some(spec.meta.name.into());
            let full_name = spec.meta.name.into();
            entries.push(Entry { spec, full_name, called, container: 0 });
            let container = u16::try_from(entries.len()).expect("at most 65,534 commands");
            for sub in spec.subcommands {
                let full_name = format!("{}|{}", spec.meta.name, sub.meta.name).into();
                let called = Some(sub.meta.name.into());
                entries.push(Entry { spec: sub, full_name, called, container });
            }
        }
        assert!(entries.len() < usize::from(u16::MAX), "at most 65,534 commands");

        let size = (entries.len() * SLOTS_PER_COMMAND).next_power_of_two().max(2);
        let slots = std::iter::repeat_with(|| Slot::EMPTY).take(size).collect();
        let mut registry = Self { slots, entries: entries.into() };
        for index in 0..registry.entries.len() {
            let name = registry.entries[index].spec.meta.name;
            assert!(name.len() <= NAME_LEN_MAX, "{name} is too long");
            assert!(!name.bytes().any(|c| c.is_ascii_uppercase()), "{name} is not lower case");
            assert!(registry.insert(index), "{name} is not told from another");
        }
        registry
    }

    /// Renames the command `from` to `to`, or disables it if `to` is empty (`rename-command`).
    /// Permissions, statistics and `COMMAND` use the original names.
    ///
    /// # Errors
    /// Why it cannot be; nothing has changed then.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), String> {
        let shown = |name: &[u8]| name.escape_ascii().to_string();
        let Some(command) = self.find(from) else {
            return Err(format!("there is no command '{}'", shown(from)));
        };
        if self.find(to).is_some_and(|other| other.index != command.index) {
            return Err(format!("there is a command '{}' already", shown(to)));
        }
        let called = match std::str::from_utf8(to) {
            Ok("") => None,
            Ok(name) if name.len() <= NAME_LEN_MAX => Some(name.to_ascii_lowercase().into()),
            _ => return Err(format!("'{}' cannot be the name of a command", shown(to))),
        };
        let index = usize::from(command.index);
        let before = std::mem::replace(&mut self.entries[index].called, called);
        if !self.fill() {
            self.entries[index].called = before;
            self.fill();
            return Err(format!("'{}' is not told from another command", shown(to)));
        }
        Ok(())
    }

    /// Rebuilds the hash table; false if two names collide in all compared bytes.
    fn fill(&mut self) -> bool {
        self.slots.fill_with(|| Slot::EMPTY);
        (0..self.entries.len()).all(|index| self.insert(index))
    }

    /// Inserts a command into the hash table; false if its name cannot be distinguished from
    /// another.
    fn insert(&mut self, index: usize) -> bool {
        let Entry { spec, container, called: Some(called), .. } = &self.entries[index] else {
            return true;
        };
        let Name { words, scope } = Name::new(*container, called.as_bytes());
        let mask = self.slots.len() - 1;
        let mut place = Name { words, scope }.hash();
        while let Slot { spec: Some(_), words: others, scope: its, .. } = self.slots[place & mask] {
            if (words, scope) == (others, its) {
                return false;
            }
            place += 1;
        }
        self.slots[place & mask] = Slot { words, spec: Some(spec), scope, index: index as u16 };
        true
    }

    /// The command that `args` calls: the subcommand if `args[0]` is a container and there is an
    /// `args[1]`. Arity is not checked. `None` if `args` is empty or the name or subcommand
    /// unknown; [`Registry::unknown_error`] says which.
    #[inline]
    pub fn resolve(&self, args: &[&[u8]]) -> Option<Command<H>> {
        let command = self.find(args.first()?)?;
        match args.get(1) {
            Some(name) if !command.spec.subcommands.is_empty() => self.find_sub(command, name),
            _ => Some(command),
        }
    }

    /// Whether a command belongs to a container.
    pub fn is_subcommand(&self, command: Command<H>) -> bool {
        self.entries[usize::from(command.index)].container != 0
    }

    /// The command of this name, in any case; never a subcommand.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Command<H>> {
        self.lookup(0, name)
    }

    /// The command of a full name such as `get` or `client|setname`, in any case.
    pub fn find_full(&self, full_name: &[u8]) -> Option<Command<H>> {
        match full_name.iter().position(|&byte| byte == b'|') {
            None => self.find(full_name),
            Some(bar) => {
                let container = self.find(&full_name[..bar])?;
                self.find_sub(container, &full_name[bar + 1..])
            }
        }
    }

    /// Finds a subcommand. Out of line, so that commands without subcommands are found in straight
    /// code.
    #[inline(never)]
    fn find_sub(&self, container: Command<H>, name: &[u8]) -> Option<Command<H>> {
        self.lookup(container.index + 1, name)
    }

    #[inline(always)]
    fn lookup(&self, container: u16, bytes: &[u8]) -> Option<Command<H>> {
        let name = Name::new(container, bytes);
        let mask = self.slots.len() - 1;
        let mut place = name.hash();
        let (spec, index) = loop {
            let slot = &self.slots[place & mask];
            let spec = slot.spec?;
            if slot.words == name.words && slot.scope == name.scope {
                break (spec, slot.index);
            }
            place += 1;
        };
        if bytes.len() > NAME_IN_WORDS_MAX && !self.is_called(index, bytes) {
            return None;
        }
        Some(Command { spec, index })
    }

    /// Compares a name longer than two words.
    #[cold]
    #[inline(never)]
    fn is_called(&self, index: u16, name: &[u8]) -> bool {
        let called = self.entries[usize::from(index)].called.as_deref();
        called.is_some_and(|called| called.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Finds a command by its original full name, in any case.
    pub fn find_original(&self, full_name: &[u8]) -> Option<Command<H>> {
        let found = self.find_full(full_name);
        let is_it = |index: u16| self.full_name(index).as_bytes().eq_ignore_ascii_case(full_name);
        found.filter(|found| is_it(found.index)).or_else(|| {
            // Renamed commands are not found by their original name in the table.
            let is_renamed =
                |entry: &Entry<H>| entry.called.as_deref() != Some(entry.spec.meta.name);
            let is_any = self.entries.iter().any(is_renamed);
            if is_any { self.all().find(|command| is_it(command.index)) } else { None }
        })
    }

    /// Number of commands and subcommands.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every command that is not a subcommand, in the order of the tables.
    pub fn commands(&self) -> impl Iterator<Item = Command<H>> + '_ {
        self.all().filter(|command| self.entries[usize::from(command.index)].container == 0)
    }

    /// Every command, each container followed by its subcommands.
    pub fn all(&self) -> impl Iterator<Item = Command<H>> + '_ {
        let numbered = self.entries.iter().enumerate();
        numbered.map(|(index, entry)| Command { spec: entry.spec, index: index as u16 })
    }

    /// The subcommands of a command, in the order of the table.
    pub fn subcommands(&self, command: Command<H>) -> impl Iterator<Item = Command<H>> + '_ {
        let first = command.index + 1;
        let subcommands = command.spec.subcommands.iter().zip(first..);
        subcommands.map(|(spec, index)| Command { spec, index })
    }

    /// The command with this number.
    ///
    /// # Panics
    /// If there is no such command: the number is of another registry.
    pub fn command(&self, index: u16) -> Command<H> {
        Command { spec: self.entries[usize::from(index)].spec, index }
    }

    /// The full name, such as `get` or `client|setname`, of the command with this number.
    pub fn full_name(&self, index: u16) -> &str {
        self.entries.get(usize::from(index)).map_or("", |entry| &entry.full_name)
    }

    /// The error for a call that [`Registry::resolve`] does not know, as Redis words it.
    #[cold]
    pub fn unknown_error(&self, args: &[&[u8]]) -> Vec<u8> {
        let name = args.first().copied().unwrap_or_default();
        if let (Some(container), Some(sub)) = (self.find(name), args.get(1)) {
            let mut text = b"ERR unknown subcommand '".to_vec();
            text.extend_from_slice(quoted(sub));
            text.extend_from_slice(b"'. Try ");
            text.extend_from_slice(container.spec.meta.name.to_ascii_uppercase().as_bytes());
            text.extend_from_slice(b" HELP.");
            return text;
        }

        let mut text = b"ERR unknown command '".to_vec();
        text.extend_from_slice(quoted(name));
        text.extend_from_slice(b"', with args beginning with: ");
        let begin = text.len();
        for arg in args.iter().skip(1) {
            let Some(room) = QUOTED_BYTES_MAX.checked_sub(text.len() - begin) else { break };
            if room == 0 {
                break;
            }
            text.push(b'\'');
            text.extend_from_slice(&arg[..arg.len().min(room)]);
            text.extend_from_slice(b"' ");
        }
        text
    }

    /// The error for a call of a known command with too few or too many arguments.
    #[cold]
    pub fn arity_error(&self, index: u16) -> String {
        let mut text = String::new();
        let name = self.full_name(index);
        write!(text, "ERR wrong number of arguments for '{name}' command").ok();
        text
    }
}

/// The part of a name that an error text quotes.
fn quoted(name: &[u8]) -> &[u8] {
    &name[..name.len().min(QUOTED_BYTES_MAX)]
}

impl Name {
    /// Prepares a name in any case. Its length is cut to 16 bits: longer names equal no command's,
    /// since they are compared in full.
    #[inline(always)]
    fn new(container: u16, name: &[u8]) -> Self {
        let words = match name.len() {
            9.. => [word::<8>(name, 0), word::<8>(name, name.len() - 8)].map(lowercase),
            4..=8 => {
                let halves = word::<4>(name, 0) | word::<4>(name, name.len() - 4) << 32;
                [lowercase(halves), 0]
            }
            0 => [0, 0],
            len => {
                let [first, middle, last] = [name[0], name[len / 2], name[len - 1]].map(u64::from);
                [lowercase(first | middle << 8 | last << 16), 0]
            }
        };
        Self { words, scope: u32::from(name.len() as u16) | u32::from(container) << 16 }
    }

    /// Hash of the name: start of its probe sequence, modulo the table size.
    #[inline(always)]
    fn hash(self) -> usize {
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let scope = u64::from(self.scope).wrapping_mul(MULTIPLIER);
        let mixed = self.words[0] ^ self.words[1].rotate_left(29) ^ scope;
        (mixed.wrapping_mul(MULTIPLIER) >> 32) as usize
    }
}

/// `N` bytes from `at`, little-endian.
#[inline(always)]
fn word<const N: usize>(name: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&name[at..at + N]);
    u64::from_le_bytes(bytes)
}

/// Lower-cases the ASCII letters among eight bytes at once: adding to the low seven bits carries
/// into the top bit of a byte if and only if it is at least `A`, respectively above `Z`.
#[inline(always)]
fn lowercase(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let low = word & (ONES * 0x7f);
    let from_a = low + ONES * (0x80 - b'A' as u64);
    let above_z = low + ONES * (0x7f - b'Z' as u64);
    let letters = from_a & !above_z & !word & (ONES * 0x80);
    word | letters >> 2
}

#[cfg(test)]
mod tests {
    use super::lowercase;
    use crate::ctx::Ctx;
    use crate::fail::Outcome;
    use crate::spec::{CommandSpec, Group, Meta, Registry};

    fn run(_: &mut Ctx<'_>) -> Outcome {
        Ok(())
    }

    const GET: Meta = Meta::new("get", 2, Group::String, "1.0.0");
    const LONG: Meta = Meta::new("georadiusbymember_ro", -5, Group::Geo, "3.2.10");
    const CLIENT: Meta = Meta::new("client", -2, Group::Connection, "2.4.0");
    const SETNAME: Meta = Meta::new("setname", 3, Group::Connection, "2.6.9");
    const NO_EVICT: Meta = Meta::new("no-evict", 3, Group::Connection, "7.0.0");
    static FAMILY: &[CommandSpec] = &[
        CommandSpec::new(&GET, run),
        CommandSpec::container(
            &CLIENT,
            &[CommandSpec::new(&SETNAME, run), CommandSpec::new(&NO_EVICT, run)],
        ),
        CommandSpec::new(&LONG, run),
    ];

    fn full_name<'a>(registry: &'a Registry, args: &[&[u8]]) -> Option<&'a str> {
        registry.resolve(args).map(|command| registry.full_name(command.index))
    }

    #[test]
    fn names_are_found_in_any_case_and_nothing_else_is() {
        let registry = Registry::new(&[FAMILY]);
        assert_eq!(registry.len(), 5);
        for name in [&b"get"[..], b"GET", b"gEt"] {
            assert_eq!(full_name(&registry, &[name]), Some("get"));
        }
        assert_eq!(full_name(&registry, &[b"GEOradiusBYmember_RO"]), Some("georadiusbymember_ro"));
        assert_eq!(full_name(&registry, &[b"client", b"No-Evict"]), Some("client|no-evict"));
        assert_eq!(full_name(&registry, &[b"client"]), Some("client"));
        for name in [&b""[..], b"ge", b"gett", b"get\0", b"g\x05t", b"setname", b"client|setname"] {
            assert_eq!(full_name(&registry, &[name]), None, "{}", name.escape_ascii());
        }
        for sub in [&b""[..], b"get", b"no\revict", b"no-evict ", b"client"] {
            assert_eq!(full_name(&registry, &[b"client", sub]), None, "{}", sub.escape_ascii());
        }
        assert_eq!(full_name(&registry, &[b"georadiusbZmember_ro"]), None);
        assert_eq!(full_name(&registry, &[&[b'a'; 300]]), None);
        assert!(registry.resolve(&[]).is_none());
    }

    #[test]
    fn full_names_are_found() {
        let registry = Registry::new(&[FAMILY]);
        let index = |name: &[u8]| registry.find_full(name).map(|command| command.index);
        assert_eq!(index(b"CLIENT|SetName"), Some(2));
        assert_eq!(index(b"get"), Some(0));
        assert_eq!(index(b"get|setname"), None);
        assert_eq!(index(b"client|"), None);
        assert_eq!(index(b"|"), None);
        let client = registry.find(b"client").unwrap();
        let names: Vec<_> =
            registry.subcommands(client).map(|sub| registry.full_name(sub.index)).collect();
        assert_eq!(names, ["client|setname", "client|no-evict"]);
        assert_eq!(registry.commands().count(), 3);
    }

    #[test]
    fn lowercase_changes_letters_only() {
        for byte in 0..=u8::MAX {
            for at in 0..8 {
                let mut bytes = [b'Z', 0xff, b'@', b'[', 0x7f, b'A', 0x80, 0];
                bytes[at] = byte;
                let expected = u64::from_le_bytes(bytes.map(|b| b.to_ascii_lowercase()));
                assert_eq!(lowercase(u64::from_le_bytes(bytes)), expected);
            }
        }
    }

    #[test]
    fn errors_are_worded_and_cut_as_in_redis() {
        let registry = Registry::new(&[FAMILY]);
        let unknown = |args: &[&[u8]]| String::from_utf8(registry.unknown_error(args)).unwrap();
        assert_eq!(
            unknown(&[b"foo", b"", b"b"]),
            "ERR unknown command 'foo', with args beginning with: '' 'b' "
        );
        assert_eq!(unknown(&[b"Client", b"x"]), "ERR unknown subcommand 'x'. Try CLIENT HELP.");
        let (long, c) = ("foo".repeat(100), "c".repeat(200));
        assert_eq!(
            unknown(&[long.as_bytes(), b"a b", c.as_bytes(), b"d"]),
            format!(
                "ERR unknown command '{}', with args beginning with: 'a b' '{}' ",
                &long[..128],
                &c[..122]
            )
        );
        assert_eq!(
            registry.arity_error(2),
            "ERR wrong number of arguments for 'client|setname' command"
        );
    }

    #[test]
    fn a_renamed_command_is_called_by_its_new_name_alone() {
        let mut registry = Registry::new(&[FAMILY]);
        let index = |registry: &Registry, name: &str| {
            registry
                .find(name.as_bytes())
                .map(|command| registry.full_name(command.index).to_owned())
        };
        let get = Some("get".to_owned());
        registry.rename(b"GET", b"Fetch").unwrap();
        assert_eq!((index(&registry, "get"), index(&registry, "FETCH")), (None, get.clone()));
        // Long names too, and one after the other.
        let long = "a-name-that-two-words-cannot-hold";
        registry.rename(b"fetch", long.as_bytes()).unwrap();
        assert_eq!((index(&registry, "fetch"), index(&registry, long)), (None, get.clone()));
        assert_eq!(index(&registry, "a-name-that-no-words-cannot-hold-"), None);
        for (from, to) in [("nosuch", "x"), ("client", long)] {
            assert!(registry.rename(from.as_bytes(), to.as_bytes()).is_err(), "{from} {to}");
        }
        // Renaming to an indistinguishable name fails and changes nothing.
        let like_it = format!("{}xx{}", &long[..10], &long[12..]);
        assert!(registry.rename(b"client", like_it.as_bytes()).is_err());
        assert_eq!(index(&registry, "client"), Some("client".to_owned()));
        // Permissions go by the old names.
        registry.rename(b"client", b"get").unwrap();
        let original = |name: &[u8]| registry.find_original(name).map(|command| command.index);
        assert_eq!(original(b"GET"), registry.find(long.as_bytes()).map(|command| command.index));
        assert_eq!(
            original(b"client|setname"),
            registry.find_full(b"get|setname").map(|command| command.index)
        );
        registry.rename(b"get", b"").unwrap();
        assert_eq!(registry.resolve(&[b"get", b"setname"]).map(|command| command.index), None);
    }
}
