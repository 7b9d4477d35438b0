//! `pause`: whether removing one large value delays requests for other keys.

mod prober;

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use petrel_client::Commands;
use petrel_client::blocking::Client;

use crate::exchange::Exchange;
use crate::experiment::{Case, Description, Experiment, Options, grid};
use crate::result::{Measured, Measurement, Point};
use crate::server::{Server, Setting};
use crate::sys::joined;
use crate::text::Entry;
use crate::wire::{Endpoint, client, connect, order, read_same};
use crate::work::Filling;
use prober::Prober;

/// The key that is removed, and the one that is renamed over it.
const VICTIM: &[u8] = b"victim";
const SMALL: &[u8] = b"small";

/// Key that the works fill and copies are made of.
const SOURCE: &[u8] = b"source";

/// Elements of one command, and bytes of a string written at once.
const ELEMENTS_PER_COMMAND: u64 = 1_000;
const PIECE_BYTES: usize = 1 << 20;

/// Time from the beginning of a window to the command in it.
const LEAD: Duration = Duration::from_millis(50);

/// `pause`: removal of large values.
#[derive(Default)]
pub struct Pause;

/// Names of the works that an option chooses by the value of an attribute.
fn chosen(options: &Options, option: &str, attribute: &str) -> Result<Vec<String>, String> {
    let works = &Description::named(Pause::NAME).works;
    let named = |text: &String| {
        let work = works.iter().find(|work| work.get(attribute) == Some(text));
        let known = || works.iter().filter_map(|work| work.get(attribute)).collect::<Vec<_>>();
        let work = work.ok_or_else(|| format!("--{option}: there are {}", known().join(", ")));
        work.map(|work| work.rest.to_owned())
    };
    options.texts(option).iter().map(named).collect()
}

impl Experiment for Pause {
    const NAME: &'static str = "pause";
    type State = Scene;

    fn check(&self, options: &Options) -> Result<(), String> {
        chosen(options, "kinds", "kind").and(chosen(options, "ways", "way")).map(|_| ())
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let names = |option, attribute| chosen(options, option, attribute).unwrap_or_default();
        grid([("kind", names("kinds", "kind")), ("way", names("ways", "way"))])
    }

    fn setting(&self, case: &Case<'_>, setting: Setting) -> Setting {
        Setting { connections: case.get::<usize>("connections") + 10, ..setting }
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Scene, String> {
        Scene::start(server, case).map_err(|error| error.to_string())
    }

    fn measure(&self, case: &Case<'_>, server: &Server, scene: &mut Scene) -> Measured {
        let way = Description::named(Self::NAME).work(case.text("way"));
        scene.prepare(way, server, case)?;
        scene.measure(way, case).map_err(|error| error.to_string())
    }
}

/// The connection that removes one large value, and the client that asks for other keys.
pub struct Scene {
    kind: &'static Entry,
    remover: Client,
    prober: Prober,
    /// Whether the value that copies are made of is stored.
    is_filled: bool,
}

impl Scene {
    fn start(server: &Server, case: &Case<'_>) -> io::Result<Scene> {
        let remover = client(server.endpoint()).map_err(io::Error::other)?;
        let gap = Duration::from_micros(case.get("gap"));
        let mut prober = Prober::connect(server.endpoint(), case.get("connections"), gap)?;
        prober.store()?;
        let kind = Description::named(Pause::NAME).work(case.text("kind"));
        Ok(Scene { kind, remover, prober, is_filled: false })
    }

