//! Counts complete replies in a stream of bytes: headers are checked, values skipped by length.

use super::Protocol;

/// A complete reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reply<'a> {
    /// A status or number: the command was executed.
    Done,
    /// A value of this many bytes.
    Value(u32),
    /// No such key.
    Miss,
    /// An error, its line without the line end.
    Error(&'a [u8]),
}

/// Longest header line accepted, bytes. Longer ones are not a reply that this client asked for.
pub const HEADER_MAX: usize = 512;

/// Value that is being skipped, and its reply once it is complete.
#[derive(Clone, Copy, Debug, Default)]
struct Skip {
    /// Bytes still to come of the value and its line end.
    left: usize,
    /// Length of the value.
    len: u32,
    /// After the value comes a line `END` (memcached) before the reply is complete.
    end_line: bool,
}

/// The state between two reads of one connection: only the value in progress. Bytes of an
/// incomplete header stay with the caller.
#[derive(Clone, Debug)]
pub struct ReplyReader {
    protocol: Protocol,
    skip: Skip,
    /// Elements still to come of the aggregate in progress, nested ones included.
    elements: u64,
    /// Whether an element was an error.
    has_error: bool,
}

/// Error of a stream that violates the protocol.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BadReply(pub String);

impl ReplyReader {
    /// A reader at the start of a reply.
    pub fn new(protocol: Protocol) -> ReplyReader {
        ReplyReader { protocol, skip: Skip::default(), elements: 0, has_error: false }
    }

    /// Passes each complete reply in `bytes` to `each` and returns the number of bytes consumed.
    /// The rest is the beginning of a header (less than [`HEADER_MAX`]); it must be passed again,
    /// followed by the next bytes.
    #[inline]
    pub fn read<'a>(
        &mut self,
        bytes: &'a [u8],
        mut each: impl FnMut(Reply<'a>),
    ) -> Result<usize, BadReply> {
        let mut at = 0;
        loop {
            if self.skip.left > 0 {
                let step = self.skip.left.min(bytes.len() - at);
                self.skip.left -= step;
                at += step;
                if self.skip.left > 0 {
                    return Ok(at);
                }
                if !self.skip.end_line
                    && let Some(reply) = self.whole(Reply::Value(self.skip.len))
                {
                    each(reply);
                }
            }
            let rest = &bytes[at..];
            if self.elements == 0 && rest.starts_with(b"+OK\r\n") {
                at += 5;
                each(Reply::Done);
                continue;
            }
            let Some(line) = header(rest)? else { return Ok(at) };
            at += line.len() + 2;
            let reply = match self.protocol {
                Protocol::Resp => self.resp(line)?,
                Protocol::Memcached => self.memcached(line)?,
            };
            if let Some(reply) = reply {
                each(reply);
            }
        }
    }

    /// Returns a reply, unless it is an element of an aggregate that is not complete with it. An
    /// aggregate is one reply, an error if one of its elements is.
    #[inline]
    fn whole<'a>(&mut self, reply: Reply<'a>) -> Option<Reply<'a>> {
        if self.elements == 0 {
            return Some(reply);
        }
        self.elements -= 1;
        let is_complete = self.elements == 0;
        is_complete.then(|| match std::mem::take(&mut self.has_error) {
            true => Reply::Error(b"an error within an array"),
            false => Reply::Done,
        })
    }

    /// The reply that is complete with a header line, if one is.
    #[inline]
    fn resp<'a>(&mut self, line: &'a [u8]) -> Result<Option<Reply<'a>>, BadReply> {
        match line.first() {
            Some(b'$') if line == b"$-1" => Ok(self.whole(Reply::Miss)),
            Some(b'*') => match number(&line[1..]) {
                Some(count @ 1..) => {
                    self.elements += u64::from(count) - u64::from(self.elements > 0);
                    Ok(None)
                }
                Some(0) => Ok(self.whole(Reply::Done)),
                None if line == b"*-1" => Ok(self.whole(Reply::Miss)),
                None => Err(bad(line)),
            },
            Some(b'$') => {
                let len = number(&line[1..]).ok_or_else(|| bad(line))?;
                self.skip = Skip { left: len as usize + 2, len, end_line: false };
                Ok(None)
            }
            Some(b'+' | b':') => Ok(self.whole(Reply::Done)),
            Some(b'_') => Ok(self.whole(Reply::Miss)),
            Some(b'-') => {
                self.has_error |= self.elements > 0;
                Ok(self.whole(Reply::Error(&line[1..])))
            }
            _ => Err(bad(line)),
        }
    }

    fn memcached<'a>(&mut self, line: &'a [u8]) -> Result<Option<Reply<'a>>, BadReply> {
        let word = line.split(|byte| *byte == b' ').next().unwrap_or(line);
        match word {
            b"STORED" | b"DELETED" | b"VERSION" => Ok(Some(Reply::Done)),
            b"VALUE" => {
                let len = line.rsplit(|byte| *byte == b' ').next().and_then(number);
                let len = len.ok_or_else(|| bad(line))?;
                self.skip = Skip { left: len as usize + 2, len, end_line: true };
                Ok(None)
            }
            b"END" if self.skip.end_line => {
                self.skip.end_line = false;
                Ok(Some(Reply::Value(self.skip.len)))
            }
            b"END" | b"NOT_FOUND" => Ok(Some(Reply::Miss)),
            b"NOT_STORED" | b"ERROR" | b"SERVER_ERROR" | b"CLIENT_ERROR" => {
                Ok(Some(Reply::Error(line)))
            }
            _ => Err(bad(line)),
        }
    }
}

