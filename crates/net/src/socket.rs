//! Listening sockets, options of connections, and addresses as clients see them.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, SocketAddrV6};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use crate::sys;

/// Listens on a TCP address; accepted connections have `TCP_NODELAY` (Linux passes it on). An IPv6
/// address takes IPv6 connections only, so that `0.0.0.0` and `::` can both be bound.
///
/// # Errors
/// Names the address, the port and the reason.
pub fn bind_tcp(address: &str, port: u16, backlog: u32) -> io::Result<OwnedFd> {
    let bind = || -> io::Result<OwnedFd> {
        let ip: IpAddr = address.trim_matches(['[', ']']).parse().map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "not an IPv4 or IPv6 address")
        })?;
        let address = SocketAddr::new(ip, port);
        let socket = stream_socket(Domain::for_address(address))?;
        socket.set_reuse_address(true)?;
        if ip.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_tcp_nodelay(true)?;
        socket.bind(&address.into())?;
        socket.listen(backlog_of(backlog))?;
        Ok(socket.into())
    };
    bind().map_err(|e| {
        // A protocol that the kernel lacks has no `ErrorKind`.
        let lacks = matches!(e.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT));
        let kind = if lacks { io::ErrorKind::Unsupported } else { e.kind() };
        io::Error::new(kind, format!("cannot listen on {address}, port {port}: {e}"))
    })
}

/// Offset of `tcpi_bytes_received` in the kernel's `tcp_info`.
const BYTES_RECEIVED_AT: usize = 128;

/// Bytes that a TCP connection has received since it began, in all processes; none if `fd` is not a
/// TCP connection.
pub fn bytes_received(fd: i32) -> Option<u64> {
    let mut info = [0u8; BYTES_RECEIVED_AT + 8];
    let mut len = info.len() as libc::socklen_t;
    let place = info.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes behind `place`; a descriptor that is none is an
    // error.
    let result =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut len) };
    if result != 0 || (len as usize) < info.len() {
        return None;
    }
    let bytes = info[BYTES_RECEIVED_AT..].try_into().ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Bytes that were written to a connection and that its peer has not taken; 0 where that is not
/// known.
pub fn bytes_unread(fd: RawFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int behind the pointer; a descriptor that is none is an error.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Listens on a Unix socket, with the file mode `mode` if given. A socket file on which no process
/// listens any more is replaced; any other file, and a socket in use, is left alone.
///
/// # Errors
/// Names the path and the reason.
pub fn bind_unix(path: &Path, mode: Option<u32>, backlog: u32) -> io::Result<OwnedFd> {
    bind_unix_for(path, mode, None, backlog)
}

/// Like [`bind_unix`], with the group `group` if given.
///
/// # Errors
/// Names the path and the reason; there is no such file then.
pub fn bind_unix_for(
    path: &Path,
    mode: Option<u32>,
    group: Option<&str>,
    backlog: u32,
) -> io::Result<OwnedFd> {
    let bind = || -> io::Result<OwnedFd> {
        let address = unix_address(path)?;
        let group = group.map(group_number).transpose()?;
        remove_stale(path, &address)?;
        let socket = stream_socket(Domain::UNIX)?;
        socket.bind(&address)?;
        let admit = || {
            // The group before the mode: otherwise the old group would have the mode's rights for a
            // moment.
            if let Some(group) = group {
                chown(path, None, Some(group))?;
            }
            if let Some(mode) = mode {
                fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            }
            socket.listen(backlog_of(backlog))
        };
        admit().inspect_err(|_| drop(fs::remove_file(path)))?;
        Ok(socket.into())
    };
    bind().map_err(|e| {
        io::Error::new(e.kind(), format!("cannot listen on Unix socket {}: {e}", path.display()))
    })
}

/// The number of a group.
fn group_number(name: &str) -> io::Result<u32> {
    let number = sys::group_number(name)?;
    number.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no group '{name}'")))
}

/// Makes a listening TCP socket refuse connections and leave its place to others, until
/// [`listen_again`].
pub fn stop_listening(listener: BorrowedFd<'_>) {
    // One that does not listen stays as it is.
    let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
}

/// Listens again after [`stop_listening`].
///
/// # Errors
/// If its place is taken.
pub fn listen_again(listener: &OwnedFd, backlog: u32) -> io::Result<()> {
    SockRef::from(listener).listen(backlog_of(backlog))
}

/// A new stream socket, non-blocking and close-on-exec.
fn stream_socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)
}

