//! Suggestions for unknown parameter names.

use super::params::PARAMS;
use super::table::Param;

/// Suggestion for an unknown name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hint {
    /// A name like it exists.
    DidYouMean(&'static str),
    /// Redis or Valkey have this parameter.
    OfRedis,
    /// Nothing is near.
    None,
}

/// Suggestion for `name`, which is no parameter.
pub(super) fn hint(name: &str) -> Hint {
    let name = name.to_ascii_lowercase();
    if OF_REDIS_ONLY.binary_search(&name.as_str()).is_ok() {
        return Hint::OfRedis;
    }
    let known = PARAMS.iter().flat_map(Param::names).chain(["include", "rename-command", "user"]);
    let nearest = known.map(|known| (distance(&name, known), known)).min();
    match nearest {
        Some((edits, known)) if edits <= slips(name.len()) && words_are_alike(&name, known) => {
            Hint::DidYouMean(known)
        }
        _ => Hint::None,
    }
}

/// Maximum number of typing errors in a name of this length: one in five characters. More turn one
/// parameter into another.
fn slips(len: usize) -> usize {
    match len {
        0..4 => 0,
        4..10 => 1,
        10..15 => 2,
        _ => 3,
    }
}

/// Whether no word of one name is another word in the other, as far as they have as many.
fn words_are_alike(a: &str, b: &str) -> bool {
    let has_as_many = a.split('-').count() == b.split('-').count();
    let are_alike = |(a, b): (&str, &str)| distance(a, b) <= slips(a.len()).max(1);
    !has_as_many || a.split('-').zip(b.split('-')).all(are_alike)
}

/// Directives that servers have dropped and that are accepted without effect, as Redis and Valkey
/// accept them: in configuration files and on the command line, with one value. Sorted.
pub(super) const DROPPED: &[&str] = &[
    "events-per-io-thread",
    "list-max-ziplist-entries",
    "list-max-ziplist-value",
    "lua-replicate-commands",
];

/// Insertions, deletions, replacements and swaps of neighbours that turn one into the other
/// (optimal string alignment). Names past 64 bytes are as far as can be.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().max(b.len()) > 64 {
        return usize::MAX;
    }
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

/// Names of Redis and Valkey that this version does not have, sorted.
const OF_REDIS_ONLY: &[&str] = &["loadmodule", "loadmodule-ex", "lua-insecure-api", "sentinel"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_find_their_parameter() {
        for (slip, meant) in [
            ("maxmemmory", "maxmemory"),
            ("prot", "port"),
            ("MAXMEMORY-POLCY", "maxmemory-policy"),
            ("thread", "threads"),
            ("requirepas", "requirepass"),
            ("inlcude", "include"),
            ("io-thread", "io-threads"),
            ("max-clients", "maxclients"),
            ("client-ouput-bufer-limt", "client-output-buffer-limit"),
            ("tcp-keep-alive", "tcp-keepalive"),
        ] {
            assert_eq!(hint(slip), Hint::DidYouMean(meant), "{slip}");
        }
    }

    #[test]
    fn what_is_like_nothing_gets_no_suggestion() {
        for name in [
            "",
            "foo",
            "db",
            "kubernetes",
            "hash-max-zipmap-entries",
            "hash-max-zipmap-value",
            "list-max-listpack-value",
            "zset-min-listpack-entries-x",
            "vm-enabled",
            "really-use-vm",
            "gopher-enabled",
            "ssl-port",
            "cpu-affinity",
            &"x".repeat(100_000),
        ] {
            assert_eq!(hint(name), Hint::None, "{name}");
        }
    }

    #[test]
    fn what_only_redis_has_is_said_to_be_so() {
        assert_eq!(hint("loadmodule"), Hint::OfRedis);
        assert_eq!(hint("Sentinel"), Hint::OfRedis);
    }

    #[test]
    fn the_names_of_redis_are_sorted_and_not_ours() {
        assert!(OF_REDIS_ONLY.is_sorted());
        assert!(OF_REDIS_ONLY.iter().all(|name| Param::find(name.as_bytes()).is_none()));
    }
}
