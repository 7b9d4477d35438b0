//! Thread of the load generator: an epoll loop over its connections.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::connection::{Outbox, Outstanding};
use super::keys::KeyPicker;
use super::request::{Mix, Operation, Template, ValueBlock};
use super::tally::{self, Replies};
use super::{Extent, Lengths, LoadError, Plan};
use crate::random::{mix, scale};
use crate::sys::{self, Interest, Poller};
use crate::wire::{HEADER_MAX, Reply, ReplyReader, Stream};

/// Bytes read at once.
const READ_SIZE: usize = 256 * 1024;

/// A server without a reply for this time is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Longest wait for sockets, so that the end of the window and an abort are seen.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Result of a thread.
#[derive(Debug)]
pub struct WorkerResult {
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
    /// Exact sum of the latencies.
    pub latency_ns: u128,
    /// Replies by kind.
    pub replies: Replies,
    /// CPU time of this thread while measuring.
    pub client_cpu_ns: u64,
    /// CPU time of the server in the window, from the one thread that reads it.
    pub server_cpu_ns: Option<u64>,
    /// Each connection's part.
    pub connections: Vec<ConnectionResult>,
}

/// Result of one connection.
#[derive(Debug)]
pub struct ConnectionResult {
    /// Number among all connections of the load.
    pub index: usize,
    /// Still open, with nothing in flight.
    pub stream: Stream,
    /// Replies measured.
    pub answered: u64,
    /// Time over which it was measured.
    pub active: Duration,
}

#[derive(Debug)]
struct Connection {
    index: usize,
    stream: Stream,
    reader: ReplyReader,
    /// The beginning of a header that is still incomplete.
    rest: Vec<u8>,
    outbox: Outbox,
    waits_for_room: bool,
    outstanding: Outstanding,
    /// Keys of the values to come, where their lengths are checked or misses are filled.
    expected: VecDeque<u64>,
    /// Keys to store, because they were missed.
    missed: VecDeque<u64>,
    picker: KeyPicker,
    /// Requests still to be sent; `None` is no limit.
    left: Option<u64>,
    answered: u64,
    last_reply: Instant,
    /// Open loop: requests sent.
    sent: u64,
}

/// Thread of the load generator.
#[derive(Debug)]
pub struct Worker<'a> {
    plan: &'a Plan,
    block: &'a ValueBlock,
    templates: &'a [Template],
    poller: Poller,
    connections: Vec<Connection>,
    /// [`HEADER_MAX`] bytes for an incomplete header, then bytes read.
    buffer: Vec<u8>,
    latency: Histogram<u64>,
    latency_ns: u128,
    replies: Replies,
    begin: Instant,
    /// Replies count from here...
    start: Instant,
    /// ...to here, where sending ends, too.
    end: Option<Instant>,
    sending: bool,
    in_flight: usize,
    /// Connections that have requests left to send.
    unfinished: usize,
    keeps_keys: bool,
    pace: Option<Pace>,
}

/// Due times in an open loop: request `n` of connection `c` of `total` is due at
/// `(n * total + c) * interval` after the beginning, so that connections take turns.
#[derive(Clone, Copy, Debug)]
struct Pace {
    interval_ns: f64,
    total: usize,
    /// The next request that falls due among this thread's connections.
    next_round: u64,
    next_position: usize,
    /// Rounds that had fallen due when the first connection was visited: the visits since then
    /// count them for every connection.
    counted: u64,
}

impl Pace {
    /// Due time of request `round` of connection `index`.
    fn due(&self, begin: Instant, round: u64, index: usize) -> Instant {
        let place = round as f64 * self.total as f64 + index as f64;
        begin + Duration::from_nanos((place * self.interval_ns) as u64)
    }

    /// Number of requests of connection `index` that have been due until now.
    fn due_count(&self, elapsed: Duration, index: usize) -> u64 {
        let places = elapsed.as_nanos() as f64 / self.interval_ns - index as f64;
        if places < 0.0 { 0 } else { (places / self.total as f64) as u64 + 1 }
    }
}

