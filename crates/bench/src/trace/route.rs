//! Client of a server or of a Redis Cluster, which learns the nodes of hash slots from `MOVED`.

use std::io::{self, Read, Write};
use std::net::SocketAddrV4;
use std::time::Duration;

use petrel_cluster::{SLOTS, slot_of};
use petrel_resp::encode_command;

use crate::wire::{Endpoint, Stream};

/// A request is given up after this many redirections.
const REDIRECTIONS_MAX: usize = 5;

/// Longest time of a reply.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest value that a reply may announce.
const VALUE_MAX: usize = 512 * 1024 * 1024;

/// Bytes read at once.
const READ_SIZE: usize = 64 * 1024;

/// Connections to the nodes of one server or cluster, the one that was connected to first.
pub struct Route {
    nodes: Vec<(Endpoint, Client)>,
    /// The number of the node of each hash slot; empty before the first `MOVED`.
    owners: Vec<u16>,
    /// The node that has answered last.
    last: usize,
    /// Requests that another node had to answer.
    pub redirections: u64,
}

impl Route {
    /// Connects to a server, or to any node of a cluster.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Route> {
        let nodes = vec![(endpoint.clone(), Client::connect(endpoint)?)];
        Ok(Route { nodes, owners: Vec::new(), last: 0, redirections: 0 })
    }

    /// Bytes through all sockets so far.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|(_, client)| client.bytes()).sum()
    }

    /// The value that the last reply brought.
    pub fn value(&self) -> &[u8] {
        self.nodes[self.last].1.value()
    }

    /// Sends a command to the node that holds its key, the second word.
    pub fn ask(&mut self, command: &[&[u8]]) -> io::Result<Answer> {
        if !self.owners.is_empty() {
            self.last = usize::from(self.owners[usize::from(slot_of(command[1]))]);
        }
        for _ in 0..REDIRECTIONS_MAX {
            let answer = self.nodes[self.last].1.ask(command)?;
            match answer {
                Answer::Error(text) if text.starts_with("MOVED ") => self.follow(&text)?,
                answer => return Ok(answer),
            }
        }
        Err(io::Error::other("sent from node to node without end"))
    }

    /// Records the node that `MOVED SLOT HOST:PORT` names for that slot.
    fn follow(&mut self, moved: &str) -> io::Result<()> {
        let mut words = moved.split(' ').skip(1);
        let slot = words.next().and_then(|slot| slot.parse::<u16>().ok());
        let slot = slot.filter(|slot| *slot < SLOTS);
        let address = words.next().and_then(|address| address.parse::<SocketAddrV4>().ok());
        let Some((slot, address)) = slot.zip(address) else {
            return Err(io::Error::other(format!("no redirection: {moved:?}")));
        };
        let endpoint = Endpoint::Tcp(address);
        let known = self.nodes.iter().position(|(node, _)| *node == endpoint);
        self.last = match known {
            Some(node) => node,
            None => {
                self.nodes.push((endpoint.clone(), Client::connect(&endpoint)?));
                self.nodes.len() - 1
            }
        };
        self.owners.resize(usize::from(SLOTS), 0);
        self.owners[usize::from(slot)] = self.last as u16;
        self.redirections += 1;
        Ok(())
    }
}

/// Reply to a command. A value lies in the client's buffer.
pub enum Answer {
    /// A value was found.
    Value,
    /// No such key.
    Missing,
    /// The command was executed.
    Done,
    /// The command was refused, for this reason.
    Error(String),
}

/// A connection with one request under way at most.
pub struct Client {
    stream: Stream,
    request: Vec<u8>,
    reply: Vec<u8>,
    /// Place of the last value in `reply`.
    value: std::ops::Range<usize>,
    bytes: u64,
}

impl Client {
    /// Connects to a server.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Client> {
        let stream = endpoint.connect(None)?;
        stream.set_read_timeout(PATIENCE)?;
        Ok(Client { stream, request: Vec::new(), reply: Vec::new(), value: 0..0, bytes: 0 })
    }

    /// Bytes through the socket so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The value that the last reply brought.
    pub fn value(&self) -> &[u8] {
        &self.reply[self.value.clone()]
    }

    /// Sends a command and waits for its reply.
    pub fn ask(&mut self, command: &[&[u8]]) -> io::Result<Answer> {
        self.request.clear();
        encode_command(command, &mut self.request);
        self.stream.write_all(&self.request)?;
        self.stream.flush()?;
        self.bytes += self.request.len() as u64;
        self.value = 0..0;
        let mut filled = 0;
        let end = loop {
            let line =
                self.reply[..filled].windows(2).take(64 * 1024).position(|two| two == b"\r\n");
            match line {
                Some(end) => break end,
                None => filled = self.fill(filled, filled + 1)?,
            }
        };
        let line = &self.reply[1..end];
        let text = String::from_utf8_lossy(line).into_owned();
        let answer = match self.reply[0] {
            b'+' | b':' => Answer::Done,
            b'-' => Answer::Error(text),
            b'_' => Answer::Missing,
            b'$' if text == "-1" => Answer::Missing,
            b'$' => {
                let len = text.parse::<usize>().ok().filter(|len| *len <= VALUE_MAX);
                let len = len.ok_or_else(|| io::Error::other(format!("no length: {text:?}")))?;
                let begin = end + 2;
                filled = self.fill(filled, begin + len + 2)?;
                self.value = begin..begin + len;
                Answer::Value
            }
            _ => return Err(io::Error::other(format!("no reply: {text:?}"))),
        };
        self.bytes += filled as u64;
        Ok(answer)
    }

    /// Reads until the buffer holds `until` bytes.
    fn fill(&mut self, mut filled: usize, until: usize) -> io::Result<usize> {
        while filled < until {
            if self.reply.len() < filled + READ_SIZE {
                self.reply.resize(filled + READ_SIZE, 0);
            }
            match self.stream.read(&mut self.reply[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A node that answers every request with these bytes.
    fn node(reply: String) -> SocketAddrV4 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let std::net::SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!() };
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut bytes = [0; 1024];
            while socket.read(&mut bytes).is_ok_and(|count| count > 0) {
                socket.write_all(reply.as_bytes()).unwrap();
            }
        });
        address
    }

    #[test]
    fn a_key_is_asked_for_where_it_has_moved_and_there_at_once_the_next_time() {
        let holder = node("$3\r\nabc\r\n".to_owned());
        let slot = slot_of(b"key");
        let first = node(format!("-MOVED {slot} {holder}\r\n"));
        let mut route = Route::connect(&Endpoint::Tcp(first)).unwrap();
        for _ in 0..3 {
            assert!(matches!(route.ask(&[b"GET", b"key"]), Ok(Answer::Value)));
            assert_eq!(route.value(), b"abc");
        }
        assert_eq!(route.redirections, 1);
        assert!(route.bytes() > 0);
    }

    #[test]
    fn redirections_that_make_no_sense_or_do_not_end_are_errors() {
        for reply in ["-MOVED 99999 127.0.0.1:1\r\n", "-MOVED 5 nowhere\r\n", "-MOVED \r\n"] {
            let mut route = Route::connect(&Endpoint::Tcp(node(reply.to_owned()))).unwrap();
            let error = route.ask(&[b"GET", b"key"]).err().unwrap();
            assert!(error.to_string().contains("no redirection"), "{error}");
        }
    }
}
