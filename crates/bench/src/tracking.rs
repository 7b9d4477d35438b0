//! `tracking`: cost of client-side caching to connections that write.

mod readers;

use std::io;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use petrel_client::Commands;
use petrel_resp::encode_command;

use crate::experiment::{Case, Experiment, Options};
use crate::result::{Measured, Measurement};
use crate::server::{Server, Setting};
use crate::sys::joined;
use crate::wire::{Stream, client, connect, read_same};
use readers::Readers;

/// Requests in one piece while the keys are stored and first read.
const PIECE: usize = 1000;

/// Bytes of a value, and of the reply that brings it.
const VALUE: &[u8] = b"0123456789abcdef0123456789abcdef";
const VALUE_REPLY_BYTES: usize = 5 + VALUE.len() + 2;

const OK: &[u8] = b"+OK\r\n";

/// Time for invalidations to arrive.
const SETTLE: Duration = Duration::from_millis(100);

/// Works in which no client tracks, and in which each key that is written is tracked.
const UNTRACKED: &str = "no client tracks";
const TRACKED: &str = "every write hits a tracked key";

/// `tracking`: client-side caching.
#[derive(Default)]
pub struct Tracking;

impl Experiment for Tracking {
    const NAME: &'static str = "tracking";
    type State = Scene;

    fn check(&self, options: &Options) -> Result<(), String> {
        let writes = options.get::<usize>("writes") * options.texts("pipelines").len() * 2;
        match writes > options.get("keys") {
            true => Err("each write takes a key of its own: fewer --writes, or more --keys".into()),
            false => Ok(()),
        }
    }

    fn setting(&self, case: &Case<'_>, setting: Setting) -> Setting {
        let connections = case.get::<usize>("clients") + case.get::<usize>("writers") + 10;
        Setting { connections, ..setting }
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Scene, String> {
        Scene::start(server, case).map_err(|error| error.to_string())
    }

    fn measure(&self, case: &Case<'_>, server: &Server, scene: &mut Scene) -> Measured {
        scene.measure(server, case).map_err(|error| error.to_string())
    }
}

/// Connections that write, and the clients that may track.
pub struct Scene {
    writers: Vec<Stream>,
    readers: Readers,
    are_tracking: bool,
    /// Keys of each family that were written, in [`nth`]'s order.
    written: [usize; 2],
}

impl Scene {
    fn start(server: &Server, case: &Case<'_>) -> io::Result<Scene> {
        let writers = (0..case.get::<u16>("writers")).map(|_| connect(server.endpoint()));
        let writers = writers.collect::<io::Result<Vec<_>>>()?;
        let readers = Readers::connect(server.endpoint(), case.get("clients"))?;
        let set = client(server.endpoint())
            .and_then(|client| client.config_set([("tracking-table-max-keys", 0)]).run());
        set.map_err(io::Error::other)?;
        let mut scene = Scene { writers, readers, are_tracking: false, written: [0; 2] };
        for family in [READ, OTHER] {
            scene.store(family, case.get("keys"))?;
        }
        Ok(scene)
    }

    fn store(&mut self, family: usize, keys: usize) -> io::Result<()> {
        let mut piece = Vec::new();
        for begin in (0..keys).step_by(PIECE) {
            piece.clear();
            let end = (begin + PIECE).min(keys);
            (begin..end).for_each(|key| put_write(family, key, &mut piece));
            self.writers[0].write_all(&piece)?;
            read_same(&mut self.writers[0], OK, end - begin)?;
        }
        Ok(())
    }

    fn measure(&mut self, server: &Server, case: &Case<'_>) -> io::Result<Measurement> {
        let (situation, writes) = (case.text("situation"), case.get::<usize>("writes"));
        if situation != UNTRACKED && !self.are_tracking {
            self.readers.track(READ, case.get("keys"))?;
            self.are_tracking = true;
        }
        let over = AtomicBool::new(false);
        let Scene { writers, readers, written, .. } = self;
        let family = if situation == TRACKED { READ } else { OTHER };
        let begin = written[family];
        let (spent, invalidations) = thread::scope(|scope| {
            let reading = scope.spawn(|| readers.take_invalidations(&over));
            let spent = write(server, writers, family, begin, case);
            over.store(true, Relaxed);
            (spent, joined(reading))
        });
        self.written[family] += writes;
        let (cpu_ns, time) = spent?;
        let writes = writes as f64;
        Ok(Measurement::default()
            .with("cpu", cpu_ns as f64 / 1e3 / writes)
            .with("throughput", writes / time.as_secs_f64())
            .with("invalidations", invalidations? as f64 / writes))
    }
}

/// Writes keys from the `begin`th on. Returns the server's CPU time in nanoseconds, that of the
/// invalidations after the last reply included, and the time until the last reply.
fn write(
    server: &Server,
    writers: &mut [Stream],
    family: usize,
    begin: usize,
    case: &Case<'_>,
) -> io::Result<(u64, Duration)> {
    let (pipeline, keys) = (case.at::<usize>("pipeline"), case.get("keys"));
    let cpu = || server.cpu_ns().map_err(io::Error::other);
    let (mut piece, mut sent) = (Vec::new(), Vec::with_capacity(writers.len()));
    let (before, start) = (cpu()?, Instant::now());
    let mut next = begin;
    let end = begin + case.get::<usize>("writes");
    while next < end {
        for writer in &mut *writers {
            piece.clear();
            let count = pipeline.min(end - next);
            (next..next + count).for_each(|n| put_write(family, nth(n, keys), &mut piece));
            writer.write_all(&piece)?;
            sent.push(count);
            next += count;
        }
        for (writer, count) in writers.iter_mut().zip(sent.drain(..)) {
            read_same(writer, OK, count)?;
        }
    }
    let time = start.elapsed();
    thread::sleep(SETTLE);
    Ok((cpu()? - before, time))
}

/// The nth key to be written: all keys in an order that keeps neighbours apart.
fn nth(n: usize, keys: usize) -> usize {
    // A prime of about 1 / phi of 2^32: with no multiple of it as the number of keys none occurs
    // twice.
    const STRIDE: usize = 2_654_435_761;
    n * STRIDE % keys
}

/// Families of keys: read by tracking clients, and others.
const READ: usize = 0;
const OTHER: usize = 1;

fn name(family: usize, key: usize) -> String {
    format!("{}:{key:012}", ["key", "oth"][family])
}

fn put_write(family: usize, key: usize, out: &mut Vec<u8>) {
    encode_command(&[b"SET", name(family, key).as_bytes(), VALUE], out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_written_twice() {
        for keys in [1, 10, 1000, 99_991] {
            let mut all: Vec<usize> = (0..keys).map(|n| nth(n, keys)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..keys));
        }
    }
}
