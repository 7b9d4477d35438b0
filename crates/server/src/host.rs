//! The server as seen by commands: the current connection, and its server.

pub mod client_line;

use crate::client::{Client, Flag};
use crate::config::{Config, ConfigReader};
use crate::server::Server;
use crate::state::invalidation_queue::InvalidationQueue;
use crate::state::mailbox::Message;
use crate::state::outbox::PushDesk;
use crate::state::pubsub::Subscribers;
use crate::state::tracking::Invalidations;
use crate::unix_time::unix_ms;
use client_line::describe;
use petrel_commands::topology::Viewer;
use petrel_commands::{
    Answer, Attendant, Blocked, Command, Ctx, Fail, Host, NO_MODULES, Outcome, Session, Standing,
    Ticket,
};
use petrel_keyspace::{Cleared, Event, Handle};
use petrel_net::{Endpoint, Slot, is_hung_up};
use petrel_persistence::rdb::{Dialect, Leniency};
use petrel_resp::Reply;
use petrel_table::commands as meta;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Client of another member, for which a possibly blocking command is executed here.
pub(crate) trait RemoteCaller: Send + Sync {
    /// Client shown wherever a connection of this server is required.
    fn shown_client(&self) -> Arc<Client>;

    /// Milliseconds that the command may wait, whatever it says itself.
    fn wait_ms(&self) -> Option<u64>;

    /// The command begins to wait; see [`Host::wait`].
    fn wait(&self, blocked: &Arc<Blocked>);

    /// Delivers the reply after a wait; see [`Host::answer`].
    fn answer(&self, answer: Answer) -> bool;
}

/// The [ticket](Host::ticket) of such a client.
pub(crate) struct Caller(pub Box<dyn RemoteCaller>);

/// Busy loop: serves a worker's connections while the worker runs a script
/// (`event_loop/busy_loop.rs`), independent of the driver's type.
pub(crate) trait BusyLoop {
    /// Does what cannot wait, and before it waits so long for something to do; true if the server
    /// is stopping.
    fn poll_once(&mut self, timeout: Duration) -> bool;

    /// Whether the connection with the running script has ended.
    fn has_lost_client(&self) -> bool;

    /// The stand-in itself.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Place of the busy loop, while the worker runs a script.
pub(crate) type BusyLoopSlot = RefCell<Option<Box<dyn BusyLoop>>>;

/// Service to the clients of a worker while it runs a script of one of them.
struct ScriptAttendant {
    server: Arc<Server>,
    client: Arc<Client>,
    busy_loop: Rc<BusyLoopSlot>,
}

impl Attendant for ScriptAttendant {
    fn attend(&self) -> bool {
        let mut busy_loop = self.busy_loop.borrow_mut();
        busy_loop.as_mut().is_some_and(|busy_loop| busy_loop.poll_once(Duration::ZERO))
    }

    fn abandon(&self, script: &str) {
        self.server.abandon(script);
    }

    fn has_lost_client(&self) -> bool {
        let busy_loop = self.busy_loop.borrow();
        self.client.has(Flag::Killed)
            || busy_loop.as_ref().is_some_and(|busy_loop| busy_loop.has_lost_client())
    }
}

/// Host of a worker, passed to every command that the worker executes.
pub struct ServerHost {
    /// The server.
    pub server: Arc<Server>,
    /// The configuration, as of the beginning of the turn.
    pub config: ConfigReader,
    /// Connection of the current command.
    pub client: Arc<Client>,
    /// Answers for connections of this worker that have waited: slot and number of each.
    pub answers: VecDeque<(Slot, u64, Answer)>,
    /// Subscriptions of this worker's connections.
    pub(crate) subscribers: Subscribers,
    /// Pushes to this worker's connections.
    pub(crate) desk: PushDesk,
    /// Invalidations and broadcasts to send for changes by this worker's commands.
    pub(crate) invalidations: Invalidations,
    /// Invalidations that are on their way.
    pub(crate) held: InvalidationQueue,
    /// Client of the current command, if it belongs to another member.
    pub(crate) caller: Option<Arc<Caller>>,
    /// Number of the client of another member that makes the present changes, if it does not want
    /// to hear of them.
    pub(crate) writer: Option<u64>,
    /// Classes of keyspace events that clients of other members want, as of the beginning of the
    /// turn.
    member_events: u32,
    /// Serves the worker's connections while it runs a script.
    pub(crate) busy_loop: Rc<BusyLoopSlot>,
    /// Bytes that the memory limit leaves to the replies of one client, as of the last look.
    reply_room: usize,
    /// The worker's number.
    worker: u16,
    reconfigured: bool,
}

impl ServerHost {
    /// The host of a session command, which only a server executes.
    pub fn of<'c>(ctx: &'c mut Ctx<'_>) -> &'c mut ServerHost {
        let host = ctx.host.as_any().downcast_mut::<ServerHost>();
        host.expect(
            "session commands are registered by the server, whose workers execute with this host",
        )
    }

