//! `tracking`: what client-side caching costs connections that write.

mod readers;

use std::io;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use petrel_client::Commands;
use petrel_resp::encode_command;
use serde::Serialize;

use crate::exchange::{client, connect, cpu_ns, read_same};
use crate::experiment::{
    Better, CPU, Cells, Description, Experiment, FIGURE, Figure, Lifetime, Plot, RunArgs, SERVER,
    Session, THROUGHPUT, View, at, grid, texts,
};
use crate::load::Stream;
use crate::result::{Measurement, Point};
use crate::server::{Server, Setting};
use readers::Readers;

/// Requests in one piece while the keys are stored and first read.
const PIECE: usize = 1000;

/// Bytes of a value, and of the reply that brings it.
const VALUE: &[u8] = b"0123456789abcdef0123456789abcdef";
const VALUE_REPLY_BYTES: usize = 5 + VALUE.len() + 2;

const OK: &[u8] = b"+OK\r\n";

/// Time for what is on its way to arrive.
const SETTLE: Duration = Duration::from_millis(100);

/// Measure server CPU time per write while clients track keys (client-side caching).
///
/// In each round a server is filled, and the same connections overwrite keys in three situations:
/// no client tracks, the tracking clients have read other keys, each key that is written has been
/// read by one of them.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct TrackingArgs {
    /// Threads of the server
    #[arg(long, default_value_t = 2)]
    server_threads: usize,

    /// Tracking clients
    #[arg(long, default_value_t = 100)]
    clients: usize,

    /// Keys that they have read, each its share
    #[arg(long, default_value_t = 1_000_000, default_value_if("quick", "true", "200000"))]
    keys: usize,

    /// Writes per situation and pipeline, each to a key of its own
    #[arg(long, default_value_t = 200_000, default_value_if("quick", "true", "50000"))]
    writes: usize,

    /// Connections that write
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    writers: u16,

    /// Writes that each of them has in flight
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,16")]
    pipelines: Vec<usize>,
}

/// What the tracking clients have read: nothing, as many keys as there are and none of which is
/// written, every key that is written.
const SITUATIONS: [&str; 3] = [UNTRACKED, "other keys are tracked", TRACKED];
const UNTRACKED: &str = "no client tracks";
const TRACKED: &str = "every write hits a tracked key";

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "tracking",
    title: "Writes while clients track",
    about: "Connections overwrite keys, each once, while no client tracks, while clients track other keys, and while \
            each key that is written is tracked by one of them. The clients look for invalidations every 20 ms. In \
            parentheses: over the same while no client tracks.",
    axes: &[("situation", "{}"), ("pipeline", "P{}")],
    figures: &[
        CPU,
        THROUGHPUT,
        Figure::new("invalidations", "Invalidations per write", "", 2, Better::Neither),
    ],
    views: &[
        view(&["cpu"]).cells(AGAINST).plot(Plot::Bars).in_summary(),
        view(&["throughput"]).cells(AGAINST).plot(Plot::Bars),
        view(&["invalidations"]),
    ],
};

const AGAINST: Cells = Cells::Against("situation", UNTRACKED);

const fn view(figures: &'static [&'static str]) -> View {
    View::new("", figures, &[FIGURE], &["situation", SERVER], &["pipeline"])
}

impl Experiment for TrackingArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    type Session = Scene;

    fn check(&self) -> Result<(), String> {
        if self.writes * self.pipelines.len() * 2 > self.keys {
            return Err("each write takes a key of its own: fewer --writes, or more --keys".into());
        }
        Ok(())
    }

    fn points(&self) -> Vec<Point> {
        grid([("situation", texts(&SITUATIONS)), ("pipeline", texts(&self.pipelines))])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Round
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        run.setting(self.server_threads, self.clients + usize::from(self.writers) + 10)
    }

    fn prepare(&self, server: Server, _: &Point) -> Result<Scene, String> {
        Scene::start(server, self).map_err(|error| error.to_string())
    }

    fn measure(&self, scene: &mut Scene, point: &Point, _: usize) -> Result<Measurement, String> {
        scene
            .measure(&point["situation"], at(point, "pipeline"), self)
            .map_err(|error| error.to_string())
    }
}

