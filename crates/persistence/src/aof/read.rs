//! Reading a file of commands from front to back.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

/// Bytes that are read at once.
const READ_LEN: usize = 256 * 1024;

/// Bytes of a line that says how many arguments or bytes follow.
const LINE_MAX: usize = 24;

/// Bytes of a note.
const NOTE_MAX: usize = 1024;

/// Bytes that an argument takes at least.
const ARGUMENT_MIN: u64 = 6;

/// A command of the file.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// Position of the command in the file.
    pub at: u64,
    bytes: &'a [u8],
    arguments: &'a [Range<usize>],
}

impl<'a> Command<'a> {
    /// Arguments, including the name; at least one.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.arguments.iter().map(move |range| &bytes[range.clone()])
    }

    /// Name of the command.
    pub fn name(&self) -> &'a [u8] {
        self.arguments().next().unwrap_or_default()
    }
}

/// Reason that there is no next command.
#[derive(Debug)]
pub enum ReadError {
    /// The file cannot be read.
    Io(io::Error),
    /// The file ends within the item at this position.
    CutShort {
        /// Bytes of the file that are whole.
        at: u64,
    },
    /// Something else is there than belongs there.
    Malformed {
        /// Position of the fault.
        at: u64,
        /// Description of the expected item.
        what: &'static str,
    },
}

impl std::error::Error for ReadError {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::CutShort { at } => write!(f, "it ends amid the command at byte {at}"),
            ReadError::Malformed { at, what } => write!(f, "at byte {at}: expected {what}"),
        }
    }
}

/// Reads a file of commands.
pub struct CommandReader<R> {
    file: R,
    /// Bytes of the file from `start` on: consumed ones, then unread ones.
    buffer: Vec<u8>,
    /// Bytes of the buffer that are behind us.
    taken: usize,
    /// Position of the buffer in the file.
    start: u64,
    /// Bytes that the file has.
    len: u64,
    arguments: Vec<Range<usize>>,
}

impl<R: Read> CommandReader<R> {
    /// A reader of a file of `len` bytes, which stands at byte `at`.
    pub fn new(file: R, at: u64, len: u64) -> Self {
        CommandReader { file, buffer: Vec::new(), taken: 0, start: at, len, arguments: Vec::new() }
    }

    /// Bytes of the file that are behind us: whole commands.
    pub fn position(&self) -> u64 {
        self.start + self.taken as u64
    }

