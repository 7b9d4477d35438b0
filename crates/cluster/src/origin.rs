//! Forwarded commands of this node's clients, until they are answered.

use crate::safe::Need;
use crate::slot::{SLOTS, Slot};
use crate::slot_map::Node;
use crate::view::{Identity, NodeSet};
use foldhash::fast::FixedState;
use petrel_keyspace::Call;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// An answer that waits until the changes that its command has observed were applied here, or are
/// safe.
pub(crate) struct HeldAnswer {
    pub from: Identity,
    pub waits: Vec<(usize, u64)>,
    /// Changes of this node that have to be safe, if it has executed the command itself.
    pub needs: Box<[Need]>,
    pub reply: Option<Vec<u8>>,
}

/// A forwarded command with a pending answer.
pub(crate) struct Flight {
    pub oseq: u64,
    pub token: u64,
    pub call: Call,
    pub sent: Option<Sent>,
    pub answer: Option<HeldAnswer>,
    /// Whether it was sent to a primary that has died.
    pub was_lost: bool,
    /// The client was answered while the primary was unreachable. The command may have been
    /// executed, and copies of its keys may be on their way.
    pub is_given_up: bool,
    /// Number of attempts to execute it at several primaries.
    pub attempts: u64,
    /// The present attempt, if it was sent to several primaries.
    pub chain: Option<Chain>,
}

/// An attempt to execute a transaction at several primaries.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    /// Number of the attempt.
    pub attempt: u64,
    /// The primaries.
    pub owners: NodeSet,
}

/// Destination and time of a forwarded command.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub to: Node,
    /// This node's epoch at that time.
    pub epoch: u64,
    /// Position in the lane.
    pub position: u64,
}

/// Result of [`Origin::finish`].
pub(crate) enum Finished {
    /// The client of this token is to be answered.
    Waits(u64),
    /// The command was given up.
    GivenUp {
        /// The node to which it was sent, and the identifier of keys watched there.
        watches: Option<(Node, u64)>,
        is_transaction: bool,
    },
}

/// Forwarded commands of one slot, in order.
#[derive(Default)]
pub(crate) struct SlotQueue {
    last: u64,
    pub flights: VecDeque<Flight>,
}

impl SlotQueue {
    /// Sequence number of the first command that awaits its answer.
    pub fn first(&self) -> u64 {
        let waits = |flight: &&Flight| flight.answer.is_none() && !flight.is_given_up;
        let unanswered = self.flights.iter().find(waits);
        unanswered.map_or(self.last + 1, |flight| flight.oseq)
    }

    /// The first command that was not sent and has no answer.
    pub fn unsent(&self) -> Option<&Flight> {
        self.flights.iter().find(|flight| flight.sent.is_none() && flight.answer.is_none())
    }

    /// Whether a command before this one is a transaction of several primaries. Their order would
    /// be lost.
    pub fn is_behind_chain(&self, oseq: u64) -> bool {
        let before = self.flights.iter().take_while(|flight| flight.oseq < oseq);
        before.into_iter().any(|flight| flight.chain.is_some())
    }

    pub fn remove(&mut self, oseq: u64) -> Option<Flight> {
        let at = self.flights.binary_search_by_key(&oseq, |flight| flight.oseq).ok()?;
        self.flights.remove(at)
    }

    pub fn find(&mut self, oseq: u64) -> Option<&mut Flight> {
        let at = self.flights.binary_search_by_key(&oseq, |flight| flight.oseq).ok()?;
        self.flights.get_mut(at)
    }

