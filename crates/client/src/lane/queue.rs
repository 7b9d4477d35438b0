//! [`Queue`]: requests and replies of one connection, without any input or output.
//!
//! ```text
//! submit ─▶ out (bytes to send) ─▶ socket
//!        └▶ flights (requests in order) ◀─ complete (replies in the same order)
//!              └─ slot of each: waiting ─▶ done ─▶ taken by its caller
//! ```
//!
//! A slot is freed by its caller when the reply is taken, or, if the caller went away, when the
//! reply arrives: so a reply can never get to another caller, however calls are cancelled.

use std::collections::VecDeque;
use std::task::Waker;

use petrel_resp::Value;

use crate::buffer::CommandBuffer;

/// Capacity that an emptied buffer keeps, in bytes.
const OUT_CAPACITY_KEPT: usize = 256 * 1024;

/// Outcome of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The reply to one command.
    One(Value),
    /// The replies to several commands that were submitted together.
    Many(Vec<Value>),
    /// None came.
    Failed(Failure),
}

/// Reasons for a missing reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// The connection was lost before any byte of the request was handed to the system.
    NotSent,
    /// The connection was lost when the server may have executed the request.
    Lost,
    /// The deadline passed.
    TimedOut,
    /// The queue is closed.
    Closed,
}

/// Names a request of a queue; its holder must take the outcome or abandon it.
#[derive(Debug)]
pub(crate) struct Ticket(u32);

enum Slot {
    Free,
    Waiting {
        waker: Option<Waker>,
        deadline: u64,
    },
    Done(Outcome),
    /// The caller is gone; the reply is outstanding.
    Abandoned,
    /// The outcome was given before the reply came: the caller may take it, or has.
    Expired {
        taken: bool,
    },
}

struct Flight {
    slot: u32,
    /// Replies of this request.
    replies: u32,
    /// Replies received so far, if the request has several.
    received: Vec<Value>,
    /// Ordinal of its first byte, and of the first byte behind it.
    start: u64,
    end: u64,
}

