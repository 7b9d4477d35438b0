//! The data, where it is kept and copied: `memory`, `persistence`, `replication`, `keyspace`.

use super::{Report, human};
use crate::commands::footprint::Footprint;
use crate::state::outgoing::ReplicaLine;
use crate::unix_time::unix_ms;
use petrel_commands::{PeerFigures, UnservedFigures, built_in_modules};
use petrel_keyspace::Cursor;
use std::sync::atomic::Ordering::Relaxed;

/// Keys that the mean time to live of a database is estimated from.
const TTL_SAMPLE: usize = 64;

/// `# Memory`
pub fn memory(report: &mut Report<'_>) {
    let memory = Footprint::of(report.server);
    report.bytes("used_memory", memory.used);
    report.bytes("used_memory_rss", memory.resident);
    report.bytes("used_memory_peak", memory.peak);
    let peak_at = report.server.figures.memory_peak_at.load(Relaxed);
    report.field("used_memory_peak_time", peak_at / 1000);
    report.field("used_memory_peak_perc", format_args!("{:.2}%", memory.peak_percent()));
    report.field("used_memory_overhead", memory.overhead());
    report.field("used_memory_startup", memory.startup);
    report.field("used_memory_dataset", memory.dataset());
    report.field("used_memory_dataset_perc", format_args!("{:.2}%", memory.dataset_percent()));
    report.field("allocator_allocated", memory.allocated);
    report.field("allocator_active", memory.active);
    report.field("allocator_resident", memory.held);
    report.field("allocator_muzzy", 0);
    report.bytes("total_system_memory", memory.system);
    scripts(report);
    report.bytes("maxmemory", report.config.maxmemory);
    report.field("maxmemory_policy", report.config.maxmemory_policy.name());
    report.field("allocator_frag_ratio", format_args!("{:.2}", memory.fragmentation()));
    report.field("allocator_frag_bytes", memory.active as i64 - memory.allocated as i64);
    report.field("allocator_rss_ratio", format_args!("{:.2}", memory.held_ratio()));
    report.field("allocator_rss_bytes", memory.held - memory.active);
    report.field("rss_overhead_ratio", format_args!("{:.2}", memory.resident_overhead()));
    report.field("rss_overhead_bytes", memory.resident - memory.held);
    report.field("mem_fragmentation_ratio", format_args!("{:.2}", memory.resident_ratio()));
    report.field("mem_fragmentation_bytes", memory.resident as i64 - memory.used as i64);
    report.zeros(&["mem_not_counted_for_evict"]);
    let kept = report.server.outgoing.backlog().map_or(0, |backlog| backlog.memory());
    report.field("mem_replication_backlog", kept);
    report.field("mem_total_replication_buffers", kept);
    // Replicas share the backlog, and own nothing beside it.
    report.zeros(&[
        "mem_replica_full_sync_buffer",
        "mem_replicas_repl_buffer",
        "mem_clients_slaves",
    ]);
    report.field("mem_clients_normal", memory.clients);
    report.zeros(&[
        "mem_cluster_links",
        "mem_cluster_slot_import",
        "mem_cluster_slot_export",
        "mem_cluster_slot_migration_output_buffer",
        "mem_cluster_slot_migration_input_buffer",
        "mem_cluster_slot_migration_input_buffer_peak",
        "mem_aof_buffer",
        // Tables are rebuilt in one go.
        "mem_overhead_db_hashtable_rehashing",
    ]);
    report.field("mem_allocator", report.server.process.allocator());
    let compacts = report.server.keyspace.compaction_stats().current.is_some();
    report.field("active_defrag_running", u8::from(compacts));
    let reaped = report.server.reaper.reaped.clone();
    report.field("lazyfree_pending_objects", reaped.pending.load(Relaxed));
    report.field("lazyfreed_objects", reaped.freed.load(Relaxed));
}