    /// Creates the host of a worker that serves no connection yet.
    pub fn new(server: Arc<Server>, client: Arc<Client>) -> Self {
        let config = server.config.reader();
        let worker = client.worker;
        let answers = VecDeque::new();
        let held = InvalidationQueue::new(server.workers.len());
        let member_events = server.trackers.member_events();
        ServerHost {
            server,
            config,
            client,
            answers,
            subscribers: Subscribers::default(),
            desk: PushDesk::default(),
            invalidations: Invalidations::default(),
            held,
            caller: None,
            writer: None,
            member_events,
            busy_loop: Rc::default(),
            reply_room: usize::MAX,
            worker,
            reconfigured: false,
        }
    }

    /// Creates the host of a thread that is no worker. Its answers go through workers.
    pub fn apart(server: Arc<Server>) -> Self {
        let nobody = Client::new(0, u16::MAX, Slot::NOWHERE, 0, -1, Endpoint::Unix, Endpoint::Unix);
        ServerHost::new(server, Arc::new(nobody))
    }

    /// The worker's number.
    pub fn worker(&self) -> usize {
        usize::from(self.worker)
    }

    /// Uses the new configuration at once, in the middle of a batch; other workers use it from
    /// their next turn on.
    pub fn refresh_config(&mut self) {
        self.reconfigured |= self.config.refresh();
    }

    /// Uses the configuration changed since the last turn; returns whether it was changed.
    #[inline]
    pub fn begin_turn(&mut self) -> bool {
        let events = self.server.trackers.member_events();
        let is_new = std::mem::replace(&mut self.member_events, events) != events;
        self.config.refresh() | is_new | std::mem::take(&mut self.reconfigured)
    }

    /// Classes of keyspace events to be recorded, as of the beginning of the turn.
    pub fn wanted_events(&self) -> u32 {
        self.config.notify_keyspace_events.wanted() | self.member_events
    }

    /// Bytes of output that a client of this class may have while it is made: more than the hard
    /// limit closes it, and so does more than all clients together may have, if it is one that is
    /// evicted for that, or than fits under the memory limit.
    pub(crate) fn output_max(&self, is_subscriber: bool, is_evicted: bool) -> usize {
        let limits = &self.config.client_output_buffer_limit;
        let hard = if is_subscriber { limits.pubsub } else { limits.normal }.hard_bytes;
        let hard = if hard == 0 { u64::MAX } else { hard };
        let shared = self.config.maxmemory_clients.limit_bytes(self.config.maxmemory);
        let most = shared.filter(|_| is_evicted).map_or(hard, |bytes| bytes.min(hard));
        usize::try_from(most).unwrap_or(usize::MAX).min(self.reply_room)
    }

    /// Reads the part of the memory limit that is left to replies.
    pub(crate) fn measure_reply_room(&mut self) {
        let room = self.server.keyspace.room_for_replies();
        self.reply_room = usize::try_from(room).unwrap_or(usize::MAX);
    }

    /// Whether the connection comes from this machine.
    pub fn is_local(&self) -> bool {
        match self.client.peer() {
            Endpoint::Unix => true,
            peer => peer.ip().is_some_and(|ip| ip.is_loopback()),
        }
    }

    /// Publishes the state of the current connection, which has executed this number of further
    /// commands, and its scripts `nested` ones. Called after each batch, and by commands that show
    /// the connection itself.
    pub fn publish(&self, session: &Session, executed: u64, nested: u64) {
        let client = &self.client;
        client.count(executed, nested);
        client.db.store(session.db, Relaxed);
        let (queued, watching) = match session.transaction() {
            Some(transaction) if transaction.open => {
                (transaction.queued.len() as i32, transaction.watched.len() as u32)
            }
            Some(transaction) => (-1, transaction.watched.len() as u32),
            None => (-1, 0),
        };
        client.queued.store(queued, Relaxed);
        let bytes = session.extras.as_ref().map_or(0, |extras| {
            let transaction = extras.transaction.as_ref().map_or(0, |transaction| {
                let names = match transaction.watched.len() {
                    0 => 0,
                    len => len * WATCHED_KEY_BYTES + 2 * transaction.watched_bytes,
                };
                transaction.bytes + names
            });
            let fieldsets = extras.fieldsets.as_ref().map_or(0, |fieldsets| fieldsets.bytes());
            transaction + fieldsets + extras.slots.as_ref().map_or(0, |slots| slots.bytes())
        });
        client.queued_bytes.store(bytes.min(u32::MAX as usize) as u32, Relaxed);
        let before = client.watching.load(Relaxed);
        if watching != before {
            client.watching.store(watching, Relaxed);
            self.server.workers[usize::from(client.worker)].traffic.watch(before, watching);
        }
    }

