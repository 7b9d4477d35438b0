//! Pushes: output of a connection other than replies. Messages of channels, invalidations of cached
//! keys, lines of `MONITOR`.
//!
//! ```text
//!  command on any worker ── host.push(client, push) ──▶ queue of the client's worker
//!                                                             │ first in, first out
//!    the client's own command pushed it: after its reply  ◀───┤
//!    another client: before a listener's input is executed, ◀─┘ one send per connection and turn,
//!                 and at the end of the turn, or of a           by the driver
//!                 listener's batch (invalidations may wait for
//!                 each other: `invalidation_queue.rs`)
//! ```
//!
//! A message to a channel with many subscribers takes as many sends, too many for one turn. Unless
//! it is large, it is stored beside each subscriber's output, and sent to some of them in each
//! turn. So other connections wait less, and a subscriber that has not been sent it yet gets later
//! messages in the same send: messages that many publishers send one by one cost far fewer sends.
//!
//! Every push takes the queue, even to a connection of the same worker: so two pushes to one
//! connection arrive in the order in which they were sent, whichever thread sent them.
//! Invalidations go past it where it is empty. A push is encoded once and shared by reference until
//! it is copied into the connection's output; large ones are not copied at all.

use crate::client::Client;
use crate::state::invalidation_queue::Stale;
use crate::state::pubsub::Message;
use bytes::Bytes;
use parking_lot::Mutex;
use petrel_net::{Output, Slot};
use petrel_resp::{Protocol, Reply, RespWriter};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU8, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Parts shorter than this are copied into the output; a piece more in a gathered write costs as
/// much.
const SHARED_LEN_MIN: usize = 16 * 1024;

/// Bytes of pushes that may wait for a worker that is busy with something else. Beyond them the
/// connections that listen there are closed: they would miss something without knowing.
pub(crate) const QUEUE_BYTES_MAX: usize = 256 << 20;

/// Bytes of pushes up to which a worker leaves the pushes of its commands for the end of the turn.
pub(crate) const LEFT_BYTES_MAX: usize = 16 << 20;

/// Memory for this many deliveries is kept from turn to turn.
pub(crate) const RETAINED_MAX: usize = 64;

/// A message to fewer subscribers of a worker is sent to all of them at once.
pub(crate) const MANY: usize = 64;

/// A message, encoded once for all that it is sent to.
#[derive(Clone, Debug)]
pub struct Push {
    /// A RESP3 push up to the start of `tail`, or all of the bytes to send.
    head: Bytes,
    tail: Bytes,
    form: Form,
}

/// Encoding of a message in each protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// A push, and an array in RESP2.
    Push,
    /// A push, and nothing in RESP2.
    Resp3,
    /// Same bytes in both protocols.
    Raw,
}

impl Form {
    /// Appends a message of this form as a protocol has it.
    pub fn write(self, encoded: &[u8], protocol: Protocol, bytes: &mut Vec<u8>) {
        match (self, protocol) {
            (Form::Resp3, Protocol::Resp2) => {}
            (Form::Push, Protocol::Resp2) => {
                bytes.push(b'*');
                bytes.extend_from_slice(encoded.get(1..).unwrap_or_default());
            }
            _ => bytes.extend_from_slice(encoded),
        }
    }
}

