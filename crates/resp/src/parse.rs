//! The request parser: arguments are slices of the read buffer.
//!
//! The accepted syntax is Redis's, as observed over a socket:
//!
//! * a count of zero or below is a request without a command, and has no reply;
//! * a header line ends at CR, and the byte after it is taken for LF whatever its value;
//! * so are the two bytes after a bulk;
//! * the length limits of a connection that has not authenticated are checked after the general
//!   ones.
//!
//! Two things differ, so that the outcome depends on the bytes and never on how they were split
//! into packets. A line that does not end within [`Limits::inline_len_max`] is an error even if its
//! end was received with it. A NUL byte is a byte like any other, where Redis waits for more input
//! after one.

use memchr::memchr;

use crate::ProtocolError;
use crate::inline;
use crate::length::{LINE_END_LEN, short_header, strict_integer};

/// Limits on a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of one argument at most (`proto-max-bulk-len`).
    bulk_len_max: usize,
    /// Bytes of a line at most: a request typed by hand, or a header line with its marker.
    inline_len_max: usize,
    /// Arguments at most for this connection as it stands: not above [`ARGS_MAX`].
    args_allowed: usize,
    /// Bytes of one argument at most for this connection as it stands: not above `bulk_len_max`.
    bulk_allowed: usize,
}

/// Arguments of one request at most. Redis's limit: memory is bounded by the limit of the read
/// buffer, since nothing is allocated by the count alone.
const ARGS_MAX: usize = i32::MAX as usize;

/// Arguments of one request at most, before authentication.
const UNAUTHENTICATED_ARGS_MAX: usize = 10;

/// Bytes of one argument at most, before authentication.
const UNAUTHENTICATED_BULK_LEN_MAX: usize = 16_384;

impl Limits {
    /// The limits of an authenticated connection; `bulk_len_max` is `proto-max-bulk-len` in bytes.
    pub fn new(bulk_len_max: usize) -> Self {
        Self {
            bulk_len_max,
            inline_len_max: 64 * 1024,
            args_allowed: ARGS_MAX,
            bulk_allowed: bulk_len_max,
        }
    }

    /// These limits, reduced for a connection that must authenticate first: 10 arguments of 16,384
    /// bytes.
    pub fn unauthenticated(self) -> Self {
        Self {
            args_allowed: UNAUTHENTICATED_ARGS_MAX,
            bulk_allowed: UNAUTHENTICATED_BULK_LEN_MAX.min(self.bulk_len_max),
            ..self
        }
    }
}

impl Default for Limits {
    /// 512 MiB for an argument.
    fn default() -> Self {
        Self::new(512 * 1024 * 1024)
    }
}

/// Parser state of an incomplete request, so that bytes already parsed are not read again at every
/// packet. The default value is the start of a request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Resume {
    /// Position of the first header that was not passed; 0 is the start.
    position: usize,
    /// Arguments from there on, when `position` is not 0.
    remaining: u32,
    /// Bytes from `position` on that hold no end of line.
    scanned: u32,
}

impl Resume {
    /// Offset of the last argument with a parsed header in `request`. All arguments before it are
    /// complete.
    pub fn argument_begin(&self, request: &[u8]) -> usize {
        let from = self.position.min(request.len());
        match request[from..].iter().position(|&byte| byte == b'\n') {
            Some(end) if self.position > 0 => from + end + 1,
            _ => from,
        }
    }

    /// Whether nothing of the request was passed yet.
    pub fn is_start(&self) -> bool {
        *self == Self::default()
    }
}

/// Result of [`parse`] at the start of the buffer. `consumed` counts bytes from there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Parsed {
    /// A request; its arguments were appended to `args`.
    Command {
        /// Length of the request.
        consumed: usize,
    },
    /// A request typed by hand: its arguments are copies, since quoting may change them.
    Inline {
        /// Length of the request.
        consumed: usize,
        /// The arguments, at least one.
        args: Vec<Vec<u8>>,
    },
    /// A blank line, or a count of zero or below: no command, no reply.
    Empty {
        /// Length of the request.
        consumed: usize,
    },
    /// The request is not whole yet.
    Incomplete {
        /// Bytes from the request's start that it has at least; always more than the buffer holds.
        needed: usize,
    },
    /// The connection is to be closed after the error was sent.
    Error(ProtocolError),
}

