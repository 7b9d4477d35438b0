//! The reply writer that makes RESP bytes.

use bytes::Bytes;

use crate::{DoubleBuffer, Protocol, Reply};

/// Shorter shared values are copied: a copy costs less than one more piece in a gathered write.
pub const SHARED_LEN_MIN: usize = 16 * 1024;

/// Writes replies as RESP bytes, in the shapes of the connection's protocol.
///
/// Large shared values are not copied: each is noted with the offset in `bytes` where it belongs.
/// The stream is `bytes` with every shared value spliced in at its offset; offsets never descend.
///
/// A reply may be [limited](RespWriter::limited) while it grows: one that would pass its limit is
/// dropped as a whole, and so is whatever is written behind it.
#[derive(Debug)]
pub struct RespWriter<'o> {
    bytes: &'o mut Vec<u8>,
    shared: &'o mut Vec<(usize, Bytes)>,
    protocol: Protocol,
    /// Start of the reply in `bytes` and in `shared`.
    begin: (usize, usize),
    /// `bytes` may get so long; less with each shared value.
    end: usize,
    /// And so long without growing: its capacity, or `end` if that is less.
    fits: usize,
    is_cut: bool,
}

/// Capacity in bytes that the buffer of a cut reply keeps for the rest, which is written and
/// dropped.
const CUT_ROOM: usize = 4096;

/// The first allocation of a reply's buffer has at least this many bytes.
const FIRST_ROOM: usize = 64;

impl<'o> RespWriter<'o> {
    /// A writer that appends to `bytes` and `shared`.
    #[inline]
    pub fn new(
        bytes: &'o mut Vec<u8>,
        shared: &'o mut Vec<(usize, Bytes)>,
        protocol: Protocol,
    ) -> Self {
        let (begin, fits) = ((bytes.len(), shared.len()), bytes.capacity());
        Self { bytes, shared, protocol, begin, end: usize::MAX, fits, is_cut: false }
    }

    /// Limits the reply: `bytes` may grow to `end`, less the bytes that this reply shares.
    #[inline]
    #[must_use]
    pub fn limited(self, end: usize) -> Self {
        Self { end, fits: self.fits.min(end), ..self }
    }

    /// Whether the reply passed its limit and was dropped.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Makes room for this many bytes; false if they are to be dropped.
    #[inline]
    fn room(&mut self, needed: usize) -> bool {
        self.bytes.len() + needed <= self.fits || self.grow(needed)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, needed: usize) -> bool {
        let len = self.bytes.len();
        let left = self.end.saturating_sub(len);
        if self.is_cut || needed > left {
            self.cut();
            return self.bytes.len() + needed <= self.fits;
        }
        self.bytes.reserve_exact(len.max(FIRST_ROOM).min(left).max(needed));
        self.fits = self.bytes.capacity().min(self.end);
        true
    }

    /// Drops the reply, and the memory that it has taken.
    #[cold]
    fn cut(&mut self) {
        self.is_cut = true;
        self.bytes.truncate(self.begin.0);
        self.bytes.shrink_to(self.begin.0 + CUT_ROOM);
        self.shared.truncate(self.begin.1);
        self.fits = self.bytes.capacity();
    }

    #[inline]
    fn header(&mut self, marker: u8, len: usize) {
        if self.room(HEADER_LEN_MAX) {
            header(self.bytes, marker, len);
        }
    }

    fn line(&mut self, marker: u8, text: &[u8]) {
        if self.room(text.len() + 3) {
            line(self.bytes, marker, text);
        }
    }

    #[inline]
    fn raw(&mut self, resp: &[u8]) {
        if self.room(resp.len()) {
            self.bytes.extend_from_slice(resp);
        }
    }

    #[inline]
    fn resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }
}