fn backlog_of(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

/// Turns Nagle's algorithm off (`true`) or on.
///
/// # Errors
/// The socket is not TCP, or -1 (an unknown socket).
pub fn set_nodelay(fd: RawFd, on: bool) -> io::Result<()> {
    sys::set_nodelay(fd, on)
}

/// Lets the kernel probe an idle TCP peer after `idle_s` seconds, three times at a third of that,
/// so that a dead one is found after twice the time; 0 turns probing off. Set on a listener, it
/// applies to accepted connections.
///
/// # Errors
/// Errors of the kernel.
pub fn set_keepalive(socket: BorrowedFd<'_>, idle_s: u32) -> io::Result<()> {
    let socket = SockRef::from(&socket);
    if idle_s == 0 {
        return socket.set_keepalive(false);
    }
    // The kernel takes at most 32767 seconds for either.
    let idle = idle_s.min(32767);
    let seconds = |count: u32| Duration::from_secs(count.into());
    let probes = TcpKeepalive::new().with_time(seconds(idle));
    socket.set_tcp_keepalive(&probes.with_interval(seconds((idle / 3).max(1))).with_retries(3))
}

/// Whether the other end of a connection has closed it, which the driver may not have noticed yet.
/// True also if there is no such descriptor; false for -1, which stands for one that is not known.
pub fn is_hung_up(fd: RawFd) -> bool {
    sys::is_hung_up(fd)
}

/// For each connection, whether its peer has closed it and all its bytes have been received, which
/// the driver may not have noticed yet. One system call for all, and one more for each that has
/// ended. If another thread closes a descriptor meanwhile, the answer may concern its successor;
/// for -1 it is false.
pub fn have_ended(connections: impl Iterator<Item = RawFd>) -> Vec<bool> {
    sys::have_ended(connections)
}

/// An end of a connection in at most 16 bytes, displayed as `ip:port` or `[ip]:port`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Endpoint {
    /// A Unix socket, shown as `unix`: clients' ends have no name.
    Unix,
    /// An IPv4 address and port.
    V4([u8; 4], u16),
    /// An IPv6 address and port.
    V6(Box<SocketAddrV6>),
}

impl Endpoint {
    /// The IP address, if it has one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Endpoint::Unix => None,
            Endpoint::V4(octets, _) => Some(IpAddr::from(*octets)),
            Endpoint::V6(address) => Some(IpAddr::V6(*address.ip())),
        }
    }

    /// The port, if it has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Endpoint::Unix => None,
            Endpoint::V4(_, port) => Some(*port),
            Endpoint::V6(address) => Some(address.port()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix => f.write_str("unix"),
            Endpoint::V4(octets, port) => write!(f, "{}:{port}", Ipv4Addr::from(*octets)),
            Endpoint::V6(address) => write!(f, "{address}"),
        }
    }
}

/// Address of the peer of a connected socket.
///
/// # Errors
/// `ENOTCONN` if the peer has already reset the connection; other errors of the kernel.
pub fn peer_endpoint(socket: BorrowedFd<'_>) -> io::Result<Endpoint> {
    SockRef::from(&socket).peer_addr().map(|address| endpoint(&address))
}

/// Local address of a socket.
///
/// # Errors
/// Errors of the kernel.
pub fn local_endpoint(socket: BorrowedFd<'_>) -> io::Result<Endpoint> {
    SockRef::from(&socket).local_addr().map(|address| endpoint(&address))
}

fn endpoint(address: &SockAddr) -> Endpoint {
    match address.as_socket() {
        Some(SocketAddr::V4(v4)) => Endpoint::V4(v4.ip().octets(), v4.port()),
        Some(SocketAddr::V6(v6)) => {
            Endpoint::V6(Box::new(SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id())))
        }
        None => Endpoint::Unix,
    }
}

/// Bytes of the path of a Unix socket; one more is the terminating zero.
const UNIX_PATH_MAX: usize = 107;

fn unix_address(path: &Path) -> io::Result<SockAddr> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() > UNIX_PATH_MAX || bytes.contains(&0) {
        let text = format!("a socket path has 1 to {UNIX_PATH_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    SockAddr::unix(path)
}

/// Removes the file at `path` if it is a socket that refuses connections.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
        Ok(data) if !data.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file is in the way"));
        }
        Ok(_) => {}
    }
    // Not blocking: a live server with a full backlog answers EAGAIN instead of hanging us.
    match stream_socket(Domain::UNIX)?.connect(address) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens on it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("petrel-net-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let text = bind_tcp("127.0.0.1", port, 5).unwrap_err().to_string();
        assert!(text.contains(&format!("127.0.0.1, port {port}")), "{text}");
        assert!(text.contains("in use"), "{text}");
        assert!(bind_tcp("nowhere", 1, 5).unwrap_err().to_string().contains("nowhere"));
    }

    #[test]
    fn endpoints_are_shown_as_clients_write_them() {
        let listener = TcpListener::from(bind_tcp("127.0.0.1", 0, 5).unwrap());
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        listener.set_nonblocking(false).unwrap();
        let server = listener.accept().unwrap().0;
        assert!(server.nodelay().unwrap());
        let text = client.local_addr().unwrap().to_string();
        assert_eq!(peer_endpoint(server.as_fd()).unwrap().to_string(), text);
        assert_eq!(local_endpoint(server.as_fd()).unwrap().to_string(), address.to_string());
        let v6 = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 6379, 0, 0);
        assert_eq!(endpoint(&SocketAddr::from(v6).into()).to_string(), "[::1]:6379");
        assert!(size_of::<Endpoint>() <= 16);
        set_keepalive(server.as_fd(), 300).unwrap();
        set_keepalive(server.as_fd(), 0).unwrap();
    }

    #[test]
    fn only_a_stale_socket_file_is_replaced() {
        let path = scratch("stale.sock");
        drop(UnixListener::bind(&path).unwrap());
        let first = bind_unix(&path, Some(0o600), 5).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = bind_unix(&path, None, 5).unwrap_err().to_string();
        assert!(text.contains("another server") && text.contains("stale.sock"), "{text}");
        drop(first);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(bind_unix(&path, None, 5).unwrap_err().to_string().contains("in the way"));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        let long = scratch(&"x".repeat(120));
        assert!(bind_unix(&long, None, 5).unwrap_err().to_string().contains("107"));
    }
}
