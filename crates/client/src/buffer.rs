//! [`CommandBuffer`]: a command being put together, and then in its encoded form.
//!
//! Small commands lie in the buffer itself, longer ones in an allocation that is recycled by the
//! thread, so that building a command allocates nothing in the long run.

use std::cell::RefCell;

/// Bytes that a command may have without an allocation of its own.
const INLINE_LEN: usize = 128;
/// Recycled allocations of a thread at most...
const POOL_LEN_MAX: usize = 256;
/// ...each of this capacity at most, in bytes.
const POOL_CAPACITY_MAX: usize = 8 * 1024;
/// Places for options between required arguments; no command of the table has more.
pub(crate) const GAPS_MAX: usize = 4;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The arguments of a command, encoded as RESP bulks, without the array header before them.
#[derive(Clone)]
pub(crate) struct CommandBuffer {
    store: Store,
    arguments: usize,
    /// Positions of the options of each gap: the end of the required arguments before them.
    gaps: [usize; GAPS_MAX],
}

#[derive(Clone)]
enum Store {
    Inline { len: u8, bytes: [u8; INLINE_LEN] },
    Heap(Vec<u8>),
}

impl CommandBuffer {
    /// A command that begins with words that are encoded already.
    #[inline]
    pub(crate) fn new(encoded: &[u8], words: usize) -> Self {
        let store = Store::Inline { len: 0, bytes: [0; INLINE_LEN] };
        let mut buffer = Self { store, arguments: words, gaps: [0; GAPS_MAX] };
        buffer.append(encoded);
        buffer
    }

    /// The encoded arguments.
    #[inline]
    pub(crate) fn body(&self) -> &[u8] {
        match &self.store {
            Store::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Store::Heap(bytes) => bytes,
        }
    }

    /// Appends the whole command, array header included.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        push_header(out, b'*', self.arguments);
        out.extend_from_slice(self.body());
    }

    /// Number of arguments, including the command's name.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.arguments
    }

    /// The arguments, the command's name included.
    #[inline]
    pub(crate) fn arguments(&self) -> Arguments<'_> {
        Arguments(self.body())
    }

    /// Appends an argument.
    pub(crate) fn push_argument(&mut self, bytes: &[u8]) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(bytes.len()).as_bytes();
        self.arguments += 1;
        let len = self.body().len();
        let total = len + 1 + digits.len() + 2 + bytes.len() + 2;
        if let Store::Inline { len: inline_len, bytes: room } = &mut self.store
            && total <= INLINE_LEN
        {
            room[len] = b'$';
            let mut at = len + 1;
            for part in [digits, b"\r\n", bytes, b"\r\n"] {
                room[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            *inline_len = total as u8;
            return;
        }
        let heap = self.heap(total);
        heap.push(b'$');
        for part in [digits, b"\r\n", bytes, b"\r\n"] {
            heap.extend_from_slice(part);
        }
    }

    /// Says that options of this gap go here, and that required arguments follow.
    pub(crate) fn mark_gap(&mut self, gap: usize) {
        self.gaps[gap] = self.body().len();
    }

    /// Appends what `write` writes at the end of a gap, before the required arguments behind it.
    pub(crate) fn insert_in_gap(&mut self, gap: usize, write: impl FnOnce(&mut Self)) {
        let before = self.body().len();
        write(self);
        let at = self.gaps[gap];
        let bytes = match &mut self.store {
            Store::Inline { len, bytes } => &mut bytes[..usize::from(*len)],
            Store::Heap(bytes) => bytes.as_mut_slice(),
        };
        let added = bytes.len() - before;
        bytes[at..].rotate_right(added);
        self.gaps[gap..].iter_mut().filter(|end| **end >= at).for_each(|end| *end += added);
    }

    /// Appends what `write` writes behind the number of items that it says.
    pub(crate) fn push_counted(&mut self, write: impl FnOnce(&mut Self) -> usize) {
        let before = self.body().len();
        let count = write(self);
        let counted = self.body().len();
        self.push_argument(itoa::Buffer::new().format(count).as_bytes());
        let bytes = match &mut self.store {
            Store::Inline { len, bytes } => &mut bytes[..usize::from(*len)],
            Store::Heap(bytes) => bytes.as_mut_slice(),
        };
        let added = bytes.len() - counted;
        bytes[before..].rotate_right(added);
    }

    #[inline]
    fn append(&mut self, encoded: &[u8]) {
        let len = self.body().len();
        if let Store::Inline { len: inline_len, bytes } = &mut self.store
            && len + encoded.len() <= INLINE_LEN
        {
            bytes[len..len + encoded.len()].copy_from_slice(encoded);
            *inline_len = (len + encoded.len()) as u8;
            return;
        }
        self.heap(len + encoded.len()).extend_from_slice(encoded);
    }

    /// The bytes in an allocation with room for `total` bytes.
    fn heap(&mut self, total: usize) -> &mut Vec<u8> {
        if let Store::Inline { len, bytes } = &self.store {
            let mut heap = POOL
                .with_borrow_mut(|pool| if total <= POOL_CAPACITY_MAX { pool.pop() } else { None })
                .unwrap_or_default();
            heap.reserve(total);
            heap.extend_from_slice(&bytes[..usize::from(*len)]);
            self.store = Store::Heap(heap);
        }
        match &mut self.store {
            Store::Heap(heap) => heap,
            Store::Inline { .. } => unreachable!("replaced above"),
        }
    }
}