/// Parses the request at the start of `buf`.
///
/// The arguments are appended to `args`, so that several requests may share it; `args` is left as
/// it was unless a [`Parsed::Command`] is returned. After [`Parsed::Incomplete`], call again with
/// the same bytes and more behind them, and with the same `resume`; after anything else `resume` is
/// at the start again. However a request is split, each of its bytes is looked at a bounded number
/// of times.
#[inline]
pub fn parse<'a>(
    buf: &'a [u8],
    limits: &Limits,
    args: &mut Vec<&'a [u8]>,
    resume: &mut Resume,
) -> Parsed {
    match buf.first() {
        Some(b'*') if resume.is_start() => collect(buf, limits, args, resume),
        Some(b'*') => resumed(buf, limits, args, resume),
        Some(_) => typed(buf, limits, resume),
        None => Parsed::Incomplete { needed: 1 },
    }
}

/// Empties `args` for use with another buffer, keeping its allocation.
pub fn recycle<'a>(mut args: Vec<&[u8]>) -> Vec<&'a [u8]> {
    args.clear();
    // Collecting a vector of the same element layout in place reuses its allocation.
    args.into_iter().map(|_| &[][..]).collect()
}

/// Walks the request from its start, appending its arguments. Not inlined: its loop needs the
/// registers.
#[inline(never)]
fn collect<'a>(
    buf: &'a [u8],
    limits: &Limits,
    args: &mut Vec<&'a [u8]>,
    resume: &mut Resume,
) -> Parsed {
    let before = args.len();
    let parsed = walk(buf, limits, Resume::default(), resume, |arg| args.push(arg));
    if !matches!(parsed, Parsed::Command { .. }) {
        args.truncate(before);
    }
    parsed
}

/// Goes on where the last call stopped. The arguments before that point are not kept, so the walk
/// only finds out whether the request is whole now, and if so a second one collects all of them.
#[cold]
fn resumed<'a>(
    buf: &'a [u8],
    limits: &Limits,
    args: &mut Vec<&'a [u8]>,
    resume: &mut Resume,
) -> Parsed {
    let from = std::mem::take(resume);
    match walk(buf, limits, from, resume, |_| ()) {
        Parsed::Command { .. } => collect(buf, limits, args, resume),
        other => other,
    }
}

/// Walks over the headers from `from` on, and hands each argument to `take`. If more input is
/// needed it leaves in `resume`, which is at the start, where to go on.
#[inline(always)]
fn walk<'a>(
    buf: &'a [u8],
    limits: &Limits,
    from: Resume,
    resume: &mut Resume,
    mut take: impl FnMut(&'a [u8]),
) -> Parsed {
    let Resume { mut position, mut remaining, mut scanned } = from;
    if position == 0 {
        let (count, end) = match short_header(buf, 0, b'*') {
            Some(header) => (header.value as i64, header.end),
            None => match count_line(buf, limits, scanned) {
                Line::Whole { value, end } => (value, end),
                Line::Partial { scanned } => {
                    *resume = Resume { position, remaining, scanned };
                    return Parsed::Incomplete { needed: buf.len() + 1 };
                }
                Line::Bad(error) => return Parsed::Error(error),
            },
        };
        if count <= 0 {
            return Parsed::Empty { consumed: end };
        }
        if count as usize > limits.args_allowed {
            return Parsed::Error(count_error(count));
        }
        (position, remaining, scanned) = (end, count as u32, 0);
    }
    while remaining > 0 {
        let (len, start) = match short_header(buf, position, b'$') {
            Some(header) => (header.value, header.end),
            None => match bulk_line(buf, limits, position, scanned) {
                Line::Whole { value, end } => (value as usize, end),
                Line::Partial { scanned } => {
                    *resume = Resume { position, remaining, scanned };
                    return Parsed::Incomplete { needed: buf.len() + 1 };
                }
                Line::Bad(error) => return Parsed::Error(error),
            },
        };
        if len > limits.bulk_allowed {
            return Parsed::Error(bulk_error(len, limits));
        }
        let whole = buf.get(start..).and_then(|body| body.split_at_checked(len));
        let Some((arg, [b'\r', b'\n', ..])) = whole else {
            if let Some((_, [_, _, ..])) = whole {
                return Parsed::Error(ProtocolError::InvalidLineEnd);
            }
            *resume = Resume { position, remaining, scanned: 0 };
            let needed = start.saturating_add(len).saturating_add(LINE_END_LEN);
            return Parsed::Incomplete { needed };
        };
        take(arg);
        (position, remaining, scanned) = (start + len + LINE_END_LEN, remaining - 1, 0);
    }
    Parsed::Command { consumed: position }
}

