//! Commands that this node has forwarded to the homes of their keys, until their clients are
//! answered.

use crate::slot::Slot;
use crate::slot_map::Node;
use crate::view::Identity;
use crate::wire::Exec;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A command to be forwarded, or a transaction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Call {
    /// The slots of its keys; at least one, each once. Its order counts for the first.
    pub slots: Vec<Slot>,
    /// The selected database.
    pub db: u16,
    /// Whether the reply is to be written in RESP3.
    pub resp3: bool,
    /// Whether the commands are a transaction; else there is one.
    pub is_transaction: bool,
    /// Milliseconds that it may still wait for its keys, if it has waited before.
    pub wait_ms: Option<u64>,
    /// Names the keys that its client watches at the home, if it does: the origin's, opaque here.
    pub client: Option<u64>,
    /// Whether it is no commit of several slots: it only reads, or works on each key by itself.
    pub by_key: bool,
    /// Whether copies of the keys that are read are wanted here, to be read here from then on; it
    /// is of one slot, and a read.
    pub wants_copies: bool,
    /// The commands, each with its name and arguments.
    pub commands: Vec<Vec<Vec<u8>>>,
}

impl Call {
    pub(crate) fn bytes(&self) -> usize {
        let args = self.commands.iter().flatten();
        args.map(|arg| arg.len() + size_of::<Vec<u8>>()).sum::<usize>() + size_of::<Flight>()
    }

    /// The record that has it executed.
    pub(crate) fn exec(&self, oseq: u64, first: u64, tenure: u64) -> Exec<'_> {
        let mut commands: Vec<Vec<&[u8]>> = Vec::with_capacity(self.commands.len());
        for command in &self.commands {
            commands.push(command.iter().map(Vec::as_slice).collect());
        }
        let Call { db, resp3, is_transaction, wait_ms, client, .. } = *self;
        let Call { by_key, wants_copies, .. } = *self;
        let slots = self.slots.clone();
        Exec {
            oseq,
            first,
            slots,
            tenure,
            db,
            resp3,
            is_transaction,
            wait_ms,
            client,
            by_key,
            wants_copies,
            commands,
        }
    }
}

/// An answer that waits until other lanes have got as far as the command has seen them.
pub(crate) struct HeldAnswer {
    pub from: Identity,
    pub waits: Vec<(usize, u64)>,
    pub reply: Option<Vec<u8>>,
}

/// A command whose client waits.
pub(crate) struct Flight {
    pub oseq: u64,
    pub token: u64,
    pub call: Call,
    pub sent: Option<Sent>,
    pub answer: Option<HeldAnswer>,
    /// Its client was answered when its home was out of reach. It may have been executed: what it
    /// has read may be on its way.
    pub is_given_up: bool,
}

/// To whom a command was sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub to: Node,
    /// The epoch then.
    pub epoch: u64,
    /// Its position in the lane.
    pub position: u64,
}

/// What a command was that has its answer.
pub(crate) enum Finished {
    /// The client of this token waits for it.
    Waits(u64),
    /// It was given up.
    GivenUp {
        /// The node that it was sent to, and the name of a client that watches keys there.
        watches: Option<(Node, u64)>,
        is_transaction: bool,
    },
}

/// The commands of one slot, in order.
#[derive(Default)]
pub(crate) struct SlotQueue {
    last: u64,
    pub flights: VecDeque<Flight>,
}

impl SlotQueue {
    /// The first command that has no answer, and waits for one.
    pub fn first(&self) -> u64 {
        let waits = |flight: &&Flight| flight.answer.is_none() && !flight.is_given_up;
        let unanswered = self.flights.iter().find(waits);
        unanswered.map_or(self.last + 1, |flight| flight.oseq)
    }

    pub fn remove(&mut self, oseq: u64) -> Option<Flight> {
        let at = self.flights.binary_search_by_key(&oseq, |flight| flight.oseq).ok()?;
        self.flights.remove(at)
    }

    pub fn find(&mut self, oseq: u64) -> Option<&mut Flight> {
        let at = self.flights.binary_search_by_key(&oseq, |flight| flight.oseq).ok()?;
        self.flights.get_mut(at)
    }

    /// The first command of which this is so, and those behind it, are to be sent again, unless
    /// their answers are here.
    pub fn send_again(&mut self, is_lost: impl Fn(&Flight) -> bool) -> bool {
        let is_open = |flight: &Flight| flight.answer.is_none();
        let Some(at) = self.flights.iter().position(|flight| is_open(flight) && is_lost(flight))
        else {
            return false;
        };
        let behind = self.flights.iter_mut().skip(at).filter(|flight| flight.answer.is_none());
        behind.for_each(|flight| flight.sent = None);
        true
    }
}

