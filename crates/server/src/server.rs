//! The server as all its workers share it.

use crate::client::{CONNECTION_BYTES, Client, Flag};
use crate::config::{Config, MaxmemoryPolicy, SharedConfig};
use crate::lifecycle::listening::{Listening, PLAIN};
use crate::lifecycle::oom::OomScore;
use crate::lifecycle::process::Process;
use crate::lifecycle::processors::Processors;
use crate::observation::traffic::{Rates, Totals, Traffic};
use crate::state::backups::Backups;
use crate::state::figures::Figures;
use crate::state::helpers::Helpers;
use crate::state::log::Durability;
use crate::state::mailbox::{Arrival, Message};
use crate::state::member::Member;
use crate::state::migrate::Migrator;
use crate::state::monitor::Monitors;
use crate::state::online_backup::OnlineBackup;
use crate::state::outgoing::Outgoing;
use crate::state::pubsub::Directory;
use crate::state::reaper::Reaper;
use crate::state::replication::Replication;
use crate::state::shutdown::Closing;
use crate::state::snapshot::Snapshot;
use crate::state::tracking::Trackers;
use crate::state::worker_link::WorkerLink;
use crate::tls::{Settings, Trouble};
pub use crate::unix_time::{unix_ms, unix_now};
use parking_lot::Mutex;
use petrel_commands::{Blocked, CuckooDefaults, Registry, ServerState, Shared};
use petrel_keyspace::{Keyspace, Options, Policy, TypeLimits};
use petrel_net::{Endpoint, have_ended};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Maximum number of connections for which the kernel is asked whether their peers have closed
/// them, when they are only counted.
const ASKED_ABOUT_MAX: usize = 4096;

/// State shared by all workers.
pub struct Server {
    /// The configuration.
    pub config: Arc<SharedConfig>,
    /// The data.
    pub keyspace: Arc<Keyspace>,
    /// Command table and statistics of commands.
    pub commands: Arc<Shared>,
    /// Workers.
    pub workers: Box<[WorkerLink]>,
    /// Figures for `INFO`.
    pub figures: Figures,
    /// Recent rates for `INFO`.
    pub rates: Rates,
    /// Subscriptions to channels and patterns.
    pub channels: Directory,
    /// The process that the server runs in.
    pub process: Arc<dyn Process>,
    /// 40 hexadecimal digits, drawn at start.
    pub run_id: String,
    /// Primary of this server, and the id and offset of its history.
    pub replication: Replication,
    /// Replicas of this server.
    pub outgoing: Outgoing,
    /// Whether workers search for expired keys (`DEBUG SET-ACTIVE-EXPIRE`).
    pub active_expire: AtomicBool,
    /// Workers do nothing that no client asked for (`DEBUG PAUSE-CRON`).
    pub upkeep_paused: AtomicBool,
    /// `RESTORE` takes payloads with any checksum.
    pub any_checksum: AtomicBool,
    /// Whether any reply counts as large for the output limit of unauthenticated clients (`DEBUG
    /// CLIENT-ENFORCE-REPLY-LIST`).
    pub replies_count_as_large: AtomicBool,
    /// TLS connections are sent nothing (`DEBUG FORCE-TLS-WRITE-ERROR`).
    pub tls_writes_withheld: Arc<AtomicBool>,
    /// Start of the server.
    pub started: Instant,
    /// Start of the server, in Unix milliseconds.
    pub started_unix_ms: i64,
    /// Connections that can be held: `maxclients`, or fewer where the system allows fewer.
    pub connections_max: AtomicUsize,
    /// Connections that the system is known to allow.
    pub connections_possible: AtomicUsize,
    /// Whether connections are kept in the rings' own tables.
    pub direct_descriptors: AtomicBool,
    /// Connections that see every command.
    pub monitors: Monitors,
    /// The snapshot that the data was loaded from, or saved to.
    pub snapshot: Snapshot,
    /// Backups in an object store.
    pub backups: Backups,
    /// The log.
    pub durability: Durability,
    /// The online backup.
    pub online_backup: Mutex<OnlineBackup>,
    /// A stop that was asked for.
    pub closing: Closing,
    /// Error that stopped the server, if one did.
    pub failure: OnceLock<String>,
    /// Work to do once the data are loaded; see [`Server::when_loaded`].
    pub(crate) when_loaded: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The cluster that the server is a member of, if it is one.
    pub cluster: OnceLock<Arc<dyn Member>>,
    /// Moves keys to other servers.
    pub migrator: Migrator,
    /// Execute what takes long.
    pub helpers: Helpers,
    /// OOM score adjustment of this process.
    pub oom_score: OomScore,
    /// Settings of new TLS connections; `None` without a TLS port.
    pub tls: Mutex<Option<Arc<Settings>>>,
    /// Connections that track keys.
    pub trackers: Trackers,
    /// TCP listeners.
    pub listening: Mutex<Listening>,
    evicting: Mutex<()>,
    next_client_id: AtomicU64,
    processors: Processors,
    stopping: AtomicBool,
    /// A worker never ends: see [`Server::abandon`].
    abandoned: AtomicBool,
    /// Background thread that frees memory.
    pub reaper: Reaper,
}