/// A header line in any form.
enum Line {
    /// `value` of a bulk's header is never negative.
    Whole {
        value: i64,
        end: usize,
    },
    /// The end is not there yet; this many bytes of the line were seen.
    Partial {
        scanned: u32,
    },
    Bad(ProtocolError),
}

/// Reads the line of the argument count in any form.
#[cold]
fn count_line(buf: &[u8], limits: &Limits, scanned: u32) -> Line {
    match line(buf, limits, 0, scanned) {
        Ok(end) if buf[end + 1] != b'\n' => Line::Bad(ProtocolError::InvalidLineEnd),
        Ok(end) => match strict_integer(&buf[1..end]) {
            Some(value) => Line::Whole { value, end: end + LINE_END_LEN },
            None => Line::Bad(ProtocolError::InvalidMultibulkLength),
        },
        Err(Some(scanned)) => Line::Partial { scanned },
        Err(None) => Line::Bad(ProtocolError::MultibulkCountTooLong),
    }
}

/// Reads the line of a bulk's length in any form.
#[cold]
fn bulk_line(buf: &[u8], limits: &Limits, position: usize, scanned: u32) -> Line {
    match line(buf, limits, position, scanned) {
        Ok(_) if buf[position] != b'$' => Line::Bad(ProtocolError::ExpectedBulk(buf[position])),
        Ok(end) if buf[end + 1] != b'\n' => Line::Bad(ProtocolError::InvalidLineEnd),
        Ok(end) => match strict_integer(&buf[position + 1..end]) {
            Some(value) if value >= 0 => Line::Whole { value, end: end + LINE_END_LEN },
            _ => Line::Bad(ProtocolError::InvalidBulkLength),
        },
        Err(Some(scanned)) => Line::Partial { scanned },
        Err(None) => Line::Bad(ProtocolError::BulkCountTooLong),
    }
}

/// Finds the CR that ends the line at `position`: `Err(Some(scanned))` if more input is needed,
/// `Err(None)` if the line is too long. The byte after the CR is in the buffer.
fn line(buf: &[u8], limits: &Limits, position: usize, scanned: u32) -> Result<usize, Option<u32>> {
    let window_end = buf.len().min(position + limits.inline_len_max + 1);
    let from = (position + scanned as usize).min(window_end);
    match memchr(b'\r', &buf[from..window_end]) {
        Some(at) if from + at + 1 < buf.len() => Ok(from + at),
        Some(at) => Err(Some((from + at - position) as u32)),
        None if window_end - position > limits.inline_len_max => Err(None),
        None => Err(Some((window_end - position) as u32)),
    }
}

#[cold]
fn count_error(count: i64) -> ProtocolError {
    if count as usize > ARGS_MAX {
        ProtocolError::InvalidMultibulkLength
    } else {
        ProtocolError::UnauthenticatedMultibulkLength
    }
}

#[cold]
fn bulk_error(len: usize, limits: &Limits) -> ProtocolError {
    if len > limits.bulk_len_max {
        ProtocolError::InvalidBulkLength
    } else {
        ProtocolError::UnauthenticatedBulkLength
    }
}

/// Parses a request typed by hand: words on a line that ends with LF or CR LF.
#[cold]
fn typed(buf: &[u8], limits: &Limits, resume: &mut Resume) -> Parsed {
    let scanned = std::mem::take(resume).scanned as usize;
    let window_end = buf.len().min(limits.inline_len_max + 1);
    let from = scanned.min(window_end);
    let Some(at) = memchr(b'\n', &buf[from..window_end]) else {
        if window_end > limits.inline_len_max {
            return Parsed::Error(ProtocolError::InlineTooLong);
        }
        resume.scanned = window_end as u32;
        return Parsed::Incomplete { needed: buf.len() + 1 };
    };
    let end = from + at;
    let line = buf[..end].strip_suffix(b"\r").unwrap_or(&buf[..end]);
    let consumed = end + 1;
    match inline::split(line) {
        Ok(args) if args.is_empty() => Parsed::Empty { consumed },
        Ok(args) => Parsed::Inline { consumed, args },
        Err(error) => Parsed::Error(error),
    }
}
