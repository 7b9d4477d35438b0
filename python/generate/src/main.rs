//! Writes `petrel/_commands.py` and `petrel/_commands.pyi`: a method for every command of the
//! command table that `petrel/_redis_py.py` does not have.
//!
//! ```text
//! cargo run --manifest-path generate/Cargo.toml            in the folder `python`: writes them
//! cargo run --manifest-path generate/Cargo.toml -- --check  fails if they are not what it writes
//! ```
//!
//! | in the table | becomes |
//! |---|---|
//! | a required argument | a parameter, `name` for the key |
//! | repeated arguments at the end | `*names`; a list among them is spread |
//! | repeated arguments before others | a list; a count before them is written by itself |
//! | pairs | a mapping, or pairs |
//! | a word, a choice of words | a keyword that is true or false for each word |
//! | names of redis-py | what the file `redis_py` says |
//! | an option with a value | a keyword; a tuple if it has several values |

mod method;
mod stub;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs, process};

use petrel_table::{Flags, Meta, UNANSWERED, commands};

/// Not made either: these have classes of their own, or replies of no one type.
const LEFT_OUT: [&str; 4] = ["COMMAND", "DISCARD", "EXEC", "MULTI"];

/// A command or subcommand with its whole name.
pub struct Entry {
    pub name: String,
    pub meta: &'static Meta,
}

fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for (meta, subs) in commands::ALL {
        let name = meta.name.to_ascii_uppercase();
        for sub in *subs {
            entries.push(Entry {
                name: format!("{name} {}", sub.name.to_ascii_uppercase()),
                meta: sub,
            });
        }
        let is_bare = meta.arguments.is_empty() && meta.arity < -1;
        if subs.is_empty() && !is_bare {
            entries.push(Entry { name, meta });
        }
    }
    entries.retain(|entry| {
        let name = entry.name.as_str();
        let is_left_out = LEFT_OUT.contains(&name) || UNANSWERED.contains(&name);
        !is_left_out && !entry.meta.flags.contains(Flags::MODULE) || entry.name.contains('.')
    });
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

/// The types of replies, by method, and by method and option.
pub struct Replies(BTreeMap<String, String>);

impl Replies {
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pairs = lines.map(|line| line.split_once(' ').expect("a name and a type"));
        Self(pairs.map(|(name, kind)| (name.to_owned(), kind.trim().to_owned())).collect())
    }

    /// Of a method as `petrel-client` names it.
    pub fn of(&self, method: &str) -> &str {
        self.0.get(method).map_or("Value", |kind| kind)
    }

    /// The options that change it.
    pub fn options<'a>(&'a self, method: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, kind)| {
            let option = name.strip_prefix(method)?.strip_prefix('.')?;
            Some((option, kind.as_str()))
        })
    }
}

/// The parameters of methods as redis-py names and orders them.
pub struct RedisPy(BTreeMap<String, Vec<String>>);

impl RedisPy {
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let methods = lines.map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            (words.next().unwrap_or_default(), words.collect())
        });
        Self(methods.collect())
    }

    /// Parameters of a method, if they differ from the table's.
    pub fn of(&self, method: &str) -> Option<&[String]> {
        self.0.get(method).map(Vec::as_slice)
    }
}

/// The names of the methods that a stub file declares.
fn declared(stub: &str) -> BTreeSet<String> {
    let lines = stub.lines().filter_map(|line| line.trim().strip_prefix("def "));
    lines.filter_map(|line| line.split('(').next()).map(str::to_owned).collect()
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder `python`");
    let read = |path: &str| {
        fs::read_to_string(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let replies = Replies::parse(&read("../crates/client/replies/types"));
    let redis_py = RedisPy::parse(&read("generate/redis_py"));
    let by_hand = read("generate/by_hand.pyi");
    let names = declared(&by_hand);
    let methods: Vec<_> = entries()
        .iter()
        .map(|entry| method::Method::new(entry, &replies, &redis_py))
        .filter(|method| !names.contains(&method.name))
        .collect();
    for name in redis_py.0.keys() {
        assert!(methods.iter().any(|method| method.name == *name), "no method {name}");
    }
    let files = [
        ("petrel/_commands.py", method::module(&methods)),
        ("petrel/_commands.pyi", stub::module(&methods, &by_hand)),
    ];
    let checks = env::args().nth(1).as_deref() == Some("--check");
    for (path, text) in files {
        if !checks {
            fs::write(folder.join(path), text).unwrap_or_else(|error| panic!("{path}: {error}"));
        } else if read(path) != text {
            eprintln!("{path} is not what the command table says: run the generator");
            process::exit(1);
        }
    }
}