impl Server {
    /// A server without workers running yet, which knows the commands of `registry`.
    pub fn new(
        config: Arc<SharedConfig>,
        registry: Registry,
        process: Box<dyn Process>,
    ) -> Arc<Self> {
        let snapshot = config.snapshot();
        let keyspace = Keyspace::new(&keyspace_options(&snapshot));
        let process: Arc<dyn Process> = Arc::from(process);
        let reaper = Reaper::start(&keyspace, process.clone());
        let server = Arc::new(Server {
            keyspace,
            commands: Shared::new(registry),
            workers: (0..snapshot.worker_threads()).map(|_| WorkerLink::default()).collect(),
            figures: Figures::default(),
            rates: Rates::default(),
            channels: Directory::default(),
            process,
            run_id: crate::random_id::random_id(),
            replication: Replication::default(),
            outgoing: Outgoing::default(),
            active_expire: AtomicBool::new(true),
            upkeep_paused: AtomicBool::new(false),
            any_checksum: AtomicBool::new(false),
            replies_count_as_large: AtomicBool::new(false),
            tls_writes_withheld: Arc::default(),
            started: Instant::now(),
            started_unix_ms: unix_ms(),
            connections_max: AtomicUsize::new(snapshot.maxclients as usize),
            connections_possible: AtomicUsize::new(snapshot.maxclients as usize),
            direct_descriptors: AtomicBool::new(false),
            monitors: Monitors::default(),
            snapshot: Snapshot::default(),
            backups: Backups::default(),
            durability: Durability::default(),
            online_backup: Mutex::default(),
            closing: Closing::default(),
            failure: OnceLock::new(),
            when_loaded: Mutex::default(),
            cluster: OnceLock::new(),
            migrator: Migrator::default(),
            helpers: Helpers::default(),
            oom_score: OomScore::default(),
            tls: Mutex::default(),
            trackers: Trackers::default(),
            listening: Mutex::default(),
            evicting: Mutex::default(),
            next_client_id: AtomicU64::new(1),
            processors: Processors::default(),
            stopping: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            reaper,
            config,
        });
        server.commands.index_keyspace(&server.keyspace);
        server.commands.speak(snapshot.spoken());
        server.apply(&snapshot);
        server
    }

    /// Whether keys expire and are evicted: not where another server decides that, and not while
    /// the log cannot be written, which a client that reads an expired key would wait for.
    pub(crate) fn apply_expiry(&self, config: &Config) {
        let cannot_log = self.commands.is_in_state(ServerState::NotLogged);
        let keeps = config.import_mode || self.replication.is_replica() || cannot_log;
        self.keyspace.keep_expired(keeps);
    }

