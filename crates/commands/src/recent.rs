//! Cache of the last command that a thread looked up: pipelines repeat commands, mostly with the
//! same spelling.

use crate::registry::Command;
use petrel_table::Flags;

/// Command with its name as spelled, up to eight bytes as one word.
#[derive(Debug)]
pub(crate) struct Recent<H: 'static> {
    command: Command<H>,
    word: u64,
    len: usize,
}

impl<H> Clone for Recent<H> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Recent<H> {}

impl<H> Recent<H> {
    /// Caches a command, unless its name is longer than a word.
    pub fn new(command: Command<H>, name: &[u8]) -> Option<Self> {
        Some(Recent { command, word: load(name)?, len: name.len() })
    }

    /// The command, if `name` has the cached spelling.
    #[inline]
    pub fn command(self, name: &[u8]) -> Option<Command<H>> {
        (name.len() == self.len && load(name) == Some(self.word)).then_some(self.command)
    }

    /// Whether the command runs a script.
    #[inline]
    pub fn runs_script(self) -> bool {
        self.command.spec.flags.contains(Flags::SCRIPT_RUNNER)
    }

    /// Argument index of the command's first key, if its key spec fixes it.
    #[inline]
    pub fn first_key(self) -> Option<usize> {
        self.command.spec.meta.keys.first()?.first()
    }
}

/// Packs one to eight bytes into a word; every byte affects it.
#[inline]
fn load(bytes: &[u8]) -> Option<u64> {
    let pair = |at: usize| u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let quad = |at: usize| {
        u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
    };
    match bytes.len() {
        1 => Some(u64::from(bytes[0])),
        2 | 3 => Some(pair(0) | pair(bytes.len() - 2) << 16),
        4..=8 => Some(quad(0) | quad(bytes.len() - 4) << 32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::load;

    #[test]
    fn names_of_one_length_differ_in_their_words() {
        let names = [&b"GET"[..], b"SET", b"get", b"TTL", b"MGET", b"MSET", b"APPEND", b"STRLEN"];
        for a in names {
            for b in names {
                assert_eq!(load(a) == load(b) && a.len() == b.len(), a == b);
            }
        }
        assert_eq!(load(b""), None);
        assert_eq!(load(b"INCRBYFLOAT"), None);
    }
}
