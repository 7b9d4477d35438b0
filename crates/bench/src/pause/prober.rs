//! The client that asks for small values, one after the other, and the threads that are not to be
//! delayed by other programs.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use petrel_resp::encode_command;

use crate::exchange::{connect, read_same};
use crate::load::{Endpoint, Stream, latency_histogram};
use crate::sys;

/// Small keys that are asked for.
const KEYS: usize = 1_000;

/// The value of each, and the reply that brings it.
const VALUE: &[u8] = b"0123456789abcdef";
const REPLY: &[u8] = b"$16\r\n0123456789abcdef\r\n";
/// The reply once `FLUSHDB` has taken them.
const NOTHING: &[u8] = b"$-1\r\n";

/// How long GETs are sent to see which threads answer them.
const WARM_UP: Duration = Duration::from_millis(500);

/// A thread that has had this share of the processor time answers GETs.
const SERVING_SHARE: u64 = 20;

/// The lowest priority of real time is above all that is not.
const PRIORITY: i32 = 1;

/// Sends GETs.
pub struct Prober {
    streams: Vec<Stream>,
    gap: Duration,
    next: usize,
}

impl Prober {
    /// Connects so often.
    pub fn connect(endpoint: &Endpoint, connections: usize, gap: Duration) -> io::Result<Prober> {
        let streams = (0..connections.max(1)).map(|_| connect(endpoint));
        let streams = streams.collect::<io::Result<_>>()?;
        Ok(Prober { streams, gap, next: 0 })
    }

    /// Stores what is asked for.
    pub fn store(&mut self) -> io::Result<()> {
        let mut commands = Vec::new();
        for key in 0..KEYS {
            encode_command(&[b"SET", name(key).as_bytes(), VALUE], &mut commands);
        }
        let stream = &mut self.streams[0];
        stream.write_all(&commands)?;
        read_same(stream, b"+OK\r\n", KEYS)
    }

    /// Sends GETs long enough to see which threads answer them.
    pub fn warm_up(&mut self) -> io::Result<()> {
        self.probe(WARM_UP).map(|_| ())
    }

    /// Sends GETs for so long; their latencies in nanoseconds.
    pub fn probe(&mut self, length: Duration) -> io::Result<Histogram<u64>> {
        let mut latencies = latency_histogram();
        let mut command = Vec::new();
        let end = Instant::now() + length;
        while Instant::now() < end {
            self.next += 1;
            command.clear();
            encode_command(&[b"GET", name(self.next % KEYS).as_bytes()], &mut command);
            let connections = self.streams.len();
            let stream = &mut self.streams[self.next % connections];
            let since = Instant::now();
            stream.write_all(&command)?;
            let mut reply = [0; REPLY.len()];
            stream.read_exact(&mut reply[..NOTHING.len()])?;
            if !reply.starts_with(NOTHING) {
                stream.read_exact(&mut reply[NOTHING.len()..])?;
                if reply != REPLY {
                    return Err(io::Error::other("a GET brought something else"));
                }
            }
            latencies.saturating_record(since.elapsed().as_nanos() as u64);
            if !self.gap.is_zero() {
                thread::sleep(self.gap);
            }
        }
        Ok(latencies)
    }
}

fn name(key: usize) -> String {
    format!("key:{key:06}")
}

/// The threads of a server that answer GETs, which can be given real-time priority.
pub struct Urgency {
    threads: Vec<u32>,
    is_possible: bool,
}

impl Urgency {
    /// Leaves all threads as they are.
    pub fn none() -> Urgency {
        Urgency { threads: Vec::new(), is_possible: false }
    }

    /// Finds the threads of a process that are at work while `load` runs.
    pub fn find(pid: u32, load: impl FnOnce() -> io::Result<()>) -> io::Result<Urgency> {
        let before = cpu_by_thread(pid)?;
        load()?;
        let mut used = cpu_by_thread(pid)?;
        for (thread, ns) in &mut used {
            *ns = ns.saturating_sub(before.get(thread).copied().unwrap_or_default());
        }
        let all: u64 = used.values().sum();
        used.retain(|_, ns| *ns * SERVING_SHARE > all);
        let urgency = Urgency { threads: used.into_keys().collect(), is_possible: true };
        let is_possible = urgency.raise(true).is_ok();
        urgency.raise(false)?;
        Ok(Urgency { is_possible, ..urgency })
    }

    /// Whether priorities can be changed.
    pub fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Gives the server's threads real-time priority, or takes it away.
    pub fn raise(&self, on: bool) -> io::Result<()> {
        if self.is_possible {
            for &thread in &self.threads {
                match sys::set_real_time(thread, on.then_some(PRIORITY)) {
                    // It has ended meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    set => set?,
                }
            }
        }
        Ok(())
    }

    /// Gives the calling thread real-time priority.
    pub fn raise_own(&self) -> io::Result<()> {
        if self.is_possible { sys::set_real_time(0, Some(PRIORITY)) } else { Ok(()) }
    }
}

/// Nanoseconds of processor time of each thread of a process.
fn cpu_by_thread(pid: u32) -> io::Result<HashMap<u32, u64>> {
    let mut used = HashMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A thread may have ended meanwhile.
        let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
        let ns = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
        used.insert(thread, ns.unwrap_or_default());
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_threads_that_work() {
        let before = cpu_by_thread(std::process::id()).unwrap();
        assert!(!before.is_empty());
        let work = || {
            let begin = sys::thread_cpu_ns()?;
            while sys::thread_cpu_ns()? < begin + 20_000_000 {}
            Ok(())
        };
        let urgency = Urgency::find(std::process::id(), work);
        // Where priorities are not allowed, taking them away is not refused either.
        assert!(!urgency.unwrap().threads.is_empty());
    }
}
