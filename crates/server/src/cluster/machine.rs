//! Executes what other members forward, through the gate that clients' commands go through. The
//! user's permissions were asked where the client is.

use super::jobs::Job;
use super::logs::PendingWaits;
use super::state::copy::Incoming;
use super::state::membership::{Membership, NODES_MAX, count};
use super::waiters::{RemoteClient, splice};
use crate::client::Client;
use crate::host::{Caller, ServerHost};
use crate::server::{Server, unix_ms};
use crate::state::pubsub::ChannelKind;
use crate::state::tracking::pending::away;
use bytes::Bytes;
use petrel_cluster::node::GroupError;
use petrel_cluster::wire::{Tag, Texts, WaitEnd};
use petrel_cluster::{Call, Executed, Host, Identity, Lanes, Node, Slot as ClusterSlot};
use petrel_commands::acl::{User, Users};
use petrel_commands::aux_state::NamedForm;
use petrel_commands::{Answer, Command, Execution, Executor, Fail, Request, Session, transactions};
use petrel_keyspace::Handle;
use petrel_net::{Endpoint, Slot};
use petrel_resp::{Protocol, RespWriter};
use petrel_table::keys::key_positions;
use petrel_table::{Flags, GateFlags, Place};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Interval between two checks whether executed commands are durable.
const DURABLE_PAUSE: Duration = Duration::from_micros(100);

/// State with which the agent executes commands.
pub(super) struct Machine {
    pub exec: Executor,
    pub host: ServerHost,
    pub membership: Arc<Membership>,
    /// The member, in its life.
    pub own: Identity,
    /// The node's lanes.
    pub lanes: Option<Arc<Lanes>>,
    /// Commands in execution over several turns.
    pub jobs: Vec<Job>,
    /// Questions of other members that are not answered yet.
    pub pending_waits: PendingWaits,
    /// Clients of members that watch keys of slots with this primary, and these slots.
    watches: HashMap<(Identity, u64), Watched>,
    /// Client shown for commands of other members' clients.
    shown_client: Arc<Client>,
    /// User with all permissions.
    user: Arc<User>,
    /// Values of a reply that lie elsewhere.
    shared: Vec<(usize, Bytes)>,
    /// The epoch that is to be durable before answers and effects are sent; 0 if none is.
    need: u64,
    /// Received part of a copy of another member's data.
    pub incoming: Incoming,
}

/// Whether every primary executes a command that was forwarded for its share, in steps.
fn is_at_all_primaries(command: Command) -> bool {
    command.spec.gate.contains(GateFlags::AT_ALL_PRIMARIES) || command.spec.meta.is_summed()
}

/// Keys that a client of another member watches here.
struct Watched {
    session: Session,
    slots: Vec<ClusterSlot>,
    /// `WATCH`es that were forwarded for them.
    forwarded: u16,
}

impl Default for Watched {
    fn default() -> Self {
        Watched { session: Session::new(true), slots: Vec::new(), forwarded: 0 }
    }
}

impl Machine {
    pub fn new(server: &Arc<Server>, membership: Arc<Membership>) -> Self {
        let here = Endpoint::Unix;
        let shown_client = Client::new(0, u16::MAX, Slot::NOWHERE, 0, -1, here.clone(), here);
        let shared = server.commands.clone();
        let user = Users::nobody_above(&shared.registry);
        let shown_client = Arc::new(shown_client);
        let host = ServerHost::new(server.clone(), shown_client.clone());
        let mut exec = Executor::new(server.keyspace.attach(), shared);
        // Only executed commands have events, changes of other members have none here.
        exec.ks.set_events(0);
        Machine {
            exec,
            host,
            membership,
            own: Identity { node: Node(u16::MAX), incarnation: 0 },
            lanes: None,
            jobs: Vec::new(),
            pending_waits: PendingWaits::default(),
            watches: HashMap::new(),
            shown_client,
            user,
            shared: Vec::new(),
            need: 0,
            incoming: Incoming::default(),
        }
    }

