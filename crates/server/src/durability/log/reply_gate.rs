//! Driver that delays output until the changes it depends on are durable, or other members have
//! them. While nothing is delayed, each call costs one branch.

use petrel_net::{Chunk, Close, Driver, Event, ListenerId, Options, Output, Slot, Waker};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Driver with delayed output.
pub struct ReplyGate<D> {
    inner: D,
    /// By the index of their slot.
    waits: HashMap<usize, Wait>,
    /// Delayed output of all connections, with ascending epochs.
    queue: VecDeque<Kept>,
    /// Everything up to this epoch is known to be durable.
    durable: u64,
}

/// Connection with delayed output.
struct Wait {
    slot: Slot,
    /// Until this epoch is durable.
    until: u64,
    /// Entries of the queue that are its.
    kept: usize,
    bytes: usize,
    /// Last argument of [`Driver::expect_output`].
    expects: bool,
}

struct Kept {
    until: u64,
    slot: Slot,
    what: What,
}

enum What {
    /// The connection is looked at again.
    Look,
    Send(Output),
    Close,
}

impl<D: Driver> ReplyGate<D> {
    /// A driver around `inner`.
    pub fn around(inner: D) -> Self {
        ReplyGate { inner, waits: HashMap::new(), queue: VecDeque::new(), durable: 0 }
    }

    /// The driver below.
    #[inline]
    pub fn below(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Whether anything is kept back.
    #[inline]
    pub fn is_holding(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Delays further output of this connection until `until` is durable.
    pub fn hold(&mut self, slot: Slot, until: u64) {
        if until <= self.durable {
            return;
        }
        let new = || Wait { slot, until: 0, kept: 0, bytes: 0, expects: false };
        let wait = self.waits.entry(slot.index()).or_insert_with(new);
        if wait.slot != slot {
            // Of a connection that is gone.
            *wait = new();
        }
        if wait.until == 0 {
            self.inner.expect_output(slot, true);
        }
        if until > wait.until {
            wait.until = until;
            self.keep(slot, What::Look);
        }
    }

    /// Sends output that waited for this epoch or an earlier one.
    pub fn release(&mut self, durable: u64) {
        self.durable = durable;
        while self.queue.front().is_some_and(|kept| kept.until <= durable)
            && let Some(kept) = self.queue.pop_front()
        {
            let index = kept.slot.index();
            let Some(wait) = self.waits.get_mut(&index).filter(|wait| wait.slot == kept.slot)
            else {
                // The connection was closed meanwhile.
                if let What::Send(output) = kept.what {
                    self.inner.recycle(output);
                }
                continue;
            };
            wait.kept -= 1;
            let closes = matches!(kept.what, What::Close);
            if let What::Send(output) = kept.what {
                wait.bytes -= output.len();
                self.inner.send(kept.slot, output);
            }
            if closes || wait.kept == 0 && wait.until <= durable {
                let expects = wait.expects;
                self.waits.remove(&index);
                if closes {
                    self.inner.close(kept.slot, Close::AfterFlush);
                }
                self.inner.expect_output(kept.slot, expects && !closes);
            }
        }
    }

    fn wait_of(&mut self, slot: Slot) -> Option<&mut Wait> {
        if self.queue.is_empty() {
            return None;
        }
        self.waits.get_mut(&slot.index()).filter(|wait| wait.slot == slot)
    }

    /// Keeps something back; the connection waits.
    fn keep(&mut self, slot: Slot, what: What) {
        let last = self.queue.back().map_or(0, |last| last.until);
        if let Some(wait) = self.waits.get_mut(&slot.index()) {
            wait.kept += 1;
            if let What::Send(output) = &what {
                wait.bytes += output.len();
            }
            self.queue.push_back(Kept { until: wait.until.max(last), slot, what });
        }
    }
}

impl<D: Driver> Driver for ReplyGate<D> {
    delegate_driver!(inner);
    delegate! { inner:
        fn data(&self, chunk: Chunk) -> &[u8];
        fn read_into(&mut self, slot: Slot, buffer: Vec<u8>, count: usize);
        fn expect_input(&mut self, slot: Slot, bytes: usize);
        fn pause_reading(&mut self, slot: Slot);
        fn resume_reading(&mut self, slot: Slot);
    }

    fn new(options: &Options) -> io::Result<Self> {
        D::new(options).map(Self::around)
    }

    #[inline]
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.inner.poll(timeout, events)?;
        if self.is_holding() {
            for event in &*events {
                if let Event::Closed { slot, .. } = event
                    && self.wait_of(*slot).is_some()
                {
                    self.waits.remove(&slot.index());
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, slot: Slot, output: Output) {
        if self.wait_of(slot).is_some() {
            return self.keep(slot, What::Send(output));
        }
        self.inner.send(slot, output);
    }

    #[inline]
    fn unsent(&self, slot: Slot) -> usize {
        let kept = match self.queue.is_empty() {
            true => 0,
            false => self
                .waits
                .get(&slot.index())
                .filter(|wait| wait.slot == slot)
                .map_or(0, |wait| wait.bytes),
        };
        self.inner.unsent(slot) + kept
    }

    fn close(&mut self, slot: Slot, how: Close) {
        if self.wait_of(slot).is_some() {
            match how {
                Close::AfterFlush => return self.keep(slot, What::Close),
                Close::Now => drop(self.waits.remove(&slot.index())),
            }
        }
        self.inner.close(slot, how);
    }

    fn expect_output(&mut self, slot: Slot, expected: bool) {
        match self.wait_of(slot) {
            Some(wait) => wait.expects = expected,
            None => self.inner.expect_output(slot, expected),
        }
    }
}
