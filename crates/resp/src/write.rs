//! The reply writer that makes RESP bytes.

use bytes::Bytes;

use crate::{DoubleBuffer, Protocol, Reply};

/// Shorter shared values are copied: a copy costs less than one more piece in a gathered write.
pub const SHARED_LEN_MIN: usize = 16 * 1024;

/// Writes replies as RESP bytes, in the shapes of the connection's protocol.
///
/// Large shared values are not copied: each is noted with the offset in `bytes` where it belongs. The
/// stream is `bytes` with every shared value spliced in at its offset; offsets never descend.
#[derive(Debug)]
pub struct RespWriter<'o> {
    bytes: &'o mut Vec<u8>,
    shared: &'o mut Vec<(usize, Bytes)>,
    protocol: Protocol,
}

impl<'o> RespWriter<'o> {
    /// A writer that appends to `bytes` and `shared`.
    #[inline]
    pub fn new(
        bytes: &'o mut Vec<u8>,
        shared: &'o mut Vec<(usize, Bytes)>,
        protocol: Protocol,
    ) -> Self {
        Self { bytes, shared, protocol }
    }

    #[inline]
    fn resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }
}

impl Reply for RespWriter<'_> {
    fn written(&self) -> usize {
        self.bytes.len() + self.shared.iter().map(|(_, value)| value.len()).sum::<usize>()
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
        match text {
            "OK" => self.bytes.extend_from_slice(b"+OK\r\n"),
            "QUEUED" => self.bytes.extend_from_slice(b"+QUEUED\r\n"),
            _ => line(self.bytes, b'+', text.as_bytes()),
        }
    }

    #[cold]
    fn error(&mut self, text: &[u8]) {
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
        match usize::try_from(n) {
            Ok(n) if n < TABLE_LEN => header(self.bytes, b':', n),
            _ => line(self.bytes, b':', itoa::Buffer::new().format(n).as_bytes()),
        }
    }

    #[inline]
    fn bulk(&mut self, bytes: &[u8]) {
        bulk(self.bytes, bytes);
    }

    fn bulk_joined(&mut self, first: &[u8], second: &[u8]) {
        let len = first.len() + second.len();
        self.bytes.reserve(HEADER_LEN_MAX + len + 2);
        header(self.bytes, b'$', len);
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_LEN_MIN {
            bulk(self.bytes, &bytes);
        } else {
            header(self.bytes, b'$', bytes.len());
            self.shared.push((self.bytes.len(), bytes));
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    #[inline]
    fn null(&mut self) {
        let null: &[u8] = if self.resp3() { b"_\r\n" } else { b"$-1\r\n" };
        self.bytes.extend_from_slice(null);
    }

    #[inline]
    fn null_array(&mut self) {
        let null: &[u8] = if self.resp3() { b"_\r\n" } else { b"*-1\r\n" };
        self.bytes.extend_from_slice(null);
    }

    #[inline]
    fn array(&mut self, len: usize) {
        header(self.bytes, b'*', len);
    }

    fn map(&mut self, len: usize) {
        if self.resp3() {
            header(self.bytes, b'%', len);
        } else {
            header(self.bytes, b'*', len * 2);
        }
    }

    fn set(&mut self, len: usize) {
        header(self.bytes, if self.resp3() { b'~' } else { b'*' }, len);
    }

    fn push(&mut self, len: usize) {
        header(self.bytes, if self.resp3() { b'>' } else { b'*' }, len);
    }

    fn attribute(&mut self, len: usize) -> bool {
        let resp3 = self.resp3();
        if resp3 {
            header(self.bytes, b'|', len);
        }
        resp3
    }

    fn double(&mut self, value: f64) {
        let mut buffer = DoubleBuffer::new();
        let text = buffer.format(value);
        if self.resp3() {
            line(self.bytes, b',', text);
        } else {
            bulk(self.bytes, text);
        }
    }

    fn decimal(&mut self, digits: &[u8]) {
        if self.resp3() {
            line(self.bytes, b',', digits);
        } else {
            bulk(self.bytes, digits);
        }
    }

    fn boolean(&mut self, value: bool) {
        self.bytes.extend_from_slice(match (self.protocol, value) {
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
        });
    }

    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if !self.resp3() {
            return bulk(self.bytes, text);
        }
        header(self.bytes, b'=', format.len() + 1 + text.len());
        self.bytes.extend_from_slice(format);
        self.bytes.push(b':');
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn encoded(&mut self, resp: &[u8]) {
        self.bytes.extend_from_slice(resp);
    }

    fn big_number(&mut self, digits: &str) {
        if self.resp3() {
            line(self.bytes, b'(', digits.as_bytes());
        } else {
            bulk(self.bytes, digits.as_bytes());
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
        // A copy of fixed length is one store; what is too much is cut off.
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
