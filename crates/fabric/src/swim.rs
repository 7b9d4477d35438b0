//! Failure detection: SWIM by foca, with packets over control connections.

use crate::settings::Timing;
use crate::state::VoterId;
use foca::{AccumulatingRuntime, Config, Foca, NoCustomBroadcast, PeriodicParams, PostcardCodec};
use foca::{Identity, Timer};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::{Duration, Instant};

/// A member as known to failure detection.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Peer {
    pub id: VoterId,
    pub incarnation: u32,
    /// Number of refutations: it announced to be alive after others had suspected it.
    renewals: u32,
}

impl Identity for Peer {
    type Addr = VoterId;

    fn renew(&self) -> Option<Self> {
        Some(Peer { renewals: self.renewals.checked_add(1)?, ..*self })
    }

    fn addr(&self) -> VoterId {
        self.id
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.incarnation, self.renewals) > (adversary.incarnation, adversary.renewals)
    }
}

/// A timer, ordered by due time, then by order of creation.
struct Due {
    at: Instant,
    number: u64,
    timer: Timer<Peer>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Failure detector of one member.
pub(crate) struct Swim {
    foca: Foca<Peer, PostcardCodec, SmallRng, NoCustomBroadcast>,
    runtime: AccumulatingRuntime<Peer>,
    timers: BinaryHeap<Reverse<Due>>,
    timers_set: u64,
}

impl Swim {
    /// Creates a detector without known members.
    pub fn new(id: VoterId, incarnation: u32, seed: u64, timing: &Timing) -> Self {
        let peer = Peer { id, incarnation, renewals: 0 };
        Swim {
            foca: Foca::new(peer, config(timing), SmallRng::seed_from_u64(seed), PostcardCodec),
            runtime: AccumulatingRuntime::new(),
            timers: BinaryHeap::new(),
            timers_set: 0,
        }
    }

    pub(crate) fn for_fuzzing() -> Self {
        Swim::new(1, 1, 0, &Timing::of(Duration::from_secs(3)))
    }

    /// Handles a packet. Malformed ones are ignored.
    pub fn receive(&mut self, packet: &[u8]) {
        drop(self.foca.handle_data(packet, &mut self.runtime));
        self.keep_timers();
    }

    /// Announces this member to another.
    pub fn announce(&mut self, id: VoterId, incarnation: u32) {
        if id != self.foca.identity().id {
            let peer = Peer { id, incarnation, renewals: 0 };
            drop(self.foca.announce(peer, &mut self.runtime));
            self.keep_timers();
        }
    }

    /// Announces that this member leaves.
    pub fn leave(&mut self) {
        drop(self.foca.leave_cluster(&mut self.runtime));
        self.keep_timers();
    }

    /// Whether a member is not known to be down.
    pub fn is_alive(&self, id: VoterId, incarnation: u32) -> bool {
        let own = self.foca.identity();
        let mut peers = self.foca.iter_members().map(foca::Member::id);
        own.id == id || peers.any(|peer| (peer.id, peer.incarnation) == (id, incarnation))
    }

    /// Runs due timers.
    pub fn tick(&mut self, now: Instant) {
        while self.timers.peek().is_some_and(|Reverse(due)| due.at <= now) {
            let Some(Reverse(due)) = self.timers.pop() else { return };
            drop(self.foca.handle_timer(due.timer, &mut self.runtime));
            self.keep_timers();
        }
    }

    /// Due time of the next timer.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse(due)| due.at)
    }

    /// The next packet to send, and its receiver.
    pub fn next_packet(&mut self) -> Option<(VoterId, Vec<u8>)> {
        self.runtime.to_send().map(|(to, packet)| (to.id, packet.to_vec()))
    }

    fn keep_timers(&mut self) {
        while let Some((after, timer)) = self.runtime.to_schedule() {
            self.timers_set += 1;
            let due = Due { at: Instant::now() + after, number: self.timers_set, timer };
            self.timers.push(Reverse(due));
        }
        // The living members are read from foca, its notifications are not used.
        while self.runtime.to_notify().is_some() {}
    }
}

fn config(timing: &Timing) -> Config {
    let members = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
    let every = |frequency, count| Some(PeriodicParams { frequency, num_members: members(count) });
    let lease = timing.lease;
    Config {
        probe_period: lease / 6,
        probe_rtt: lease / 20,
        num_indirect_probes: members(3),
        max_transmissions: NonZeroU8::new(10).unwrap_or(NonZeroU8::MIN),
        suspect_to_down_after: lease / 2,
        remove_down_after: Some(lease * 20),
        max_packet_size: members(1400),
        notify_down_members: true,
        periodic_announce: every(lease * 3, 1),
        periodic_announce_to_down_members: every(lease * 4, 2),
        periodic_gossip: every(lease / 15, 3),
    }
}
