//! Reports of a member that are repeated until they are agreed on, and log lines about slots
//! without owners.

use super::Session;
use crate::events::Level;
use crate::settings::Hold;
use crate::state::restart::Reported;
use crate::state::{Admission, Unserved};
use crate::wire::Request;
use std::sync::atomic::Ordering;

impl Session<'_> {
    /// Repeats the host's request about slots until a view shows its result.
    pub(super) fn repeat_hold_request(&mut self, admission: Admission) {
        let (Some(hold), Some(epoch)) = (self.hold, self.reported) else { return };
        if self.is_visible(hold) {
            return;
        }
        let Admission { number, incarnation, .. } = admission;
        let request = match hold {
            Hold::Take => Request::Hold { number, incarnation, holds: true },
            Hold::GiveUp => Request::Hold { number, incarnation, holds: false },
            Hold::TakeUnheld => Request::HoldUnheld { number, incarnation, epoch },
        };
        let client = self.client();
        tokio::spawn(async move {
            client.ask(request).await;
        });
    }

    /// Repeats that this node keeps data, and that the operator has given up slots without owners,
    /// until that is agreed on.
    pub(super) fn repeat_reports(&mut self, admission: Admission) {
        let bus = &self.around.bus;
        let Admission { number, incarnation, .. } = admission;
        let state = bus.agreed.state.lock();
        let keeps = bus.keeps_data.load(Ordering::Acquire) && !state.keeps_data(bus.uuid());
        self.taken_over = self.taken_over.filter(|&epoch| state.lost_until(epoch) > 0);
        let is_unserved = state.lost_until(u64::MAX) > 0;
        drop(state);
        let extents = match &*bus.extents.lock() {
            Reported::Known(extents) if is_unserved => Some(extents.clone()),
            _ => None,
        };
        let extents = extents.map(|extents| Request::Extents { number, incarnation, extents });
        let keeps = keeps.then_some(Request::KeepsData { number, incarnation });
        let taken_over = self.taken_over.map(|epoch| Request::TakeOver { epoch });
        for request in keeps.into_iter().chain(taken_over).chain(extents) {
            let client = self.client();
            tokio::spawn(async move { client.ask(request).await });
        }
    }

    /// Logs slots that have lost their owners, and slots that have owners again.
    pub(super) fn log_unserved(&mut self) {
        if self.admission.is_none() {
            return;
        }
        let bus = &self.around.bus;
        let unserved = bus.agreed.state.lock().unserved();
        let is_known = |of: &Unserved| {
            self.unserved.iter().any(|known| (known.epoch, &known.slots) == (of.epoch, &of.slots))
        };
        for of in unserved.iter().filter(|of| !is_known(of)) {
            let awaited = match &of.awaited {
                Some(node) => format!(
                    "until node {} ({:040x} at {}) returns with its data; CLUSTER FAILOVER TAKEOVER \
                     gives it up",
                    node.number, node.uuid, node.client
                ),
                None => "since their last owner has returned without its data; CLUSTER FAILOVER \
                         TAKEOVER gives these up"
                    .into(),
            };
            let line = format!(
                "cluster: {} hash slots have no owner since view {} ({}): commands on them are \
                 refused {awaited}",
                of.count(),
                of.epoch,
                of.ranges()
            );
            bus.log(Level::Warning, line);
        }
        if unserved.is_empty() && !self.unserved.is_empty() {
            bus.log(Level::Notice, "cluster: every hash slot has an owner again".into());
        }
        self.unserved = unserved;
    }

    /// Repeats the arrival report while it makes the node an owner of some slots.
    pub(super) fn repeat_arrival_report(&mut self) {
        let (Some(admission), Some((epoch, slots))) = (self.admission, &self.arrived) else {
            return;
        };
        let (own, epoch) = (admission.identity(), *epoch);
        let useful = self.around.bus.agreed.state.lock().appointable(own, epoch, slots).ranges();
        if useful.is_empty() {
            self.arrived = None;
            return;
        }
        let (client, number, incarnation) = (self.client(), own.node.0, own.incarnation);
        tokio::spawn(async move {
            let slots = useful;
            client.ask(Request::Arrived { number, incarnation, epoch, slots }).await;
        });
    }
}