    /// Takes over the parameters that live elsewhere than in the configuration.
    pub fn apply(&self, config: &Config) {
        // Loaded keys are not evicted before all of them are there.
        let is_replica = self.replication.is_replica();
        // A primary says what goes.
        let is_unlimited =
            is_replica && config.replication.replica_ignore_maxmemory || self.commands.is_loading();
        let limit = if is_unlimited { 0 } else { config.maxmemory };
        self.keyspace.set_memory_limit(limit, policy(config.maxmemory_policy));
        self.keyspace.tune_policy(
            config.maxmemory_samples,
            config.lfu_log_factor,
            config.lfu_decay_time,
        );
        self.keyspace.set_eviction_tenacity(config.maxmemory_eviction_tenacity);
        self.apply_expiry(config);
        self.apply_role(config);
        set_limits(self.keyspace.limits(), config);
        let logs = &self.commands;
        logs.slowlog.configure(config.slowlog_log_slower_than, config.slowlog_max_len);
        logs.large_requests.configure(
            config.commandlog_request_larger_than,
            config.commandlog_large_request_max_len,
        );
        logs.large_replies
            .configure(config.commandlog_reply_larger_than, config.commandlog_large_reply_max_len);
        for log in [&logs.slowlog, &logs.large_requests, &logs.large_replies] {
            let args_max = config.slowlog_entry_max_argc as usize;
            log.shorten(args_max, config.slowlog_entry_max_string_len as usize);
        }
        self.judge_writes(config);
        self.count_good_replicas(config);
        let delay = config.key_load_delay.max(0) as u64;
        self.snapshot.progress.key_delay_us.store(delay, Relaxed);
        let tracked = usize::try_from(config.tracking_table_max_keys).unwrap_or(usize::MAX);
        self.keyspace.limit_tracking(tracked);
        self.commands.users.set_channels_default(config.acl_pubsub_default.is("allchannels"));
        self.commands.users.log.set_len_max(config.acllog_max_len as usize);
        self.commands.latency.configure(config.latency_monitor_threshold);
        self.commands.set_latency_tracking(config.latency_tracking);
        self.commands.pose_as_redis(config.extended_redis_compatibility);
        let (error, entries) = (config.bf_error_rate.0, config.bf_initial_size);
        self.commands.sketches.set_bloom(error, entries, config.bf_expansion_factor);
        self.commands.sketches.set_cuckoo(CuckooDefaults {
            capacity: config.cf_initial_size,
            bucket_size: config.cf_bucket_size.to_le_bytes()[0],
            iterations: config.cf_max_iterations,
            expansion: config.cf_expansion_factor,
            filters: config.cf_max_expansions,
        });
        self.configure_search(config);
        let scripts = &self.commands.scripts;
        scripts.slow_ms.store(config.busy_reply_threshold.unsigned_abs(), Relaxed);
        scripts.memory_max.store(config.script_memory_limit as usize, Relaxed);
        self.backups.configure(config);
    }

    /// Number for a new connection.
    pub fn next_client_id(&self) -> u64 {
        self.next_client_id.fetch_add(1, Relaxed)
    }

    /// Seconds since the start.
    pub fn uptime_seconds(&self) -> u32 {
        self.started.elapsed().as_secs() as u32
    }

