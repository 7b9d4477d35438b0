//! The system calls of the epoll back-end, with Rust's errors.

use std::ffi::CString;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::epoll;
use rustix::net::SocketFlags;

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

/// Receives into `len` bytes at `at` without blocking.
///
/// # Safety
/// `at` must be valid for writes of `len` bytes that nothing else refers to.
#[inline]
pub(crate) unsafe fn recv(fd: RawFd, at: *mut u8, len: usize) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    check_len(unsafe { libc::recv(fd, at.cast(), len, libc::MSG_DONTWAIT) })
}

/// Receives at most `max` bytes without blocking; appends to the buffer within its capacity.
#[inline]
pub(crate) fn recv_into(fd: RawFd, buffer: &mut Vec<u8>, max: usize) -> io::Result<usize> {
    let room = buffer.spare_capacity_mut();
    let len = room.len().min(max);
    // SAFETY: the buffer has room for `len` bytes, and the kernel initialised the first `count`.
    unsafe {
        let count = recv(fd, room.as_mut_ptr().cast(), len)?;
        buffer.set_len(buffer.len() + count);
        Ok(count)
    }
}

/// Result of a send.
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

/// Turns Nagle's algorithm off (`true`) or on.
pub(crate) fn set_nodelay(fd: RawFd, on: bool) -> io::Result<()> {
    let (on, len) = (libc::c_int::from(on), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the option is an integer of the given size, which the call reads.
    let set = unsafe {
        libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const on).cast(), len)
    };
    check(set).map(drop)
}

/// Whether the peer of a socket has closed it or shut down its sending side.
pub(crate) fn is_hung_up(fd: RawFd) -> bool {
    poll_ends(&mut [end_of(fd)]) > 0
}

/// Poll entry for whether the peer of a socket has closed it or shut down its sending side.
fn end_of(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 }
}

/// Fills the answers in, without waiting; of how many sockets there is one.
fn poll_ends(entries: &mut [libc::pollfd]) -> libc::c_int {
    // SAFETY: as many valid entries, which the call fills in; whatever the numbers stand for, they
    // are only asked about.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, 0) }
}

/// For each socket, whether the peer has closed it or shut down its sending side, and all its bytes
/// have been received.
pub(crate) fn have_ended(sockets: impl Iterator<Item = RawFd>) -> Vec<bool> {
    let mut entries: Vec<libc::pollfd> = sockets.map(end_of).collect();
    let ready = poll_ends(&mut entries);
    let is_empty = |fd| {
        let mut byte = 0u8;
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: one byte may be written, and nothing is taken from the socket.
        unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, flags) <= 0 }
    };
    let has_ended = |entry: &libc::pollfd| ready > 0 && entry.revents != 0 && is_empty(entry.fd);
    entries.iter().map(has_ended).collect()
}

/// Accepts one connection without blocking on it.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?)
}

pub(crate) fn epoll_create() -> io::Result<OwnedFd> {
    Ok(epoll::create(epoll::CreateFlags::CLOEXEC)?)
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

/// Bytes of a group's names and members that are looked at most.
const GROUP_BYTES_MAX: usize = 1024 * 1024;

/// The number of the group of that name; none if there is no such group.
pub(crate) fn group_number(name: &str) -> io::Result<Option<libc::gid_t>> {
    let name = CString::new(name)?;
    let mut texts: Vec<libc::c_char> = vec![0; 1024];
    loop {
        let mut found = std::ptr::null_mut();
        // SAFETY: the structure is plain data, for which zeros are valid; a name that ends in a
        // zero, and places that are writable for as many bytes as is said.
        let (error, number) = unsafe {
            let mut group: libc::group = zeroed();
            let at = texts.as_mut_ptr();
            let error = libc::getgrnam_r(name.as_ptr(), &mut group, at, texts.len(), &mut found);
            (error, group.gr_gid)
        };
        match error {
            0 if found.is_null() => return Ok(None),
            0 => return Ok(Some(number)),
            libc::ERANGE if texts.len() < GROUP_BYTES_MAX => texts.resize(texts.len() * 4, 0),
            // What some systems say of a name that they do not know.
            libc::ENOENT | libc::ESRCH => return Ok(None),
            _ => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}
