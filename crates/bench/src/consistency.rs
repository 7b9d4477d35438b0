//! `consistency`: the same commands to each server and to a reference, every answer compared.

use std::io::{self, Write};

use serde::Serialize;

use crate::command::{Template, Variables};
use crate::exchange::{connect, read_line};
use crate::experiment::{
    Better, Description, Experiment, FIGURE, Figure, Lifetime, RunArgs, SERVER, View, grid, texts,
};
use crate::load::Stream;
use crate::random::Random;
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting};

/// Connections that take turns, so that every thread of a server answers.
const CONNECTIONS: usize = 12;

/// Replies are no deeper and no longer than this.
const DEPTH_MAX: usize = 16;
const BULK_MAX: usize = 16 * 1024 * 1024;

/// Compare the answers of each server with those of a reference, by type of data.
///
/// Both get the same commands one after the other over twelve connections in turn; every reply must
/// be the same to the byte.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ConsistencyArgs {
    /// The program of the reference, started as Redis is
    #[arg(long, default_value = "redis-server", value_name = "PROGRAM")]
    #[serde(skip)]
    reference: String,

    /// Threads of the servers, measured apart
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,4,12",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    server_threads: Vec<u16>,

    /// Commands of each type
    #[arg(long, default_value_t = 20_000, default_value_if("quick", "true", "3000"),
          value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    commands: u64,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "consistency",
    title: "Answers beside Redis's",
    about: "The same commands, drawn at random, to each server and to a fresh Redis, one after the other over 12 connections \
            in turn. Each reply must be the same to the byte, errors included. Commands whose order of elements \
            is not defined are left out. The first answer that differs stands in the checks.",
    axes: &[("threads", "{} server threads"), ("type", "{}")],
    figures: &[
        Figure::new("agreed", "Equal answers", "", 0, Better::More),
        Figure::new("checked", "Answers", "", 0, Better::Neither),
        Figure::new("different", "Different answers", "", 0, Better::Less),
    ],
    views: &[
        View::new(
            "",
            &["agreed", "checked", "different"],
            &["threads"],
            &["type"],
            &[SERVER, FIGURE],
        ),
        View::new("Different answers", &["different"], &[], &["type"], &["threads", SERVER])
            .in_summary(),
    ],
};

/// Types of data, each with its commands.
const COMMANDS: &str = include_str!("../assets/consistency.txt");

/// The types in the order of the file.
fn types() -> impl Iterator<Item = &'static str> {
    COMMANDS.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'))
}

/// The commands of a type.
fn commands_of(wanted: &str) -> Vec<Template> {
    let lines = COMMANDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let heading = format!("[{wanted}]");
    let own = lines.skip_while(|line| *line != heading).skip(1);
    own.take_while(|line| !line.starts_with('[')).map(Template::known).collect()
}

impl Experiment for ConsistencyArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (1, 1);
    type Session = (Server, Server);

    fn points(&self) -> Vec<Point> {
        let types = types().map(str::to_owned).collect();
        grid([("threads", texts(&self.server_threads)), ("type", types)])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Measurement
    }

    fn setting(&self, run: &RunArgs, point: &Point) -> Setting {
        run.setting(crate::experiment::at(point, "threads"), 1024)
    }

    fn prepare(&self, server: Server, _: &Point) -> Result<Self::Session, String> {
        let reference = Peer::redis(&self.reference).ok_or_else(|| {
            format!("there is no program {}; give one with --reference", self.reference)
        })?;
        let setting = Setting { threads: 1, ..server.setting().clone() };
        let reference = Server::start(&reference, &setting)?;
        Ok((server, reference))
    }

    fn measure(
        &self,
        (server, reference): &mut Self::Session,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let templates = commands_of(&point["type"]);
        let open = |server: &Server| -> io::Result<Vec<Stream>> {
            (0..CONNECTIONS).map(|_| connect(server.endpoint())).collect()
        };
        let failed = |error: io::Error| error.to_string();
        let (mut own, mut others) =
            (open(server).map_err(failed)?, open(reference).map_err(failed)?);
        let mut random = Random::new(round as u64 + 1);
        let (mut checked, mut different, mut first) = (0u64, 0u64, None);
        for number in 0..self.commands {
            let template = &templates[random.below(templates.len() as u64) as usize];
            let mut request = Vec::new();
            let n = random.below(8);
            template.put(Variables { n, at: number + 1, size: 8 }, &mut random, &mut request);
            let place = number as usize % CONNECTIONS;
            let replies = template.replies();
            let got = send(&mut own[place], &request, replies).map_err(failed)?;
            let want = send(&mut others[place], &request, replies);
            let want = want.map_err(|error| format!("the reference: {error}"))?;
            checked += 1;
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

/// Sends commands and reads so many replies, as they are.
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
        let all: Vec<Vec<Template>> = types().map(commands_of).collect();
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
