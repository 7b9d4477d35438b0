//! SIGTERM, SIGINT and SIGUSR2, taken by the main thread only.

use rustix::process::{Signal, getpid, kill_process};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Blocks the signals in this thread and all that it will start, and ignores those of closed pipes
/// and terminals.
pub fn block() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set that the other calls use.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        // A file that may not grow is an error of its writer.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        set.assume_init()
    }
}

/// The name of the signal that a terminal sends.
pub const SIGINT: &str = "SIGINT";

/// Signal that requests a dump of all workers' states.
pub const SIGUSR2: &str = "SIGUSR2";

/// Waits for one of them; returns its name.
pub fn wait(set: &libc::sigset_t) -> &'static str {
    let mut signal = 0;
    // SAFETY: both arguments are valid; an interrupted wait is repeated.
    while unsafe { libc::sigwait(set, &mut signal) } != 0 {}
    match signal {
        libc::SIGINT => SIGINT,
        libc::SIGUSR2 => SIGUSR2,
        _ => "SIGTERM",
    }
}

/// Whether one of them comes within a time, which ends then.
pub fn arrives_within(set: &libc::sigset_t, time: Duration) -> bool {
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: a valid set and time; a null pointer means that information about the signal is not
    // wanted.
    unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &time) > 0 }
}

/// Wakes the thread that waits.
pub fn send() {
    // Cannot fail: a process may send signals to itself.
    let _ = kill_process(getpid(), Signal::TERM);
}
