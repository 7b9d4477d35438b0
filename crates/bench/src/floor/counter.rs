//! Finds the commands in a stream of RESP requests, and nothing more.

/// Reply to a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FloorReply {
    /// `+OK`.
    Write,
    /// A value.
    Get,
    /// `+PONG`.
    Ping,
}

/// Longest argument and most arguments taken: as Redis has them.
const NUMBER_MAX: usize = 512 * 1024 * 1024;

/// The state between two reads of a connection. A byte-wise machine over header lines, so that
/// nothing has to be kept of them; arguments are skipped by length.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// Arguments still to come of the command.
    arguments: usize,
    /// Bytes still to be skipped of the argument and its line end.
    skip: usize,
    /// The number in the header line so far.
    number: usize,
    /// First byte of the command's name, 0 before it is seen.
    name: u8,
}

/// The stream is not RESP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotResp;

impl Counter {
    /// Gives the kind of each command that is complete with `bytes`.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(FloorReply)) -> Result<(), NotResp> {
        let mut at = 0;
        while at < bytes.len() {
            if self.skip == 0 {
                at += self.header(&bytes[at..])?;
                continue;
            }
            if self.name == 0 {
                self.name = bytes[at];
            }
            let step = self.skip.min(bytes.len() - at);
            self.skip -= step;
            at += step;
            if self.skip == 0 {
                self.arguments -= 1;
                if self.arguments == 0 {
                    each(kind(self.name));
                    self.name = 0;
                }
            }
        }
        Ok(())
    }

    /// Takes bytes of a header line, up to its end at most; returns how many.
    #[inline]
    fn header(&mut self, bytes: &[u8]) -> Result<usize, NotResp> {
        for (place, byte) in bytes.iter().enumerate() {
            match byte {
                b'0'..=b'9' => self.number = self.number * 10 + usize::from(byte - b'0'),
                b'*' | b'$' | b'\r' => {}
                b'\n' => {
                    let number = std::mem::take(&mut self.number);
                    if self.arguments == 0 {
                        self.arguments = number;
                    } else {
                        self.skip = number + 2;
                    }
                    return Ok(place + 1);
                }
                _ => return Err(NotResp),
            }
            if self.number > NUMBER_MAX {
                return Err(NotResp);
            }
        }
        Ok(bytes.len())
    }
}

#[inline]
fn kind(name: u8) -> FloorReply {
    match name {
        b'G' | b'g' => FloorReply::Get,
        b'P' | b'p' => FloorReply::Ping,
        _ => FloorReply::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_however_they_are_cut() {
        let stream = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n*1\r\n\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n\
                       *1\r\n$4\r\nPING\r\n*0\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";
        for piece in 1..=stream.len() {
            let mut counter = Counter::default();
            let mut kinds = Vec::new();
            for part in stream.chunks(piece) {
                counter.feed(part, |kind| kinds.push(kind)).unwrap();
            }
            let want = [FloorReply::Write, FloorReply::Get, FloorReply::Ping, FloorReply::Write];
            assert_eq!(kinds, want, "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_not_resp_is_refused() {
        let feed = |bytes: &[u8]| Counter::default().feed(bytes, |_| ());
        assert_eq!(feed(b"PING\r\n"), Err(NotResp));
        assert_eq!(feed(b"*99999999999999999999999999\r\n"), Err(NotResp));
    }
}