    /// Connections of all workers.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        let mut all: Vec<_> = self.workers.iter().flat_map(|worker| worker.clients.all()).collect();
        all.extend(self.replication.link.client());
        all.sort_unstable_by_key(|client| client.id);
        all
    }

    /// Removes connections that are to be closed, and ones closed by their peers that their workers
    /// may not have noticed yet. The connection with the number `asker` stays: it may have closed
    /// its sending side. The kernel cannot be asked about descriptors registered with a ring.
    pub fn leave_present(&self, clients: &mut Vec<Arc<Client>>, asker: u64) {
        clients.retain(|client| client.id == asker || !client.has(Flag::Killed));
        // A descriptor that occurs twice was reused: the older connection is gone.
        let mut newest = HashMap::new();
        for client in clients.iter().filter(|client| client.fd >= 0) {
            let id = newest.entry(client.fd).or_insert(client.id);
            *id = client.id.max(*id);
        }
        clients.retain(|client| newest.get(&client.fd).is_none_or(|&id| id == client.id));
        let mut ended = have_ended(clients.iter().map(|client| client.fd)).into_iter();
        clients.retain(|client| !ended.next().unwrap_or_default() || client.id == asker);
    }

    /// Number of connections that [`Server::leave_present`] leaves, without replicas. If there are
    /// many, all count, since the kernel is not asked then.
    pub fn connections_present(&self, asker: u64) -> usize {
        let all = self.connections();
        if all > ASKED_ABOUT_MAX {
            return all.saturating_sub(self.outgoing.count());
        }
        let mut clients = self.clients();
        self.leave_present(&mut clients, asker);
        clients.iter().filter(|client| !client.has(Flag::Replica)).count()
    }

    /// Connections that have sent something in this second.
    pub fn active_clients(&self) -> usize {
        let now = self.uptime_seconds();
        let is_active = |client: &Client| client.active_at.load(Relaxed) >= now;
        self.workers.iter().map(|worker| worker.clients.count(is_active)).sum()
    }

    /// The connection of this number.
    pub fn client(&self, id: u64) -> Option<Arc<Client>> {
        let found = self.workers.iter().find_map(|worker| worker.clients.find(id));
        found.or_else(|| self.replication.link.client().filter(|client| client.id == id))
    }

    /// The command of a connection that waits for a key.
    pub fn blocked(&self, id: u64) -> Option<Arc<Blocked>> {
        self.workers.iter().find_map(|worker| worker.blocked.find(id))
    }

    /// Connections, those on their way to a worker included.
    pub fn connections(&self) -> usize {
        self.workers.iter().map(|worker| worker.load.load(Relaxed)).sum()
    }

    /// Commands, bytes and turns of all workers since the statistics were last cleared.
    pub fn totals(&self) -> Totals {
        self.totals_ever().since(&self.figures.before.lock())
    }

    fn totals_ever(&self) -> Totals {
        let (commands, command_nanos) = self.commands.total_calls();
        let mut totals = Totals {
            commands,
            command_nanos,
            repl_received: self.replication.link.received.load(Relaxed),
            repl_sent: self.outgoing.sent.load(Relaxed),
            ..Totals::default()
        };
        for traffic in self.traffic() {
            totals.received += traffic.received.load(Relaxed);
            totals.sent += traffic.sent.load(Relaxed);
            totals.reads += traffic.reads.load(Relaxed);
            totals.writes += traffic.writes.load(Relaxed);
            totals.turns += traffic.turns.load(Relaxed);
            totals.busy_turns += traffic.busy_turns.load(Relaxed);
            totals.upkeep_nanos += traffic.upkeep_nanos.load(Relaxed);
            totals.nanos += traffic.busy_nanos.load(Relaxed);
            totals.batches += traffic.batches.load(Relaxed);
            totals.pipelined += traffic.pipelined.load(Relaxed);
        }
        totals.nanos += totals.upkeep_nanos;
        totals
    }

    /// Every worker's traffic.
    pub fn traffic(&self) -> impl Iterator<Item = &Traffic> {
        self.workers.iter().map(|worker| &worker.traffic)
    }

    /// Bytes that all connections hold: each one's own state, and its buffers.
    pub fn client_bytes(&self) -> u64 {
        let buffered: i64 = self.traffic().map(|traffic| traffic.buffered.load(Relaxed)).sum();
        (self.connections() * CONNECTION_BYTES) as u64 + buffered.max(0) as u64
    }

    /// Counts from 0 again (`CONFIG RESETSTAT`).
    pub fn reset_statistics(&self) {
        let figures = &self.figures;
        // The commands' own figures begin from 0 by themselves.
        *figures.before.lock() = Totals { commands: 0, command_nanos: 0, ..self.totals_ever() };
        figures.over_limit_ms.store(0, Relaxed);
        for traffic in self.traffic() {
            traffic.turn_nanos_max.store(0, Relaxed);
            traffic.turn_commands_max.store(0, Relaxed);
        }
        for figure in [
            &figures.accepted,
            &figures.refused,
            &figures.output_limit_closed,
            &figures.input_limit_closed,
            &figures.evicted_clients,
            &figures.strange_certificates,
            &self.outgoing.full_syncs,
            &self.outgoing.resumed,
            &self.outgoing.not_resumed,
            &self.snapshot.saves,
        ] {
            figure.store(0, Relaxed);
        }
        self.reaper.reaped.freed.store(0, Relaxed);
        self.commands.reset();
        self.keyspace.reset_stats();
        self.rates.reset();
    }

    /// Periodic work of the first worker for the server, about ten times a second: samples the
    /// rates, records the peak of memory and the time above its limit, and evicts clients if all
    /// together hold too much memory.
    pub fn supervise(&self, config: &Config, now_ms: i64) {
        self.rates.sample(now_ms, self.totals());
        let (figures, used) = (&self.figures, self.keyspace.stats().used);
        figures.note_memory(used);
        let since = figures.over_limit_since.load(Relaxed);
        match (config.maxmemory > 0 && used > config.maxmemory, since) {
            (true, 0) => figures.over_limit_since.store(now_ms, Relaxed),
            (false, 1..) => {
                figures.over_limit_ms.fetch_add(now_ms - since, Relaxed);
                figures.over_limit_since.store(0, Relaxed);
            }
            _ => {}
        }
        self.evict_crowd(config);
    }

    /// Closes the clients that hold most, if all together hold too much.
    pub fn evict_crowd(&self, config: &Config) {
        if let Some(limit) = config.maxmemory_clients.limit_bytes(config.maxmemory)
            && self.client_bytes() > limit
        {
            self.evict_clients(limit);
        }
    }

    fn evict_clients(&self, limit: u64) {
        // Two that choose at once would each close enough.
        let _choosing = self.evicting.lock();
        let mut clients = self.clients();
        // Memory of connections that are being closed will be free soon.
        let closing = clients.extract_if(.., |client| client.has(Flag::Killed));
        let given_back: u64 = closing.map(|client| client.memory()).sum();
        let mut held = self.client_bytes().saturating_sub(given_back);
        clients.sort_by_cached_key(|client| std::cmp::Reverse(client.memory()));
        for client in clients {
            if held <= limit {
                break;
            }
            if client.has(Flag::NoEvict) || client.has(Flag::Primary) {
                continue;
            }
            held = held.saturating_sub(client.memory());
            tracing::info!(
                "client {} closed: all clients together exceed maxmemory-clients",
                client.id
            );
            self.figures.evicted_clients.fetch_add(1, Relaxed);
            self.kill(&client);
        }
    }

    /// Counts and logs a connection that is closed since its peer has left too much output unread.
    #[cold]
    pub(crate) fn note_output_limit(&self, client: &Client, bytes: u64) {
        self.figures.output_limit_closed.fetch_add(1, Relaxed);
        tracing::warn!("client {} closed: {bytes} bytes of output are waiting", client.id);
    }

    /// The worker with fewest connections, of as many as there are processors: more workers would
    /// divide the same requests into smaller batches, with more context switches.
    pub fn least_loaded(&self) -> usize {
        let serving = self.processors.count(self.started);
        let loads = self.workers.iter().take(serving).map(|worker| worker.load.load(Relaxed));
        loads.enumerate().min_by_key(|&(_, load)| load).map_or(0, |(index, _)| index)
    }

    /// Counts a new connection and chooses its worker; returns the worker and the number of the
    /// connection, or none where there are `maxclients`.
    pub fn place_connection(&self) -> Option<(usize, u64)> {
        self.figures.accepted.fetch_add(1, Relaxed);
        if self.connections() >= self.connections_max.load(Relaxed) {
            self.figures.refused.fetch_add(1, Relaxed);
            return None;
        }
        // In the order of the connections, whichever worker serves them.
        let id = self.next_client_id();
        let worker = self.least_loaded();
        self.workers[worker].load.fetch_add(1, Relaxed);
        Some((worker, id))
    }

    /// Gives one end of a socket pair to a worker, as the connection of a client at this address.
    /// Returns false where there are `maxclients`.
    pub fn introduce(&self, socket: OwnedFd, client: Endpoint) -> bool {
        let Some((worker, id)) = self.place_connection() else { return false };
        let client = Some(client);
        self.tell(worker, Message::Adopt(Arrival { listener: PLAIN, socket, id, client }));
        true
    }

    /// Tells a worker something.
    pub fn tell(&self, worker: usize, message: Message) {
        self.workers[worker].send(message);
    }

    /// Reads the certificates and keys that the configuration names; new connections go by them
    /// from now on.
    ///
    /// # Errors
    /// The error; nothing has changed then.
    pub fn configure_tls(&self, config: &Config) -> Result<(), Trouble> {
        let is_used = config.tls.tls_port != 0 || config.http_tls && config.http_port != 0;
        let settings = is_used.then(|| Settings::read(config)).transpose()?.map(Arc::new);
        for warning in settings.iter().flat_map(|settings| &settings.warnings) {
            tracing::warn!("{warning}");
        }
        *self.tls.lock() = settings;
        Ok(())
    }

    /// Listens on TCP as the configuration says from now on.
    ///
    /// # Errors
    /// One line that says what cannot be listened on; nothing has changed then.
    pub fn listen(&self, config: &Config) -> std::io::Result<()> {
        let exchange = self.listening.lock().change(config)?;
        // The first worker accepts.
        self.tell(0, Message::Listen(exchange));
        Ok(())
    }

    /// Closes a connection of any worker.
    pub fn kill(&self, client: &Client) {
        if client.has(Flag::Protected) {
            return;
        }
        client.set(Flag::Killed, true);
        if client.has(Flag::Primary) {
            return self.replication.cut_link();
        }
        self.tell(usize::from(client.worker), Message::Kill { slot: client.slot });
    }

    /// Stops every worker; connections are closed once their output is written.
    pub fn stop(&self) {
        self.commands.scripts.running.end_all_soon();
        self.stopping.store(true, Relaxed);
        self.commands.long.end();
        (0..self.workers.len()).for_each(|worker| self.tell(worker, Message::Stop));
    }

    /// Stops the server for a reason that its operator has to know.
    pub fn fail(&self, why: String) {
        // The first reason is the one that counts.
        let _ = self.failure.set(why);
        self.stop();
        self.process.leave();
    }

    /// Stops the server without the calling thread, which never returns: it holds a partly executed
    /// script. Its changes are neither committed nor visible to others. The data cannot be saved
    /// any more, but the log stays.
    pub(crate) fn abandon(&self, script: &str) -> ! {
        let what = format!("script {script} has written and does not end: its effects are dropped");
        tracing::warn!("stopping at once: {what}");
        if self.has_to_save() {
            let _ = self.failure.set(format!("the data was not saved: {what}"));
        }
        self.abandoned.store(true, Relaxed);
        self.stop();
        self.process.leave();
        loop {
            std::thread::park();
        }
    }

    /// Whether one of the workers will not end.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Relaxed)
    }

    /// Whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Name of the back-end that the workers' loops run on.
    pub fn backend(&self) -> &'static str {
        self.workers.first().and_then(WorkerLink::backend).unwrap_or("none")
    }
}

