//! Listening sockets, options of connections, and addresses as clients see them.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::Path;

use crate::sys::{self, RawAddress};

/// Listens on a TCP address, with `TCP_NODELAY` for what it accepts (Linux passes it on).
/// An IPv6 address takes IPv6 connections only, so that `0.0.0.0` and `::` go together.
///
/// # Errors
/// Names the address, the port and the reason.
pub fn bind_tcp(address: &str, port: u16, backlog: u32) -> io::Result<OwnedFd> {
    let bind = || -> io::Result<OwnedFd> {
        let ip: IpAddr = address.trim_matches(['[', ']']).parse().map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "not an IPv4 or IPv6 address")
        })?;
        let domain = if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let socket = sys::socket(domain, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        if ip.is_ipv6() {
            sys::set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        set_nodelay(socket.as_fd(), true)?;
        sys::bind(&socket, &raw_tcp(SocketAddr::new(ip, port)))?;
        sys::listen(&socket, backlog)?;
        Ok(socket)
    };
    bind().map_err(|e| {
        // What the kernel lacks altogether has no kind of its own.
        let lacks = matches!(e.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT));
        let kind = if lacks { io::ErrorKind::Unsupported } else { e.kind() };
        io::Error::new(kind, format!("cannot listen on {address}, port {port}: {e}"))
    })
}

/// Where the kernel's `tcp_info` has the bytes received.
const BYTES_RECEIVED_AT: usize = 128;

/// Bytes that a TCP connection has received since it began, whoever has read them; none for what is no such connection.
pub fn bytes_received(fd: i32) -> Option<u64> {
    let mut info = [0u8; BYTES_RECEIVED_AT + 8];
    let mut len = info.len() as libc::socklen_t;
    let place = info.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes behind `place`; a descriptor that is none is an error.
    let result =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut len) };
    if result != 0 || (len as usize) < info.len() {
        return None;
    }
    let bytes = info[BYTES_RECEIVED_AT..].try_into().ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Listens on a Unix socket, with the file mode `mode` if given. A socket file on which nobody
/// listens any more is replaced; any other file, and a socket in use, is left alone.
///
/// # Errors
/// Names the path and the reason.
pub fn bind_unix(path: &Path, mode: Option<u32>, backlog: u32) -> io::Result<OwnedFd> {
    bind_unix_for(path, mode, None, backlog)
}

/// The same, of the group of that name if given.
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
        let address = raw_unix(path)?;
        let group = group.map(group_number).transpose()?;
        remove_stale(path, &address)?;
        let socket = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        sys::bind(&socket, &address)?;
        let admit = || {
            // The group first: what the mode lets its group do, it lets nobody else do.
            if let Some(group) = group {
                chown(path, None, Some(group))?;
            }
            if let Some(mode) = mode {
                fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            }
            sys::listen(&socket, backlog)
        };
        admit().inspect_err(|_| drop(fs::remove_file(path)))?;
        Ok(socket)
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

/// Makes a listening TCP socket refuse connections and leave its place to others, until [`listen_again`].
pub fn stop_listening(listener: BorrowedFd<'_>) {
    sys::shutdown(listener);
}

/// Listens again after [`stop_listening`].
///
/// # Errors
/// If its place is taken.
pub fn listen_again(listener: &OwnedFd, backlog: u32) -> io::Result<()> {
    sys::listen(listener, backlog)
}

/// Turns Nagle's algorithm off (`true`) or on. Fails on sockets that are not TCP.
///
/// # Errors
/// What the kernel says.
pub fn set_nodelay(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    sys::set_option(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, on.into())
}

/// Lets the kernel probe an idle TCP peer after `idle_s` seconds, three times at a third of that,
/// so that a dead one is found after twice the time; 0 turns probing off. Set on a listener, it
/// holds for what is accepted.
///
/// # Errors
/// What the kernel says.
pub fn set_keepalive(socket: BorrowedFd<'_>, idle_s: u32) -> io::Result<()> {
    sys::set_option(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, (idle_s > 0).into())?;
    if idle_s == 0 {
        return Ok(());
    }
    // The kernel takes at most 32767 seconds for either.
    let idle = idle_s.min(32767) as libc::c_int;
    sys::set_option(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, idle)?;
    sys::set_option(socket, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, (idle / 3).max(1))?;
    sys::set_option(socket, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3)
}

/// Whether the other end of a connection has closed it, which the driver may not have noticed yet. True also if there is
/// no such descriptor; false for -1, which stands for one that is not known.
pub fn is_hung_up(fd: RawFd) -> bool {
    sys::is_hung_up(fd)
}

/// One end of a connection in at most 16 bytes, shown as `ip:port` or `[ip]:port`.
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

/// The other end of a connected socket.
///
/// # Errors
/// What the kernel says, `ENOTCONN` if the peer has already reset the connection.
pub fn peer_endpoint(socket: BorrowedFd<'_>) -> io::Result<Endpoint> {
    sys::address(socket, false).map(|raw| endpoint(&raw))
}

/// This end of a socket.
///
/// # Errors
/// What the kernel says.
pub fn local_endpoint(socket: BorrowedFd<'_>) -> io::Result<Endpoint> {
    sys::address(socket, true).map(|raw| endpoint(&raw))
}

fn endpoint(raw: &RawAddress) -> Endpoint {
    let at = std::ptr::from_ref(&raw.storage);
    match libc::c_int::from(raw.storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds a sockaddr_in.
            let v4 = unsafe { at.cast::<libc::sockaddr_in>().read() };
            Endpoint::V4(v4.sin_addr.s_addr.to_ne_bytes(), u16::from_be(v4.sin_port))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that the storage holds a sockaddr_in6.
            let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Endpoint::V6(Box::new(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id)))
        }
        _ => Endpoint::Unix,
    }
}

fn raw_tcp(address: SocketAddr) -> RawAddress {
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            RawAddress::of(raw, size_of::<libc::sockaddr_in>())
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            RawAddress::of(raw, size_of::<libc::sockaddr_in6>())
        }
    }
}

fn raw_unix(path: &Path) -> io::Result<RawAddress> {
    let bytes = path.as_os_str().as_bytes();
    let mut raw = libc::sockaddr_un { sun_family: libc::AF_UNIX as _, sun_path: [0; 108] };
    // One byte stays for the terminating zero.
    if bytes.is_empty() || bytes.len() >= raw.sun_path.len() || bytes.contains(&0) {
        let text = format!("a socket path has 1 to {} bytes", raw.sun_path.len() - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for (to, from) in raw.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(RawAddress::of(raw, size_of::<libc::sa_family_t>() + bytes.len() + 1))
}

/// Removes the file at `path` if it is a socket that refuses connections.
fn remove_stale(path: &Path, address: &RawAddress) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
        Ok(data) if !data.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file is in the way"));
        }
        Ok(_) => {}
    }
    // Not blocking: a live server with a full backlog answers EAGAIN instead of hanging us.
    let probe = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
    match sys::connect(&probe, address) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens on it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
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
        assert_eq!(endpoint(&raw_tcp(v6.into())).to_string(), "[::1]:6379");
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
