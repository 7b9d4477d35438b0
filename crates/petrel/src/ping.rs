//! `petrel ping`: asks a server whether it answers, for health checks without a shell.

use petrel_server::config::{PingLine, Target};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes of an answer that are read at most: an error of the protocol, or a page of `http-port`.
const ANSWER_MAX: usize = 16 << 10;

/// Asks the server.
///
/// # Errors
/// Describes an answer that is no sign of health, or its absence, in a line.
pub fn ping(line: &PingLine) -> Result<(), String> {
    let deadline = Instant::now() + line.timeout;
    match &line.target {
        Target::Tcp(address) => {
            let stream = connect(address, deadline).map_err(|error| at(address, &error))?;
            ask(stream, deadline).map_err(|error| format!("{address}: {error}"))
        }
        Target::Unix(path) => {
            let shown = path.display().to_string();
            let stream = UnixStream::connect(path).map_err(|error| at(&shown, &error))?;
            ask(stream, deadline).map_err(|error| format!("{shown}: {error}"))
        }
        Target::Http(address, path) => {
            let stream = connect(address, deadline).map_err(|error| at(address, &error))?;
            get(stream, address, path, deadline)
                .map_err(|error| format!("http://{address}{path}: {error}"))
        }
    }
}

fn at(address: &str, error: &io::Error) -> String {
    format!("cannot connect to {address}: {}", reason(error))
}

/// Tries each address of a name.
fn connect(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Time left; never zero, which would be no limit.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A stream with bounded waits.
trait Bounded: Read + Write {
    fn bound(&self, time: Duration) -> io::Result<()>;
}

impl Bounded for TcpStream {
    fn bound(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Bounded for UnixStream {
    fn bound(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// Sends `PING`, after `AUTH` if the environment has a password.
fn ask(mut stream: impl Bounded, deadline: Instant) -> Result<(), String> {
    let lines = if let Some(auth) = auth() {
        send(&mut stream, &auth, deadline)?;
        2
    } else {
        send(&mut stream, b"*1\r\n$4\r\nPING\r\n", deadline)?;
        1
    };
    let mut answer = Vec::new();
    while answer.iter().filter(|&&byte| byte == b'\n').count() < lines {
        if receive(&mut stream, &mut answer, deadline)? == 0 {
            return Err("the connection was closed without an answer".into());
        }
    }
    judge(&String::from_utf8_lossy(&answer))
}

/// `AUTH` and `PING`, with the user and password that redis-cli takes from the environment.
fn auth() -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    let variable = |name| std::env::var_os(name).map(OsStringExt::into_vec);
    let password = variable("REDISCLI_AUTH").filter(|password| !password.is_empty())?;
    let user = variable("REDISCLI_USER").filter(|user| !user.is_empty());
    let words: Vec<Vec<u8>> =
        std::iter::once(b"AUTH".to_vec()).chain(user).chain([password]).collect();
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let _ = write!(request, "${}\r\n", word.len());
        request.extend(word);
        request.extend(b"\r\n");
    }
    request.extend(b"*1\r\n$4\r\nPING\r\n");
    Some(request)
}

/// Reads the last line of an answer. A server that asks for a password has answered too.
fn judge(answer: &str) -> Result<(), String> {
    let mut lines = answer.lines();
    let first = lines.next().unwrap_or_default();
    let last = lines.next().unwrap_or(first);
    match last {
        "+PONG" => Ok(()),
        _ if first.starts_with("-WRONGPASS") => Err(format!("REDISCLI_AUTH: {}", &first[1..])),
        _ if last.starts_with("-NOAUTH") => Ok(()),
        _ => Err(last.trim_start_matches('-').to_owned()),
    }
}

fn get(mut stream: impl Bounded, host: &str, path: &str, deadline: Instant) -> Result<(), String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    send(&mut stream, request.as_bytes(), deadline)?;
    let mut answer = Vec::new();
    while answer.len() < ANSWER_MAX && receive(&mut stream, &mut answer, deadline)? > 0 {}
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") if status.starts_with("HTTP/1.") => Ok(()),
        _ => Err(format!("{status} {}", body.lines().next().unwrap_or_default())),
    }
}

fn send(stream: &mut impl Bounded, bytes: &[u8], deadline: Instant) -> Result<(), String> {
    let sent =
        left(deadline).and_then(|time| stream.bound(time)).and_then(|()| stream.write_all(bytes));
    sent.map_err(|error| reason(&error))
}

fn receive(
    stream: &mut impl Bounded,
    answer: &mut Vec<u8>,
    deadline: Instant,
) -> Result<usize, String> {
    if answer.len() >= ANSWER_MAX {
        return Err("the answer is not one of this protocol".into());
    }
    let mut bytes = [0; 1024];
    let read = left(deadline).and_then(|time| {
        stream.bound(time)?;
        stream.read(&mut bytes)
    });
    let count = read.map_err(|error| reason(&error))?;
    answer.extend(&bytes[..count]);
    Ok(count)
}

/// The error in words; an expired limit has several kinds.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_serves_passes() {
        assert_eq!(judge("+PONG\r\n"), Ok(()));
        assert_eq!(judge("+OK\r\n+PONG\r\n"), Ok(()));
        assert_eq!(judge("-NOAUTH Authentication required.\r\n"), Ok(()));
        // No password is required.
        assert_eq!(judge("-ERR AUTH <password> called\r\n+PONG\r\n"), Ok(()));
        assert!(
            judge("-WRONGPASS invalid\r\n-NOAUTH a\r\n").unwrap_err().contains("REDISCLI_AUTH")
        );
        assert_eq!(judge("-LOADING the data\r\n").unwrap_err(), "LOADING the data");
        assert_eq!(judge("HTTP/1.1 400 Bad Request\r\n").unwrap_err(), "HTTP/1.1 400 Bad Request");
    }
}
