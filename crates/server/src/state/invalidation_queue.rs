//! Invalidations are sent many at a time: a send costs as much as several commands, and each key
//! that changes may have to be sent to another connection.
//!
//! ```text
//!  the writer's worker   encoded once, one behind the other ── at the end of a batch into the
//!                        queue of each other worker
//!                        that has readers, which is woken at most every WAKE_PAUSE
//!  the readers' worker   beside the output of each ── sent before its other output,
//!                                                     at once if none was sent for a while,
//!                                                     else as soon as the last sends are paid for
//! ```
//!
//! So sending invalidations takes a bounded share of a worker's time, whatever the number of
//! tracking connections; a connection without other output gets them a few milliseconds later at
//! most. Output of a connection never precedes an earlier invalidation: neither a reply nor a
//! message.
//!
//! Messages to many subscribers are put in the same place, so that the order is kept, and are sent
//! as fast as the turns go by (`outbox.rs`).

use crate::state::outbox::{Form, Push, Recipient};
use bytes::Bytes;
use petrel_commands::clock::{Clock, Tick};
use petrel_net::{Output, Slot};
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

/// Pause after each round of sending invalidations: about forty times the duration of a round.
pub(crate) const SEND_PAUSE: Duration = Duration::from_micros(100);

/// But no invalidation is held for longer than about this.
pub(crate) const SEND_PAUSE_MAX: Duration = Duration::from_millis(5);

/// Time between two calls of workers that may sleep: waking one costs as much as several commands.
pub(crate) const WAKE_PAUSE: Duration = Duration::from_millis(1);

/// A connection for which this many bytes are held is sent them.
pub(crate) const HELD_BYTES_MAX: usize = 16 * 1024;

/// Number of connections served before and after the commands of a turn, or this part of all of
/// them: with tens of thousands, more time would otherwise go into appending messages to outputs
/// than into sending them.
pub(crate) const DUE_SENDS: usize = 64;
pub(crate) const DUE_PART: usize = 8;

/// Memory for invalidations of one batch that is kept for others, and how many of them.
const SPARE_BYTES_MAX: usize = 64 * 1024;
const SPARES_MAX: usize = 8;

/// Invalidations for connections of one worker, in the order of the changes.
#[derive(Debug, Default)]
pub struct Stale {
    /// Pushes, one behind the other.
    pub(crate) bytes: Vec<u8>,
    pub(crate) marks: Vec<Mark>,
}

/// The receiver of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) to: Recipient,
    pub(crate) form: Form,
    /// Range of the encoded bytes.
    pub(crate) begin: u32,
    pub(crate) len: u32,
}

impl Stale {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Bytes that they take while they wait.
    pub fn footprint(&self) -> usize {
        self.bytes.len() + size_of::<Mark>() * self.marks.len()
    }

    #[inline]
    fn add(
        &mut self,
        to: impl IntoIterator<Item = Recipient>,
        form: Form,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        let (begin, len) = (before as u32, (self.bytes.len() - before) as u32);
        self.marks.extend(to.into_iter().map(|to| Mark { to, form, begin, len }));
    }

    /// Moves all of another's behind these.
    pub fn append(&mut self, other: &mut Stale) {
        let shift = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        self.marks.extend(
            other.marks.drain(..).map(|mark| Mark { begin: mark.begin + shift as u32, ..mark }),
        );
    }

    /// Invalidations for a connection.
    pub fn pushes_to(&self, id: u64) -> impl Iterator<Item = Push> {
        let mine = self.marks.iter().filter(move |mark| mark.to.id() == id);
        mine.map(|mark| Push::of_form(Bytes::copy_from_slice(self.encoded(mark)), mark.form))
    }

    /// Empties the buffer, and returns it if its memory is worth keeping.
    fn emptied(mut self) -> Option<Self> {
        self.bytes.clear();
        self.marks.clear();
        (1..=SPARE_BYTES_MAX).contains(&self.bytes.capacity()).then_some(self)
    }

    pub(crate) fn encoded(&self, mark: &Mark) -> &[u8] {
        &self.bytes[mark.begin as usize..][..mark.len as usize]
    }
}

/// A moment, and how long it is to be waited from then on.
pub(crate) struct Pause {
    since: Tick,
    length: Duration,
}

impl Pause {
    /// A pause that is over.
    fn over() -> Self {
        Pause { since: Clock::get().now(), length: Duration::ZERO }
    }

    pub(crate) fn begin(length: Duration) -> Self {
        Pause { length, ..Self::over() }
    }

    pub(crate) fn left(&self) -> Duration {
        let clock = Clock::get();
        let passed = Duration::from_nanos(clock.nanos(self.since, clock.now()));
        self.length.saturating_sub(passed)
    }
}

/// Invalidations queued at a worker's host.
pub(crate) struct InvalidationQueue {
    /// For connections of each worker, not in its queue yet, and how many there are.
    pub(crate) staged: Vec<Stale>,
    pub(crate) staged_count: usize,
    /// Workers that were left some and may sleep.
    pub(crate) uncalled: Vec<usize>,
    pub(crate) call_pause: Pause,
    /// For connections of this worker, not sent yet, by the indices of their slots.
    pub(crate) places: Vec<ConnectionQueue>,
    /// Places with an output, and some that had one.
    pub(crate) listed: Vec<usize>,
    /// Slots with output to be sent in the next turns.
    pub(crate) due: VecDeque<usize>,
    /// Memory of batches that are through.
    pub(crate) spares: Vec<Stale>,
    pub(crate) send_pause: Pause,
}

/// Held output for the connection of a slot.
#[derive(Default)]
pub(crate) struct ConnectionQueue {
    pub(crate) held: Option<Holding>,
    pub(crate) is_listed: bool,
    pub(crate) is_due: bool,
}

