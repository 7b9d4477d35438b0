//! The system calls of the epoll back-end and of the socket set-up, with Rust's errors.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::outbox::Outbox;

/// The result of a call that returns -1 and sets errno on failure.
#[inline]
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[inline]
fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A new descriptor from a call that returns one.
fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: callers pass the fresh result of a call that creates a descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Receives into `len` bytes at `at` without blocking.
///
/// # Safety
/// `at` must be valid for writes of `len` bytes that nothing else refers to.
#[inline]
pub(crate) unsafe fn recv(fd: RawFd, at: *mut u8, len: usize) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    check_len(unsafe { libc::recv(fd, at.cast(), len, libc::MSG_DONTWAIT) })
}

/// What one call took.
pub(crate) struct Sent {
    pub(crate) bytes: usize,
    /// Less than was offered: the socket is full.
    pub(crate) short: bool,
}

/// Sends the front of `outbox` without blocking, in one call.
#[inline]
pub(crate) fn send(fd: RawFd, outbox: &mut Outbox) -> io::Result<Sent> {
    const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    if let Some(piece) = outbox.single() {
        // SAFETY: `piece` is readable for its length.
        let sent = unsafe { libc::send(fd, piece.as_ptr().cast(), piece.len(), FLAGS) };
        return check_len(sent).map(|bytes| Sent { bytes, short: bytes < piece.len() });
    }
    let header = outbox.offer_pieces();
    // SAFETY: the header and its pieces belong to `outbox`, which outlives the call.
    let sent = unsafe { libc::sendmsg(fd, header, FLAGS) };
    check_len(sent).map(|bytes| Sent { bytes, short: bytes < outbox.offered() })
}

/// Whether the other end of a socket has closed it, or closed what it sends on.
pub(crate) fn is_hung_up(fd: RawFd) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one valid entry, which the call fills in; whatever the number stands for, it is only asked about.
    let ready = unsafe { libc::poll(&mut entry, 1, 0) };
    ready > 0 && entry.revents != 0
}

/// Accepts one connection without blocking on it.
pub(crate) fn accept(listener: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the address is not asked for.
    owned(unsafe {
        libc::accept4(listener, std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC)
    })
}

pub(crate) fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

/// Adds, changes or (with `EPOLL_CTL_DEL`) removes the interest in `fd`.
pub(crate) fn epoll_ctl(
    epoll: &OwnedFd,
    operation: libc::c_int,
    fd: RawFd,
    interest: libc::c_int,
    tag: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: interest as u32, u64: tag };
    // SAFETY: `event` is valid for the call.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd, &mut event) }).map(drop)
}

/// Waits for events, -1 ms meaning for ever, and returns how many of `events` are filled.
#[inline]
pub(crate) fn epoll_wait(
    epoll: &OwnedFd,
    events: &mut [libc::epoll_event],
    timeout_ms: libc::c_int,
) -> io::Result<usize> {
    let room = events.len().min(i32::MAX as usize) as libc::c_int;
    // SAFETY: `events` is writable for `room` entries.
    let n = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), room, timeout_ms) };
    check(n).map(|n| n as usize)
}

/// A new socket, close-on-exec.
pub(crate) fn socket(domain: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    owned(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, 0) })
}

/// Sets an integer socket option.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let at = std::ptr::from_ref(&value).cast();
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `at` is readable for `len` bytes.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, at, len) }).map(drop)
}

/// A socket address as the kernel stores it.
pub(crate) struct RawAddress {
    pub(crate) storage: libc::sockaddr_storage,
    pub(crate) len: libc::socklen_t,
}

impl RawAddress {
    pub(crate) fn empty() -> RawAddress {
        // SAFETY: all-zero is a valid sockaddr_storage: family AF_UNSPEC.
        let storage: libc::sockaddr_storage = unsafe { zeroed() };
        RawAddress { storage, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    /// Copies a concrete address (`sockaddr_in` and the like) in.
    pub(crate) fn of<T: Copy>(address: T, len: usize) -> RawAddress {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        let mut raw = RawAddress::empty();
        // SAFETY: the storage is large enough (checked above) and aligned for every address.
        unsafe { std::ptr::from_mut(&mut raw.storage).cast::<T>().write(address) };
        raw.len = len as libc::socklen_t;
        raw
    }

    fn as_ptr(&self) -> *const libc::sockaddr {
        std::ptr::from_ref(&self.storage).cast()
    }
}

pub(crate) fn bind(fd: &OwnedFd, address: &RawAddress) -> io::Result<()> {
    // SAFETY: the address is readable for its length.
    check(unsafe { libc::bind(fd.as_raw_fd(), address.as_ptr(), address.len) }).map(drop)
}

pub(crate) fn connect(fd: &OwnedFd, address: &RawAddress) -> io::Result<()> {
    // SAFETY: the address is readable for its length.
    check(unsafe { libc::connect(fd.as_raw_fd(), address.as_ptr(), address.len) }).map(drop)
}

pub(crate) fn listen(fd: &OwnedFd, backlog: u32) -> io::Result<()> {
    let backlog = libc::c_int::try_from(backlog).unwrap_or(libc::c_int::MAX);
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// Ends what a socket is doing, listening included; one that does nothing stays as it is.
pub(crate) fn shutdown(fd: BorrowedFd<'_>) {
    // SAFETY: no pointers.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Bytes of a group's names and members that are looked at most.
const GROUP_BYTES_MAX: usize = 1024 * 1024;

/// The number of the group of that name; none if there is no such group.
pub(crate) fn group_number(name: &str) -> io::Result<Option<libc::gid_t>> {
    let name = CString::new(name)?;
    let mut texts: Vec<libc::c_char> = vec![0; 1024];
    loop {
        // SAFETY: the structure is plain data, for which zeros are valid.
        let mut group: libc::group = unsafe { zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: a name that ends in a zero, and places that are writable for as many bytes as is said.
        let error = unsafe {
            let at = texts.as_mut_ptr();
            libc::getgrnam_r(name.as_ptr(), &mut group, at, texts.len(), &mut found)
        };
        match error {
            0 if found.is_null() => return Ok(None),
            0 => return Ok(Some(group.gr_gid)),
            libc::ERANGE if texts.len() < GROUP_BYTES_MAX => texts.resize(texts.len() * 4, 0),
            // What some systems say of a name that they do not know.
            libc::ENOENT | libc::ESRCH => return Ok(None),
            _ => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// The peer's (or with `local` this side's) address of a socket.
pub(crate) fn address(fd: BorrowedFd<'_>, local: bool) -> io::Result<RawAddress> {
    let mut raw = RawAddress::empty();
    let at = std::ptr::from_mut(&mut raw.storage).cast();
    let ask = if local { libc::getsockname } else { libc::getpeername };
    // SAFETY: `at` is writable for `raw.len` bytes, which the kernel then shortens.
    check(unsafe { ask(fd.as_raw_fd(), at, &mut raw.len) })?;
    Ok(raw)
}
