//! Counters of workers, and the rates derived from them.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counters of a worker, on cache lines of their own: only the worker writes them, once per turn.
#[derive(Default)]
#[repr(align(128))]
pub struct Traffic {
    /// Bytes received.
    pub received: AtomicU64,
    /// Bytes sent.
    pub sent: AtomicU64,
    /// Turns of its loop.
    pub turns: AtomicU64,
    /// Current activity, a [`Doing`].
    doing: AtomicU8,
    /// Connections' chunks of input.
    pub reads: AtomicU64,
    /// Reads that brought whole commands.
    pub batches: AtomicU64,
    /// The commands that they brought.
    pub pipelined: AtomicU64,
    /// Turns in which commands were executed.
    pub busy_turns: AtomicU64,
    /// Microseconds of processor time of the thread, as of its last upkeep: in the kernel, and
    /// outside.
    pub cpu_us: [AtomicU64; 2],
    /// Nanoseconds spent on commands, and on what goes with them.
    pub busy_nanos: AtomicU64,
    /// Nanoseconds spent on upkeep.
    pub upkeep_nanos: AtomicU64,
    /// Nanoseconds of it spent on keys that had expired.
    pub expiry_nanos: AtomicU64,
    /// Rounds of upkeep that left expired keys for the next.
    pub expiry_unfinished: AtomicU64,
    /// The longest turn, in nanoseconds.
    pub turn_nanos_max: AtomicU64,
    /// Most commands in a turn.
    pub turn_commands_max: AtomicU64,
    /// Connections' pieces of output.
    pub writes: AtomicU64,
    /// Bytes that its connections hold in buffers: unfinished input, queued commands, unsent
    /// output.
    pub buffered: AtomicI64,
    /// Connections that `CLIENT PAUSE` holds back.
    pub paused: AtomicUsize,
    /// Connections that watch keys.
    pub watchers: AtomicI64,
    /// Keys watched, once for each connection that watches them.
    pub watched: AtomicI64,
    /// Most input that a connection held lately.
    pub input_peak: AtomicU64,
    /// Most output that a connection held lately.
    pub output_peak: AtomicU64,
}

/// Activity of a worker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Doing {
    /// Writes queued output, and waits for events.
    Polling,
    /// Handles events: commands, ends of connections, messages.
    Serving,
    /// Expiry, compaction, timers.
    Upkeep,
    /// Executes what may be a script; its stand-in has its connections.
    Script,
    /// Is kept out of the keyspace by another worker's slow script; its stand-in has its
    /// connections.
    Outside,
}

impl Doing {
    const ALL: [Doing; 5] =
        [Doing::Polling, Doing::Serving, Doing::Upkeep, Doing::Script, Doing::Outside];
}

impl Traffic {
    /// Sets the worker's activity.
    #[inline]
    pub fn now_does(&self, doing: Doing) {
        self.doing.store(doing as u8, Relaxed);
    }

    /// The worker's activity.
    pub fn doing(&self) -> Doing {
        let index = usize::from(self.doing.load(Relaxed));
        Doing::ALL.get(index).copied().unwrap_or(Doing::Serving)
    }

    /// Records that a connection watches `now` keys instead of `before`.
    pub fn watch(&self, before: u32, now: u32) {
        self.watched.fetch_add(i64::from(now) - i64::from(before), Relaxed);
        self.watchers.fetch_add(i64::from(now > 0) - i64::from(before > 0), Relaxed);
    }

    /// A connection has executed this many commands in one go.
    #[inline]
    pub fn count_batch(&self, commands: u64) {
        if commands > 0 {
            add(&self.batches, 1);
            add(&self.pipelined, commands);
        }
    }

    /// A turn has ended that took so long, and before which this many commands had been executed.
    #[inline]
    pub fn count_turn(&self, nanos: u64, commands_before: u64) {
        add(&self.turns, 1);
        let commands = self.pipelined.load(Relaxed).wrapping_sub(commands_before);
        if commands > 0 {
            add(&self.busy_turns, 1);
            add(&self.busy_nanos, nanos);
            raise(&self.turn_nanos_max, nanos);
            raise(&self.turn_commands_max, commands);
        }
    }

    /// Halves the peaks, so that they tell of the last seconds.
    pub fn forget_peaks(&self) {
        for peak in [&self.input_peak, &self.output_peak] {
            peak.store(peak.load(Relaxed) / 2, Relaxed);
        }
    }
}

