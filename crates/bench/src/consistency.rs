//! `consistency`: the same commands to each server and to a reference, every answer compared.

use std::io::{self, Write};

use crate::command::{Template, Variables};
use crate::experiment::{Case, Description, Experiment};
use crate::random::Random;
use crate::result::{Measured, Measurement};
use crate::server::{Peer, Server, Setting};
use crate::wire::{Stream, connect, read_line};

/// Connections that take turns, so that every thread of a server answers.
const CONNECTIONS: usize = 12;

/// Deepest nesting and longest string of a reply.
const DEPTH_MAX: usize = 16;
const BULK_MAX: usize = 16 * 1024 * 1024;

/// Commands of a type of data.
fn commands_of(name: &str) -> Vec<Template> {
    Description::named(Consistency::NAME).work(name).all("send").map(Template::known).collect()
}

/// `consistency`: answers beside Redis's.
#[derive(Default)]
pub struct Consistency;

impl Experiment for Consistency {
    const NAME: &'static str = "consistency";
    /// The reference.
    type State = Server;

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Server, String> {
        let program: String = case.get("reference");
        let reference = Peer::redis(&program)
            .ok_or_else(|| format!("there is no program {program}; give one with --reference"))?;
        Server::start(&reference, &Setting { threads: 1, ..server.setting().clone() })
    }

    fn measure(&self, case: &Case<'_>, server: &Server, reference: &mut Server) -> Measured {
        let templates = commands_of(case.text("type"));
        let open = |server: &Server| -> io::Result<Vec<Stream>> {
            (0..CONNECTIONS).map(|_| connect(server.endpoint())).collect()
        };
        let failed = |error: io::Error| error.to_string();
        let (mut own, mut others) =
            (open(server).map_err(failed)?, open(reference).map_err(failed)?);
        let mut random = Random::new(case.seed());
        let (checked, mut different, mut first) = (case.get::<u64>("commands"), 0u64, None);
        for number in 0..checked {
            let template = &templates[random.below(templates.len() as u64) as usize];
            let mut request = Vec::new();
            let n = random.below(8);
            template.put(Variables { n, at: number + 1, size: 8 }, &mut random, &mut request);
            let place = number as usize % CONNECTIONS;
            let replies = template.replies();
            let got = send(&mut own[place], &request, replies).map_err(failed)?;
            let want = send(&mut others[place], &request, replies);
            let want = want.map_err(|error| format!("the reference: {error}"))?;
            if got != want {
                different += 1;
                let shown = |bytes: &[u8]| {
                    let text = bytes.escape_ascii().to_string();
                    text.chars().take(200).collect::<String>()
                };
                first.get_or_insert_with(|| {
                    format!("{}: {}, not {}", shown(&request), shown(&got), shown(&want))
                });
            }
        }
        let mut measured = Measurement::default()
            .with("agreed", (checked - different) as f64)
            .with("checked", checked as f64)
            .with("different", different as f64);
        measured.doubts.extend(first.map(|first| format!("{different} answers differ; {first}")));
        Ok(measured)
    }
}

/// Sends commands and reads their replies, unchanged.
fn send(stream: &mut Stream, request: &[u8], replies: u64) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    (0..replies).try_for_each(|_| read_reply(stream, &mut bytes, 0))?;
    Ok(bytes)
}

fn read_reply(stream: &mut Stream, bytes: &mut Vec<u8>, depth: usize) -> io::Result<()> {
    use std::io::Read;
    let line = read_line(stream)?;
    let bad = || io::Error::other(format!("no reply: {}", line.escape_ascii()));
    let number = || std::str::from_utf8(&line[1..]).ok()?.parse::<i64>().ok();
    bytes.extend_from_slice(&line);
    bytes.extend_from_slice(b"\r\n");
    match line.first() {
        Some(b'+' | b'-' | b':') => Ok(()),
        Some(b'$') => {
            let len = number().ok_or_else(bad)?;
            if len >= 0 {
                let len =
                    usize::try_from(len).ok().filter(|len| *len <= BULK_MAX).ok_or_else(bad)?;
                let begin = bytes.len();
                bytes.resize(begin + len + 2, 0);
                stream.read_exact(&mut bytes[begin..])?;
            }
            Ok(())
        }
        Some(b'*') if depth < DEPTH_MAX => {
            let count = number().ok_or_else(bad)?;
            (0..count).try_for_each(|_| read_reply(stream, bytes, depth + 1))
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn all_commands_can_be_read() {
        let all: Vec<Vec<Template>> =
            Description::named(Consistency::NAME).work_names().map(commands_of).collect();
        assert_eq!(all.len(), 9);
        assert!(all.iter().flatten().all(|command| command.replies() > 0));
        assert!(all.iter().all(|commands| commands.len() >= 10));
    }

    #[test]
    fn replies_are_read_as_they_are() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let replies = b"*2\r\n*1\r\n:1\r\n$3\r\na\r\n\r\n-ERR no\r\n$-1\r\n*-1\r\n";
        right.write_all(replies).unwrap();
        let mut stream = Stream::Unix(left);
        assert_eq!(send(&mut stream, b"", 4).unwrap(), replies);
        right.write_all(b"what\r\n").unwrap();
        assert!(send(&mut stream, b"", 1).unwrap_err().to_string().contains("what"));
    }
}