    /// Stores the victim, and waits until the server rests.
    fn prepare(&mut self, way: &Entry, server: &Server, case: &Case<'_>) -> Result<(), String> {
        let failed = |error: petrel_client::Error| error.to_string();
        // A server may let a copy of a string share its memory, so that removing it frees nothing.
        match Filling::of(self.kind) {
            None => fill_string(server.endpoint(), VICTIM, case.get("string-bytes"))
                .map_err(|error| error.to_string())?,
            Some(filling) => {
                if !self.is_filled {
                    let mut exchange = Exchange::connect(server.endpoint(), 1)?;
                    let elements = case.get("elements");
                    filling.store(&mut exchange, elements, ELEMENTS_PER_COMMAND, 8)?;
                    self.is_filled = true;
                }
                order(&self.remover, &[b"COPY", SOURCE, VICTIM, b"REPLACE"]).map_err(failed)?;
            }
        }
        if way.get("way") == Some("flushdb") {
            self.is_filled = false;
        }
        order(&self.remover, &[b"SET", SMALL, b"x"]).map_err(failed)?;
        server.wait_for_rest()
    }

    fn measure(&mut self, way: &Entry, case: &Case<'_>) -> io::Result<Measurement> {
        let length = Duration::from_secs_f64(case.get("seconds"));
        let command: Vec<&[u8]> = way.words("command").into_iter().map(str::as_bytes).collect();
        let mut measured = Measurement::default();
        for (suffix, command) in [("_alone", None), ("", Some(&command[..]))] {
            let (latencies, took) = self.window(length, command)?;
            let name = |figure: &str| format!("{figure}{suffix}");
            let ms = |ns: u64| ns as f64 / 1e6;
            measured = measured
                .with(&name("longest"), ms(latencies.max()))
                .with(&name("p99"), ms(latencies.value_at_quantile(0.99)))
                .with(&name("p999"), ms(latencies.value_at_quantile(0.999)))
                .with(&name("above_1ms"), latencies.count_between(1_000_001, u64::MAX) as f64)
                .with_some(&name("turn"), self.turn_max_ms()?);
            if command.is_some() {
                measured = measured.with("command", took.as_secs_f64() * 1e3);
            }
        }
        Ok(measured)
    }

    /// Sends GETs for a time, and within it a command. Returns the latencies of the GETs and the
    /// time of the command.
    fn window(
        &mut self,
        length: Duration,
        command: Option<&[&[u8]]>,
    ) -> io::Result<(Histogram<u64>, Duration)> {
        self.remover.config_resetstat().run().map_err(io::Error::other)?;
        let Scene { prober, remover, .. } = self;
        let measured = thread::scope(|scope| {
            let probing = scope.spawn(|| prober.probe(length));
            thread::sleep(LEAD);
            let begin = Instant::now();
            let took = match command {
                Some(command) => {
                    order(remover, command).map(|()| begin.elapsed()).map_err(io::Error::other)
                }
                None => Ok(Duration::ZERO),
            };
            Ok((joined(probing)?, took?))
        });
        // `FLUSHDB` has removed them.
        self.prober.store()?;
        measured
    }

    /// Longest turn since the last `CONFIG RESETSTAT`, if `INFO DEBUG` reports it.
    fn turn_max_ms(&mut self) -> io::Result<Option<f64>> {
        let text = self.remover.info().section(["DEBUG"]).run();
        let text = text.map_err(io::Error::other)?;
        let field = text.lines().find_map(|line| line.strip_prefix("eventloop_duration_max:"));
        Ok(field.and_then(|micros| micros.trim().parse::<f64>().ok()).map(|micros| micros / 1e3))
    }
}

fn fill_string(endpoint: &Endpoint, key: &[u8], bytes: usize) -> io::Result<()> {
    let mut stream = connect(endpoint)?;
    let (len, key) = (key.len(), String::from_utf8_lossy(key));
    let head = format!("*3\r\n$3\r\nSET\r\n${len}\r\n{key}\r\n${bytes}\r\n");
    stream.write_all(head.as_bytes())?;
    let piece = vec![b'x'; PIECE_BYTES];
    for begin in (0..bytes).step_by(PIECE_BYTES) {
        stream.write_all(&piece[..PIECE_BYTES.min(bytes - begin)])?;
    }
    stream.write_all(b"\r\n")?;
    read_same(&mut stream, b"+OK\r\n", 1)
}