/// The thresholds of collections, and of what else changes its form with its size.
fn set_limits(limits: &TypeLimits, config: &Config) {
    limits.set_hash_max_listpack_entries(config.hash_max_listpack_entries);
    limits.set_hash_max_listpack_value(config.hash_max_listpack_value);
    limits.set_hash_min_template_entries(config.hash_min_template_entries);
    limits.set_hash_max_template_entries(config.hash_max_template_entries);
    limits.set_hash_rdb_load_min_template_entries(config.hash_rdb_load_min_template_entries);
    limits.set_hash_rdb_load_max_template_entries(config.hash_rdb_load_max_template_entries);
    limits.set_hash_rdb_load_template_disassembly_threshold(
        config.hash_rdb_load_template_disassembly_threshold,
    );
    limits.set_list_max_listpack_size(config.list_max_listpack_size);
    limits.set_set_max_intset_entries(config.set_max_intset_entries);
    limits.set_set_max_listpack_entries(config.set_max_listpack_entries);
    limits.set_set_max_listpack_value(config.set_max_listpack_value);
    limits.set_zset_max_listpack_entries(config.zset_max_listpack_entries);
    limits.set_zset_max_listpack_value(config.zset_max_listpack_value);
    limits.set_stream_node_max_bytes(config.stream_node_max_bytes);
    limits.set_stream_node_max_entries(config.stream_node_max_entries);
    limits.set_stream_idmp_duration(config.stream_idmp_duration);
    limits.set_stream_idmp_maxsize(config.stream_idmp_maxsize);
    limits.set_hll_sparse_max_bytes(config.hll_sparse_max_bytes);
}