    /// The next command; none at the end of the file. Notes are skipped.
    ///
    /// # Errors
    /// If there is no whole command.
    pub fn next_command(&mut self) -> Result<Option<Command<'_>>, ReadError> {
        let mut wanted = 1;
        loop {
            let at = self.position();
            if !self.buffer_up(wanted).map_err(ReadError::Io)? {
                return match wanted {
                    1 => Ok(None),
                    _ => Err(ReadError::CutShort { at }),
                };
            }
            let rest = (self.len.saturating_sub(at)).max((self.buffer.len() - self.taken) as u64);
            let mut arguments = std::mem::take(&mut self.arguments);
            let parsed = parse(&self.buffer[self.taken..], rest, &mut arguments);
            self.arguments = arguments;
            match parsed {
                Ok(Parsed::Command(len)) => {
                    let from = self.taken;
                    self.taken += len;
                    let bytes = &self.buffer[from..from + len];
                    return Ok(Some(Command { at, bytes, arguments: &self.arguments }));
                }
                Ok(Parsed::Note(len)) => {
                    self.taken += len;
                    wanted = 1;
                }
                Ok(Parsed::Lacks(len)) => wanted = len,
                Err((offset, what)) => {
                    return Err(ReadError::Malformed { at: at + offset as u64, what });
                }
            }
        }
    }

    /// Lets at least `len` bytes be there; false if the file has fewer.
    fn buffer_up(&mut self, len: usize) -> io::Result<bool> {
        if self.buffer.len() - self.taken >= len {
            return Ok(true);
        }
        self.buffer.drain(..self.taken);
        self.start += self.taken as u64;
        self.taken = 0;
        while self.buffer.len() < len {
            // As much as is wanted may be the word of a broken file.
            let step = READ_LEN.max(self.buffer.len()) as u64;
            if self.file.by_ref().take(step).read_to_end(&mut self.buffer)? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

enum Parsed {
    /// A command of this many bytes.
    Command(usize),
    /// A note of this many bytes.
    Note(usize),
    /// This many bytes are needed to tell, at least; more than there are.
    Lacks(usize),
}

type Expected = (usize, &'static str);

/// Parses a command or an annotation at the start of `bytes`, and records the ranges of its
/// arguments. `rest` is the number of bytes left in the file.
fn parse(bytes: &[u8], rest: u64, arguments: &mut Vec<Range<usize>>) -> Result<Parsed, Expected> {
    arguments.clear();
    let mut at = 0;
    match bytes.first() {
        Some(b'*') => {}
        Some(b'#') => return parse_note(bytes),
        Some(_) => return Err((0, "a command, which begins with *")),
        None => return Ok(Parsed::Lacks(1)),
    }
    let Some(count) = parse_line(bytes, &mut at, "a number of arguments")? else {
        return Ok(Parsed::Lacks(bytes.len() + 1));
    };
    if count == 0 {
        return Err((1, "a number of arguments"));
    }
    let mut lacks = usize::try_from(count.saturating_mul(ARGUMENT_MIN)).unwrap_or(usize::MAX);
    if count.saturating_mul(ARGUMENT_MIN) > rest {
        return Ok(Parsed::Lacks(usize::MAX));
    }
    for left in (0..count).rev() {
        match bytes.get(at) {
            Some(b'$') => {}
            Some(_) => return Err((at, "an argument, which begins with $")),
            None => return Ok(Parsed::Lacks(lacks.max(bytes.len() + 1))),
        }
        let Some(len) = parse_line(bytes, &mut at, "the length of an argument")? else {
            return Ok(Parsed::Lacks(lacks.max(bytes.len() + 1)));
        };
        let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
        let Some((end, behind)) = end.and_then(|end| Some((end, end.checked_add(2)?))) else {
            return Ok(Parsed::Lacks(usize::MAX));
        };
        if bytes.len() < behind {
            return Ok(Parsed::Lacks(behind));
        }
        if &bytes[end..behind] != b"\r\n" {
            return Err((end, "the end of an argument"));
        }
        arguments.push(at..end);
        at = behind;
        lacks = at.saturating_add((left * ARGUMENT_MIN) as usize);
    }
    Ok(Parsed::Command(at))
}

/// A number behind one letter, up to the end of its line; none if that is not there yet. `at` is
/// behind it then.
fn parse_line(bytes: &[u8], at: &mut usize, what: &'static str) -> Result<Option<u64>, Expected> {
    let line = &bytes[*at + 1..bytes.len().min(*at + LINE_MAX)];
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let expected = (*at + 1 + digits, what);
    match line[digits..] {
        [] if line.len() + 1 == LINE_MAX => return Err(expected),
        [] | [b'\r'] => return Ok(None),
        [b'\r', b'\n', ..] if digits > 0 => {}
        _ => return Err(expected),
    }
    let number = std::str::from_utf8(&line[..digits]).ok().and_then(|text| text.parse().ok());
    let number = number.ok_or((*at + 1, what))?;
    *at += 1 + digits + 2;
    Ok(Some(number))
}

fn parse_note(bytes: &[u8]) -> Result<Parsed, Expected> {
    match bytes.iter().take(NOTE_MAX).position(|&byte| byte == b'\n') {
        Some(end) => Ok(Parsed::Note(end + 1)),
        None if bytes.len() >= NOTE_MAX => Err((NOTE_MAX, "the end of a note")),
        None => Ok(Parsed::Lacks(bytes.len() + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The commands of a file, and what ends it.
    fn read(bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, Result<u64, ReadError>) {
        // A byte at a time, as a slow disk might give them.
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                let len = to.len().min(1);
                self.0.read(&mut to[..len])
            }
        }
        let mut reader = CommandReader::new(Slow(bytes), 0, bytes.len() as u64);
        let mut commands = Vec::new();
        loop {
            match reader.next_command() {
                Ok(Some(command)) => {
                    commands.push(command.arguments().map(<[u8]>::to_vec).collect());
                }
                Ok(None) => return (commands, Ok(reader.position())),
                Err(error) => return (commands, Err(error)),
            }
        }
    }

    fn encode(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for command in commands {
            bytes.extend(format!("*{}\r\n", command.len()).bytes());
            for argument in command {
                bytes.extend(format!("${}\r\n", argument.len()).bytes());
                bytes.extend([&argument[..], b"\r\n"].concat());
            }
        }
        bytes
    }

    #[test]
    fn notes_are_skipped() {
        let (commands, end) = read(b"#TS:17\r\n*1\r\n$1\r\na\r\n#TS:18\r\n");
        assert_eq!((commands.len(), end.unwrap()), (1, 27));
        let (commands, end) = read(b"");
        assert_eq!((commands.len(), end.unwrap()), (0, 0));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        const WHOLE: &[u8] = b"*1\r\n$1\r\na\r\n";
        for (bytes, at) in [
            (&b"+OK\r\n"[..], 0),
            (b"*0\r\n", 1),
            (b"*-1\r\n", 1),
            (b"*\r\n", 1),
            (b"*1\n", 2),
            (b"*1\r\n*1\r\n", 4),
            (b"*1\r\n$x\r\n", 5),
            (b"*1\r\n$1\r\nabc\r\n", 9),
            (b"*1234567890123456789012345", 24),
            (b"\0\0\0", 0),
        ] {
            let (commands, end) = read(&[WHOLE, bytes].concat());
            assert_eq!(commands.len(), 1, "{bytes:?}");
            match end {
                Err(ReadError::Malformed { at: found, .. }) => assert_eq!(found, 11 + at),
                other => panic!("{bytes:?}: {other:?}"),
            }
        }
        for bytes in [
            &b"*"[..],
            b"*2\r",
            b"*2\r\n$1\r\na\r\n",
            b"*1\r\n$999999999999\r\na",
            b"*9999\r\n",
            b"#TS",
        ] {
            let (commands, end) = read(&[WHOLE, bytes].concat());
            assert!(matches!(end, Err(ReadError::CutShort { at: 11 })), "{bytes:?}: {end:?}");
            assert_eq!(commands.len(), 1);
        }
    }

    #[test]
    fn a_long_command_is_read_whole() {
        let commands = vec![vec![b"SET".to_vec(), vec![7; 3 * READ_LEN]], vec![b"PING".to_vec()]];
        let bytes = encode(&commands);
        let mut reader = CommandReader::new(&bytes[..], 0, bytes.len() as u64);
        let first = reader.next_command().unwrap().unwrap();
        assert_eq!(first.arguments().map(<[u8]>::len).collect::<Vec<_>>(), [3, 3 * READ_LEN]);
        assert_eq!(reader.next_command().unwrap().unwrap().name(), b"PING");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_up_to_where_it_is_cut(
            commands in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..5), 0..6),
            cut in 0usize..200,
        ) {
            let bytes = encode(&commands);
            let cut = cut.min(bytes.len());
            let (read, end) = read(&bytes[..cut]);
            let whole = encode(&read).len();
            prop_assert_eq!(&read[..], &commands[..read.len()]);
            match end {
                Ok(at) => prop_assert_eq!((at as usize, whole), (cut, cut)),
                Err(ReadError::CutShort { at }) => prop_assert_eq!(at as usize, whole),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
