//! A stop of the server: other members take its hash slots over first, then it leaves, so that
//! no write is refused meanwhile.

use super::{Hold, Membership};
use crate::config::Config;
use crate::server::Server;
use petrel_cluster::Identity;
use petrel_fabric::Fabric;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);

impl Server {
    /// Whether there are members that take over what this one has, when it stops.
    pub(crate) fn has_to_leave_cluster(&self) -> bool {
        self.cluster.get().is_some_and(|membership| {
            let state = membership.state.lock();
            state.me.is_some() && state.members.len() > 1
        })
    }

    /// Gives this member's hash slots to others that have the data, while the stop is still wanted,
    /// for `shutdown-timeout` at most.
    pub(crate) fn hand_slots_over(&self, config: &Config) {
        let Some((membership, fabric)) = self.fabric() else { return };
        let until = Instant::now() + patience(config);
        let (own, others) = membership.holders();
        let Some(own) = own.filter(|_| others) else { return };
        tracing::info!("cluster: handing the hash slots to other members before shutting down");
        fabric.hold_slots(own, Hold::GiveUp);
        while membership.holders().0.is_some() && self.closing.is_requested() {
            if Instant::now() >= until {
                tracing::warn!(
                    "cluster: shutting down before other members have taken over the hash slots"
                );
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Takes them back: the server goes on.
    pub(crate) fn take_slots_back(&self) {
        let Some((membership, fabric)) = self.fabric() else { return };
        let state = membership.state();
        if let Some(own) = state.me.filter(|_| state.is_serving) {
            fabric.hold_slots(own, Hold::Take);
        }
    }

    /// Leaves the cluster; the data are saved, and no client is served any more.
    pub(crate) fn leave_cluster(&self, config: &Config) {
        let Some((_, fabric)) = self.fabric() else { return };
        if !self.has_to_leave_cluster() {
            return;
        }
        let until = Instant::now() + patience(config);
        fabric.leave();
        while !fabric.has_ended() {
            if Instant::now() >= until {
                return tracing::warn!("cluster: shutting down before this member has left");
            }
            std::thread::sleep(LOOK);
        }
        tracing::info!("cluster: this member has left");
    }

    fn fabric(&self) -> Option<(&Arc<Membership>, Arc<Fabric>)> {
        let membership = self.cluster.get()?;
        let fabric = membership.fabric.lock().clone()?;
        Some((membership, fabric))
    }
}

fn patience(config: &Config) -> Duration {
    Duration::from_secs(u64::try_from(config.replication.shutdown_timeout).unwrap_or(0))
}

impl Membership {
    /// This member, if it holds hash slots, and whether others do. If members hold only some slots,
    /// it holds the ones that it owns, until other members have replaced it.
    fn holders(&self) -> (Option<Identity>, bool) {
        let state = self.state.lock();
        let is_own = |member: &&super::MemberInfo| Some(member.identity) == state.me;
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