fn policy(policy: MaxmemoryPolicy) -> Policy {
    match policy {
        MaxmemoryPolicy::AllkeysLru => Policy::AllKeysLru,
        MaxmemoryPolicy::AllkeysLrm => Policy::AllKeysLrm,
        MaxmemoryPolicy::AllkeysLfu => Policy::AllKeysLfu,
        MaxmemoryPolicy::AllkeysRandom => Policy::AllKeysRandom,
        MaxmemoryPolicy::VolatileLru => Policy::VolatileLru,
        MaxmemoryPolicy::VolatileLrm => Policy::VolatileLrm,
        MaxmemoryPolicy::VolatileLfu => Policy::VolatileLfu,
        MaxmemoryPolicy::VolatileRandom => Policy::VolatileRandom,
        MaxmemoryPolicy::VolatileTtl => Policy::VolatileTtl,
        MaxmemoryPolicy::AllkeysS3fifo => Policy::AllKeysS3Fifo,
        MaxmemoryPolicy::Noeviction => Policy::NoEviction,
    }
}

fn keyspace_options(config: &Config) -> Options {
    let defaults = Options::default();
    let stripes = match config.stripes {
        0 => defaults.stripes.max(64 * config.worker_threads()),
        stripes => stripes as usize,
    };
    // The configuration admits 65,536 databases. Their numbers fit into 16 bits; the count does
    // not.
    let databases = u16::try_from(config.databases).unwrap_or(u16::MAX);
    Options { databases, stripes, ..defaults }
}