impl Push {
    /// A push written by `build`, which begins with [`Reply::push`]. RESP2 gets the same as an
    /// array, so what follows the header must look the same in both protocols: bulk strings,
    /// integers and arrays do.
    pub fn new(build: impl FnOnce(&mut dyn Reply)) -> Self {
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        build(&mut RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3));
        debug_assert!(shared.is_empty(), "a push is written with `bulk`");
        debug_assert_eq!(bytes.first(), Some(&b'>'));
        Push { head: bytes.into(), tail: Bytes::new(), form: Form::Push }
    }

    /// A push in two parts, of which the first begins with the header of a RESP3 push.
    pub fn of_parts(head: Bytes, tail: Bytes) -> Self {
        debug_assert_eq!(head.first(), Some(&b'>'));
        Push { head, tail, form: Form::Push }
    }

    /// A message that is encoded already.
    pub(crate) fn of_form(encoded: Bytes, form: Form) -> Self {
        Push { head: encoded, tail: Bytes::new(), form }
    }

    /// A push that a connection of RESP2 does not get: one that has changed its protocol since it
    /// asked.
    pub fn of_resp3(encoded: Bytes) -> Self {
        debug_assert_eq!(encoded.first(), Some(&b'>'));
        Push { head: encoded, tail: Bytes::new(), form: Form::Resp3 }
    }

    /// Something that is RESP already and is sent as it is in both protocols, such as `+line`.
    pub fn raw(encoded: impl Into<Bytes>) -> Self {
        Push { head: encoded.into(), tail: Bytes::new(), form: Form::Raw }
    }

    /// Uses one push for RESP2 and RESP3.
    pub(crate) fn both(push: Push) -> [Push; 2] {
        [push.clone(), push]
    }

    /// The message as it is sent.
    pub fn to_bytes(&self, protocol: Protocol) -> Vec<u8> {
        let (mut bytes, mut shared) = (Vec::with_capacity(self.len()), Vec::new());
        self.write(protocol, &mut bytes, &mut shared);
        for (offset, part) in shared.into_iter().rev() {
            bytes.splice(offset..offset, part);
        }
        bytes
    }

    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the message to `bytes`; a large part is noted in `shared` with the offset where it
    /// belongs.
    pub fn write(&self, protocol: Protocol, bytes: &mut Vec<u8>, shared: &mut Vec<(usize, Bytes)>) {
        let mut head = self.head.clone();
        if self.form == Form::Resp3 && protocol == Protocol::Resp2 {
            return;
        }
        if self.form == Form::Push && protocol == Protocol::Resp2 && !head.is_empty() {
            bytes.push(b'*');
            head = head.slice(1..);
        }
        for part in [head, self.tail.clone()] {
            if part.len() < SHARED_LEN_MIN {
                bytes.extend_from_slice(&part);
            } else {
                shared.push((bytes.len(), part));
            }
        }
    }

    pub(crate) fn append_to(&self, protocol: Protocol, output: &mut Output) {
        let mut shared = Vec::new();
        self.write(protocol, &mut output.bytes, &mut shared);
        shared.into_iter().for_each(|(offset, part)| output.splice_at(offset, part));
    }
}

/// The receiver of a push: a slot is used again, so the connection's number goes with it.
#[derive(Clone, Copy, Debug)]
pub struct Recipient {
    pub(crate) slot: Slot,
    pub(crate) id: u64,
}

impl Recipient {
    /// The connection.
    pub fn of(client: &Client) -> Self {
        Self::new(client.slot, client.id)
    }

    /// The connection of this number at this place.
    pub fn new(slot: Slot, id: u64) -> Self {
        Recipient { slot, id }
    }

    /// The connection's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Slot of the connection.
    pub fn slot(&self) -> Slot {
        self.slot
    }
}

/// A push on its way to connections of one worker.
#[derive(Debug)]
pub enum Delivery {
    /// To one connection.
    Client(Recipient, Push),
    /// To several, the same to each.
    Clients(Box<[Recipient]>, Push),
    /// To all subscribers.
    Channel(Arc<Message>),
    /// Invalidations of keys.
    Stale(Stale),
}

impl Delivery {
    /// Bytes that it holds while it waits.
    fn footprint(&self) -> usize {
        match self {
            Delivery::Client(_, push) => size_of::<Delivery>() + push.len(),
            Delivery::Clients(to, push) => {
                size_of::<Delivery>() + push.len() + size_of_val::<[Recipient]>(to)
            }
            Delivery::Channel(message) => size_of::<Delivery>() + message.footprint(),
            Delivery::Stale(stale) => size_of::<Delivery>() + stale.footprint(),
        }
    }
}

/// The pushes on their way to the connections of one worker: on one cache line, which nothing else
/// is on that the worker changes.
#[derive(Default)]
#[repr(align(64))]
pub struct PushQueue {
    /// [`EMPTY`], [`FILLED`] or [`CALLED`].
    state: AtomicU8,
    waiting: Mutex<Waiting>,
}