/// A server, the connections that write, and the clients that may track.
pub struct Scene {
    server: Server,
    writers: Vec<Stream>,
    readers: Readers,
    are_tracking: bool,
    /// Keys of each family that were written, in [`nth`]'s order.
    written: [usize; 2],
}

impl Session for Scene {
    fn server(&self) -> &Server {
        &self.server
    }
}

impl Scene {
    fn start(server: Server, args: &TrackingArgs) -> io::Result<Scene> {
        let writers = (0..args.writers).map(|_| connect(server.endpoint()));
        let writers = writers.collect::<io::Result<Vec<_>>>()?;
        let readers = Readers::connect(server.endpoint(), args.clients)?;
        let set = client(server.endpoint())
            .and_then(|client| client.config_set([("tracking-table-max-keys", 0)]).run());
        set.map_err(io::Error::other)?;
        let mut scene = Scene { server, writers, readers, are_tracking: false, written: [0; 2] };
        for family in [Family::Read, Family::Other] {
            scene.store(family, args.keys)?;
        }
        Ok(scene)
    }

    fn store(&mut self, family: Family, keys: usize) -> io::Result<()> {
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

    fn measure(
        &mut self,
        situation: &str,
        pipeline: usize,
        args: &TrackingArgs,
    ) -> io::Result<Measurement> {
        if situation != UNTRACKED && !self.are_tracking {
            self.readers.track(Family::Read, args.keys)?;
            self.are_tracking = true;
        }
        let over = AtomicBool::new(false);
        let Scene { server, writers, readers, written, .. } = self;
        let family = if situation == TRACKED { Family::Read } else { Family::Other };
        let begin = written[family as usize];
        let (spent, invalidations) = thread::scope(|scope| {
            let reading = scope.spawn(|| readers.take_invalidations(&over));
            let spent = write(server, writers, family, begin, pipeline, args);
            over.store(true, Relaxed);
            let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (spent, read)
        });
        self.written[family as usize] += args.writes;
        let (cpu_ns, time) = spent?;
        let writes = args.writes as f64;
        Ok(Measurement::default()
            .with("cpu", cpu_ns as f64 / 1e3 / writes)
            .with("throughput", writes / time.as_secs_f64())
            .with("invalidations", invalidations? as f64 / writes))
    }
}

/// Writes keys from the `begin`th on. Returns the server's CPU time in nanoseconds, that of what
/// follows the last reply included, and how long it took until the last reply.
fn write(
    server: &Server,
    writers: &mut [Stream],
    family: Family,
    begin: usize,
    pipeline: usize,
    args: &TrackingArgs,
) -> io::Result<(u64, Duration)> {
    let cpu = || cpu_ns(server).map_err(io::Error::other);
    let (mut piece, mut sent) = (Vec::new(), Vec::with_capacity(writers.len()));
    let (before, start) = (cpu()?, Instant::now());
    let mut next = begin;
    let end = begin + args.writes;
    while next < end {
        for writer in &mut *writers {
            piece.clear();
            let count = pipeline.min(end - next);
            (next..next + count).for_each(|n| put_write(family, nth(n, args.keys), &mut piece));
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

/// The nth key to be written: all keys in an order in which neighbours have nothing to do with each
/// other.
fn nth(n: usize, keys: usize) -> usize {
    // A prime of about 1 / phi of 2^32: with no multiple of it as the number of keys none occurs
    // twice.
    const STRIDE: usize = 2_654_435_761;
    n * STRIDE % keys
}

/// Keys of one kind.
#[derive(Clone, Copy, Debug)]
enum Family {
    Read,
    Other,
}

impl Family {
    fn name(self, key: usize) -> String {
        match self {
            Family::Read => format!("key:{key:012}"),
            Family::Other => format!("oth:{key:012}"),
        }
    }
}

fn put_write(family: Family, key: usize, out: &mut Vec<u8>) {
    encode_command(&[b"SET", family.name(key).as_bytes(), VALUE], out);
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
