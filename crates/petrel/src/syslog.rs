//! Messages to the system's log, through the C library.

use std::ffi::{CStr, CString};
use tracing::Level;

/// The open log; a process has one.
pub struct Syslog(());

/// The facilities by the names that the configuration gives them.
const FACILITIES: [(&str, libc::c_int); 9] = [
    ("user", libc::LOG_USER),
    ("local0", libc::LOG_LOCAL0),
    ("local1", libc::LOG_LOCAL1),
    ("local2", libc::LOG_LOCAL2),
    ("local3", libc::LOG_LOCAL3),
    ("local4", libc::LOG_LOCAL4),
    ("local5", libc::LOG_LOCAL5),
    ("local6", libc::LOG_LOCAL6),
    ("local7", libc::LOG_LOCAL7),
];

impl Syslog {
    /// Opens it under a name, for a facility that the configuration knows.
    pub fn open(name: &str, facility: &str) -> Self {
        let facility = FACILITIES.iter().find(|(word, _)| *word == facility);
        let facility = facility.map_or(libc::LOG_LOCAL0, |(_, facility)| *facility);
        // Kept for good: the C library keeps the pointer.
        let name: &'static CStr = Box::leak(text(name).into_boxed_c_str());
        // SAFETY: the name is never freed.
        unsafe {
            libc::openlog(
                name.as_ptr(),
                libc::LOG_PID | libc::LOG_NDELAY | libc::LOG_NOWAIT,
                facility,
            )
        };
        Syslog(())
    }

    /// Adds a message.
    pub fn write(&self, level: Level, message: &str) {
        let priority = match level {
            Level::ERROR | Level::WARN => libc::LOG_WARNING,
            Level::INFO => libc::LOG_NOTICE,
            Level::DEBUG => libc::LOG_INFO,
            Level::TRACE => libc::LOG_DEBUG,
        };
        let message = text(message);
        // SAFETY: both are strings that end in a zero, and the format takes one string.
        unsafe { libc::syslog(priority, c"%s".as_ptr(), message.as_ptr()) };
    }
}

fn text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
