//! The way to the node that holds a key: a client of a Redis Cluster learns which node that is from
//! `MOVED` and remembers it for the hash slot. A server that is none never says so.

use std::io;
use std::net::SocketAddrV4;

use petrel_cluster::{SLOTS, slot_of};

use super::replay::{Answer, Client};
use crate::load::Endpoint;

/// A request that is sent from node to node so many times is given up.
const REDIRECTIONS_MAX: usize = 5;

/// Connections to the nodes of one server or cluster, the one that was connected to first.
pub struct Route {
    nodes: Vec<(Endpoint, Client)>,
    /// The number of the node of each hash slot; empty before the first `MOVED`.
    homes: Vec<u16>,
    /// The node that has answered last.
    last: usize,
    /// Requests that another node had to answer.
    pub redirections: u64,
}

impl Route {
    /// Connects to a server, or to any node of a cluster.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Route> {
        let nodes = vec![(endpoint.clone(), Client::connect(endpoint)?)];
        Ok(Route { nodes, homes: Vec::new(), last: 0, redirections: 0 })
    }

    /// Bytes through all sockets so far.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|(_, client)| client.bytes()).sum()
    }

    /// The value that the last reply brought.
    pub fn value(&self) -> &[u8] {
        self.nodes[self.last].1.value()
    }

    /// Sends a command, whose second word is a key, to the node that holds it.
    pub fn ask(&mut self, command: &[&[u8]]) -> io::Result<Answer> {
        if !self.homes.is_empty() {
            self.last = usize::from(self.homes[usize::from(slot_of(command[1]))]);
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

    /// Takes the node that `MOVED SLOT HOST:PORT` names for that slot from now on.
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
        self.homes.resize(usize::from(SLOTS), 0);
        self.homes[usize::from(slot)] = self.last as u16;
        self.redirections += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
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