/// Nothing is in the queue.
const EMPTY: u8 = 0;
/// Something is in it.
const FILLED: u8 = 1;
/// Something is in it, and the worker was woken for it or is about to be: it takes it then.
const CALLED: u8 = 2;

#[derive(Default)]
struct Waiting {
    deliveries: Vec<Delivery>,
    bytes: usize,
    /// Something was dropped because too much was waiting.
    overflowed: bool,
}

const _: () = assert!(size_of::<PushQueue>() == 64);

impl PushQueue {
    /// Adds a push.
    pub(crate) fn add(&self, delivery: Delivery) {
        let mut waiting = self.waiting.lock();
        if waiting.admit(delivery.footprint()) {
            waiting.deliveries.push(delivery);
        }
        self.note_filled();
    }

    /// Adds invalidations, merging them into the last entry if that has invalidations too. `stale`
    /// is empty afterwards.
    pub(crate) fn add_stale(&self, stale: &mut Stale) {
        let mut waiting = self.waiting.lock();
        let is_admitted = waiting.admit(stale.footprint());
        match waiting.deliveries.last_mut() {
            _ if !is_admitted => *stale = Stale::default(),
            Some(Delivery::Stale(last)) => last.append(stale),
            _ => waiting.deliveries.push(Delivery::Stale(std::mem::take(stale))),
        }
        self.note_filled();
    }

    /// Records that something was added. The lock must be held: a thread that empties the queue at
    /// this time takes the addition too.
    fn note_filled(&self) {
        if self.state.load(Relaxed) == EMPTY {
            self.state.store(FILLED, Release);
        }
    }

    /// Bytes of what waits in it.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Whether something is in it.
    #[inline]
    pub(crate) fn is_filled(&self) -> bool {
        self.state.load(Acquire) != EMPTY
    }

    /// Whether the caller must wake the worker.
    pub(crate) fn has_to_be_called(&self) -> bool {
        self.state.load(Relaxed) == FILLED
            && self.state.compare_exchange(FILLED, CALLED, AcqRel, Relaxed).is_ok()
    }

    /// Moves the queued pushes, in order, into `taken`, which must be empty; its memory is used by
    /// the queue from then on. Returns whether pushes were dropped.
    pub(crate) fn take(&self, taken: &mut Vec<Delivery>) -> bool {
        if self.state.load(Acquire) == EMPTY || self.state.swap(EMPTY, AcqRel) == EMPTY {
            return false;
        }
        let mut waiting = self.waiting.lock();
        std::mem::swap(&mut waiting.deliveries, taken);
        waiting.bytes = 0;
        std::mem::take(&mut waiting.overflowed)
    }
}

impl Waiting {
    /// Counts this many bytes more, if there is room for them.
    fn admit(&mut self, bytes: usize) -> bool {
        self.overflowed |= self.bytes + bytes > QUEUE_BYTES_MAX;
        if !self.overflowed {
            self.bytes += bytes;
        }
        !self.overflowed
    }
}

/// Pushes at a worker's host.
#[derive(Default)]
pub struct PushDesk {
    /// A command of this worker has pushed something to a connection of this worker.
    pub(crate) pushed: bool,
    /// Taken from the queue, in order.
    pub(crate) pending: VecDeque<Pending>,
    /// For the connection being served, after the reply of its command.
    pub(crate) own: Vec<Push>,
    /// Connections that were found beyond a limit while something was sent to many.
    pub(crate) doomed: Vec<Slot>,
    /// Something was dropped from the queue.
    pub(crate) overflowed: bool,
    /// Buffer for pushes taken from the queue.
    pub(crate) taken: Vec<Delivery>,
}

impl PushDesk {
    /// Whether connections are to be closed.
    pub(crate) fn is_overdue(&self) -> bool {
        self.overflowed || !self.doomed.is_empty()
    }
}

