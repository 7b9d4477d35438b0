//! Output of a connection: small replies in one contiguous buffer, large values by reference in
//! between.

use bytes::Bytes;

/// Retained buffers are at most this large; larger ones are freed.
const RETAIN_BYTES_MAX: usize = 128 * 1024;
/// Maximum number of bytes that a pool retains.
const POOL_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes to send. Write replies to the end of `bytes`; a large value goes in between with
/// [`Output::splice`], by reference.
#[derive(Debug, Default)]
pub struct Output {
    /// The contiguous part. Only appending is allowed once something is spliced in.
    pub bytes: Vec<u8>,
    /// Values sent before the byte of `bytes` at the offset beside them, offsets ascending.
    shared: Vec<(usize, Bytes)>,
    shared_bytes: usize,
}

impl Output {
    /// Sends `value` after everything written so far, without copying it.
    pub fn splice(&mut self, value: Bytes) {
        if !value.is_empty() {
            self.shared_bytes += value.len();
            self.shared.push((self.bytes.len(), value));
        }
    }

    /// Sends `value` before the byte of `bytes` at `offset`, without copying it. Offsets ascend
    /// from call to call.
    pub fn splice_at(&mut self, offset: usize, value: Bytes) {
        debug_assert!(offset <= self.bytes.len());
        debug_assert!(self.shared.last().is_none_or(|(last, _)| *last <= offset));
        if !value.is_empty() {
            self.shared_bytes += value.len();
            self.shared.push((offset, value));
        }
    }

    /// Takes everything out: the contiguous part, and each spliced value with its offset there.
    pub fn take(&mut self) -> (Vec<u8>, Vec<(usize, Bytes)>) {
        self.shared_bytes = 0;
        (std::mem::take(&mut self.bytes), std::mem::take(&mut self.shared))
    }

    /// The number of bytes that will be sent.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared_bytes
    }

    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces of the output, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut cursor = Cursor::default();
        std::iter::from_fn(move || {
            let piece = cursor.piece(self)?;
            cursor.advance(self, piece.len());
            Some(piece)
        })
    }

    /// The whole as one piece, if no value is spliced in.
    #[inline]
    pub(crate) fn as_plain(&self) -> Option<&[u8]> {
        self.shared.is_empty().then_some(&self.bytes)
    }
}

/// Position in an [`Output`] up to which the peer has taken it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Cursor {
    /// Bytes of the contiguous part already sent.
    bytes: usize,
    /// Spliced values already sent, and the bytes of the next one.
    shared: usize,
    within: usize,
}

impl Cursor {
    /// The next contiguous piece, or `None` at the end.
    #[inline]
    pub(crate) fn piece(self, output: &Output) -> Option<&[u8]> {
        let rest = match output.shared.get(self.shared) {
            Some((offset, value)) if *offset == self.bytes => &value[self.within..],
            Some((offset, _)) => &output.bytes[self.bytes..*offset],
            None => &output.bytes[self.bytes..],
        };
        (!rest.is_empty()).then_some(rest)
    }

    /// Moves by `count` bytes, which must lie within the piece.
    #[inline]
    pub(crate) fn advance(&mut self, output: &Output, count: usize) {
        match output.shared.get(self.shared) {
            Some((offset, value)) if *offset == self.bytes => {
                self.within += count;
                if self.within == value.len() {
                    self.shared += 1;
                    self.within = 0;
                }
            }
            _ => self.bytes += count,
        }
    }
}

/// Buffers of outputs that were sent, for the next ones: an idle connection owns none.
#[derive(Default)]
pub(crate) struct OutputPool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl OutputPool {
    #[inline]
    pub(crate) fn take(&mut self) -> Output {
        let bytes = self.buffers.pop().unwrap_or_default();
        self.bytes -= bytes.capacity();
        Output { bytes, shared: Vec::new(), shared_bytes: 0 }
    }

    #[inline]
    pub(crate) fn give(&mut self, output: Output) {
        let mut bytes = output.bytes;
        let capacity = bytes.capacity();
        let fits = capacity <= RETAIN_BYTES_MAX && self.bytes + capacity <= POOL_BYTES_MAX;
        if fits && capacity > 0 {
            bytes.clear();
            self.bytes += capacity;
            self.buffers.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(output: &Output, step: usize) -> Vec<u8> {
        let (mut cursor, mut all) = (Cursor::default(), Vec::new());
        while let Some(piece) = cursor.piece(output) {
            let n = piece.len().min(step);
            all.extend_from_slice(&piece[..n]);
            cursor.advance(output, n);
        }
        all
    }

    #[test]
    fn pieces_come_in_order() {
        let mut output = Output::default();
        output.splice(Bytes::from_static(b"first"));
        output.splice(Bytes::from_static(b"-second-"));
        output.bytes.extend_from_slice(b"middle");
        output.splice(Bytes::new());
        output.splice(Bytes::from_static(b"[value]"));
        output.bytes.extend_from_slice(b"end");
        for step in [1, 2, 3, 100] {
            assert_eq!(collect(&output, step), b"first-second-middle[value]end");
        }
        assert_eq!(output.len(), 29);
        assert_eq!(output.pieces().count(), 5);
        assert_eq!(output.pieces().collect::<Vec<_>>().concat(), collect(&output, 100));
    }

    #[test]
    fn the_pool_keeps_neither_large_buffers_nor_too_many() {
        let mut pool = OutputPool::default();
        let sized = |n| Output { bytes: Vec::with_capacity(n), ..Output::default() };
        pool.give(sized(RETAIN_BYTES_MAX + 1));
        assert_eq!(pool.take().bytes.capacity(), 0);
        for _ in 0..POOL_BYTES_MAX / RETAIN_BYTES_MAX + 10 {
            pool.give(sized(RETAIN_BYTES_MAX));
        }
        assert_eq!(pool.buffers.len(), POOL_BYTES_MAX / RETAIN_BYTES_MAX);
    }
}