    /// A life of the member begins. Clients forget what they have read: changes may have been
    /// missed since the last life.
    pub fn begin_life(&mut self) {
        let server = &self.host.server;
        (0..NODES_MAX as u16)
            .for_each(|node| server.trackers.remove_member(node, &server.keyspace));
        if !server.trackers.is_empty() {
            self.host.invalidate_everything();
        }
    }

    /// A turn of the agent begins.
    pub fn begin_turn(&mut self) {
        self.host.begin_turn();
        self.exec.ks.refresh_clock();
    }

    /// Serves clients blocked on changed keys, sends invalidations, and waits until executed
    /// commands are durable, if other members may see them only then.
    pub fn end_turn(&mut self) {
        while self.exec.has_ready() {
            self.exec.ks.set_events(self.host.wanted_events());
            self.exec.begin();
            self.exec.serve_ready(&mut self.host);
            self.exec.end();
            self.exec.ks.set_events(0);
        }
        self.note_need();
        // Answers to other members wait in the lanes.
        self.exec.shown.clear();
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

    /// Records that commands executed so far must be durable before the turn ends, if replies wait
    /// for that.
    pub(super) fn note_need(&mut self) {
        if self.exec.ks.is_strict() {
            self.need = self.need.max(self.exec.ks.take_need());
        }
    }

    /// Executes what another member has forwarded, unless it is not to be executed for others.
    fn call_forwarded(
        &mut self,
        request: &Request<'_>,
        session: &mut Session,
        out: &mut Vec<u8>,
    ) -> Execution {
        let spec = request.command.map(|command| command.spec);
        let is_forwarded = spec.is_none_or(|spec| {
            spec.place != Place::Here
                || spec.gate.contains(GateFlags::RUNS_ANYWHERE)
                || spec.gate.contains(GateFlags::WHOLE_DATABASE)
        });
        if is_forwarded {
            return self.call_prepared(request, session, out);
        }
        out.extend_from_slice(b"-ERR the command has no primary\r\n");
        Execution::Answered
    }

    fn call(&mut self, args: &[&[u8]], session: &mut Session, out: &mut Vec<u8>) -> Execution {
        let request = self.exec.prepare(args, None);
        self.call_prepared(&request, session, out)
    }

    fn call_prepared(
        &mut self,
        request: &Request<'_>,
        session: &mut Session,
        out: &mut Vec<u8>,
    ) -> Execution {
        let mut reply = RespWriter::new(out, &mut self.shared, session.protocol);
        let execution = self.exec.execute(request, session, &mut self.host, &mut reply);
        if !matches!(execution, Execution::Answered | Execution::Waits) {
            // A command of another member's client cannot be delayed here.
            petrel_resp::Reply::error(&mut reply, b"ERR the command cannot block at its primary");
        }
        splice(out, &mut self.shared);
        execution
    }

    /// Executes a command that changes auxiliary state on a copy of it: its reply, and the whole
    /// forms of the states that it would change.
    pub(super) fn draft(&mut self, args: &[&[u8]], resp3: bool) -> (Vec<u8>, Vec<NamedForm>) {
        let (mut session, mut reply) = (Session::new(true), Vec::new());
        session.become_user(Some(self.user.clone()));
        session.protocol = if resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        self.begin_turn();
        self.exec.begin();
        self.exec.begin_draft();
        self.call(args, &mut session, &mut reply);
        let changed = self.exec.end_draft();
        self.exec.end();
        (reply, changed)
    }

    fn begin_job(
        &mut self,
        tag: Tag,
        command: Command,
        call: &Call<&[u8]>,
        reply: &mut Vec<u8>,
    ) -> Executed {
        let databases = self.exec.ks.keyspace().databases();
        let positions =
            || self.lanes.as_ref().map(|lanes| lanes.changed_positions()).unwrap_or_default();
        let epoch = self.exec.ks.keyspace().epochs().now();
        match Job::of(tag, command, call, databases, (positions, epoch)) {
            Ok(job) => {
                let left_ms = job.left_ms();
                self.jobs.push(job);
                Executed::Waits(left_ms)
            }
            Err(fail) => {
                reply.extend_from_slice(&fail.to_reply());
                Executed::Replied
            }
        }
    }

    /// Ends watches of which this is so; the thread may hold everything.
    pub fn drop_watches(&mut self, which: impl Fn(Identity, &[ClusterSlot]) -> bool) {
        let watches = self.watches.iter();
        let dropped = watches.filter(|((origin, _), watched)| which(*origin, &watched.slots));
        for (origin, client) in dropped.map(|(name, _)| *name).collect::<Vec<_>>() {
            self.drop_watches_of(origin, client);
        }
    }

    fn drop_watches_of(&mut self, origin: Identity, client: u64) {
        let Some(Watched { mut session, .. }) = self.watches.remove(&(origin, client)) else {
            return;
        };
        let is_outside = !self.exec.ks.holds_any();
        if is_outside {
            self.exec.begin();
        }
        transactions::abandon(&mut self.exec, &mut session);
        if is_outside {
            self.exec.end();
        }
    }

    /// The client of a command that may block: it is outside of a transaction.
    fn caller_of(
        &self,
        command: Option<Command>,
        tag: Tag,
        call: &Call<&[u8]>,
    ) -> Option<Arc<Caller>> {
        let may_block = command?.spec.flags.contains(Flags::BLOCKING) && !call.is_transaction;
        may_block.then(|| self.caller(tag, call))
    }

    fn caller(&self, tag: Tag, call: &Call<&[u8]>) -> Arc<Caller> {
        let client = RemoteClient {
            tag,
            slots: call.slots[..].into(),
            wait_ms: call.wait_ms,
            shown_client: self.shown_client.clone(),
            membership: self.membership.clone(),
            own: self.own,
        };
        Arc::new(Caller(Box::new(client)))
    }

    fn execute_forwarded(&mut self, tag: Tag, call: &Call<&[u8]>, reply: &mut Vec<u8>) -> Executed {
        count(&self.membership.figures.served, 1);
        count(&self.membership.figures.peer(tag.origin.node.0).served, 1);
        if usize::from(call.db) >= usize::from(self.exec.ks.keyspace().databases()) {
            reply.extend_from_slice(b"-ERR DB index is out of range\r\n");
            return Executed::Replied;
        }
        let protocol = if call.resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let client = call.client.map(|number| (number >> 16, number as u16));
        let watched = client.and_then(|(client, _)| self.watches.remove(&(tag.origin, client)));
        let Watched { mut session, mut slots, forwarded } = watched.unwrap_or_default();
        // Watches from another primary or an earlier view are dropped.
        let is_forgotten = client.is_some_and(|(_, before)| before != forwarded);
        if is_forgotten && call.is_transaction {
            self.exec.begin();
            transactions::abandon(&mut self.exec, &mut session);
            self.exec.end();
            let null = Answer::new(protocol, |reply| reply.null_array());
            reply.extend_from_slice(&null.bytes);
            return Executed::Replied;
        }
        session.become_user(Some(self.user.clone()));
        session.db = call.db;
        session.protocol = protocol;
        if call.tracks && tag.origin != self.own {
            self.track_for(tag.origin, &mut session);
        }
        self.exec.begin();
        if !self.exec.has_lease(&*self.membership) {
            reply.extend_from_slice(&Fail::SLOT_UNSERVED.to_reply());
            transactions::abandon(&mut self.exec, &mut session);
            self.exec.end();
            return Executed::Replied;
        }
        if call.is_transaction {
            self.call(&[b"MULTI"], &mut session, reply);
        }
        let mut execution = Execution::Answered;
        for command in &call.commands {
            reply.clear();
            let request = self.exec.prepare(command, None);
            self.host.caller = self.caller_of(request.command, tag, call);
            if let Some(command) = request.command.filter(|&command| is_at_all_primaries(command))
                && !call.is_transaction
            {
                self.host.caller = None;
                self.exec.end();
                return self.begin_job(tag, command, call, reply);
            }
            execution = self.call_forwarded(&request, &mut session, reply);
        }
        self.host.caller = None;
        if call.is_transaction {
            reply.clear();
            self.call(&[b"EXEC"], &mut session, reply);
        }
        session.extras.iter_mut().for_each(|extras| extras.tracking = None);
        match client.filter(|_| !call.is_transaction && !is_forgotten) {
            Some((client, before)) => {
                slots.extend(&call.slots);
                slots.sort_unstable();
                slots.dedup();
                let forwarded = before.saturating_add(1);
                self.watches.insert((tag.origin, client), Watched { session, slots, forwarded });
            }
            None => transactions::abandon(&mut self.exec, &mut session),
        }
        self.exec.end();
        self.note_need();
        match execution {
            Execution::Waits => Executed::Waits(self.membership.waiters.left_ms(tag, unix_ms())),
            _ => Executed::Replied,
        }
    }
}

impl Host for Machine {
    fn handle(&mut self) -> &mut Handle {
        &mut self.exec.ks
    }

