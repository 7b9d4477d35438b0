//! Commands that clients of Redis Cluster send to every node, to change function libraries.
//!
//! There each node has libraries of its own; here the first of these commands changes those of all
//! members. The commands that follow at other members succeed, too, once for each change.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Maximum number of changes that are remembered.
const CHANGES_MAX: usize = 256;

/// Libraries by name, with their texts.
pub(super) type Texts = BTreeMap<String, Arc<[u8]>>;

/// Changes made by other members that no client here has asked for yet, the oldest first.
#[derive(Debug, Default)]
pub(super) struct FunctionEchoes(VecDeque<Change>);

/// Name of a library, and its new text; none if it was deleted.
type Change = (String, Option<Arc<[u8]>>);

impl FunctionEchoes {
    /// Records the changes that another member has made.
    pub fn record(&mut self, before: &Texts, after: &Texts) {
        let deleted = before.keys().filter(|name| !after.contains_key(*name));
        let loaded = after.iter().filter(|(name, text)| before.get(*name) != Some(text));
        let loaded = loaded.map(|(name, text)| (name.clone(), Some(text.clone())));
        for change in deleted.map(|name| (name.clone(), None)).chain(loaded) {
            self.0.retain(|(name, _)| *name != change.0);
            self.0.push_back(change);
        }
        self.0.drain(..self.0.len().saturating_sub(CHANGES_MAX));
    }

    /// The reply to a command that has failed because another member has made its change.
    pub fn take(&mut self, args: &[&[u8]]) -> Option<Vec<u8>> {
        let &[_, subcommand, arg] = args else { return None };
        let is_same = |(name, text): &Change| match text {
            Some(text) => subcommand.eq_ignore_ascii_case(b"load") && **text == *arg,
            None => subcommand.eq_ignore_ascii_case(b"delete") && name.as_bytes() == arg,
        };
        let at = self.0.iter().position(is_same)?;
        let (name, text) = self.0.remove(at)?;
        Some(match text {
            Some(_) => format!("${}\r\n{name}\r\n", name.len()).into_bytes(),
            None => b"+OK\r\n".to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(libraries: &[(&str, &str)]) -> Texts {
        let text = |&(name, text): &(&str, &str)| (name.into(), text.as_bytes().into());
        libraries.iter().map(text).collect()
    }

    #[test]
    fn each_change_is_repeated_once() {
        let mut echoes = FunctionEchoes::default();
        let load: &[&[u8]] = &[b"FUNCTION", b"LOAD", b"text a"];
        let delete: &[&[u8]] = &[b"function", b"delete", b"b"];
        assert_eq!(echoes.take(load), None);
        let (first, second) = (texts(&[("b", "text b")]), texts(&[("a", "text a")]));
        echoes.record(&first, &second);
        assert_eq!(echoes.take(&[b"FUNCTION", b"LOAD", b"text b"]), None);
        assert_eq!(echoes.take(&[b"FUNCTION", b"DELETE", b"a"]), None);
        assert_eq!(echoes.take(load), Some(b"$1\r\na\r\n".to_vec()));
        assert_eq!(echoes.take(load), None);
        assert_eq!(echoes.take(delete), Some(b"+OK\r\n".to_vec()));
        assert_eq!(echoes.take(delete), None);
        // Only the last change of a library counts.
        echoes.record(&second, &Texts::new());
        echoes.record(&Texts::new(), &second);
        assert_eq!(echoes.take(&[b"FUNCTION", b"DELETE", b"a"]), None);
        assert!(echoes.take(load).is_some());
    }

    #[test]
    fn few_changes_are_remembered() {
        let mut echoes = FunctionEchoes::default();
        for at in 0..2 * CHANGES_MAX {
            echoes.record(&Texts::new(), &texts(&[(&format!("l{at}"), "text")]));
        }
        assert_eq!(echoes.0.len(), CHANGES_MAX);
    }
}
