//! The system calls that std does not offer, each as a safe function. The only module with
//! `unsafe`.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interest {
    /// Bytes to read.
    Read,
    /// Bytes to read, or room to write.
    ReadWrite,
}

impl Interest {
    fn bits(self) -> u32 {
        match self {
            Interest::Read => libc::EPOLLIN as u32,
            Interest::ReadWrite => (libc::EPOLLIN | libc::EPOLLOUT) as u32,
        }
    }
}

/// A socket that is ready, as [`Poller::wait`] reports it.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The token given at registration.
    pub token: usize,
    /// There is something to read, or the peer is gone (reading tells which).
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// A level-triggered epoll set.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    /// An empty set whose waits return at most `events_max` sockets at once.
    pub fn new(events_max: usize) -> io::Result<Poller> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a descriptor just made, owned by nobody else.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Poller { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; events_max] })
    }

    /// Adds a socket; `token` comes back with each of its events.
    pub fn add(&self, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes what a socket that was added is waited for.
    pub fn change(&self, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    fn control(&self, op: i32, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token as u64 };
        // SAFETY: `event` lives through the call.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd, &mut event) })?;
        Ok(())
    }

    /// Waits until a socket is ready or `timeout` has passed (to the nanosecond; Linux 5.11).
    /// Returns how many sockets [`Poller::ready`] now holds.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<usize> {
        let timeout = timespec(timeout);
        // SAFETY: the event array is as long as said; the timespec lives through the call; no
        // signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len(),
                &timeout as *const libc::timespec,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        match check(count as i32) {
            Ok(count) => Ok(count as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The `index`-th socket of the last wait.
    #[inline]
    pub fn ready(&self, index: usize) -> Ready {
        let event = self.events[index];
        let bits = event.events as i32;
        Ready {
            token: event.u64 as usize,
            readable: bits & (libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP) != 0,
            writable: bits & libc::EPOLLOUT != 0,
        }
    }
}

/// Nanoseconds of CPU (user and system) that a process has used with all its threads, those that
/// have ended included.
pub fn process_cpu_ns(pid: u32) -> io::Result<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` lives through the call.
    let status = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(status));
    }
    clock_ns(clock)
}

/// Nanoseconds of CPU (user and system) that the calling thread has used.
pub fn thread_cpu_ns() -> io::Result<u64> {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Has a thread (0: the calling one) run before all that are not of real time, at this priority,
/// or, with none, like any other again.
pub fn set_real_time(thread: u32, priority: Option<i32>) -> io::Result<()> {
    let policy = if priority.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    let param = libc::sched_param { sched_priority: priority.unwrap_or(0) };
    // SAFETY: `param` lives through the call.
    check(unsafe { libc::sched_setscheduler(thread as libc::pid_t, policy, &param) })?;
    Ok(())
}

fn clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    let mut time = timespec(Duration::ZERO);
    // SAFETY: `time` lives through the call.
    check(unsafe { libc::clock_gettime(clock, &mut time) })?;
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Raises the soft limit on open files to the hard one and returns it.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    Ok(limit.rlim_cur)
}

/// Makes the process that `command` starts a group of its own (so that Ctrl-C in the terminal
/// reaches only the benchmark, which then ends it) and has the kernel kill it when the thread that
/// starts it is gone, even by SIGKILL.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    command.process_group(0);
    // SAFETY: `prctl` is async-signal-safe and the closure allocates nothing.
    unsafe {
        command.pre_exec(|| {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)).map(|_| ())
        })
    }
}

/// Sends a signal. A process that is gone already is not an error.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: no pointers.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Blocks SIGINT and SIGTERM in the calling thread and those it starts from now on, so that
/// [`wait_for_stop`] alone receives them. Children started by std get an empty mask.
pub fn block_stop_signals() -> io::Result<()> {
    let set = stop_signals();
    // SAFETY: `set` lives through the call; the old mask is not asked for.
    let status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Waits for SIGINT or SIGTERM, at most so long, and returns which came.
/// [`block_stop_signals`] comes first.
pub fn wait_for_stop(limit: Option<Duration>) -> Option<i32> {
    let set = stop_signals();
    let limit = timespec(limit.unwrap_or(Duration::from_secs(i32::MAX as u64)));
    loop {
        // SAFETY: set and limit live through the call; no details of the signal are asked for.
        let signal = unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &limit) };
        match check(signal) {
            Ok(signal) => return Some(signal),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

fn stop_signals() -> libc::sigset_t {
    // SAFETY: an all-zero set is valid memory for sigemptyset, which initialises it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        set
    }
}

/// Connects to `to` from the loopback address `from`. The port is chosen at connect, so that each
/// source address has the whole range of ports to itself.
pub fn tcp_connect_from(from: Ipv4Addr, to: SocketAddrV4) -> io::Result<TcpStream> {
    // SAFETY: no pointers; the result is checked before it is owned.
    let fd =
        check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: a descriptor just made, owned by nobody else; dropped on every error below.
    let stream = unsafe { TcpStream::from_raw_fd(fd) };
    let on: libc::c_int = 1;
    // SAFETY: the option value lives through the call and its size is given.
    check(unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })?;
    let source = sockaddr(SocketAddrV4::new(from, 0));
    let target = sockaddr(to);
    let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: both addresses live through their calls and their size is given.
    check(unsafe { libc::bind(fd, (&raw const source).cast(), size) })?;
    // SAFETY: as above.
    check(unsafe { libc::connect(fd, (&raw const target).cast(), size) })?;
    Ok(stream)
}

fn sockaddr(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos() as libc::c_long,
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_clocks_advance_with_work() {
        let before = (process_cpu_ns(std::process::id()).unwrap(), thread_cpu_ns().unwrap());
        let mut x = 1u64;
        while thread_cpu_ns().unwrap() < before.1 + 2_000_000 {
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