/// Adds to a figure with one writer.
#[inline]
pub fn add(figure: &AtomicU64, n: u64) {
    figure.store(figure.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Raises a figure with one writer, apart from its readers.
#[inline]
pub fn raise(figure: &AtomicU64, to: u64) {
    if to > figure.load(Relaxed) {
        figure.store(to, Relaxed);
    }
}

/// Sums over all workers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Commands executed.
    pub commands: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes that came from a primary.
    pub repl_received: u64,
    /// Bytes that replicas were sent.
    pub repl_sent: u64,
    /// Reads from connections.
    pub reads: u64,
    /// Writes to connections.
    pub writes: u64,
    /// Turns.
    pub turns: u64,
    /// Turns in which commands were executed.
    pub busy_turns: u64,
    /// Nanoseconds spent on turns, upkeep included.
    pub nanos: u64,
    /// Nanoseconds spent on commands.
    pub command_nanos: u64,
    /// Nanoseconds spent on upkeep.
    pub upkeep_nanos: u64,
    /// Reads that brought whole commands.
    pub batches: u64,
    /// The commands that they brought.
    pub pipelined: u64,
}

impl Totals {
    /// Difference to an earlier state.
    pub fn since(&self, before: &Totals) -> Totals {
        let since = |figure: fn(&Totals) -> u64| figure(self).saturating_sub(figure(before));
        Totals {
            commands: since(|totals| totals.commands),
            received: since(|totals| totals.received),
            sent: since(|totals| totals.sent),
            repl_received: since(|totals| totals.repl_received),
            repl_sent: since(|totals| totals.repl_sent),
            reads: since(|totals| totals.reads),
            writes: since(|totals| totals.writes),
            turns: since(|totals| totals.turns),
            busy_turns: since(|totals| totals.busy_turns),
            nanos: since(|totals| totals.nanos),
            command_nanos: since(|totals| totals.command_nanos),
            upkeep_nanos: since(|totals| totals.upkeep_nanos),
            batches: since(|totals| totals.batches),
            pipelined: since(|totals| totals.pipelined),
        }
    }
}

/// Samples that a rate is the mean of.
const SAMPLES: usize = 16;

/// Recent rates per second, sampled by one worker's upkeep.
#[derive(Default)]
pub struct Rates(Mutex<Sampled>);

#[derive(Default)]
struct Sampled {
    last: Totals,
    last_ms: i64,
    rates: [Rate; SAMPLES],
    next: usize,
}

/// Events per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// Commands.
    pub commands: f64,
    /// Bytes received.
    pub received: f64,
    /// Bytes sent.
    pub sent: f64,
    /// Bytes that came from a primary.
    pub repl_received: f64,
    /// Bytes that replicas were sent.
    pub repl_sent: f64,
    /// Turns.
    pub turns: f64,
    /// Nanoseconds spent on turns.
    pub nanos: f64,
}

impl Rates {
    /// Notes the totals as they are at `now_ms`.
    pub fn sample(&self, now_ms: i64, totals: Totals) {
        let mut sampled = self.0.lock();
        let seconds = (now_ms - sampled.last_ms) as f64 / 1000.0;
        if sampled.last_ms != 0 && seconds > 0.0 {
            // After a reset of the statistics a total may be less than before.
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            let last = sampled.last;
            let at = sampled.next;
            sampled.rates[at] = Rate {
                commands: rate(totals.commands, last.commands),
                received: rate(totals.received, last.received),
                sent: rate(totals.sent, last.sent),
                repl_received: rate(totals.repl_received, last.repl_received),
                repl_sent: rate(totals.repl_sent, last.repl_sent),
                turns: rate(totals.turns, last.turns),
                nanos: rate(totals.nanos, last.nanos),
            };
            sampled.next = (at + 1) % SAMPLES;
        }
        sampled.last = totals;
        sampled.last_ms = now_ms;
    }

    /// The mean of the recent samples.
    pub fn mean(&self) -> Rate {
        let sampled = self.0.lock();
        let mean =
            |part: fn(&Rate) -> f64| sampled.rates.iter().map(part).sum::<f64>() / SAMPLES as f64;
        Rate {
            commands: mean(|rate| rate.commands),
            received: mean(|rate| rate.received),
            sent: mean(|rate| rate.sent),
            repl_received: mean(|rate| rate.repl_received),
            repl_sent: mean(|rate| rate.repl_sent),
            turns: mean(|rate| rate.turns),
            nanos: mean(|rate| rate.nanos),
        }
    }

    /// Forgets all samples.
    pub fn reset(&self) {
        *self.0.lock() = Sampled::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_mean_over_sixteen_samples() {
        let rates = Rates::default();
        for step in 0..=SAMPLES as u64 {
            let totals = Totals { commands: step * 50, received: step * 10, ..Totals::default() };
            rates.sample(1000 + step as i64 * 100, totals);
        }
        assert_eq!(rates.mean().commands, 500.0);
        assert_eq!(rates.mean().received, 100.0);
        rates.sample(10_000, Totals::default());
        assert!(rates.mean().commands < 500.0);
        rates.reset();
        assert_eq!(rates.mean().commands, 0.0);
    }
}