/// A command of a client here that waits at its home.
pub(crate) struct Parked {
    pub token: u64,
    pub call: Call,
    /// The home.
    pub at: Identity,
    /// Effects that were applied here say that it was executed.
    pub is_executed: bool,
    /// The answer, which waits for other lanes of the home.
    pub answer: Option<HeldAnswer>,
}

/// By origin and slot: the last forwarded command that is known to have been executed.
#[derive(Default)]
pub(crate) struct LastExecuted(HashMap<(Identity, Slot), u64, FixedState>);

impl LastExecuted {
    /// The last one of an origin and slot; 0 for none.
    pub fn of(&mut self, origin: Identity, slot: Slot) -> &mut u64 {
        self.0.entry((origin, slot)).or_default()
    }

    /// This one was executed.
    pub fn note(&mut self, origin: Identity, slot: Slot, oseq: u64) {
        let last = self.of(origin, slot);
        *last = oseq.max(*last);
    }

    /// Those of which this is so, in their order.
    pub fn sorted(&self, is_of: impl Fn(Identity, Slot) -> bool) -> Vec<(Identity, Slot, u64)> {
        let all = self.0.iter().map(|(&(origin, slot), &oseq)| (origin, slot, oseq));
        let mut some: Vec<_> = all.filter(|&(origin, slot, _)| is_of(origin, slot)).collect();
        some.sort_unstable();
        some
    }
}

/// All forwarded commands of a node.
#[derive(Default)]
pub(crate) struct Origin {
    pub queues: HashMap<Slot, SlotQueue, FixedState>,
    /// Commands that wait at their homes.
    pub parked: BTreeMap<(Slot, u64), Parked>,
    /// Their names, by token.
    parked_names: BTreeMap<u64, (Slot, u64)>,
    bytes: usize,
}

impl Origin {
    /// Bytes of all commands.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a command to those of its first slot; its place among them.
    pub fn add(&mut self, token: u64, call: Call) -> u64 {
        let Some(&slot) = call.slots.first() else { return 0 };
        self.bytes += call.bytes();
        let queue = self.queues.entry(slot).or_default();
        queue.last += 1;
        let oseq = queue.last;
        let (sent, answer, is_given_up) = (None, None, false);
        queue.flights.push_back(Flight { oseq, token, call, sent, answer, is_given_up });
        oseq
    }

    /// A command has its answer, or gets none.
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
            self.bytes -= flight.call.bytes();
        }
        Some(flight)
    }

    /// The same with the command itself.
    pub fn take(&mut self, slot: Slot, oseq: u64) -> Option<(u64, Call)> {
        let flight = self.remove(slot, oseq)?;
        (!flight.is_given_up).then_some((flight.token, flight.call))
    }

    /// Gives up the commands that were sent to a node and have not come back: the tokens of their
    /// clients. They count no more: none follows to that node before it is back.
    pub fn give_up(&mut self, node: Node) -> Vec<u64> {
        let bytes = &mut self.bytes;
        let flights = self.queues.values_mut().flat_map(|queue| &mut queue.flights);
        let lost = flights.filter(|flight| {
            !flight.is_given_up && flight.sent.is_some_and(|sent| sent.to == node)
        });
        let mut tokens: Vec<u64> = lost
            .map(|flight| {
                flight.is_given_up = true;
                *bytes -= flight.call.bytes();
                flight.token
            })
            .collect();
        tokens.sort_unstable();
        tokens
    }

    /// The names of commands that were given up, of which this is so, and their positions.
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

    /// A command that has no answer yet, whether it waits at its home or not.
    pub fn call(&self, slot: Slot, oseq: u64) -> Option<&Call> {
        let queue = self.queues.get(&slot);
        let flight = queue.and_then(|queue| {
            let at = queue.flights.binary_search_by_key(&oseq, |flight| flight.oseq).ok()?;
            queue.flights.get(at)
        });
        let parked = || self.parked.get(&(slot, oseq)).map(|parked| &parked.call);
        flight.map(|flight| &flight.call).or_else(parked)
    }

    /// A command waits at its home.
    pub fn park(&mut self, slot: Slot, oseq: u64, parked: Parked) {
        self.bytes += parked.call.bytes();
        self.parked_names.insert(parked.token, (slot, oseq));
        self.parked.insert((slot, oseq), parked);
    }

    /// It does so no longer.
    pub fn unpark(&mut self, slot: Slot, oseq: u64) -> Option<Parked> {
        let parked = self.parked.remove(&(slot, oseq))?;
        self.bytes -= parked.call.bytes();
        self.parked_names.remove(&parked.token);
        Some(parked)
    }

    /// The name of the command that waits at its home for the client of a token.
    pub fn parked_name(&self, token: u64) -> Option<(Slot, u64)> {
        self.parked_names.get(&token).copied()
    }
}
