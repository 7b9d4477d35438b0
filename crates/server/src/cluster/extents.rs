//! Extents of this member's data, in its log and its snapshots: their ends in the order of each
//! slot. After a stop of all owners of a slot it continues with the longest of their logs
//! (`petrel_cluster::elect`).
//!
//! ```text
//! turn of the agent    changes applied -> extents -> log -> acknowledgements
//! start                log or snapshot -> extents -> request to join
//! ```

use super::agent::{Agent, MemberPhase};
use super::state::membership::Membership;
use super::transport::Transport;
use crate::server::Server;
use petrel_cluster::{EXTENTS, Extents, FROM_PEERS};
use petrel_commands::aux_state::NamedForm;

/// Low bits of a form's number: the log orders forms of one epoch by their place.
const EPOCH_SHIFT: u32 = 24;

impl Membership {
    /// Takes the extents with which the data were loaded, and reports them: the member joins with
    /// these data.
    pub(super) fn report_extents(&self, server: &Server, transport: &dyn Transport) {
        let is_ours = |name: &[u8]| name == EXTENTS || Extents::is_position(name);
        let mut loaded = server.commands.take_unknown(is_ours);
        let whole = loaded.iter().position(|(name, _)| name == EXTENTS);
        if let Some(whole) = whole.map(|at| loaded.swap_remove(at)) {
            let mut extents = Extents::read(&whole.1).unwrap_or_else(|_| {
                tracing::warn!(
                    "cluster: the log's extents of hash slots are malformed: without them"
                );
                Extents::default()
            });
            loaded.iter().for_each(|(name, form)| extents.advance(name, form));
            *self.extents.lock() = extents;
        }
        let has_data = self.has_data();
        let extents = self.extents.lock();
        transport.set_extents(if has_data { extents.encode() } else { Vec::new() });
    }

    /// The extents as snapshots and rewritten logs have them.
    pub(super) fn extent_forms(&self) -> Vec<NamedForm> {
        let extents = self.extents.lock();
        match extents.is_empty() {
            true => Vec::new(),
            false => vec![(EXTENTS.to_vec(), extents.encode())],
        }
    }
}

impl Agent {
    /// Logs how far the data go, behind the changes of this turn.
    pub(super) fn log_extents(&mut self) {
        if self.phase != MemberPhase::Serving || !self.node.is_partial() {
            return;
        }
        let changes = self.node.update_extents();
        if !changes.has_terms && changes.positions.is_empty() {
            return;
        }
        let extents = self.node.extents();
        {
            let mut shared = self.membership.extents.lock();
            match changes.has_terms {
                true => shared.clone_from(extents),
                false => shared.copy_positions(extents),
            }
        }
        let exec = &mut self.machine.exec;
        if !self.machine.host.server.durability.is_on() {
            return;
        }
        let number = exec.ks.keyspace().epochs().now() << EPOCH_SHIFT;
        exec.begin();
        exec.ks.on_behalf(FROM_PEERS, |ks| {
            if changes.has_terms {
                return ks.record_aux(number, EXTENTS, &extents.encode());
            }
            for &(primary, lane) in &changes.positions {
                let (name, form) = extents.position_form(primary, lane);
                ks.record_aux(number, &name, &form);
            }
        });
        exec.end();
    }
}