/// Requests that wait for replies, in order, and bytes that wait to be sent.
pub(crate) struct Queue {
    /// Encoded and not yet taken for sending.
    out: Vec<u8>,
    /// Bytes ever appended to `out`.
    appended: u64,
    /// Bytes ever taken for sending.
    taken: u64,
    /// Bytes ever handed to the operating system.
    sent: u64,
    flights: VecDeque<Flight>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Bytes of the requests in `flights`.
    held_bytes: usize,
    /// Ticks of the connection's clock so far.
    now: u64,
}

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            out: Vec::new(),
            appended: 0,
            taken: 0,
            sent: 0,
            flights: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
            held_bytes: 0,
            now: 0,
        }
    }

    /// Number of requests with outstanding replies.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Bytes of the requests with outstanding replies.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether there are bytes to be taken.
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Appends commands that are answered together. `ticks` is how long they may take.
    pub(crate) fn submit<'a>(
        &mut self,
        commands: impl Iterator<Item = &'a CommandBuffer>,
        ticks: Option<u64>,
    ) -> Ticket {
        let (start, before) = (self.appended, self.out.len());
        let mut replies = 0;
        for command in commands {
            command.write_to(&mut self.out);
            replies += 1;
        }
        let len = self.out.len() - before;
        self.appended += len as u64;
        self.held_bytes += len;
        let deadline = ticks.map_or(NEVER, |ticks| self.now.saturating_add(ticks));
        let waiting = Slot::Waiting { waker: None, deadline };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = waiting;
                slot
            }
            None => {
                self.slots.push(waiting);
                (self.slots.len() - 1) as u32
            }
        };
        let received = Vec::new();
        self.flights.push_back(Flight { slot, replies, received, start, end: self.appended });
        Ticket(slot)
    }

    /// Appends a command; the connection's sink receives its replies.
    pub(crate) fn append_unanswered(&mut self, command: &CommandBuffer) {
        let before = self.out.len();
        command.write_to(&mut self.out);
        self.appended += (self.out.len() - before) as u64;
    }

    /// Takes the outcome if present; otherwise registers the waker.
    pub(crate) fn poll(&mut self, ticket: &Ticket, waker: &Waker) -> Option<Outcome> {
        let slot = &mut self.slots[ticket.0 as usize];
        match slot {
            Slot::Waiting { waker: waiting, .. } => {
                match waiting {
                    Some(known) => known.clone_from(waker),
                    None => *waiting = Some(waker.clone()),
                }
                None
            }
            Slot::Expired { taken } => {
                *taken = true;
                Some(Outcome::Failed(Failure::TimedOut))
            }
            Slot::Done(_) => {
                let Slot::Done(outcome) = std::mem::replace(slot, Slot::Free) else {
                    return None;
                };
                self.free.push(ticket.0);
                Some(outcome)
            }
            // A ticket is given up with its outcome, so it names no such slot.
            Slot::Free | Slot::Abandoned => Some(Outcome::Failed(Failure::Closed)),
        }
    }

    /// Whether the outcome of a request is there.
    pub(crate) fn is_done(&self, ticket: &Ticket) -> bool {
        !matches!(self.slots[ticket.0 as usize], Slot::Waiting { .. })
    }

    /// The waker of the caller that has waited longest.
    pub(crate) fn waiting(&self) -> Option<Waker> {
        self.flights.iter().find_map(|flight| match &self.slots[flight.slot as usize] {
            Slot::Waiting { waker, .. } => waker.clone(),
            _ => None,
        })
    }

    /// Abandons a request with an untaken outcome. Its reply will be dropped.
    pub(crate) fn abandon(&mut self, ticket: &Ticket) {
        let slot = &mut self.slots[ticket.0 as usize];
        match slot {
            Slot::Waiting { .. } => *slot = Slot::Abandoned,
            Slot::Expired { taken } => *taken = true,
            Slot::Done(_) => {
                *slot = Slot::Free;
                self.free.push(ticket.0);
            }
            Slot::Free | Slot::Abandoned => {}
        }
    }

    /// Takes the received replies in order; appends the callers to wake. False if there is a reply
    /// without a request: the connection is then unusable.
    pub(crate) fn complete(&mut self, replies: &mut Vec<Value>, wakers: &mut Vec<Waker>) -> bool {
        for value in replies.drain(..) {
            let Some(flight) = self.flights.front_mut() else {
                return false;
            };
            if flight.end > self.taken {
                return false;
            }
            let outcome = if flight.replies == 1 {
                Outcome::One(value)
            } else {
                flight.received.push(value);
                if flight.received.len() < flight.replies as usize {
                    continue;
                }
                Outcome::Many(std::mem::take(&mut flight.received))
            };
            self.finish_front(outcome, wakers);
        }
        true
    }

    /// Gives the first flight its outcome.
    fn finish_front(&mut self, outcome: Outcome, wakers: &mut Vec<Waker>) {
        let Some(flight) = self.flights.pop_front() else { return };
        self.held_bytes -= (flight.end - flight.start) as usize;
        let slot = &mut self.slots[flight.slot as usize];
        match slot {
            Slot::Waiting { waker, .. } => {
                wakers.extend(waker.take());
                *slot = Slot::Done(outcome);
            }
            Slot::Expired { taken: false } => {
                *slot = Slot::Done(Outcome::Failed(Failure::TimedOut))
            }
            _ => {
                *slot = Slot::Free;
                self.free.push(flight.slot);
            }
        }
    }

    /// Exchanges the bytes to be sent for an empty buffer.
    pub(crate) fn take_output(&mut self, empty: &mut Vec<u8>) {
        if empty.capacity() > OUT_CAPACITY_KEPT {
            *empty = Vec::new();
        }
        std::mem::swap(&mut self.out, empty);
        self.taken = self.appended;
    }

    /// Notes that bytes that were taken are handed to the system.
    pub(crate) fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Advances the clock; ends requests past their deadline. Returns whether sent requests without
    /// replies remain.
    pub(crate) fn tick(&mut self, wakers: &mut Vec<Waker>) -> bool {
        self.now += 1;
        for flight in &self.flights {
            let slot = &mut self.slots[flight.slot as usize];
            if let Slot::Waiting { waker, deadline } = slot
                && *deadline <= self.now
            {
                wakers.extend(waker.take());
                *slot = Slot::Expired { taken: false };
            }
        }
        !self.flights.is_empty()
    }

    /// The connection is lost, with these bytes taken and not sent. Requests of which nothing was
    /// sent are kept for the next connection, unless `keep` is false; all others fail.
    pub(crate) fn disconnect(&mut self, unsent: &mut Vec<u8>, keep: bool, wakers: &mut Vec<Waker>) {
        unsent.append(&mut self.out);
        let kept_from = if keep { self.sent } else { NEVER };
        // The first flight of which nothing was sent; those of which a part was sent precede it.
        while let Some(flight) = self.flights.front() {
            if flight.start >= kept_from {
                break;
            }
            let failure = if flight.start < self.sent { Failure::Lost } else { Failure::NotSent };
            self.finish_front(Outcome::Failed(failure), wakers);
        }
        let first = self.flights.front().map_or(self.appended, |flight| flight.start);
        let cut = (first.saturating_sub(self.sent) as usize).min(unsent.len());
        unsent.drain(..cut);
        (self.sent, self.taken) = (first, first);
        self.out = std::mem::take(unsent);
        self.drop_expired_unsent();
    }

    /// Requests that timed out while there is no connection are not sent later: a caller that was
    /// given an error may have acted on it.
    fn drop_expired_unsent(&mut self) {
        let is_gone = |slot: &Slot| matches!(slot, Slot::Expired { .. } | Slot::Abandoned);
        if !self.flights.iter().any(|flight| is_gone(&self.slots[flight.slot as usize])) {
            return;
        }
        let base = self.sent;
        let mut out = Vec::with_capacity(self.out.len());
        let mut appended = base;
        let mut kept = VecDeque::with_capacity(self.flights.len());
        for mut flight in std::mem::take(&mut self.flights) {
            let slot = &mut self.slots[flight.slot as usize];
            let len = flight.end - flight.start;
            if is_gone(slot) {
                self.held_bytes -= len as usize;
                if let Slot::Expired { taken: false } = slot {
                    *slot = Slot::Done(Outcome::Failed(Failure::TimedOut));
                } else {
                    *slot = Slot::Free;
                    self.free.push(flight.slot);
                }
                continue;
            }
            let from = (flight.start - base) as usize;
            out.extend_from_slice(&self.out[from..from + len as usize]);
            (flight.start, flight.end) = (appended, appended + len);
            appended += len;
            kept.push_back(flight);
        }
        (self.out, self.appended, self.flights) = (out, appended, kept);
    }

    /// Before a new connection: drops requests that no caller waits for any more.
    pub(crate) fn prepare_connection(&mut self) {
        self.drop_expired_unsent();
    }

    /// Fails every request.
    pub(crate) fn close(&mut self, wakers: &mut Vec<Waker>) {
        while !self.flights.is_empty() {
            self.finish_front(Outcome::Failed(Failure::Closed), wakers);
        }
        self.out = Vec::new();
    }
}