    fn execute(&mut self, tag: Tag, call: &Call<&[u8]>, reply: &mut Vec<u8>) -> Executed {
        self.exec.ks.set_events(self.host.wanted_events());
        if call.writer.is_some() {
            self.attribute(None);
            let number = |client| match tag.origin == self.own {
                true => client,
                false => away(tag.origin.node.0, client),
            };
            self.host.writer = call.writer.map(number);
        }
        let executed = self.execute_forwarded(tag, call, reply);
        if let Some(writer) = self.host.writer.take() {
            self.attribute(Some(writer));
        }
        self.exec.ks.set_events(0);
        executed
    }

    fn interests(&mut self, from: Identity, events: u64, prefixes: Texts<'_>) {
        self.set_interests(from, events, prefixes);
    }

    fn changed(&mut self, is_broadcast: bool, writer: Option<u64>, db: u16, key: &[u8]) {
        self.invalidate_away(is_broadcast, writer, db, key);
    }

    fn event(&mut self, db: u16, name: &[u8], key: &[u8], fields: Texts<'_>) {
        let fields: Vec<&[u8]> = fields.iter().collect();
        self.host.publish_named((db, name, key), fields.iter().copied());
    }

    fn invalidated_by(&mut self, writer: Option<u64>) {
        self.attribute(writer);
    }

    fn unwatch(&mut self, origin: Identity, client: u64) {
        self.drop_watches_of(origin, client >> 16);
    }

    fn end_wait(&mut self, tag: Tag, end: WaitEnd) -> Option<Vec<u8>> {
        if self.cancel_job(tag) {
            return None;
        }
        self.end_wait_here(tag, end)
    }

    fn publish(&mut self, is_sharded: bool, channel: &[u8], payload: &[u8]) {
        let kind = if is_sharded { ChannelKind::Shard } else { ChannelKind::Channel };
        self.host.publish_message(kind, channel, payload);
    }

    fn keys_read(&mut self, call: &Call<&[u8]>, keys: &mut Vec<Vec<u8>>) {
        let [args] = &call.commands[..] else { return };
        let Some(command) = self.exec.prepare(args, None).command else { return };
        let (mut found, spec) = (Vec::new(), command.spec);
        if spec.place == Place::Read && key_positions(spec.meta.keys, args, &mut found).is_ok() {
            keys.extend(found.iter().map(|key| args[key.index as usize].to_vec()));
        }
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
            "a change by member {} cannot be applied, so the data differ from now on: {error}",
            from.node.0
        );
    }
}
