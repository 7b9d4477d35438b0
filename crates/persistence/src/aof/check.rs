//! Reading a file of commands for no other purpose than to find out whether it is whole.

use super::read::{CommandReader, ReadError};
use std::io::{self, Read};

/// Contents of a file of commands.
#[derive(Debug, Default)]
pub struct CommandCensus {
    /// Commands.
    pub commands: u64,
    /// Transactions among them, whole ones.
    pub transactions: u64,
    /// Name of the last whole command.
    pub last: Vec<u8>,
    /// Length of the valid part, from the beginning of the file.
    pub whole: u64,
    /// The first fault, if there is one.
    pub flaw: Option<Flaw>,
}

/// Fault in a file of commands.
#[derive(Debug)]
pub enum Flaw {
    /// The bytes after the valid part are no command.
    Read(ReadError),
    /// A transaction has no end.
    OpenTransaction,
}

/// Reads the commands of a file of `len` bytes from byte `from` on.
///
/// # Errors
/// If the file cannot be read.
pub fn check_commands<R: Read>(file: R, from: u64, len: u64) -> io::Result<CommandCensus> {
    let mut reader = CommandReader::new(file, from, len);
    let mut census = CommandCensus { whole: from, ..CommandCensus::default() };
    let mut is_open = false;
    census.flaw = loop {
        let (at, name) = match reader.next_command() {
            Ok(Some(command)) => (command.at, command.name().to_ascii_lowercase()),
            Ok(None) => break is_open.then_some(Flaw::OpenTransaction),
            Err(ReadError::Io(error)) => return Err(error),
            Err(error) => break Some(Flaw::Read(error)),
        };
        census.commands += 1;
        if name == b"multi" && !is_open {
            is_open = true;
            census.whole = at;
        }
        if is_open && (name == b"exec" || name == b"discard") {
            is_open = false;
            census.transactions += 1;
        }
        if !is_open {
            census.whole = reader.position();
        }
        census.last = name;
    };
    Ok(census)
}

/// Whether commands seem to follow in what stands behind a damaged place: then the damage is not
/// the end's.
///
/// # Errors
/// If it cannot be read.
pub fn holds_commands<R: Read>(mut rest: R) -> io::Result<bool> {
    const STEP: usize = 1 << 20;
    let mut window = Vec::new();
    loop {
        let before = window.len();
        (&mut rest).take(STEP as u64).read_to_end(&mut window)?;
        if window
            .windows(3)
            .enumerate()
            .any(|(at, start)| start == b"\r\n*" && is_head(&window[at + 3..]))
        {
            return Ok(true);
        }
        if window.len() == before {
            return Ok(false);
        }
        // A head may lie across the end.
        let keep = window.len().min(64);
        window.drain(..window.len() - keep);
    }
}

/// Whether a number of arguments and the beginning of the first follow.
fn is_head(bytes: &[u8]) -> bool {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && bytes[digits..].starts_with(b"\r\n$")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";
    const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
    const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

    fn check(parts: &[&[u8]]) -> CommandCensus {
        let bytes = parts.concat();
        check_commands(&bytes[..], 0, bytes.len() as u64).unwrap()
    }

    #[test]
    fn an_open_transaction_is_no_part_of_what_is_whole() {
        let whole = (SET.len() + MULTI.len() + SET.len() + EXEC.len()) as u64;
        let census = check(&[SET, MULTI, SET, EXEC]);
        assert_eq!((census.commands, census.transactions, census.whole), (4, 1, whole));
        assert!(census.flaw.is_none() && census.last == b"exec");
        let census = check(&[SET, MULTI, SET, EXEC, MULTI, SET]);
        assert_eq!(census.whole, whole);
        assert!(matches!(census.flaw, Some(Flaw::OpenTransaction)));
        let census = check(&[SET, MULTI, SET, &SET[..5]]);
        assert_eq!(census.whole, SET.len() as u64);
        assert!(matches!(census.flaw, Some(Flaw::Read(ReadError::CutShort { .. }))));
    }

    #[test]
    fn commands_behind_damage_are_seen() {
        let holds = |parts: &[&[u8]]| holds_commands(&parts.concat()[..]).unwrap();
        assert!(holds(&[b"garbage\r\n", SET]));
        assert!(holds(&[&vec![0; (1 << 20) - 3], b"\r\n", SET]));
        assert!(!holds(&[b"garbage\r\n*", b"x"]));
        assert!(!holds(&[&vec![0; 3 << 20]]));
    }
}
