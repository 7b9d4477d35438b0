//! Makes the table of commands and their typed forms from `petrel-table`.

mod typed;

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

use petrel_table::{BeginSearch, FindKeys, Flags, Meta, commands};

fn main() {
    for path in ["build", "replies"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let replies = fs::read_to_string("replies/types").expect("the types of replies");
    let entries = entries();
    let replies = typed::Replies::parse(&replies);
    let typed = typed::module(&entries, &replies);
    let key_reads = typed::key_reads(&entries, &replies);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    fs::write(out.join("typed.rs"), typed).expect("the output directory can be written");
    fs::write(out.join("key_reads.rs"), key_reads).expect("the output directory can be written");
    fs::write(out.join("table.rs"), table(&entries)).expect("the output directory can be written");
}

/// Commands that change how their connection behaves.
const OF_SESSION: [&str; 34] = [
    "ASKING",
    "AUTH",
    "CLIENT CACHING",
    "CLIENT CAPA",
    "CLIENT IMPORT-SOURCE",
    "CLIENT NO-EVICT",
    "CLIENT NO-TOUCH",
    "CLIENT REPLY",
    "CLIENT SETNAME",
    "CLIENT TRACKING",
    "DISCARD",
    "EXEC",
    "HELLO",
    "HIMPORT DISCARD",
    "HIMPORT DISCARDALL",
    "HIMPORT PREPARE",
    "HIMPORT SET",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "READONLY",
    "READWRITE",
    "RESET",
    "SELECT",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
    "UNWATCH",
    "WATCH",
];

/// A command or subcommand, with its full name in upper case.
struct Entry {
    name: String,
    meta: &'static Meta,
    is_container: bool,
    /// Whether it changes how its connection behaves, so that others cannot share it.
    is_of_session: bool,
    /// Whether it may wait for other clients without an option that says so.
    is_always_blocking: bool,
}

impl Entry {
    fn new(name: String, meta: &'static Meta, is_container: bool) -> Self {
        let is_of_session = OF_SESSION.contains(&name.as_str());
        let is_always_blocking = meta.flags.contains(Flags::BLOCKING)
            && !matches!(name.as_str(), "XREAD" | "XREADGROUP");
        Self { name, meta, is_container, is_of_session, is_always_blocking }
    }
}

fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for (meta, subs) in commands::ALL {
        let name = meta.name.to_ascii_uppercase();
        for sub in *subs {
            let name = format!("{name} {}", sub.name.to_ascii_uppercase());
            entries.push(Entry::new(name, sub, false));
        }
        entries.push(Entry::new(name, meta, !subs.is_empty()));
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn table(entries: &[Entry]) -> String {
    let mut out = String::from("/// Every command and subcommand, by name.\n");
    writeln!(out, "pub(crate) static TABLE: [CommandInfo; {}] = [", entries.len())
        .expect("a string takes everything");
    for entry in entries {
        let words: Vec<&str> = entry.name.split(' ').collect();
        let encoded: String =
            words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        writeln!(
            out,
            "    CommandInfo {{ name: {:?}, encoded: b{:?}, words: {}, is_readonly: {}, \
             is_blocking: {}, is_of_session: {}, cached_key: {:?}, \
             first_key: {} }},",
            entry.name,
            encoded,
            words.len(),
            entry.meta.flags.contains(Flags::READONLY),
            entry.meta.flags.contains(Flags::BLOCKING),
            entry.is_of_session,
            cached_key(entry),
            first_key(entry),
        )
        .expect("a string takes everything");
    }
    out.push_str("];\n");
    out
}

/// Where the first key is, as an expression.
fn first_key(entry: &Entry) -> String {
    let Some(spec) = entry.meta.keys.first() else { return "FirstKey::None".to_owned() };
    match (spec.begin, spec.find) {
        (BeginSearch::Index(at), FindKeys::Range { .. }) => format!("FirstKey::At({at})"),
        (BeginSearch::Index(at), FindKeys::KeyNum { count, first, .. }) => {
            let (count, first) = (at + count, at + first);
            format!("FirstKey::Counted {{ count: {count}, first: {first} }}")
        }
        (BeginSearch::Keyword { keyword, start: 0.. }, FindKeys::Range { .. }) => {
            format!("FirstKey::After({keyword:?})")
        }
        _ => "FirstKey::None".to_owned(),
    }
}

/// The argument that is the key, of commands that read it and depend on nothing else, so that a
/// reply stays right until the key changes.
fn cached_key(entry: &Entry) -> Option<usize> {
    let meta = entry.meta;
    let reads_only = meta.flags.contains(Flags::READONLY)
        && !meta.flags.contains(Flags::BLOCKING)
        && !meta.flags.contains(Flags::TOUCHES_ARBITRARY_KEYS)
        && !meta.tips.contains(&"nondeterministic_output");
    match meta.keys {
        // Subcommands tell about keys, such as when they were read last.
        [spec] if reads_only && !entry.name.contains(' ') => match (spec.begin, spec.find) {
            (BeginSearch::Index(at), FindKeys::Range { last: 0, .. }) => Some(at.into()),
            _ => None,
        },
        _ => None,
    }
}
