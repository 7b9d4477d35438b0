//! Clean-up of server processes and temporary directories. Normally each is removed with its owner.
//! On SIGINT and SIGTERM the processes are killed, so that all waits for them fail, and the run in
//! progress writes its results; after a grace period, or at a second signal, everything that is
//! still listed here is removed and the program ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, process, thread};

use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::sys;

#[derive(Debug)]
struct Leavings {
    pids: Vec<u32>,
    directories: Vec<PathBuf>,
}

static LEAVINGS: Mutex<Leavings> =
    Mutex::new(Leavings { pids: Vec::new(), directories: Vec::new() });

/// Whether SIGINT or SIGTERM has come.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Time for a run to write its results.
const GRACE: Duration = Duration::from_secs(10);

/// Whether SIGINT or SIGTERM has come: the processes are gone, and the measurement in progress is
/// void.
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Acquire)
}

/// Ends everything that is listed when SIGINT or SIGTERM comes.
pub fn sweep_on_stop() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let signal = signals.forever().next();
        STOPPED.store(true, Ordering::Release);
        kill(&leavings());
        let begin = Instant::now();
        while begin.elapsed() < GRACE && signals.pending().next().is_none() {
            thread::sleep(Duration::from_millis(20));
        }
        let leavings = leavings();
        kill(&leavings);
        for directory in &leavings.directories {
            let _ = std::fs::remove_dir_all(directory);
        }
        process::exit(128 + signal.unwrap_or(0));
    })?;
    Ok(())
}

fn kill(leavings: &Leavings) {
    for pid in &leavings.pids {
        sys::signal(*pid, Signal::KILL);
    }
}

/// Lists a process. One that was started while the signal came is killed at once.
pub fn add_process(pid: u32) {
    let mut leavings = leavings();
    leavings.pids.push(pid);
    if is_stopped() {
        kill(&leavings);
    }
}

/// Removes a process from the list, before it is reaped: its number may be reused after that.
pub fn remove_process(pid: u32) {
    leavings().pids.retain(|listed| *listed != pid);
}

/// A directory under the system's temporary one, removed with its owner.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes a directory with a name that no other process uses.
    pub fn new() -> io::Result<TempDir> {
        let base = std::env::temp_dir();
        for number in 0.. {
            let path = base.join(format!("petrel-bench-{}-{number}", process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    leavings().directories.push(path.clone());
                    return Ok(TempDir(path));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the range of numbers does not end")
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        leavings().directories.retain(|listed| *listed != self.0);
    }
}

fn leavings() -> MutexGuard<'static, Leavings> {
    LEAVINGS.lock().unwrap_or_else(PoisonError::into_inner)
}
