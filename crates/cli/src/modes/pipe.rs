//! `--pipe`: requests from standard input to the server, as fast as it takes them.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use petrel_resp::{Value, encode_command};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::Cli;
use crate::connection::{Connection, reason};

/// Bytes of input that are held at most.
const CHUNK_LEN: usize = 64 << 10;
/// Longest wait for the connection before the time limit is looked at.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Progress of a transfer.
#[derive(Default)]
struct Transfer {
    /// Input that is not sent yet.
    pending: Vec<u8>,
    /// Text of the last request; its reply ends the transfer.
    mark: Vec<u8>,
    input_is_over: bool,
    is_over: bool,
    errors: u64,
    replies: u64,
}

/// Sends standard input, counts replies and errors, and fails if there were errors.
pub fn pipe(cli: &mut Cli, timeout: u64) -> Result<bool, String> {
    let connection = cli.connection()?;
    let result = transfer(connection, timeout);
    let (errors, replies) = result.map_err(|error| reason(&error))?;
    println!("errors: {errors}, replies: {replies}");
    Ok(errors == 0)
}

fn transfer(connection: &mut Connection, timeout: u64) -> io::Result<(u64, u64)> {
    connection.stream.set_nonblocking(true)?;
    let mut state = Transfer { mark: mark()?, ..Transfer::default() };
    let mut input = io::stdin().lock();
    let limit = Duration::from_secs(timeout);
    let mut last_reply = Instant::now();
    while !state.is_over {
        if state.pending.is_empty() && !state.input_is_over {
            state.read_input(&mut input)?;
            last_reply = Instant::now();
        }
        state.write(connection)?;
        let wanted =
            if state.pending.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        // Without anything to wait for there is more input to read.
        let tick = if state.pending.is_empty() && !state.input_is_over {
            Timespec { tv_sec: 0, tv_nsec: 0 }
        } else {
            TICK
        };
        poll(&mut [PollFd::new(&connection.stream, wanted)], Some(&tick))?;
        if state.read_replies(connection)? {
            last_reply = Instant::now();
        }
        if state.input_is_over && timeout > 0 && last_reply.elapsed() > limit {
            let text = format!("No replies for {timeout} seconds: exiting.");
            return Err(io::Error::other(text));
        }
    }
    Ok((state.errors, state.replies))
}

/// Twenty random letters.
fn mark() -> io::Result<Vec<u8>> {
    let mut bytes = [0; 20];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| b'a' + byte % 26).collect())
}

impl Transfer {
    fn read_input(&mut self, input: &mut impl Read) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_LEN];
        let count = input.read(&mut chunk)?;
        chunk.truncate(count);
        self.pending = chunk;
        if count == 0 {
            self.input_is_over = true;
            // The line end closes an inline request without one.
            self.pending = b"\r\n".to_vec();
            encode_command(&[b"ECHO", &self.mark], &mut self.pending);
            println!("All data transferred. Waiting for the last reply...");
        }
        Ok(())
    }

    fn write(&mut self, connection: &mut Connection) -> io::Result<()> {
        while !self.pending.is_empty() {
            match connection.stream.write(&self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        match connection.stream.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Counts the replies that have come; whether there was one.
    fn read_replies(&mut self, connection: &mut Connection) -> io::Result<bool> {
        match connection.read_more() {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        let before = (self.replies, self.is_over);
        while let Some(value) = connection.decode()? {
            match value {
                Value::Bulk(text) if self.input_is_over && text == self.mark => {
                    println!("Last reply received from server.");
                    self.is_over = true;
                }
                Value::Push(_) => {}
                Value::Error(text) => {
                    eprintln!("{}", String::from_utf8_lossy(&text));
                    self.errors += 1;
                    self.replies += 1;
                }
                _ => self.replies += 1,
            }
        }
        Ok(before != (self.replies, self.is_over))
    }
}
