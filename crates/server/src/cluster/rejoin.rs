//! The thread of the cluster between two lives of the member: it waits until the server is let in,
//! and until its own data are loaded. Nothing is executed meanwhile.

use super::agent::{Admission, Agent, AgentResources};
use super::state::deferred::Forward;
use super::state::membership::Membership;
use super::transport::Event;
use crate::server::Server;
use crate::state::mailbox::{Message, RemoteReply};
use petrel_commands::Fail;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks whether data are loaded, or the server is stopping.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// Until the server stops.
pub(super) fn run(mut resources: AgentResources, membership: &Arc<Membership>) {
    while let Some(admission) = await_admission(&resources, membership) {
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
fn await_admission(resources: &AgentResources, membership: &Membership) -> Option<Admission> {
    let server = &resources.machine.host.server;
    while !server.is_stopping() {
        if !server.commands.is_loading() {
            while let Some(event) = membership.events.take() {
                if let Event::Admitted(identity, view, members) = event {
                    return Some(Admission { identity, view, members });
                }
            }
        }
        while let Some(Forward { client, seq, .. }) = resources.tasks.take() {
            let reply = Fail::PRIMARY_CHANGING.to_reply();
            let reply = RemoteReply { slot: client.slot, id: client.id, seq, reply };
            deliver(server, client.worker, reply);
        }
        if let Err(error) = resources.poll.wait(&[], PAUSE, &mut Vec::new()) {
            tracing::error!("cluster: polling failed: {error}");
            std::thread::sleep(PAUSE);
        }
    }
    None
}

pub(super) fn deliver(server: &Server, worker: u16, reply: RemoteReply) {
    if usize::from(worker) < server.workers.len() {
        server.tell(usize::from(worker), Message::Remote(vec![reply]));
    }
}
