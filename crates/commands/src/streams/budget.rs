//! `MAXCOUNT` and `MAXSIZE` of XREAD and XREADGROUP: limits on a whole reply, across its streams.

use petrel_keyspace::types::stream::EntryRef;

/// Entries and bytes left for a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    entries: usize,
    bytes: usize,
    /// Nothing has been taken yet: the first entry always fits, whatever its size.
    untouched: bool,
}

impl Budget {
    /// Creates a budget of this many entries and bytes; `usize::MAX` for no limit.
    pub fn new(entries: usize, bytes: usize) -> Self {
        Budget { entries, bytes, untouched: true }
    }

    /// Whether there is any limit.
    pub fn is_limited(&self) -> bool {
        self.entries != usize::MAX || self.bytes != usize::MAX
    }

    /// Whether nothing more fits, so that the remaining streams are left out.
    pub fn is_spent(&self) -> bool {
        self.entries == 0 || self.bytes == 0
    }

    /// Takes entries of the stream at `key`, of these sizes in bytes, as long as they fit, and
    /// returns their number.
    pub fn take(&mut self, key: &[u8], sizes: impl Iterator<Item = usize>) -> usize {
        let mut taken = 0;
        let mut heading = header_len(2) + bulk_len(key.len()) + header_len(1);
        for size in sizes {
            let size = size + std::mem::take(&mut heading);
            if self.entries == 0 || size > self.bytes && !self.untouched {
                self.bytes = 0;
                break;
            }
            self.untouched = false;
            self.entries -= 1;
            self.bytes = self.bytes.saturating_sub(size);
            taken += 1;
        }
        taken
    }
}

/// Bytes of an entry in a reply: its ID and its fields.
pub(super) fn entry_len(entry: EntryRef<'_>) -> usize {
    let id = header_len(2) + bulk_len(entry.id.to_string().len());
    let fields = header_len(2 * entry.fields.len());
    let texts = entry.fields.map(|(name, value)| {
        let mut digits = itoa::Buffer::new();
        bulk_len(name.bytes(&mut digits).len()) + bulk_len(value.bytes(&mut digits).len())
    });
    id + fields + texts.sum::<usize>()
}

/// Bytes of a bulk string of this length with its framing.
fn bulk_len(len: usize) -> usize {
    header_len(len) + len + 2
}

/// Bytes of the header line of an array or a bulk string of this length.
fn header_len(n: usize) -> usize {
    1 + n.checked_ilog10().unwrap_or(0) as usize + 1 + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_taken_and_one_entry_always() {
        let mut budget = Budget::new(3, usize::MAX);
        assert!(budget.is_limited() && !budget.is_spent());
        assert_eq!(budget.take(b"k", [10; 2].into_iter()), 2);
        assert_eq!(budget.take(b"l", [10; 2].into_iter()), 1);
        assert!(budget.is_spent());
        let heading = header_len(2) + bulk_len(1) + header_len(1);
        let mut budget = Budget::new(usize::MAX, heading + 25);
        assert_eq!(budget.take(b"k", [10; 9].into_iter()), 2);
        assert!(budget.is_spent());
        let mut budget = Budget::new(usize::MAX, 1);
        assert_eq!(budget.take(b"k", [1000; 3].into_iter()), 1);
        assert!(!Budget::new(usize::MAX, usize::MAX).is_limited());
    }

    #[test]
    fn lengths_are_those_of_the_protocol() {
        for (n, text) in [(0, "*0\r\n"), (9, "*9\r\n"), (10, "*10\r\n"), (12345, "*12345\r\n")] {
            assert_eq!(header_len(n), text.len());
        }
        assert_eq!(bulk_len(5), b"$5\r\nhello\r\n".len());
    }
}
