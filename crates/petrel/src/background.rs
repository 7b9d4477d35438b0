//! `daemonize`: the server runs in a child process without terminal; its parent waits until it is
//! ready, so that its starter learns whether it is.

use rustix::stdio;
use std::fs::OpenOptions;
use std::io::{self, PipeWriter, Read, Write};

/// The process that waits for this one to be ready.
pub enum Parent {
    /// No parent waits for the server.
    None,
    /// The process that was started first, at the other end of this pipe.
    Waiting(PipeWriter),
}

/// Goes on in a child process. The calling process ends when the child is ready (exit code 0) or
/// has failed (1). There are no other threads yet.
///
/// # Errors
/// If the system allows no further process or pipe.
pub fn fork() -> io::Result<Parent> {
    let (mut read, write) = io::pipe()?;
    // SAFETY: this is the only thread, so the child is as good a process as this one.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // It cannot fail in a child that leads no group.
            let _ = rustix::process::setsid();
            Ok(Parent::Waiting(write))
        }
        _ => {
            drop(write);
            let mut word = Vec::new();
            let ready = read.read_to_end(&mut word).is_ok() && word == READY;
            // The child has said on standard error what went wrong.
            std::process::exit(if ready { 0 } else { 1 });
        }
    }
}

const READY: &[u8] = b"ready";

impl Parent {
    /// Lets the parent go, and the terminal with it.
    ///
    /// # Errors
    /// If the null device cannot be opened or put in the terminal's place.
    pub fn release(self) -> io::Result<()> {
        let Parent::Waiting(mut pipe) = self else { return Ok(()) };
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        stdio::dup2_stdin(&null)?;
        stdio::dup2_stdout(&null)?;
        stdio::dup2_stderr(&null)?;
        // A parent that was killed waits no more.
        let _ = pipe.write_all(READY);
        Ok(())
    }
}
