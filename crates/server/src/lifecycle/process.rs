//! Interface to the process: implemented by the binary, optional for tests and embedding programs.

use crate::config::Config;
use std::ffi::CStr;
use std::time::Duration;

/// Bytes held by the general allocator.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AllocatorUse {
    /// Blocks in use, rounded up to its size classes.
    pub allocated: u64,
    /// The pages that these are in, as of a second ago.
    pub active: u64,
}

/// The process around a server.
pub trait Process: Send + Sync {
    /// Logs as `config` asks for.
    fn configure_log(&self, _config: &Config) {}

    /// Shows the title that `config` asks for in process listings.
    fn set_title(&self, _config: &Config) {}

    /// Lets a time pass before there are workers; false, and at once, if the process has been asked
    /// to end.
    fn pause(&self, time: Duration) -> bool {
        std::thread::sleep(time);
        true
    }

    /// Ends the process: called once the server is to stop, from one of its workers.
    fn leave(&self) {}

    /// Name of the allocator that everything but the keyspace's entries comes from.
    fn allocator(&self) -> &'static str {
        "libc"
    }

    /// The allocator's own statistics, as text.
    fn allocator_report(&self) -> String {
        "No statistics: the allocator keeps none.".into()
    }

    /// State of the allocator; `None` if it provides none.
    fn allocator_use(&self) -> Option<AllocatorUse> {
        None
    }

    /// Returns unused memory of the allocator to the system, beginning with the calling thread's
    /// part. Called every second by a thread that serves no client, since it may take a while.
    fn purge_allocator(&self) {}

    /// Gives free pages of the calling thread's part of the allocator to all threads, for
    /// [`Process::purge_allocator`] to return. Called every second by every worker: takes
    /// microseconds.
    fn collect_thread(&self) {}

    /// The supervisor that was notified of the start, as shown in `INFO`.
    fn supervisor(&self) -> &'static str {
        "no"
    }
}

/// Process without any of these functions.
pub struct Indifferent;

impl Process for Indifferent {}

/// Bytes of physical memory of this process, and the part without file pages; 0 if unknown.
pub fn resident_bytes() -> (u64, u64) {
    let line = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let bytes = |at| {
        let pages = line.split(' ').nth(at).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0) * page_bytes()
    };
    (bytes(1), bytes(1).saturating_sub(bytes(2)))
}

/// Bytes of physical memory of this machine; 0 where the system does not say.
pub fn system_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram as u64 * u64::from(system.mem_unit)
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    /// In the kernel.
    pub system: f64,
    /// Outside.
    pub user: f64,
}

/// Processes to measure.
#[derive(Clone, Copy, Debug)]
pub enum Whose {
    /// All threads of this process.
    Process,
    /// The terminated children.
    Children,
    /// The calling thread.
    Thread,
}

/// Processor time used so far.
pub fn cpu_time(whose: Whose) -> CpuTime {
    let who = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::Thread => libc::RUSAGE_THREAD,
    };
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid rusage for the call, and all zeroes is one too should it fail.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    CpuTime { system: seconds(usage.ru_stime), user: seconds(usage.ru_utime) }
}

/// Kernel and machine, as `uname` names them.
pub fn system_name() -> String {
    let names = rustix::system::uname();
    [names.sysname(), names.release(), names.machine()].map(CStr::to_string_lossy).join(" ")
}
