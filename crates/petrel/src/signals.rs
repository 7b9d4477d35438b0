//! SIGTERM and SIGINT, taken by the main thread only.

use std::mem::MaybeUninit;

/// Blocks the signals in this thread and all that it will start, and ignores those of closed pipes and terminals.
pub fn block() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set that the other calls use.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        // A file that may not grow is an error of whoever writes it.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        set.assume_init()
    }
}

/// The name of the signal that a terminal sends.
pub const SIGINT: &str = "SIGINT";

/// Waits for one of them; returns its name.
pub fn wait(set: &libc::sigset_t) -> &'static str {
    let mut signal = 0;
    // SAFETY: both arguments are valid; an interrupted wait is repeated.
    while unsafe { libc::sigwait(set, &mut signal) } != 0 {}
    if signal == libc::SIGINT { SIGINT } else { "SIGTERM" }
}

/// Wakes the thread that waits.
pub fn send() {
    // SAFETY: a signal to this very process.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
}