impl<'a> Worker<'a> {
    /// Makes a worker of some connections; sends nothing yet.
    pub fn new(
        plan: &'a Plan,
        block: &'a ValueBlock,
        templates: &'a [Template],
        streams: Vec<(usize, Stream)>,
        begin: Instant,
    ) -> Result<Worker<'a>, LoadError> {
        let poller = Poller::new()?;
        let mut connections = Vec::with_capacity(streams.len());
        for (position, (index, stream)) in streams.into_iter().enumerate() {
            stream.set_nonblocking(true)?;
            poller.add(&stream, position, Interest::Read)?;
            connections.push(Connection::new(plan, index, stream, begin));
        }
        let (start, end) = match plan.extent {
            Extent::Window { warmup, length } => (begin + warmup, Some(begin + warmup + length)),
            Extent::Operations(_) | Extent::Walk => (begin, None),
        };
        let pace = plan.rate.map(|rate| Pace {
            interval_ns: 1e9 / rate,
            total: plan.connections,
            next_round: 0,
            next_position: 0,
            counted: 0,
        });
        Ok(Worker {
            plan,
            block,
            templates,
            poller,
            unfinished: connections.iter().filter(|c| c.left != Some(0)).count(),
            connections,
            buffer: vec![0; HEADER_MAX + READ_SIZE],
            latency: tally::latency_histogram(),
            latency_ns: 0,
            replies: Replies::default(),
            begin,
            start,
            end,
            sending: true,
            in_flight: 0,
            keeps_keys: matches!(plan.mix, Mix::Cache(_))
                || plan.check_lengths && plan.operation == Operation::Get,
            pace,
        })
    }

    /// Runs to the end of the plan. One thread of a load watches the server's CPU time.
    pub fn run(mut self, watch: bool, abort: &AtomicBool) -> Result<WorkerResult, LoadError> {
        let result = self.run_loop(watch, abort);
        if result.is_err() {
            abort.store(true, Ordering::Relaxed);
        }
        let (client_cpu_ns, server_cpu_ns) = result?;
        let length = self.end.map(|end| end - self.start);
        let connections = self
            .connections
            .into_iter()
            .map(|connection| ConnectionResult {
                index: connection.index,
                answered: connection.answered,
                active: length.unwrap_or(connection.last_reply - self.begin),
                stream: connection.stream,
            })
            .collect();
        Ok(WorkerResult {
            latency: self.latency,
            latency_ns: self.latency_ns,
            replies: self.replies,
            client_cpu_ns,
            server_cpu_ns,
            connections,
        })
    }

    /// The loop; returns the CPU time of this thread and of the server over the measured part.
    fn run_loop(
        &mut self,
        watch: bool,
        abort: &AtomicBool,
    ) -> Result<(u64, Option<u64>), LoadError> {
        let watched = watch.then_some(self.plan);
        let mut at_start: Option<CpuTimes> = None;
        let mut at_end: Option<CpuTimes> = None;
        let mut progress = Instant::now();
        if self.pace.is_none() {
            for position in 0..self.connections.len() {
                self.send(position, self.plan.pipeline)?;
            }
        }
        loop {
            let now = Instant::now();
            if at_start.is_none() && now >= self.start {
                at_start = Some(CpuTimes::take(watched)?);
            }
            if self.sending && self.end.is_some_and(|end| now >= end) {
                self.sending = false;
                at_end = Some(CpuTimes::take(watched)?);
            }
            if self.in_flight == 0 && (!self.sending || self.unfinished == 0) {
                break;
            }
            if now - progress > SILENCE_MAX && self.in_flight > 0 {
                return Err(LoadError(format!("no reply for {} seconds", SILENCE_MAX.as_secs())));
            }
            if abort.load(Ordering::Relaxed) {
                break;
            }
            let timeout = self.send_due(now)?;
            let ready = self.poller.wait(timeout)?;
            for event in 0..ready {
                self.on_ready(event)?;
            }
            if ready > 0 {
                progress = now;
            }
        }
        let at_end = match at_end {
            Some(times) => times,
            None => CpuTimes::take(watched)?,
        };
        Ok(at_end.since(at_start))
    }

    fn on_ready(&mut self, event: usize) -> Result<(), LoadError> {
        let ready = self.poller.ready(event);
        if ready.writable {
            self.flush(ready.token)?;
        }
        if ready.readable {
            let answered = self.receive(ready.token)?;
            if self.pace.is_some() {
                self.send_owed(ready.token, Instant::now())?;
            } else if answered > 0 && self.sending {
                self.send(ready.token, answered)?;
            }
        }
        Ok(())
    }

    /// Reads once, counts the replies, and returns their number.
    fn receive(&mut self, position: usize) -> Result<usize, LoadError> {
        let connection = &mut self.connections[position];
        let head = HEADER_MAX - connection.rest.len();
        self.buffer[head..HEADER_MAX].copy_from_slice(&connection.rest);
        let count = match connection.stream.read(&mut self.buffer[HEADER_MAX..]) {
            Ok(0) => return Err(LoadError("the server closed a connection".to_owned())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let bytes = &self.buffer[head..HEADER_MAX + count];
        let (replies, plan) = (&mut self.replies, self.plan);
        let (expected, missed) = (&mut connection.expected, &mut connection.missed);
        let mut answered = 0;
        let taken = connection
            .reader
            .read(bytes, |reply| {
                answered += 1;
                let key = expected.pop_front();
                replies.count(reply, key.map(|key| plan.values.draw(mix(key))));
                if plan.mix != Mix::Only && reply == Reply::Miss {
                    missed.extend(key);
                }
            })
            .map_err(|bad| LoadError(bad.0))?;
        connection.rest.clear();
        connection.rest.extend_from_slice(&bytes[taken..]);
        if answered > 0 {
            self.record(position, answered)?;
        }
        Ok(answered)
    }

    /// Records the oldest `count` requests as answered now.
    fn record(&mut self, position: usize, count: usize) -> Result<(), LoadError> {
        let now = Instant::now();
        let measured = now >= self.start && self.end.is_none_or(|end| now < end);
        let connection = &mut self.connections[position];
        let (latency, latency_ns) = (&mut self.latency, &mut self.latency_ns);
        let matched = connection.outstanding.pop(count, |since, size| {
            if measured {
                let ns = now.saturating_duration_since(since).as_nanos() as u64;
                latency.saturating_record_n(ns, size as u64);
                *latency_ns += u128::from(ns) * size as u128;
            }
        });
        if !matched {
            return Err(LoadError("the server sent more replies than requests".to_owned()));
        }
        connection.answered += if measured { count as u64 } else { 0 };
        connection.last_reply = now;
        self.in_flight -= count;
        Ok(())
    }

    /// Closed loop: writes up to `count` more requests.
    fn send(&mut self, position: usize, count: usize) -> Result<(), LoadError> {
        let mut made = 0;
        while made < count && self.put_request(position) {
            made += 1;
        }
        if made > 0 {
            self.connections[position].outstanding.push(Instant::now(), made);
            self.in_flight += made;
            self.flush(position)?;
        }
        Ok(())
    }

    /// Open loop: visits the connections with due requests, each at most once, and returns the time
    /// to wait for sockets.
    fn send_due(&mut self, now: Instant) -> Result<Duration, LoadError> {
        let Some(mut pace) = self.pace else { return Ok(WAIT_MAX) };
        if !self.sending || self.unfinished == 0 {
            return Ok(WAIT_MAX);
        }
        let mut wait = Duration::ZERO;
        for _ in 0..self.connections.len() {
            let position = pace.next_position;
            let due = pace.due(self.begin, pace.next_round, self.connections[position].index);
            if due > now {
                wait = due - now;
                break;
            }
            if position == 0 {
                pace.counted = pace.due_count(now - self.begin, 0).saturating_sub(1);
            }
            self.send_owed(position, now)?;
            pace.next_position += 1;
            if pace.next_position == self.connections.len() {
                pace.next_position = 0;
                pace.next_round = pace.counted.max(pace.next_round + 1);
            }
        }
        self.pace = Some(pace);
        Ok(wait.min(WAIT_MAX))
    }

    /// Open loop: writes the due requests, as many as the pipeline allows.
    fn send_owed(&mut self, position: usize, now: Instant) -> Result<(), LoadError> {
        let Some(pace) = self.pace else { return Ok(()) };
        let index = self.connections[position].index;
        let due = pace.due_count(now - self.begin, index);
        let mut made = 0;
        while self.sending
            && self.connections[position].sent < due
            && self.connections[position].outstanding.total() < self.plan.pipeline
            && self.put_request(position)
        {
            let connection = &mut self.connections[position];
            let since = pace.due(self.begin, connection.sent, index);
            connection.outstanding.push(since, 1);
            connection.sent += 1;
            made += 1;
        }
        self.in_flight += made;
        if made > 0 { self.flush(position) } else { Ok(()) }
    }

    /// Appends one request to the outbox; false if the connection has none left to send.
    #[inline]
    fn put_request(&mut self, position: usize) -> bool {
        let connection = &mut self.connections[position];
        let (key, template) = match connection.missed.pop_front() {
            Some(key) => (key, 1),
            None => {
                let Some(key) = connection.next_key(self.plan) else { return false };
                if connection.left == Some(0) {
                    self.unfinished -= 1;
                }
                (key, connection.next_template(self.plan))
            }
        };
        let template = &self.templates[template];
        if self.keeps_keys {
            connection.expected.push_back(key);
        }
        if template.has_value() {
            let random = match self.plan.lengths {
                Lengths::ByKey => mix(key),
                Lengths::Random => connection.picker.bits(),
            };
            let len = self.plan.values.draw(random);
            template.put_head(connection.outbox.buffer(), key, len);
            let value = self.block.value(self.block.start(random), len as usize);
            connection.outbox.buffer().extend_from_slice(value);
            template.put_tail(connection.outbox.buffer());
        } else {
            template.put_head(connection.outbox.buffer(), key, 0);
        }
        true
    }

    fn flush(&mut self, position: usize) -> Result<(), LoadError> {
        let connection = &mut self.connections[position];
        let drained = connection.outbox.flush(&mut connection.stream)?;
        if drained == connection.waits_for_room {
            connection.waits_for_room = !drained;
            let interest = if drained { Interest::Read } else { Interest::ReadWrite };
            self.poller.change(&connection.stream, position, interest)?;
        }
        Ok(())
    }
}

impl Connection {
    fn new(plan: &Plan, index: usize, stream: Stream, begin: Instant) -> Connection {
        let picker =
            KeyPicker::new(plan.keys, plan.order, plan.share, index, plan.connections, plan.seed);
        let left = match plan.extent {
            Extent::Window { .. } => None,
            Extent::Operations(total) => {
                let part = |i: usize| (u128::from(total) * i as u128) / plan.connections as u128;
                Some((part(index + 1) - part(index)) as u64)
            }
            Extent::Walk => Some(picker.clone().count_once()),
        };
        Connection {
            index,
            stream,
            reader: ReplyReader::new(plan.protocol),
            rest: Vec::new(),
            outbox: Outbox::default(),
            waits_for_room: false,
            outstanding: Outstanding::default(),
            expected: VecDeque::new(),
            missed: VecDeque::new(),
            picker,
            left,
            answered: 0,
            last_reply: begin,
            sent: 0,
        }
    }

    /// The place of the next request's template.
    #[inline]
    fn next_template(&mut self, plan: &Plan) -> usize {
        match plan.mix {
            Mix::Only => 0,
            Mix::Lifetimes(longest) => scale(self.picker.bits(), longest.into()) as usize,
            Mix::Cache(sets) => usize::from(scale(self.picker.bits(), 100) < u64::from(sets)),
        }
    }

    /// The next request's key, counted; `None` at the end.
    #[inline]
    fn next_key(&mut self, plan: &Plan) -> Option<u64> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        match plan.extent {
            Extent::Walk => self.picker.pick_once(),
            Extent::Window { .. } | Extent::Operations(_) => Some(plan.picked(self.picker.pick())),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct CpuTimes {
    thread_ns: u64,
    server_ns: Option<u64>,
}

impl CpuTimes {
    /// Reads the times of this thread, and of the server of a plan.
    fn take(watched: Option<&Plan>) -> io::Result<CpuTimes> {
        let server_ns = watched.map(super::server_cpu).transpose()?.flatten();
        Ok(CpuTimes { thread_ns: sys::thread_cpu_ns(), server_ns })
    }

    fn since(self, start: Option<CpuTimes>) -> (u64, Option<u64>) {
        let Some(start) = start else { return (0, None) };
        let server = self.server_ns.zip(start.server_ns).map(|(end, start)| end - start);
        (self.thread_ns - start.thread_ns, server)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use super::super::tests::plan as load_plan;
    use super::*;

    const CONNECTIONS: usize = 4;

    fn plan(rate: f64, pipeline: usize) -> Plan {
        let extent = Extent::Window { warmup: Duration::ZERO, length: Duration::from_secs(3600) };
        let plan = load_plan(Path::new("unused"), Operation::Ping, extent);
        Plan { connections: CONNECTIONS, threads: 1, pipeline, rate: Some(rate), ..plan }
    }

    /// A worker that began at `begin`, and the other ends of its connections.
    fn with_worker(plan: &Plan, begin: Instant, test: impl FnOnce(Worker<'_>, Vec<UnixStream>)) {
        let block = ValueBlock::new(plan.values.max);
        let templates = Template::all(plan.protocol, plan.operation, plan.mix, plan.keys);
        let pairs = (0..CONNECTIONS).map(|_| UnixStream::pair().unwrap());
        let (near, far): (Vec<_>, Vec<_>) = pairs.unzip();
        let streams = near.into_iter().map(Stream::Unix).enumerate().collect();
        test(Worker::new(plan, &block, &templates, streams, begin).unwrap(), far);
    }

    fn sent(worker: &Worker<'_>) -> Vec<u64> {
        worker.connections.iter().map(|connection| connection.sent).collect()
    }

    #[test]
    fn an_open_loop_sends_what_is_due_and_waits_for_the_next() {
        let begin = Instant::now();
        let interval = Duration::from_micros(500);
        with_worker(&plan(2000.0, 1000), begin, |mut worker, _far| {
            for step in 0..400 {
                let elapsed = Duration::from_micros(step * 1300 + 100);
                let wait = worker.send_due(begin + elapsed).unwrap();
                let due = (elapsed.as_micros() / interval.as_micros()) as u64 + 1;
                let sent = sent(&worker);
                assert_eq!(sent.iter().sum::<u64>(), due, "{elapsed:?}");
                assert!(sent.is_sorted_by(|a, b| a == b || *a == b + 1), "{sent:?}");
                assert_eq!(elapsed + wait, interval * due as u32);
            }
            // After an absence every request counts from when it was due, not from when it went.
            let now = begin + Duration::from_secs(1);
            assert_eq!(worker.send_due(now).unwrap(), Duration::ZERO);
            assert_eq!(sent(&worker), [501, 500, 500, 500]);
            assert_eq!(worker.send_due(now).unwrap(), interval);
            for connection in &mut worker.connections {
                let mut round = 0;
                let total = connection.outstanding.total();
                assert!(connection.outstanding.pop(total, |since, size| {
                    let place = round * CONNECTIONS as u32 + connection.index as u32;
                    assert_eq!((since, size), (begin + interval * place, 1));
                    round += 1;
                }));
            }
        });
    }

    #[test]
    fn an_overloaded_open_loop_gives_each_connection_its_turn_and_charges_for_waiting() {
        let late = Duration::from_millis(200);
        let begin = Instant::now() - late;
        with_worker(&plan(50_000_000.0, 1), begin, |mut worker, mut far| {
            for turn in 1..=50 {
                // All have something due; none has room for more than one.
                for _ in 0..2 {
                    assert_eq!(worker.send_due(Instant::now()).unwrap(), Duration::ZERO);
                    assert_eq!(sent(&worker), [turn; CONNECTIONS]);
                }
                for stream in &mut far {
                    stream.write_all(b"+PONG\r\n").unwrap();
                }
                for position in 0..CONNECTIONS {
                    assert_eq!(worker.receive(position).unwrap(), 1);
                }
            }
            // A reply makes room at once, and for its own connection only.
            worker.send_due(Instant::now()).unwrap();
            far[2].write_all(b"+PONG\r\n").unwrap();
            assert_eq!(worker.poller.wait(WAIT_MAX).unwrap(), 1);
            worker.on_ready(0).unwrap();
            assert_eq!(sent(&worker), [51, 51, 52, 51]);
            assert_eq!(worker.latency.len(), 50 * CONNECTIONS as u64 + 1);
            assert!(worker.latency.min() > (late - Duration::from_millis(1)).as_nanos() as u64);
        });
    }
}