impl Reply for RespWriter<'_> {
    fn written(&self) -> usize {
        if self.is_cut {
            return usize::MAX;
        }
        self.bytes.len() + self.shared.iter().map(|(_, value)| value.len()).sum::<usize>()
    }

    fn room_left(&self) -> usize {
        if self.is_cut { 0 } else { self.end.saturating_sub(self.bytes.len()) }
    }

    #[inline]
    fn is_dropped(&self) -> bool {
        self.is_cut
    }

    fn refuse(&mut self) {
        self.cut();
    }

    #[inline]
    fn place(&self) -> usize {
        if self.is_cut { usize::MAX } else { self.bytes.len() }
    }

    fn take_back(&mut self, place: usize) {
        if self.is_cut {
            return;
        }
        self.bytes.truncate(place);
        // A value lies behind its header.
        self.shared.retain(|&(offset, _)| offset <= place);
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    #[inline]
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    #[inline]
    fn simple(&mut self, text: &str) {
        debug_assert!(!text.bytes().any(|byte| matches!(byte, b'\r' | b'\n')));
        if !self.room(text.len() + 3) {
            return;
        }
        match text {
            "OK" => self.bytes.extend_from_slice(b"+OK\r\n"),
            "QUEUED" => self.bytes.extend_from_slice(b"+QUEUED\r\n"),
            _ => line(self.bytes, b'+', text.as_bytes()),
        }
    }

    #[cold]
    fn error(&mut self, text: &[u8]) {
        if !self.room(text.len() + 3) {
            return;
        }
        let start = self.bytes.len();
        line(self.bytes, b'-', text);
        let end = self.bytes.len() - 2;
        for byte in &mut self.bytes[start..end] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    }

    #[inline]
    fn integer(&mut self, n: i64) {
        if !self.room(HEADER_LEN_MAX) {
            return;
        }
        match usize::try_from(n) {
            Ok(n) if n < TABLE_LEN => header(self.bytes, b':', n),
            _ => line(self.bytes, b':', itoa::Buffer::new().format(n).as_bytes()),
        }
    }

    #[inline]
    fn bulk(&mut self, bytes: &[u8]) {
        if self.room(HEADER_LEN_MAX + bytes.len() + 2) {
            put_bulk(self.bytes, bytes);
        }
    }

    fn bulk_joined(&mut self, first: &[u8], second: &[u8]) {
        let len = first.len() + second.len();
        if !self.room(HEADER_LEN_MAX + len + 2) {
            return;
        }
        header(self.bytes, b'$', len);
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_LEN_MIN {
            return self.bulk(&bytes);
        }
        if self.end.saturating_sub(self.bytes.len()) < HEADER_LEN_MAX + bytes.len() + 2 {
            self.cut();
        }
        if self.is_cut || !self.room(HEADER_LEN_MAX + 2) {
            return;
        }
        self.end -= bytes.len();
        self.fits = self.fits.min(self.end);
        header(self.bytes, b'$', bytes.len());
        self.shared.push((self.bytes.len(), bytes));
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn null(&mut self) {
        self.raw(if self.resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    #[inline]
    fn null_array(&mut self) {
        self.raw(if self.resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    #[inline]
    fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    fn map(&mut self, len: usize) {
        if self.resp3() {
            self.header(b'%', len);
        } else {
            self.header(b'*', len * 2);
        }
    }

    fn set(&mut self, len: usize) {
        self.header(if self.resp3() { b'~' } else { b'*' }, len);
    }

    fn push(&mut self, len: usize) {
        self.header(if self.resp3() { b'>' } else { b'*' }, len);
    }

    fn attribute(&mut self, len: usize) -> bool {
        let resp3 = self.resp3();
        if resp3 {
            self.header(b'|', len);
        }
        resp3
    }

    fn double(&mut self, value: f64) {
        let mut buffer = DoubleBuffer::new();
        let text = buffer.format(value);
        if self.resp3() {
            self.line(b',', text);
        } else {
            self.bulk(text);
        }
    }

    fn decimal(&mut self, digits: &[u8]) {
        if self.resp3() {
            self.line(b',', digits);
        } else {
            self.bulk(digits);
        }
    }

    fn boolean(&mut self, value: bool) {
        self.raw(match (self.protocol, value) {
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
        });
    }

    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if !self.resp3() {
            return self.bulk(text);
        }
        if !self.room(HEADER_LEN_MAX + format.len() + 1 + text.len() + 2) {
            return;
        }
        header(self.bytes, b'=', format.len() + 1 + text.len());
        self.bytes.extend_from_slice(format);
        self.bytes.push(b':');
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn encoded(&mut self, resp: &[u8]) {
        self.raw(resp);
    }

    fn big_number(&mut self, digits: &str) {
        if self.resp3() {
            self.line(b'(', digits.as_bytes());
        } else {
            self.bulk(digits.as_bytes());
        }
    }
}

/// Appends a request in the form that every server reads: an array of bulks.
pub fn encode_command(args: &[&[u8]], out: &mut Vec<u8>) {
    header(out, b'*', args.len());
    for arg in args {
        bulk(out, arg);
    }
}

/// Bytes of the longest header: a marker, 20 digits, a line end.
const HEADER_LEN_MAX: usize = 23;

/// Lengths below this have their digits made at compile time.
const TABLE_LEN: usize = 1024;

/// The digits of each small length with the line end, and in the last byte how many bytes that is.
static LENGTHS: [[u8; 8]; TABLE_LEN] = lengths();

const fn lengths() -> [[u8; 8]; TABLE_LEN] {
    let mut table = [[0; 8]; TABLE_LEN];
    let mut value = 0;
    while value < TABLE_LEN {
        let mut digits = 1;
        let mut rest = value;
        while rest >= 10 {
            rest /= 10;
            digits += 1;
        }
        let entry = &mut table[value];
        rest = value;
        let mut at = digits;
        while at > 0 {
            at -= 1;
            entry[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        entry[digits] = b'\r';
        entry[digits + 1] = b'\n';
        entry[7] = digits as u8 + 2;
        value += 1;
    }
    table
}

/// Appends `marker`, `len` and a line end.
#[inline]
pub(crate) fn header(out: &mut Vec<u8>, marker: u8, len: usize) {
    match LENGTHS.get(len) {
        // A copy of fixed length is one store; the surplus is truncated.
        Some(&[a, b, c, d, e, f, g, used]) => {
            out.extend_from_slice(&[marker, a, b, c, d, e, f, g]);
            out.truncate(out.len() - 7 + usize::from(used));
        }
        None => line(out, marker, itoa::Buffer::new().format(len).as_bytes()),
    }
}

/// Appends a binary-safe string.
#[inline]
pub(crate) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(HEADER_LEN_MAX + bytes.len() + 2);
    put_bulk(out, bytes);
}

/// Appends a bulk string to a buffer that has room for it.
#[inline]
fn put_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends `marker`, `text` and a line end.
fn line(out: &mut Vec<u8>, marker: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.push(marker);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}
