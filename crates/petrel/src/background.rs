//! `daemonize`: the server runs in a child process without terminal; its parent waits until it is
//! ready, so that its starter learns whether it is.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};

/// The process that waits for this one to be ready.
pub enum Parent {
    /// Nobody.
    None,
    /// The process that was started first, at the other end of this pipe.
    Waiting(File),
}

/// Goes on in a child process. The calling process ends when the child is ready (exit code 0) or
/// has failed (1). There are no other threads yet.
///
/// # Errors
/// If the system allows no further process or pipe.
pub fn fork() -> io::Result<Parent> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors were made above and belong to nothing else.
    let (mut read, write) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: this is the only thread, so the child is as good a process as this one.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: takes no arguments; it cannot fail in a child that leads no group.
            unsafe { libc::setsid() };
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
    /// If the null device cannot be opened.
    pub fn release(self) -> io::Result<()> {
        let Parent::Waiting(mut pipe) = self else { return Ok(()) };
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: both are open descriptors; the stream's old meaning is what is to go.
            unsafe { libc::dup2(null.as_raw_fd(), stream) };
        }
        // A parent that was killed waits no more.
        let _ = pipe.write_all(READY);
        Ok(())
    }
}
