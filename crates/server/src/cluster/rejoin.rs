//! The thread of the cluster between two lives of the member: it waits until the server is let in,
//! and until its own data are loaded. Nothing is executed meanwhile; but if no majority is
//! reachable, clients may read the slots that it owned before its restart.

use super::agent::{Admission, Agent, AgentResources};
use super::machine::Machine;
use super::state::deferred::Forward;
use super::state::membership::Membership;
use super::transport::Event;
use crate::server::Server;
use crate::state::mailbox::{Message, RemoteReply};
use petrel_cluster::SlotSet;
use petrel_commands::{Fail, ServerState};
use petrel_fabric::Copies;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks whether data are loaded, or the server is stopping.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// Until the server stops.
pub(super) fn run(mut resources: AgentResources, membership: &Arc<Membership>) {
    while let Some(admission) = await_admission(&mut resources, membership) {
        let server = resources.machine.host.server.clone();
        let mut agent = Agent::new(resources, membership.clone(), admission);
        agent.run();
        if server.is_stopping() {
            return;
        }
        agent.expelled();
        resources = agent.end();
    }
}

/// The next life; none if the server stops.
fn await_admission(resources: &mut AgentResources, membership: &Membership) -> Option<Admission> {
    let server = resources.machine.host.server.clone();
    let (began, mut is_alone, mut has_reported) = (Instant::now(), false, false);
    while !server.is_stopping() {
        if !server.commands.is_loading() {
            if !std::mem::replace(&mut has_reported, true) {
                membership.report_extents(&server, &*resources.transport);
            }
            while let Some(event) = membership.events.take() {
                if let Event::Admitted(identity, view, members) = event {
                    if is_alone {
                        set_alone(&mut resources.machine, membership, None);
                    }
                    return Some(Admission { identity, view, members });
                }
            }
            if !is_alone && let Some(readable) = membership.readable_alone(began) {
                is_alone = true;
                set_alone(&mut resources.machine, membership, Some(readable));
            }
        }
        while let Some(Forward { client, seq, .. }) = resources.tasks.take() {
            let fail = if is_alone { Fail::NO_MAJORITY } else { Fail::PRIMARY_CHANGING };
            let reply = fail.to_reply();
            let reply = RemoteReply { slot: client.slot, id: client.id, seq, reply };
            deliver(&server, client.worker, reply);
        }
        if let Err(error) = resources.poll.wait(&[], PAUSE, &mut Vec::new()) {
            tracing::error!("cluster: polling failed: {error}");
            std::thread::sleep(PAUSE);
        }
    }
    None
}

/// Slots that may be read, and whether every member holds all data.
type Readable = (SlotSet, bool);

impl Membership {
    /// The slots that clients may read here, if no member has let this server in for so long that
    /// there may be no majority: the slots that it owned last.
    fn readable_alone(&self, began: Instant) -> Option<Readable> {
        let patience = Duration::from_millis(u64::from(self.node_timeout_ms)) * 2;
        if began.elapsed() < patience || !self.has_data() {
            return None;
        }
        let fabric = self.fabric.lock().clone()?;
        if fabric.is_led() {
            return None;
        }
        let slots = fabric.known_slots();
        let holds_all = fabric.copies() == Some(Copies::All);
        (!slots.is_empty()).then_some((slots, holds_all))
    }
}

/// Lets clients read these slots though the server is no member, or ends that.
fn set_alone(machine: &mut Machine, membership: &Membership, readable: Option<Readable>) {
    let server = machine.host.server.clone();
    let exec = &mut machine.exec;
    exec.begin();
    exec.ks.lock_all();
    match &readable {
        Some((slots, holds_all)) => membership.own.read_alone(*holds_all, slots),
        None => {
            membership.own.serve(false);
            exec.ks.forget_all_readers();
        }
    }
    server.commands.set_state(ServerState::Apart, readable.is_none());
    exec.ks.unlock();
    exec.end();
    match readable {
        Some((slots, _)) => tracing::warn!(
            "cluster: no majority of the members is reachable: {} hash slots can be read here, as they were before the \
             restart, and nothing can be written. Start the other members; if they do not return, CLUSTER FAILOVER \
             TAKEOVER continues without them",
            slots.iter().count()
        ),
        None => (0..server.workers.len()).for_each(|worker| server.tell(worker, Message::Demoted)),
    }
}

pub(super) fn deliver(server: &Server, worker: u16, reply: RemoteReply) {
    if usize::from(worker) < server.workers.len() {
        server.tell(usize::from(worker), Message::Remote(vec![reply]));
    }
}