/// Scripts and functions.
fn scripts(report: &mut Report<'_>) {
    let commands = &report.server.commands;
    let interpreters = &commands.scripts.interpreters;
    let [of_scripts, of_functions] =
        [&interpreters[0], &interpreters[1]].map(|bytes| bytes.load(Relaxed));
    let (texts, count) = (commands.scripts.footprint(), commands.scripts.count());
    let list = commands.libraries.list();
    let sources = commands.libraries.text_bytes();
    report.field("used_memory_lua", of_scripts);
    report.field("used_memory_vm_eval", of_scripts);
    report.field("used_memory_lua_human", human(of_scripts as u64));
    report.field("used_memory_scripts_eval", texts);
    report.field("number_of_cached_scripts", count);
    report.field("number_of_functions", list.functions.len());
    report.field("number_of_libraries", list.libraries.len());
    report.field("used_memory_vm_functions", of_functions);
    report.field("used_memory_vm_total", of_scripts + of_functions);
    report.field("used_memory_vm_total_human", human((of_scripts + of_functions) as u64));
    report.field("used_memory_functions", sources);
    report.field("used_memory_scripts", texts + sources);
    report.field("used_memory_scripts_human", human((texts + sources) as u64));
}

/// `# Modules`: commands that Redis and Valkey have in modules, and that are built in here.
pub fn modules(report: &mut Report<'_>) {
    for (name, version) in built_in_modules(report.server.commands.dialect()) {
        report.put(format_args!(
            "module:name={name},ver={version},api=1,filters=0,usedby=[],using=[],options=[]\r\n"
        ));
    }
}

/// `# Scripting Engines`, in Valkey's dialect.
pub fn scripting_engines(report: &mut Report<'_>) {
    let interpreters = &report.server.commands.scripts.interpreters;
    let used: usize = interpreters.iter().map(|bytes| bytes.load(Relaxed)).sum();
    report.field("engines_count", 1);
    report.field("engines_total_used_memory", used);
    report.field("engines_total_memory_overhead", 0);
    report.field(
        "engine_0",
        format_args!("name=LUA,module=built-in,abi_version=4,used_memory={used},memory_overhead=0"),
    );
}

/// `# Persistence`
pub fn persistence(report: &mut Report<'_>) {
    let server = report.server;
    let snapshot = &server.snapshot;
    let is_loading = server.commands.is_loading();
    report.field("loading", u8::from(is_loading));
    // The primary's copy is loaded while the old data are served.
    let is_aside = !is_loading
        && server.replication.link.receives_copy()
        && report.config.replication.repl_diskless_load.word() == "swapdb";
    report.field("async_loading", u8::from(is_aside));
    report.zeros(&["current_cow_peak", "current_cow_size", "current_cow_size_age"]);
    report.field("current_fork_perc", "0.00");
    let saving_since = snapshot.saving_since.load(Relaxed);
    let is_saving = u64::from(saving_since != 0);
    let written = snapshot.keys_written.load(Relaxed);
    report.field("current_save_keys_processed", is_saving * written);
    report.field("current_save_keys_total", is_saving * snapshot.keys_total.load(Relaxed));
    report.field("rdb_changes_since_last_save", server.unsaved_changes());
    // A copy for replicas counts as well.
    let is_copying = server.outgoing.is_copying();
    report.field("rdb_bgsave_in_progress", u8::from(is_saving != 0 || is_copying));
    report.field("rdb_last_save_time", snapshot.saved_at.load(Relaxed));
    let status = if snapshot.has_failed() { "err" } else { "ok" };
    report.field("rdb_last_bgsave_status", status);
    report.field("rdb_last_bgsave_time_sec", snapshot.last_seconds.load(Relaxed));
    let seconds = if saving_since == 0 { -1 } else { (unix_ms() - saving_since) / 1000 };
    report.field("rdb_current_bgsave_time_sec", seconds);
    report.field("rdb_saves", snapshot.saves.load(Relaxed));
    report.field("rdb_saves_consecutive_failures", snapshot.failures.load(Relaxed));
    report.field("rdb_last_cow_size", 0);
    report.field("rdb_last_load_keys_expired", snapshot.progress.expired.load(Relaxed));
    report.field("rdb_last_load_keys_loaded", snapshot.progress.keys.load(Relaxed));
    let log = &server.durability;
    report.field("aof_enabled", u8::from(log.is_on()));
    report.field("aof_rewrite_in_progress", u8::from(log.is_rewriting()));
    let is_backed_up = server.online_backup.lock().phase().is_active();
    report.field("backup_in_progress", u8::from(is_backed_up || server.backups.is_sending()));
    report.field("aof_rewrite_scheduled", u8::from(log.rewrite_scheduled.load(Relaxed)));
    report.field("aof_last_rewrite_time_sec", log.last_rewrite_seconds());
    let since = log.rewriting_since.load(Relaxed);
    let seconds = if since == 0 { -1 } else { (unix_ms() - since) / 1000 };
    report.field("aof_current_rewrite_time_sec", seconds);
    let failures = log.rewrite_failures.load(Relaxed);
    report.field("aof_last_bgrewrite_status", if failures > 0 { "err" } else { "ok" });
    report.field("aof_rewrites", log.rewrites.load(Relaxed));
    report.field("aof_rewrites_consecutive_failures", failures);
    report.field("aof_last_write_status", if log.has_failed() { "err" } else { "ok" });
    report.zeros(&[
        "aof_last_cow_size",
        "module_fork_in_progress",
        "module_fork_last_cow_size",
        "slot_migration_fork_in_progress",
    ]);
    server.backups.describe(|name, value| report.field(name, value));
    if let Some(written) = log.log() {
        report.field("aof_current_size", log.bytes());
        report.field("aof_base_size", log.base_bytes());
        report.field("aof_pending_rewrite", u8::from(log.rewrite_scheduled.load(Relaxed)));
        report.field("aof_buffer_length", written.waiting());
        report.field("aof_buffer_survives_process", u8::from(log.survives_process()));
        report.field("aof_pending_bio_fsync", u8::from(written.is_syncing()));
        report.field("aof_delayed_fsync", written.syncs_delayed());
    }
    if is_loading {
        loading(report);
    }
}

