//! A stop of the server: other members take its hash slots over first, so that no write is refused
//! meanwhile. Then forwarded commands are answered, and it leaves.

use super::state::membership::Membership;
use super::transport::{Hold, MemberInfo};
use crate::state::member::Member;
use petrel_cluster::{Identity, Node, NodeSet, SlotOwners, slot_of};
use petrel_fabric::Fabric;
use petrel_keyspace::{Event, Ownership};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);

impl Member for Membership {
    fn has_to_leave(&self) -> bool {
        let state = self.state.lock();
        state.me.is_some() && state.members.len() > 1
    }

    fn owners_answering(&self, lag_max: Duration) -> Option<usize> {
        let (lanes, state) = (self.lanes.read().clone()?, self.state());
        let is_member = |of: &Identity| state.members.iter().any(|member| member.identity == *of);
        let linked = state.linked.iter().filter(|(of, _)| is_member(of)).map(|(of, _)| of.node);
        let answering = self.answering.lock().of(&lanes, linked, lag_max, Instant::now());
        SlotOwners::of(state.me?.node, &state.view).fewest_of(answering)
    }

    fn hand_slots_over(&self, patience: Duration, is_wanted: &dyn Fn() -> bool) {
        let Some(fabric) = self.fabric() else { return };
        let until = Instant::now() + patience;
        let (own, others) = self.holders();
        let Some(own) = own.filter(|_| others) else { return };
        tracing::info!("cluster: handing the hash slots to other members before shutting down");
        fabric.hold_slots(own, Hold::GiveUp);
        while self.holders().0.is_some() && is_wanted() {
            if Instant::now() >= until {
                tracing::warn!(
                    "cluster: shutting down before other members have taken over the hash slots"
                );
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn take_slots_back(&self) {
        let Some(fabric) = self.fabric() else { return };
        let state = self.state();
        if let Some(own) = state.me.filter(|_| state.is_serving) {
            fabric.hold_slots(own, Hold::Take);
        }
    }

    fn drain(&self, patience: Duration) {
        let until = Instant::now() + patience;
        self.drain.is_wanted.store(true, Release);
        self.waker.wake();
        while !self.drain.is_over.load(Acquire) && self.has_to_leave() {
            if Instant::now() >= until {
                tracing::warn!("cluster: shutting down before all commands are answered");
                break;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn leave(&self, patience: Duration) {
        let Some(fabric) = self.fabric().filter(|_| self.has_to_leave()) else { return };
        let until = Instant::now() + patience;
        fabric.leave();
        while !fabric.has_ended() {
            if Instant::now() >= until {
                return tracing::warn!("cluster: shutting down before this member has left");
            }
            std::thread::sleep(LOOK);
        }
        tracing::info!("cluster: this member has left");
    }

    fn orders(&self, key: &[u8]) -> bool {
        self.own.is_primary(key)
    }

    fn hears_elsewhere(&self, key: &[u8]) -> bool {
        self.tracks_away.load(Acquire) && self.own.has_copies(slot_of(key))
    }

    fn tell_changed(
        &self,
        (node, is_broadcast): (u16, bool),
        writer: Option<u64>,
        db: u16,
        key: &[u8],
    ) {
        if let Some(lanes) = &*self.lanes.read()
            && (!is_broadcast || self.own.is_primary(key))
        {
            lanes.push_changed(Node(node), is_broadcast, writer, (db, key));
        }
    }

    fn tell_event(&self, members: u64, event: &Event) {
        if let Some(lanes) = &*self.lanes.read() {
            let Event { name, db, key, fields, .. } = event;
            let fields = fields.iter().map(|field| &field[..]);
            lanes.push_event(NodeSet(members), (*db, name.as_bytes(), key), fields);
        }
    }

    fn end(&self) {
        self.functions.end();
        self.waker.wake();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the cluster has ended by a panic");
        }
        let fabric = self.fabric.lock().take();
        drop(fabric);
    }
}

impl Membership {
    fn fabric(&self) -> Option<Arc<Fabric>> {
        self.fabric.lock().clone()
    }

    /// This member, if it holds hash slots, and whether others do. If members hold only some slots,
    /// it holds the ones that it owns, until other members have replaced it.
    fn holders(&self) -> (Option<Identity>, bool) {
        let state = self.state.lock();
        let is_own = |member: &&MemberInfo| Some(member.identity) == state.me;
        let holders = || state.members.iter().filter(|member| member.holds_slots);
        let own = match state.view.incoming {
            None => holders().find(is_own).map(|member| member.identity),
            Some(_) => state.me.filter(|me| {
                let ranges = state.view.slots.ranges();
                ranges.iter().any(|range| range.owners.contains(&me.node))
            }),
        };
        (own, holders().any(|member| !is_own(&member)))
    }
}