pub(crate) struct Pending {
    pub(crate) delivery: Delivery,
    /// The connection that has had it, if it was for it: its command was being executed.
    pub(crate) passed: Option<Slot>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn written(push: &Push, protocol: Protocol) -> Vec<u8> {
        [b"before", &push.to_bytes(protocol)[..]].concat()
    }

    #[test]
    fn each_protocol_gets_its_form() {
        let push = Push::new(|reply| {
            reply.push(2);
            reply.bulk(b"invalidate");
            reply.array(1);
            reply.bulk(b"key");
        });
        let body = "2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n";
        assert_eq!(written(&push, Protocol::Resp3), format!("before>{body}").as_bytes());
        assert_eq!(written(&push, Protocol::Resp2), format!("before*{body}").as_bytes());
        let line = Push::raw("+OK\r\n");
        assert_eq!(written(&line, Protocol::Resp2), b"before+OK\r\n");
        assert_eq!(written(&line, Protocol::Resp3), b"before+OK\r\n");
    }

    #[test]
    fn large_parts_are_shared_and_in_their_place() {
        let large = Bytes::from(vec![b'x'; SHARED_LEN_MIN]);
        let push = Push::of_parts(Bytes::from_static(b">2\r\n"), large.clone());
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        push.write(Protocol::Resp2, &mut bytes, &mut shared);
        assert_eq!(bytes, b"*2\r\n");
        assert_eq!(shared.len(), 1);
        assert_eq!(shared[0].1.as_ptr(), large.as_ptr());
        assert_eq!(written(&push, Protocol::Resp3), [b"before>2\r\n", &large[..]].concat());
    }

    #[test]
    fn a_queue_is_bounded_and_wakes_once() {
        let queue = PushQueue::default();
        let to = Recipient { slot: Slot::NOWHERE, id: 1 };
        let push = Push::raw(vec![0; QUEUE_BYTES_MAX / 8]);
        assert!(!queue.has_to_be_called());
        queue.add(Delivery::Client(to, push.clone()));
        assert!(queue.has_to_be_called());
        for _ in 0..20 {
            queue.add(Delivery::Client(to, push.clone()));
            assert!(!queue.has_to_be_called());
        }
        let mut taken = Vec::new();
        assert_eq!((queue.take(&mut taken), taken.len()), (true, 7));
        taken.clear();
        assert_eq!((queue.take(&mut taken), taken.len()), (false, 0));
        queue.add(Delivery::Client(to, push));
        assert!(queue.has_to_be_called());
        assert_eq!((queue.take(&mut taken), taken.len()), (false, 1));
    }

    /// A worker takes queued pushes whenever it checks, and sleeps until it is woken if there are
    /// none.
    #[test]
    fn a_sleeping_worker_is_called_for_whatever_is_added() {
        const ROUNDS: usize = 30_000;
        let queue = PushQueue::default();
        let (call, called) = std::sync::mpsc::channel();
        let taken = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (queue, taken) = (&queue, &taken);
            scope.spawn(move || {
                let mut deliveries = Vec::new();
                while taken.load(Acquire) < ROUNDS {
                    // Turns that have other reasons.
                    for _ in 0..taken.load(Relaxed) % 64 {
                        queue.take(&mut deliveries);
                        taken.fetch_add(deliveries.drain(..).count(), Release);
                        std::hint::spin_loop();
                    }
                    queue.take(&mut deliveries);
                    if deliveries.is_empty() && taken.load(Acquire) < ROUNDS {
                        let called = called.recv_timeout(Duration::from_secs(20));
                        called.expect("called for what was added");
                    }
                    taken.fetch_add(deliveries.drain(..).count(), Release);
                }
            });
            let to = Recipient { slot: Slot::NOWHERE, id: 1 };
            for round in 0..ROUNDS {
                queue.add(Delivery::Client(to, Push::raw("+\r\n")));
                if queue.has_to_be_called() && call.send(()).is_err() {
                    return;
                }
                let since = Instant::now();
                while taken.load(Acquire) <= round && since.elapsed() < Duration::from_secs(30) {
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!(taken.into_inner(), ROUNDS);
    }
}