pub(crate) struct Holding {
    pub(crate) slot: Slot,
    pub(crate) output: Output,
    /// Number of the connection, if it is known to exist, to speak RESP3 and not to be blocked:
    /// none of this changes before the held output is taken.
    pub(crate) speaks_resp3: Option<NonZeroU64>,
}

impl InvalidationQueue {
    /// Nothing, in a server of this many workers.
    pub fn new(workers: usize) -> Self {
        InvalidationQueue {
            staged: (0..workers).map(|_| Stale::default()).collect(),
            staged_count: 0,
            uncalled: Vec::new(),
            call_pause: Pause::over(),
            places: Vec::new(),
            listed: Vec::new(),
            due: VecDeque::new(),
            spares: Vec::new(),
            send_pause: Pause::over(),
        }
    }

    /// Whether something is held for connections of this worker.
    #[inline]
    pub fn any(&self) -> bool {
        !self.listed.is_empty() || !self.due.is_empty()
    }

    /// Whether some of it is to be sent now.
    #[inline]
    pub fn is_ready(&self) -> bool {
        !self.due.is_empty() || self.may_send()
    }

    /// Whether there are invalidations that may be sent now.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        !self.listed.is_empty() && self.send_pause.left().is_zero()
    }

    /// Takes the held output of a connection.
    pub(crate) fn take(&mut self, slot: Slot) -> Option<Output> {
        let place = self.places.get_mut(slot.index())?;
        place.held.take_if(|held| held.slot == slot).map(|held| held.output)
    }

    /// The output that is held for a client known to speak RESP3 and not to wait.
    #[inline]
    pub(crate) fn known(&mut self, to: Recipient) -> Option<&mut Output> {
        let held = self.places.get_mut(to.slot().index())?.held.as_mut()?;
        let is_known = held.speaks_resp3.is_some_and(|id| id.get() == to.id());
        is_known.then_some(&mut held.output)
    }

    /// The place of a slot, which is there then.
    fn place(&mut self, slot: Slot) -> usize {
        let index = slot.index();
        if index >= self.places.len() {
            self.places.resize_with(index + 1, ConnectionQueue::default);
        }
        index
    }

    /// Holds an output that is due; returns one that was held for another connection in its place.
    pub(crate) fn hold_due(&mut self, slot: Slot, output: Output) -> Option<Output> {
        let index = self.place(slot);
        let place = &mut self.places[index];
        if !std::mem::replace(&mut place.is_due, true) {
            self.due.push_back(index);
        }
        let held = Holding { slot, output, speaks_resp3: None };
        place.held.replace(held).map(|held| held.output)
    }

    /// The output in which invalidations for a connection are held, and one that was held for
    /// another in its place.
    pub(crate) fn output(
        &mut self,
        slot: Slot,
        speaks_resp3: Option<NonZeroU64>,
        new: impl FnOnce() -> Output,
    ) -> (&mut Output, Option<Output>) {
        let index = self.place(slot);
        let place = &mut self.places[index];
        if !place.is_listed {
            place.is_listed = true;
            self.listed.push(index);
        }
        let other = place.held.take_if(|held| held.slot != slot).map(|held| held.output);
        let new = || Holding { slot, output: new(), speaks_resp3 };
        let held = place.held.get_or_insert_with(new);
        held.speaks_resp3 = speaks_resp3;
        (&mut held.output, other)
    }

    /// Takes back the buffer of delivered invalidations.
    pub fn recycle(&mut self, stale: Stale) {
        if self.spares.len() < SPARES_MAX {
            self.spares.extend(stale.emptied());
        }
    }

    /// After which time something has to be done here, if it is not before.
    #[inline]
    pub fn timeout(&self) -> Option<Duration> {
        if !self.due.is_empty() {
            return Some(Duration::ZERO);
        }
        let send = self.any().then(|| self.send_pause.left());
        let call = (!self.uncalled.is_empty()).then(|| self.call_pause.left());
        send.into_iter().chain(call).min()
    }

    /// Leaves an invalidation, which `write` encodes, for connections of a worker.
    #[inline]
    pub fn stage(
        &mut self,
        worker: usize,
        to: impl IntoIterator<Item = Recipient>,
        form: Form,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.staged[worker].add(to, form, write);
        self.staged_count += 1;
    }

    /// Invalidations that were left and are in no queue yet; one to several connections of a worker
    /// is one.
    #[inline]
    pub fn staged(&self) -> usize {
        self.staged_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_resp::Protocol;

    #[test]
    fn stale_of_two_batches_keeps_its_order_and_places() {
        let to = |id| Recipient::new(Slot::NOWHERE, id);
        let mut first = Stale::default();
        first.add([to(1), to(2)], Form::Resp3, |out| out.extend(b">a"));
        let mut second = Stale::default();
        second.add([to(2)], Form::Push, |out| out.extend(b">bc"));
        first.append(&mut second);
        assert!(second.is_empty() && second.footprint() == 0);
        let told = |id, protocol| -> Vec<Vec<u8>> {
            first.pushes_to(id).map(|push| push.to_bytes(protocol)).collect()
        };
        assert_eq!(told(1, Protocol::Resp3), [b">a"]);
        assert_eq!(told(2, Protocol::Resp3), [&b">a"[..], b">bc"]);
        assert_eq!(told(2, Protocol::Resp2), [&b""[..], b"*bc"]);
    }

    #[test]
    fn a_pause_ends() {
        assert!(Pause::over().left().is_zero());
        let pause = Pause::begin(Duration::from_secs(1000));
        assert!(pause.left() > Duration::from_secs(900));
        assert!(!InvalidationQueue::new(2).any() && InvalidationQueue::new(2).timeout().is_none());
    }
}