    /// Marks the first command that satisfies `is_lost` and all after it for sending again, except
    /// answered ones. `is_dead`: the primary has died.
    pub fn send_again(&mut self, is_dead: bool, is_lost: impl Fn(&Flight) -> bool) -> bool {
        let is_open = |flight: &Flight| flight.answer.is_none();
        let Some(at) = self.flights.iter().position(|flight| is_open(flight) && is_lost(flight))
        else {
            return false;
        };
        let behind = self.flights.iter_mut().skip(at).filter(|flight| flight.answer.is_none());
        // A transaction of several primaries was sent behind commands that were given up.
        behind.filter(|flight| flight.chain.is_none()).for_each(|flight| {
            flight.was_lost |= is_dead && flight.sent.is_some();
            flight.sent = None;
        });
        true
    }
}

/// Bytes that a forwarded command takes.
fn bytes_of(call: &Call) -> usize {
    call.args_bytes() + size_of::<Flight>()
}

/// A command of a client here that is blocked at its primary.
pub(crate) struct Parked {
    pub token: u64,
    pub call: Call,
    /// The primary.
    pub at: Identity,
    /// Effects that were applied here carry its tag.
    pub is_executed: bool,
    /// The answer, while it waits for other lanes of the primary.
    pub answer: Option<HeldAnswer>,
}

/// By origin and slot: the last forwarded command that is known to have been executed, 0 for none.
#[derive(Default)]
pub(crate) struct LastExecuted(Vec<(Identity, Box<[u64]>)>);

impl LastExecuted {
    /// Sequence number of the last command of an origin and slot; 0 for none.
    pub fn of(&mut self, origin: Identity, slot: Slot) -> &mut u64 {
        let known = self.0.iter().position(|(of, _)| *of == origin);
        let at = known.unwrap_or_else(|| {
            self.0.push((origin, vec![0; usize::from(SLOTS)].into()));
            self.0.len() - 1
        });
        &mut self.0[at].1[usize::from(slot % SLOTS)]
    }

    /// Like [`LastExecuted::of`], without an entry for a new origin or slot.
    pub fn known(&self, origin: Identity, slot: Slot) -> u64 {
        let known = self.0.iter().find(|(of, _)| *of == origin);
        known.map_or(0, |(_, slots)| slots[usize::from(slot % SLOTS)])
    }

    /// Records that a command was executed.
    pub fn record(&mut self, origin: Identity, slot: Slot, oseq: u64) {
        let last = self.of(origin, slot);
        *last = oseq.max(*last);
    }

    /// The entries that satisfy `is_of`, sorted.
    pub fn sorted(&self, is_of: impl Fn(Identity, Slot) -> bool) -> Vec<(Identity, Slot, u64)> {
        let all = self.0.iter().flat_map(|(origin, slots)| {
            (0..SLOTS).zip(slots.iter()).map(|(slot, &oseq)| (*origin, slot, oseq))
        });
        let known = all.filter(|&(.., oseq)| oseq != 0);
        let mut some: Vec<_> = known.filter(|&(origin, slot, _)| is_of(origin, slot)).collect();
        some.sort_unstable();
        some
    }
}

/// All forwarded commands of a node.
#[derive(Default)]
pub(crate) struct Origin {
    pub queues: HashMap<Slot, SlotQueue, FixedState>,
    /// Commands that are blocked at their primaries.
    pub parked: BTreeMap<(Slot, u64), Parked>,
    /// Slot and sequence number of blocked commands, by token.
    parked_names: BTreeMap<u64, (Slot, u64)>,
    bytes: usize,
}

impl Origin {
    /// Bytes of all pending commands.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a command to those of its first slot and returns its sequence number.
    pub fn add(&mut self, token: u64, call: Call) -> u64 {
        let Some(&slot) = call.slots.first() else { return 0 };
        self.bytes += bytes_of(&call);
        let queue = self.queues.entry(slot).or_default();
        queue.last += 1;
        let oseq = queue.last;
        let (sent, answer, was_lost, is_given_up) = (None, None, false, false);
        let (attempts, chain) = (0, None);
        let flight =
            Flight { oseq, token, call, sent, answer, was_lost, is_given_up, attempts, chain };
        queue.flights.push_back(flight);
        oseq
    }

