//! A connection to a server that answers are compared with.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A reply in RESP2.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Text(Vec<u8>),
    Error(Vec<u8>),
    Number(i64),
    Nil,
    List(Vec<Reply>),
}

pub struct Peer {
    stream: BufReader<TcpStream>,
}

impl Peer {
    /// Connects to the address in a variable. Without it the test skips, and says so.
    pub fn connect(variable: &str) -> Option<Self> {
        let Ok(address) = std::env::var(variable) else {
            eprintln!("skipped: {variable} names no server");
            return None;
        };
        if address.contains('/') {
            eprintln!("skipped: {variable} names a program, not an address");
            return None;
        }
        let stream = TcpStream::connect(&address).expect("the peer answers");
        Some(Self { stream: BufReader::new(stream) })
    }

    pub fn send(&mut self, arguments: &[Vec<u8>]) -> Reply {
        self.pipeline(&[arguments.to_vec()]).remove(0)
    }

    pub fn pipeline(&mut self, requests: &[Vec<Vec<u8>>]) -> Vec<Reply> {
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend(format!("*{}\r\n", request.len()).into_bytes());
            for argument in request {
                bytes.extend(format!("${}\r\n", argument.len()).into_bytes());
                bytes.extend_from_slice(argument);
                bytes.extend(b"\r\n");
            }
        }
        self.stream.get_mut().write_all(&bytes).expect("the peer reads");
        requests.iter().map(|_| self.read()).collect()
    }

    fn read(&mut self) -> Reply {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).expect("the peer answers");
        assert!(line.len() > 2, "the peer has ended");
        let text = line[1..line.len() - 2].to_vec();
        let number = || String::from_utf8_lossy(&text).parse::<i64>().expect("a number");
        match line[0] {
            b'+' => Reply::Text(text),
            b'-' => Reply::Error(text),
            b':' => Reply::Number(number()),
            b'$' if number() < 0 => Reply::Nil,
            b'$' => {
                let mut bytes = vec![0; usize::try_from(number()).expect("a length") + 2];
                self.stream.read_exact(&mut bytes).expect("the whole string");
                bytes.truncate(bytes.len() - 2);
                Reply::Text(bytes)
            }
            b'*' if number() < 0 => Reply::Nil,
            b'*' => Reply::List((0..number()).map(|_| self.read()).collect()),
            other => panic!("unknown reply {other}"),
        }
    }
}
