//! `# Keysizes`: how long the values are, by type, in classes that double.
//!
//! No statistics are maintained: the command walks all keys, a few under each lock, so it costs as
//! much as a `SCAN` of everything, and other commands run meanwhile. The section is therefore shown
//! only if requested by name.

use super::Report;
use petrel_keyspace::custom::{all_types, type_of_number};
use petrel_keyspace::{Cursor, Type, View, WrongType};
use std::fmt::Write;

/// Number of keys walked between two checks whether another thread waits for the whole keyspace.
const KEYS_AT_ONCE: usize = 1024;

/// Fields by type of value; a value type may have another.
const LINES: [(Type, &str); 5] = [
    (Type::String, "strings_sizes"),
    (Type::List, "lists_items"),
    (Type::Set, "sets_items"),
    (Type::SortedSet, "zsets_items"),
    (Type::Hash, "hashes_items"),
];

/// Classes of lengths: nothing, and each from a power of two to the next.
const CLASSES: usize = 65;

type Counts = [u64; CLASSES];

/// The line of a type.
struct Line {
    of: Type,
    name: &'static str,
    counts: Counts,
}

/// The lines of all types that have one, with nothing counted.
fn lines() -> Vec<Line> {
    let custom = all_types().into_iter().filter_map(|of| {
        let (name, _) = of.sizes?;
        Some((Type::Custom(of.number), name))
    });
    let all = LINES.into_iter().chain(custom);
    all.map(|(of, name)| Line { of, name, counts: [0; CLASSES] }).collect()
}

/// `# Keysizes`: a line per database and type. Inside a transaction, which holds the stripes of its
/// own keys alone, none.
pub fn key_sizes(report: &mut Report<'_>) {
    let keyspace = report.server.keyspace.clone();
    for db in (0..keyspace.databases()).filter(|&db| keyspace.db_stats(db).keys > 0) {
        let Some(exec) = report.exec.as_deref_mut().filter(|exec| !exec.ks.holds_any()) else {
            return;
        };
        let (now, mut lines) = (exec.ks.now_ms(), lines());
        let mut cursor = Cursor::default();
        loop {
            cursor = exec.ks.scan_removing(db, cursor, KEYS_AT_ONCE, &|_| false, |view| {
                count(view, now, &mut lines);
            });
            if cursor == Cursor::default() {
                break;
            }
            exec.yield_within();
        }
        for Line { name, counts, .. } in &lines {
            let line = distribution(counts);
            if !line.is_empty() {
                report.put(format_args!("db{db}_distrib_{name}:{line}\r\n"));
            }
        }
    }
}

fn count(view: View<'_>, now_ms: i64, lines: &mut [Line]) {
    let of = view.type_of();
    let len = match of {
        Type::String => view.string().map(|string| string.len()),
        Type::List => view.list().map(|list| list.len()),
        Type::Set => view.set().map(|set| set.len()),
        Type::SortedSet => view.sorted_set().map(|set| set.len()),
        Type::Hash => view.hash(now_ms).map(|hash| hash.len()),
        Type::Stream => return,
        Type::Custom(number) => {
            let sizes = type_of_number(number).and_then(|of| of.sizes);
            let len = sizes.zip(view.held()).map(|((_, len), held)| len(held));
            len.ok_or(WrongType)
        }
    };
    let line = lines.iter_mut().find(|line| line.of == of);
    if let (Ok(len), Some(line)) = (len, line) {
        line.counts[class(len as u64)] += 1;
    }
}

/// The class of a length.
fn class(len: u64) -> usize {
    len.checked_ilog2().map_or(0, |power| power as usize + 1)
}

/// The classes that there is anything in, each by the least length in it.
fn distribution(counts: &Counts) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let mut text = String::new();
    for (class, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let comma = if text.is_empty() { "" } else { "," };
        let power = class.saturating_sub(1);
        let least = if class == 0 { 0 } else { 1 << (power % 10) };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{least}{}={count}", UNITS[power / 10]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_fall_into_classes_that_double() {
        let mut counts = [0; CLASSES];
        for len in [0, 1, 2, 3, 4, 1023, 1024, 2047, 2048, 1 << 20, (1 << 31) - 1, u64::MAX] {
            counts[class(len)] += 1;
        }
        assert_eq!(distribution(&counts), "0=1,1=1,2=2,4=1,512=1,1K=2,2K=1,1M=1,1G=1,8E=1");
        assert_eq!(distribution(&[0; CLASSES]), "");
    }
}
