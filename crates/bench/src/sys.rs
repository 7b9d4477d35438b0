//! The system calls that std does not offer, each as a safe function. The only module with
//! `unsafe` beside [`crate::allocations`].

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::process::{self, Pid, Resource, Rlimit, Signal};
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Socket, Type};

/// Events of a socket that are waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interest {
    /// Bytes to read.
    Read,
    /// Bytes to read, or room to write.
    ReadWrite,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        match self {
            Interest::Read => epoll::EventFlags::IN,
            Interest::ReadWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        }
    }
}

/// A socket that is ready, as [`Poller::wait`] reports it.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The token given at registration.
    pub token: usize,
    /// Bytes to read, or the end of the connection.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
}

/// A level-triggered epoll set.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<Ready>,
}

/// Largest number of sockets that one wait returns.
const EVENTS_MAX: usize = 1024;

impl Poller {
    /// An empty set.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, ready: Vec::new() })
    }

    /// Adds a socket; `token` comes back with each of its events.
    pub fn add(&self, socket: impl AsFd, token: usize, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        Ok(epoll::add(&self.epoll, socket, data, interest.flags())?)
    }

    /// Changes the events of a socket that was added.
    pub fn change(&self, socket: impl AsFd, token: usize, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        Ok(epoll::modify(&self.epoll, socket, data, interest.flags())?)
    }

    /// Waits until a socket is ready or `timeout` has passed (to the nanosecond; Linux 5.11).
    /// Returns how many sockets [`Poller::ready`] now holds.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<usize> {
        self.ready.clear();
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut room[..], Some(&timeout)) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        use epoll::EventFlags as Flags;
        self.ready.extend(events.iter().map(|&epoll::Event { flags, data }| Ready {
            token: data.u64() as usize,
            readable: flags.intersects(Flags::IN | Flags::ERR | Flags::HUP),
            writable: flags.contains(Flags::OUT),
        }));
        Ok(self.ready.len())
    }

    /// The `index`-th socket of the last wait.
    #[inline]
    pub fn ready(&self, index: usize) -> Ready {
        self.ready[index]
    }
}

/// Nanoseconds of CPU (user and system) that a process has used with all its threads, ended ones
/// included.
pub fn process_cpu_ns(pid: u32) -> io::Result<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` lives through the call.
    let status = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(status));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call.
    match unsafe { libc::clock_gettime(clock, &mut time) } {
        0 => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Nanoseconds of CPU (user and system) that the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Resident memory of a process in bytes, counted page by page: the kernel's running totals may be
/// off by some hundred kilobytes.
pub fn resident_bytes(pid: u32) -> Result<u64, String> {
    lines(pid, "smaps_rollup", &["Rss:"])
}

/// Largest resident memory of a process so far in bytes, by the kernel's running totals.
pub fn peak_bytes(pid: u32) -> Result<u64, String> {
    lines(pid, "status", &["VmHWM:"])
}

/// Private memory of a process in bytes: the part that no other process shares.
pub fn private_bytes(pid: u32) -> Result<u64, String> {
    lines(pid, "smaps_rollup", &["Private_Clean:", "Private_Dirty:"])
}

/// Sum of some lines of a file of `/proc/PID`, bytes.
fn lines(pid: u32, file: &str, names: &[&str]) -> Result<u64, String> {
    let path = format!("/proc/{pid}/{file}");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let bytes = |name: &&str| {
        let line = text.lines().find_map(|line| line.strip_prefix(*name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| format!("{path} has no line {name}"))
    };
    names.iter().map(bytes).sum()
}

/// Child processes of a process, started by any of its threads.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers = |text: String| text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    texts.flat_map(|text| -> Vec<u32> { numbers(text) }).collect()
}

/// Raises the soft limit on open files to the hard one and returns it.
pub fn raise_open_files() -> io::Result<u64> {
    let maximum = process::getrlimit(Resource::Nofile).maximum;
    process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Lets a write beyond the limit on the size of files fail like one to a full disk, instead of
/// ending the process.
pub fn survive_file_size_limit() -> io::Result<()> {
    let noted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noted).map(|_| ())
}

/// Makes the process that `command` starts a group of its own (so that Ctrl-C in the terminal
/// reaches only the benchmark, which then ends it) and has the kernel kill it when the thread that
/// starts it is gone, even by SIGKILL.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    command.process_group(0);
    // SAFETY: `prctl` is async-signal-safe and the closure allocates nothing.
    unsafe {
        command.pre_exec(|| Ok(process::set_parent_process_death_signal(Some(Signal::KILL))?))
    }
}

/// Sends a signal. A process that is gone already is not an error.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = process::kill_process(pid, signal);
    }
}

/// Converts an error to text.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A child process; killed when dropped.
#[derive(Debug)]
pub struct Guarded(pub Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Finds a port without a listener.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Waits for a thread; panics if it has panicked.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Connects to `to` from the loopback address `from`.
pub fn tcp_connect_from(from: Ipv4Addr, to: SocketAddrV4) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddrV4::new(from, 0).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_clocks_advance_with_work() {
        let before = (process_cpu_ns(std::process::id()).unwrap(), thread_cpu_ns());
        let mut x = 1u64;
        while thread_cpu_ns() < before.1 + 2_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(process_cpu_ns(std::process::id()).unwrap() >= before.0 + 2_000_000);
    }

    #[test]
    fn connects_from_another_loopback_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let stream = tcp_connect_from(Ipv4Addr::new(127, 0, 0, 7), to).unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), Ipv4Addr::new(127, 0, 0, 7));
    }
}