fn loading(report: &mut Report<'_>) {
    let snapshot = &report.server.snapshot;
    report.field("loading_start_time", snapshot.load_began.load(Relaxed));
    report.field("loading_total_bytes", snapshot.progress.total.load(Relaxed));
    report.field("loading_rdb_used_mem", snapshot.progress.saver_bytes.load(Relaxed));
    report.field("loading_loaded_bytes", snapshot.progress.loaded.load(Relaxed));
    report.field("loading_loaded_perc", format_args!("{:.2}", snapshot.loaded_percent()));
    report.field("loading_eta_seconds", snapshot.seconds_left());
}

/// `# Replication`: the link to a primary, and the history.
pub fn replication(report: &mut Report<'_>) {
    let replication = &report.server.replication;
    let link = replication.link_fields();
    report.field("role", if link.is_empty() { "master" } else { "slave" });
    let is_replica = !link.is_empty();
    link.iter().for_each(|(name, value)| report.field(name, value));
    if is_replica {
        let settings = report.config.clone();
        let settings = &settings.replication;
        report.field("slave_priority", settings.replica_priority);
        report.field("slave_read_only", u8::from(settings.replica_read_only));
        report.field("replica_announced", u8::from(settings.replica_announced));
    }
    replicas(report);
    report.field("master_failover_state", report.server.replication.failover.word());
    let ids = report.server.replication.ids();
    report.field("master_replid", ids.id);
    report.field("master_replid2", ids.second_id);
    report.field("master_repl_offset", report.server.replication.offset());
    report.field("second_repl_offset", ids.second_offset);
    backlog(report);
}

/// Replicas of this server.
fn replicas(report: &mut Report<'_>) {
    let (lines, config) = (report.server.outgoing.lines(), report.config.clone());
    report.field("connected_slaves", lines.len());
    let lag_max = config.replication.min_replicas_max_lag;
    if config.replication.min_replicas_to_write > 0 && lag_max > 0 {
        let good = report.server.good_replicas(lag_max).unwrap_or(0);
        report.field("min_slaves_good_slaves", good);
    }
    let is_valkey = report.server.commands.dialect().is_valkey();
    let kind = if is_valkey { ",type=replica" } else { "" };
    for (number, line) in lines.iter().enumerate() {
        let ReplicaLine { ip, port, state, offset, lag, .. } = line;
        report.put(format_args!(
            "slave{number}:ip={ip},port={port},state={state},offset={offset},lag={lag}{kind}\r\n"
        ));
    }
    if is_valkey {
        // None is sent its copy over a connection of its own, and waits for the stream meanwhile.
        report.field("replicas_waiting_psync", 0);
    }
}