    /// Path of the Unix socket, for addresses.
    pub fn socket_path(&self) -> String {
        socket_path(&self.config)
    }

    /// Says why a replica's connection is closed that a reply was made for.
    #[cold]
    pub(crate) fn warn_of_reply(&self, client: &Client) {
        tracing::warn!(
            "the replica at {} is closed: it has sent a command with a reply, which would break its stream",
            client.address(&self.socket_path())
        );
    }
}

/// Bytes counted for a watched key, beside its name, which is kept twice: its place in the client's
/// table and in its stripe's.
const WATCHED_KEY_BYTES: usize = 160;

/// Path of the configured Unix socket, or nothing.
pub fn socket_path(config: &Config) -> String {
    config.unixsocket.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
}

/// The connection that a command waits for.
pub(crate) fn client_of(blocked: &Blocked) -> &Client {
    blocked
        .ticket()
        .downcast_ref()
        .expect("a ticket belongs to a local connection or a remote client")
}

impl Host for ServerHost {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn admit_protected(&mut self, command: Command) -> Outcome {
        if command.spec.meta.name != meta::DEBUG.name {
            return Err(NO_MODULES);
        }
        if self.config.enable_debug_command.allows(self.is_local()) {
            return Ok(());
        }
        let name = command.spec.meta.name.to_ascii_uppercase();
        Err(Fail::new(format!(
            "ERR {name} command not allowed. If the enable-debug-command option is set to \"local\", you can run it \
             from a local connection, otherwise you need to set this option in the configuration file, and then \
             restart the server."
        )))
    }

    fn client_info(&mut self, session: &Session) -> Vec<u8> {
        self.publish(session, 0, 0);
        let mut line = Vec::new();
        describe(&self.client, &self.server, &self.socket_path(), &mut line);
        line.trim_ascii_end().to_vec()
    }

    fn client_label(&mut self) -> (String, String) {
        let name = String::from_utf8_lossy(&self.client.labels().name).into_owned();
        (self.client.address(&self.socket_path()), name)
    }

    fn show(&mut self, db: u16, in_script: bool, args: &[&[u8]]) {
        self.send_to_monitors(db, in_script, args);
    }

    fn string_len_max(&self) -> usize {
        self.config.proto_max_bulk_len as usize
    }

    fn query_buffer_limit(&self) -> usize {
        self.config.client_query_buffer_limit as usize
    }

    fn reply_max(&self) -> Option<usize> {
        let (client, is_evicted) = (&self.client, !self.client.has(Flag::NoEvict));
        let most = self.output_max(client.has(Flag::PubSub), is_evicted);
        (most < usize::MAX).then_some(most)
    }

    fn flushes_in_background(&self) -> bool {
        self.config.lazyfree_lazy_user_flush
    }

    fn flushed_all(&mut self, ks: &mut Handle, is_all: bool) {
        let snapshot = &self.server.snapshot;
        // A running snapshot would bring back the flushed data.
        snapshot.give_up();
        // The file on the disk must lose the data as well, if it is meant to follow.
        if self.config.save.is_empty() {
            return;
        }
        if !is_all || self.server.save_holding(ks, &self.config).is_err() {
            snapshot.scheduled.store(true, Relaxed);
        }
    }

    fn leniency(&self) -> Leniency {
        Leniency {
            any_version: self.config.accepts_any_rdb_version(),
            any_sum: self.server.any_checksum.load(Relaxed),
            any_count: false,
        }
    }

    fn dump_dialect(&self) -> Dialect {
        self.config.form()
    }

    fn attendant(&self) -> Option<Rc<dyn Attendant>> {
        let busy_loop = self.busy_loop.clone();
        let (server, client) = (self.server.clone(), self.client.clone());
        Some(Rc::new(ScriptAttendant { server, client, busy_loop }))
    }

    fn log(&mut self, level: u8, text: &str) {
        match level {
            0 | 1 => tracing::debug!("{text}"),
            2 => tracing::info!("{text}"),
            _ => tracing::warn!("{text}"),
        }
    }

    fn durable_epoch(&self) -> Option<u64> {
        self.server.durability.acknowledged_durable()
    }

    fn is_all_durable(&self, now: u64) -> bool {
        self.server.durability.log().is_some_and(|log| log.is_all_durable(now))
    }

