//! What a name that no parameter has was perhaps meant to be.

use super::params::PARAMS;
use super::table::Param;

/// A help for the operator who wrote an unknown name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hint {
    /// A name like it exists.
    DidYouMean(&'static str),
    /// Redis or Valkey have this parameter.
    OfRedis,
    /// Nothing is near.
    None,
}

/// What to say about `name`, which no parameter has.
pub(super) fn hint(name: &str) -> Hint {
    let name = name.to_ascii_lowercase();
    if OF_REDIS_ONLY.binary_search(&name.as_str()).is_ok() {
        return Hint::OfRedis;
    }
    let known = PARAMS.iter().flat_map(Param::names).chain(["include", "rename-command", "user"]);
    let nearest = known.map(|known| (distance(&name, known), known)).min();
    match nearest {
        Some((edits, known)) if edits <= known.len().div_ceil(3).min(4) => Hint::DidYouMean(known),
        _ => Hint::None,
    }
}

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
const OF_REDIS_ONLY: &[&str] = &[
    "events-per-io-thread",
    "io-threads-always-active",
    "lazyexpire-nested-arbitrary-keys",
    "loadmodule",
    "loadmodule-ex",
    "lua-enable-deprecated-api",
    "lua-insecure-api",
    "sentinel",
];

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
        ] {
            assert_eq!(hint(slip), Hint::DidYouMean(meant), "{slip}");
        }
    }

    #[test]
    fn what_is_like_nothing_gets_no_suggestion() {
        for name in ["", "foo", "kubernetes", &"x".repeat(100_000)] {
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