/// The first line of `bytes` without its line end, if it is there whole.
#[inline]
fn header(bytes: &[u8]) -> Result<Option<&[u8]>, BadReply> {
    let window = &bytes[..bytes.len().min(HEADER_MAX)];
    match window.iter().position(|byte| *byte == b'\r') {
        Some(end) if bytes.get(end + 1) == Some(&b'\n') => Ok(Some(&bytes[..end])),
        Some(end) if end + 1 < bytes.len() => Err(bad(&bytes[..end])),
        _ if window.len() == HEADER_MAX => Err(bad(window)),
        _ => Ok(None),
    }
}

#[inline]
fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    digits.iter().try_fold(0u32, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0'))
    })
}

#[cold]
fn bad(line: &[u8]) -> BadReply {
    let shown = &line[..line.len().min(80)];
    BadReply(format!(
        "the server sent something that is no reply: {:?}",
        shown.escape_ascii().to_string()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `stream` in pieces of `piece` bytes, keeping the rest as a connection does.
    fn replies(protocol: Protocol, stream: &[u8], piece: usize) -> Vec<String> {
        let mut reader = ReplyReader::new(protocol);
        let mut rest = Vec::new();
        let mut seen = Vec::new();
        for part in stream.chunks(piece) {
            rest.extend_from_slice(part);
            let taken = reader
                .read(&rest, |reply| {
                    seen.push(match reply {
                        Reply::Error(text) => String::from_utf8(text.to_vec()).unwrap(),
                        other => format!("{other:?}"),
                    });
                })
                .unwrap();
            rest.drain(..taken);
        }
        assert!(rest.is_empty());
        seen
    }

    #[test]
    fn resp_replies_however_they_are_cut() {
        let stream = b"+OK\r\n$5\r\nhe\r\no\r\n$-1\r\n:1\r\n+PONG\r\n$0\r\n\r\n-ERR no\r\n+OK\r\n";
        let want = ["Done", "Value(5)", "Miss", "Done", "Done", "Value(0)", "ERR no", "Done"];
        for piece in 1..=stream.len() {
            assert_eq!(replies(Protocol::Resp, stream, piece), want, "pieces of {piece}");
        }
    }

    #[test]
    fn arrays_are_one_reply_each_however_they_are_cut() {
        let stream =
            b"*2\r\n*2\r\n:1\r\n$3\r\na\r\n\r\n$-1\r\n*0\r\n*-1\r\n*2\r\n-ERR no\r\n+OK\r\n+OK\r\n";
        let want = ["Done", "Done", "Miss", "an error within an array", "Done"];
        for piece in 1..=stream.len() {
            assert_eq!(replies(Protocol::Resp, stream, piece), want, "pieces of {piece}");
        }
    }

    #[test]
    fn memcached_replies_however_they_are_cut() {
        let stream = b"STORED\r\nVALUE k 0 5\r\nEND\r\n\r\nEND\r\nEND\r\nDELETED\r\nERROR\r\n";
        let want = ["Done", "Value(5)", "Miss", "Done", "ERROR"];
        for piece in 1..=stream.len() {
            assert_eq!(replies(Protocol::Memcached, stream, piece), want, "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        let read = |bytes: &[u8]| ReplyReader::new(Protocol::Resp).read(bytes, |_| ()).is_err();
        assert!(read(b"HTTP/1.1 400\r\n"));
        assert!(read(b"$99999999999\r\n"));
        assert!(read(b"+a\rb\r\n"));
        assert!(read(&[b'+'; HEADER_MAX]));
    }
}