/// State of the replication backlog.
fn backlog(report: &mut Report<'_>) {
    let backlog = report.server.outgoing.backlog();
    report.field("repl_backlog_active", u8::from(backlog.is_some()));
    report.field("repl_backlog_size", report.config.replication.repl_backlog_size);
    let (first, len) = backlog.map_or((0, 0), |backlog| {
        let (start, end) = (backlog.start(), backlog.end());
        (start + 1, end.saturating_sub(start))
    });
    report.field("repl_backlog_first_byte_offset", first);
    report.field("repl_backlog_histlen", len);
    if let Some(stream) = report.server.outgoing.stream() {
        // Redis has no such field: its stream has commands alone.
        report.field("repl_stream", stream.encoding.word());
    }
}

/// `# Keyspace`: a line per database that has keys.
pub fn keyspace(report: &mut Report<'_>) {
    let keyspace = report.server.keyspace.clone();
    for db in 0..keyspace.databases() {
        let stats = keyspace.db_stats(db);
        if stats.keys == 0 {
            continue;
        }
        let (keys, volatile) = (stats.keys, stats.volatile);
        let ttl = if volatile > 0 { mean_ttl(report, db) } else { 0 };
        // Redis and Valkey count the hashes with fields that expire under names of their own.
        let expiring = stats.expiring;
        report.put(format_args!(
            "db{db}:keys={keys},expires={volatile},avg_ttl={ttl},subexpiry={expiring},keys_with_volatile_items={expiring}\r\n"
        ));
    }
}

/// Mean time to live in milliseconds of some of the keys that have one; 0 if none is come across,
/// or inside `EXEC`, which holds other stripes than these.
fn mean_ttl(report: &mut Report<'_>, db: u16) -> i64 {
    let Some(exec) = report.exec.as_deref_mut().filter(|exec| !exec.ks.holds_any()) else {
        return 0;
    };
    let now = exec.ks.now_ms();
    let start = Cursor::from_number(exec.random() >> 53 << 32);
    let (mut sum, mut count) = (0i64, 0i64);
    for cursor in [start, Cursor::default()] {
        exec.ks.scan_removing(db, cursor, TTL_SAMPLE, &|_| false, |view| {
            if let Some(expiry) = view.expiry() {
                sum = sum.saturating_add(expiry - now);
                count += 1;
            }
        });
        if count > 0 {
            break;
        }
    }
    sum.checked_div(count).unwrap_or(0)
}

/// `cluster_enabled` says whether the server behaves as Redis Cluster, and so tells clients where
/// to go (`cluster-enabled`).
pub(super) fn cluster(report: &mut Report<'_>) {
    let is_redis_cluster = report.server.commands.topology.get().is_some();
    report.field("cluster_enabled", u8::from(is_redis_cluster));
    if let Some(cluster) = report.server.commands.cluster.get() {
        report.text.push_str(&cluster.info());
        for (at, unserved) in cluster.unserved().into_iter().enumerate() {
            let UnservedFigures { slots, ranges, since, awaited, address } = unserved;
            report.text.push_str(&format!(
                "cluster_unserved{at}:count={slots},slots={ranges},since={since},awaited={awaited},address={address}\r\n"
            ));
        }
        for (at, peer) in cluster.peers().into_iter().enumerate() {
            let PeerFigures { node, is_linked, lag, sent, received, forwarded, served } = peer;
            let link = if is_linked { "connected" } else { "disconnected" };
            report.text.push_str(&format!(
                "cluster_peer{at}:id={node},link={link},lag={lag},bytes_sent={sent},bytes_received={received},\
                 commands_forwarded={forwarded},commands_served={served}\r\n"
            ));
        }
    }
}