    /// Removes a command that has its answer, or will get none.
    pub fn finish(&mut self, slot: Slot, oseq: u64) -> Option<Finished> {
        let flight = self.remove(slot, oseq)?;
        if !flight.is_given_up {
            return Some(Finished::Waits(flight.token));
        }
        let watches = flight.sent.zip(flight.call.client);
        let watches = watches.map(|(sent, client)| (sent.to, client));
        Some(Finished::GivenUp { watches, is_transaction: flight.call.is_transaction })
    }

    fn remove(&mut self, slot: Slot, oseq: u64) -> Option<Flight> {
        let flight = self.queues.get_mut(&slot)?.remove(oseq)?;
        if !flight.is_given_up {
            self.bytes -= bytes_of(&flight.call);
        }
        Some(flight)
    }

    /// Removes a command and returns its token and call, unless it was given up.
    pub fn take(&mut self, slot: Slot, oseq: u64) -> Option<(u64, Call)> {
        let flight = self.remove(slot, oseq)?;
        (!flight.is_given_up).then_some((flight.token, flight.call))
    }

    /// Gives up the unanswered commands that were sent to a node and returns their tokens. Their
    /// bytes are no longer counted: no more commands are sent to that node before it is back.
    pub fn give_up(&mut self, node: Node) -> Vec<u64> {
        let bytes = &mut self.bytes;
        let flights = self.queues.values_mut().flat_map(|queue| &mut queue.flights);
        let lost = flights.filter(|flight| {
            !flight.is_given_up && flight.sent.is_some_and(|sent| sent.to == node)
        });
        let mut tokens: Vec<u64> = lost
            .map(|flight| {
                flight.is_given_up = true;
                *bytes -= bytes_of(&flight.call);
                flight.token
            })
            .collect();
        tokens.sort_unstable();
        tokens
    }

    /// Slots, sequence numbers and positions of given-up commands that satisfy `is_wanted`.
    pub fn given_up(&self, is_wanted: impl Fn(&Sent) -> bool) -> Vec<(Slot, u64, u64)> {
        let queues = self.queues.iter();
        let all = queues
            .flat_map(|(&slot, queue)| queue.flights.iter().map(move |flight| (slot, flight)));
        let given_up = all.filter(|(_, flight)| flight.is_given_up);
        given_up
            .filter_map(|(slot, flight)| Some((slot, flight.oseq, flight.sent?)))
            .filter(|(.., sent)| is_wanted(sent))
            .map(|(slot, oseq, sent)| (slot, oseq, sent.position))
            .collect()
    }

    /// An unanswered command, whether blocked at its primary or not.
    pub fn call(&self, slot: Slot, oseq: u64) -> Option<&Call> {
        let queue = self.queues.get(&slot);
        let flight = queue.and_then(|queue| {
            let at = queue.flights.binary_search_by_key(&oseq, |flight| flight.oseq).ok()?;
            queue.flights.get(at)
        });
        let parked = || self.parked.get(&(slot, oseq)).map(|parked| &parked.call);
        flight.map(|flight| &flight.call).or_else(parked)
    }

    /// Adds a command that is blocked at its primary.
    pub fn park(&mut self, slot: Slot, oseq: u64, parked: Parked) {
        self.bytes += bytes_of(&parked.call);
        self.parked_names.insert(parked.token, (slot, oseq));
        self.parked.insert((slot, oseq), parked);
    }

    /// Removes a blocked command.
    pub fn unpark(&mut self, slot: Slot, oseq: u64) -> Option<Parked> {
        let parked = self.parked.remove(&(slot, oseq))?;
        self.bytes -= bytes_of(&parked.call);
        self.parked_names.remove(&parked.token);
        Some(parked)
    }

    /// Slot and sequence number of the blocked command of a token.
    pub fn parked_name(&self, token: u64) -> Option<(Slot, u64)> {
        self.parked_names.get(&token).copied()
    }
}