impl Drop for CommandBuffer {
    fn drop(&mut self) {
        if let Store::Heap(heap) = &mut self.store
            && heap.capacity() <= POOL_CAPACITY_MAX
        {
            let mut heap = std::mem::take(heap);
            heap.clear();
            // While a thread ends, the pool may be gone already.
            let _ = POOL.try_with(|pool| {
                if let Ok(mut pool) = pool.try_borrow_mut()
                    && pool.len() < POOL_LEN_MAX
                {
                    pool.push(heap);
                }
            });
        }
    }
}

impl std::fmt::Debug for CommandBuffer {
    /// Arguments may be secret; only the command's name is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.arguments().next().unwrap_or_default().escape_ascii();
        write!(f, "{name} with {} arguments", self.arguments.saturating_sub(1))
    }
}

/// Walks encoded arguments.
#[derive(Clone, Debug)]
pub struct Arguments<'a>(&'a [u8]);

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (mut at, mut len) = (1, 0);
        loop {
            match *self.0.get(at)? {
                b'\r' => break,
                digit => len = len * 10 + usize::from(digit.wrapping_sub(b'0')),
            }
            at += 1;
        }
        let rest = self.0.get(at + 2..)?;
        let argument = rest.get(..len)?;
        self.0 = rest.get(len + 2..)?;
        Some(argument)
    }
}

/// Appends a marker, a decimal number and a line end.
pub(crate) fn push_header(out: &mut Vec<u8>, marker: u8, number: usize) {
    out.push(marker);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(buffer: &CommandBuffer) -> Vec<String> {
        buffer.arguments().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn options_go_into_their_gap() {
        for value in ["short".to_owned(), "x".repeat(4000)] {
            let mut buffer = CommandBuffer::new(b"$4\r\nZADD\r\n", 1);
            buffer.push_argument(b"key");
            buffer.mark_gap(0);
            buffer.push_argument(b"1");
            buffer.mark_gap(1);
            buffer.push_argument(value.as_bytes());
            buffer.insert_in_gap(0, |buffer| buffer.push_argument(b"NX"));
            buffer.insert_in_gap(1, |buffer| buffer.push_argument(b"b"));
            buffer.insert_in_gap(0, |buffer| buffer.push_argument(b"CH"));
            assert_eq!(words(&buffer), ["ZADD", "key", "NX", "CH", "1", "b", &value]);
            let mut out = Vec::new();
            buffer.write_to(&mut out);
            assert!(out.starts_with(b"*7\r\n$4\r\nZADD\r\n$3\r\nkey\r\n$2\r\nNX\r\n"));
        }
    }

    #[test]
    fn counts_go_before_what_they_count() {
        let mut buffer = CommandBuffer::new(b"$5\r\nZMPOP\r\n", 1);
        buffer.push_counted(|buffer| {
            buffer.push_argument(b"a");
            buffer.push_argument(b"b");
            2
        });
        assert_eq!(words(&buffer), ["ZMPOP", "2", "a", "b"]);
    }

    #[test]
    fn debug_shows_no_argument() {
        let mut buffer = CommandBuffer::new(b"$4\r\nAUTH\r\n", 1);
        buffer.push_argument(b"secret");
        assert_eq!(format!("{buffer:?}"), "AUTH with 1 arguments");
    }
}