    fn want_durable(&mut self, epoch: u64) {
        if let Some(log) = self.server.durability.log() {
            // First, so that this worker is woken.
            self.server.workers[usize::from(self.worker)]
                .holds
                .store(true, std::sync::atomic::Ordering::SeqCst);
            log.want(epoch);
        }
    }

    fn stream_offset(&self) -> u64 {
        self.server.outgoing.written()
    }

    fn replicas_at(&self, offset: u64) -> (usize, usize) {
        (self.server.outgoing.acknowledged(offset), self.server.outgoing.synced(offset))
    }

    fn viewer(&self) -> Viewer {
        let local = self.client.local();
        let tls_port = self.config.tls.tls_port;
        Viewer {
            endpoints: self.config.endpoint_type(),
            is_tls: tls_port != 0 && local.port() == Some(tls_port),
            local_ip: local.ip().map(|ip| ip.to_string()).unwrap_or_default(),
        }
    }

    fn settle_role(&mut self, ks: &mut Handle) {
        self.server.settle_role(ks);
    }

    fn primary_for(&self, only_reads: bool) -> Option<String> {
        let replication = &self.server.replication;
        // Until it has the role, the other end of a FAILOVER would send a reader back.
        let is_answered_here =
            || self.client.has(Flag::ReadOnly) || replication.failover.is_handing_over();
        let is_to_go = self.client.has(Flag::Redirectable)
            && replication.is_replica()
            && !(only_reads && is_answered_here());
        if !is_to_go {
            return None;
        }
        let (host, port) = replication.primary()?;
        Some(format!("{host}:{port}"))
    }

    fn want_acknowledged(&mut self, offset: u64) {
        self.server.outgoing.awaited.fetch_max(offset, std::sync::atomic::Ordering::SeqCst);
        self.server.ask_replicas();
    }

    fn discard(&mut self, cleared: Cleared) {
        self.server.reaper.reap(cleared);
    }

    fn invalidate(&mut self, ks: &mut Handle, reply: Option<&mut dyn Reply>) {
        self.take_invalidations(ks, reply);
    }

    fn notify(&mut self, event: &Event) {
        self.publish_event(event);
    }

    fn ticket(&mut self) -> Option<Ticket> {
        if let Some(caller) = &self.caller {
            return Some(caller.clone());
        }
        if self.client.id == 0 {
            // Without a connection there is no client to reply to.
            return None;
        }
        Some(self.client.clone())
    }

    fn deadline(&mut self, said: Option<i64>) -> Option<i64> {
        let left = self.caller.as_ref().and_then(|caller| caller.0.wait_ms());
        left.map_or(said, |left| unix_ms().checked_add_unsigned(left))
    }

    fn wait(&mut self, blocked: &Arc<Blocked>) {
        if let Some(caller) = blocked.ticket().downcast_ref::<Caller>() {
            return caller.0.wait(blocked);
        }
        self.client.set(Flag::Blocked, true);
        self.server.workers[usize::from(self.worker)].blocked.add(self.client.id, blocked.clone());
    }

    fn has_helpers(&mut self) -> bool {
        self.caller.is_none() && self.client.id != 0 && self.server.has_helpers()
    }

    fn run_on_helper(&mut self, blocked: &Arc<Blocked>) {
        self.server.run_on_helper(blocked);
    }

    fn standing(&mut self, blocked: &Blocked) -> Standing {
        if blocked.ticket().is::<Caller>() {
            // Its own server says when it is not.
            return Standing::Here;
        }
        let client = client_of(blocked);
        if client.has(Flag::Killed) || is_hung_up(client.fd) {
            return Standing::Gone;
        }
        Standing::Here
    }

    fn act_for(&mut self, client: Ticket) -> Ticket {
        if self.has_changed_keys() {
            // Changes made for another client may cause pushes to the current connection.
            self.note_push();
        }
        let client = match client.downcast::<Client>() {
            Ok(client) => client,
            Err(other) => match other.downcast::<Caller>() {
                Ok(caller) => caller.0.shown_client(),
                Err(other) => return other,
            },
        };
        std::mem::replace::<Arc<Client>>(&mut self.client, client)
    }

    fn answer(&mut self, blocked: &Blocked, answer: Answer) -> bool {
        if let Some(caller) = blocked.ticket().downcast_ref::<Caller>() {
            return caller.0.answer(answer);
        }
        let client = client_of(blocked);
        client.set(Flag::Blocked, false);
        let (slot, id) = (client.slot, client.id);
        if client.worker == self.worker {
            self.answers.push_back((slot, id, answer));
        } else {
            self.server.tell(usize::from(client.worker), Message::Answer { slot, id, answer });
        }
        false
    }
}
