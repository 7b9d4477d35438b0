//! Executes what other members forward, through the gate that clients' commands go through. The
//! user's permissions were asked where the client is.

use super::copy::Incoming;
use super::{Membership, count};
use crate::client::Client;
use crate::fanout::pubsub::ChannelKind;
use crate::host::ServerHost;
use crate::server::Server;
use bytes::Bytes;
use petrel_cluster::node::GroupError;
use petrel_cluster::wire::{Exec, Tag};
use petrel_cluster::{Host, Identity};
use petrel_commands::acl::{User, Users};
use petrel_commands::{Execution, Executor, Fail, Session, transactions};
use petrel_keyspace::Handle;
use petrel_net::{Endpoint, Slot};
use petrel_resp::{Protocol, RespWriter};
use petrel_table::{GateFlags, Place};
use std::sync::Arc;
use std::time::Duration;

/// Between two looks whether what was executed is durable.
const DURABLE_PAUSE: Duration = Duration::from_micros(100);

/// What the agent executes with.
pub(super) struct Machine {
    pub exec: Executor,
    pub host: ServerHost,
    membership: Arc<Membership>,
    /// Who may do everything.
    user: Arc<User>,
    /// Values of a reply that lie elsewhere.
    shared: Vec<(usize, Bytes)>,
    /// The epoch that is to be durable before answers and effects are sent; 0 if none is.
    need: u64,
    /// What has come of a copy of another member's data.
    pub incoming: Incoming,
}

impl Machine {
    pub fn new(server: &Arc<Server>, membership: Arc<Membership>) -> Self {
        let here = Endpoint::Unix;
        let nobody = Client::new(0, u16::MAX, Slot::NOWHERE, 0, -1, here.clone(), here);
        let shared = server.commands.clone();
        let user = Users::nobody_above(&shared.registry);
        let host = ServerHost::new(server.clone(), Arc::new(nobody));
        let mut exec = Executor::new(server.keyspace.attach(), shared);
        exec.ks.set_events(host.config.notify_keyspace_events.wanted());
        Machine {
            exec,
            host,
            membership,
            user,
            shared: Vec::new(),
            need: 0,
            incoming: Incoming::default(),
        }
    }

    /// A turn of the agent begins.
    pub fn begin_turn(&mut self) {
        if self.host.begin_turn() {
            self.exec.ks.set_events(self.host.config.notify_keyspace_events.wanted());
        }
        self.exec.ks.refresh_clock();
    }

    /// Serves clients that wait for what was changed, tells those who cache, and waits until what
    /// was executed is durable, if it has to be before others hear of it.
    pub fn end_turn(&mut self) {
        while self.exec.has_ready() {
            self.exec.begin();
            self.exec.serve_ready(&mut self.host);
            self.exec.end();
        }
        self.host.take_upkeep_invalidations(&mut self.exec.ks);
        self.host.send_invalidations();
        self.host.send_broadcasts();
        self.host.call_workers();
        let need = std::mem::take(&mut self.need);
        let Some(log) = self.host.server.durability.log().filter(|_| need > 0) else { return };
        log.want(need);
        while log.durable() < need && !self.host.server.is_stopping() {
            std::thread::sleep(DURABLE_PAUSE);
        }
    }

    /// Executes what another member has forwarded, unless it is not to be executed for others.
    fn call_forwarded(&mut self, args: &[&[u8]], session: &mut Session, out: &mut Vec<u8>) {
        let spec = self.exec.prepare(args, None).command.map(|command| command.spec);
        let is_forwarded = spec.is_none_or(|spec| {
            spec.place != Place::Here || spec.gate.contains(GateFlags::RUNS_ANYWHERE)
        });
        match is_forwarded {
            true => self.call(args, session, out),
            false => out.extend_from_slice(b"-ERR the command has no home\r\n"),
        }
    }

    fn call(&mut self, args: &[&[u8]], session: &mut Session, out: &mut Vec<u8>) {
        let request = self.exec.prepare(args, None);
        let mut reply = RespWriter::new(out, &mut self.shared, session.protocol);
        match self.exec.execute(&request, session, &mut self.host, &mut reply) {
            Execution::Answered => {}
            // Nobody's client cannot wait, nor be held back.
            _ => petrel_resp::Reply::error(&mut reply, b"ERR the command cannot wait at its home"),
        }
        splice(out, &mut self.shared);
    }
}

/// Puts values that lie elsewhere into their places.
fn splice(out: &mut Vec<u8>, shared: &mut Vec<(usize, Bytes)>) {
    if shared.is_empty() {
        return;
    }
    let values: usize = shared.iter().map(|(_, value)| value.len()).sum();
    let mut whole = Vec::with_capacity(out.len() + values);
    let mut from = 0;
    for (at, value) in shared.drain(..) {
        whole.extend_from_slice(&out[from..at]);
        whole.extend_from_slice(&value);
        from = at;
    }
    whole.extend_from_slice(&out[from..]);
    *out = whole;
}

impl Host for Machine {
    fn handle(&mut self) -> &mut Handle {
        &mut self.exec.ks
    }

    fn execute(&mut self, _: Tag, exec: &Exec<'_>, reply: &mut Vec<u8>) {
        count(&self.membership.figures.served, 1);
        if usize::from(exec.db) >= usize::from(self.exec.ks.keyspace().databases()) {
            reply.extend_from_slice(b"-ERR DB index is out of range\r\n");
            return;
        }
        let mut session = Session::new(true);
        session.become_user(Some(self.user.clone()));
        session.db = exec.db;
        session.protocol = if exec.resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        self.exec.begin();
        if !self.exec.has_lease(&*self.membership) {
            reply.extend_from_slice(&[b"-", Fail::SLOT_UNSERVED.text(), b"\r\n"].concat());
            return self.exec.end();
        }
        if exec.is_transaction {
            self.call(&[b"MULTI"], &mut session, reply);
        }
        for command in &exec.commands {
            reply.clear();
            self.call_forwarded(command, &mut session, reply);
        }
        if exec.is_transaction {
            reply.clear();
            self.call(&[b"EXEC"], &mut session, reply);
        }
        transactions::abandon(&mut self.exec, &mut session);
        self.exec.end();
        if self.exec.ks.is_strict() {
            self.need = self.need.max(self.exec.ks.take_need());
        }
    }

    fn publish(&mut self, is_sharded: bool, channel: &[u8], payload: &[u8]) {
        let kind = if is_sharded { ChannelKind::Shard } else { ChannelKind::Channel };
        self.host.publish_message(kind, channel, payload);
    }

    fn copy_begins(&mut self) {
        self.incoming = Incoming::default();
    }

    fn copy(&mut self, part: &[u8], _: bool) {
        self.incoming.take(part);
    }

    fn differs(&mut self, from: Identity, error: GroupError) {
        count(&self.membership.figures.differences, 1);
        tracing::error!(
            "a change of member {} cannot be made here, whose data differ from now on: {error}",
            from.node.0
        );
    }
}
