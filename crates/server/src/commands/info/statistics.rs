//! Counters since the start or the last `CONFIG RESETSTAT`: `stats`, `commandstats`, `errorstats`,
//! `latencystats`.

use super::Report;
use crate::observation::traffic::{Rate, Totals};
use crate::state::pubsub::ChannelKind;
use crate::unix_time::unix_ms;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// `# Stats`
pub fn stats(report: &mut Report<'_>) {
    let server = report.server;
    let (figures, totals, rate) = (&server.figures, server.totals(), server.rates.mean());
    traffic(report, &totals, &rate);
    report.field("rejected_connections", figures.refused.load(Relaxed));
    let outgoing = &server.outgoing;
    report.field("sync_full", outgoing.full_syncs.load(Relaxed));
    report.field("sync_partial_ok", outgoing.resumed.load(Relaxed));
    report.field("sync_partial_err", outgoing.not_resumed.load(Relaxed));
    keys(report);
    compaction(report);
    report.field("migrate_cached_sockets", server.migrator.cached());
    report.field("pubsub_channels", server.channels.len(ChannelKind::Channel));
    report.field("pubsub_patterns", server.channels.len(ChannelKind::Pattern));
    report.field("pubsubshard_channels", server.channels.len(ChannelKind::Shard));
    report.zeros(&["latest_fork_usec", "total_forks"]);
    report.field("slave_expires_tracked_keys", server.replication.replica_expires.count());
    report.field("unexpected_error_replies", 0);
    let data = server.keyspace.stats();
    report.field("tracking_total_keys", data.tracked_keys);
    report.field("tracking_total_items", data.tracked_items);
    report.field("tracking_total_prefixes", server.trackers.prefixes().len());
    let shared = server.keyspace.schema_counts();
    report.field("hash_templates", shared.schemas);
    report.field("hash_template_keys", shared.keys);
    report.field("total_error_replies", server.commands.total_errors());
    report.field("dump_payload_sanitizations", 0);
    let (reads, writes) = (totals.reads, totals.writes);
    report.field("total_reads_processed", reads);
    report.field("total_writes_processed", writes);
    // Every worker reads and writes for its own connections.
    let threaded = server.workers.len() > 1;
    report.field("io_threaded_reads_processed", if threaded { reads } else { 0 });
    report.field("io_threaded_writes_processed", if threaded { writes } else { 0 });
    // There are no buffers for replies that would shrink and grow.
    report.zeros(&["reply_buffer_shrinks", "reply_buffer_expands"]);
    let closed = (&figures.input_limit_closed, &figures.output_limit_closed);
    report.field("client_query_buffer_limit_disconnections", closed.0.load(Relaxed));
    report.field("client_output_buffer_limit_disconnections", closed.1.load(Relaxed));
    event_loop(report, &totals, &rate);
    // Connections are accepted, and memory is freed, by the workers and a thread beside them.
    report.zeros(&[
        "io_threaded_freed_objects",
        "io_threaded_accept_processed",
        "io_threaded_poll_processed",
        "io_threaded_total_prefetch_batches",
        "io_threaded_total_prefetch_entries",
    ]);
    let slow = server.commands.slowlog.totals_of_all();
    report.field("slowlog_commands_count", slow.count);
    report.field("slowlog_commands_time_ms_max", millis(slow.max));
    report.field("slowlog_commands_time_ms_sum", millis(slow.sum));
    let refused =
        ["auth", "cmd", "key", "channel", "db"].iter().zip(server.commands.users.refused());
    for (what, count) in refused {
        report.field(&format!("acl_access_denied_{what}"), count);
    }
    report.field("acl_access_denied_tls_cert", figures.strange_certificates.load(Relaxed));
}

/// Commands and bytes.
fn traffic(report: &mut Report<'_>, totals: &Totals, rate: &Rate) {
    let figures = &report.server.figures;
    report.field("total_connections_received", figures.accepted.load(Relaxed));
    report.field("total_commands_processed", totals.commands);
    report.field("instantaneous_ops_per_sec", rate.commands as u64);
    report.field("total_net_input_bytes", totals.received);
    report.field("total_net_output_bytes", totals.sent);
    report.field("total_net_repl_input_bytes", totals.repl_received);
    report.field("total_net_repl_output_bytes", totals.repl_sent);
    // Members of a cluster count the traffic between them by themselves.
    report.zeros(&["total_net_cluster_slot_import_bytes", "total_net_cluster_slot_export_bytes"]);
    report.field("instantaneous_input_kbps", format_args!("{:.2}", rate.received / 1024.0));
    report.field("instantaneous_output_kbps", format_args!("{:.2}", rate.sent / 1024.0));
    let of_replication = (rate.repl_received / 1024.0, rate.repl_sent / 1024.0);
    report.field("instantaneous_input_repl_kbps", format_args!("{:.2}", of_replication.0));
    report.field("instantaneous_output_repl_kbps", format_args!("{:.2}", of_replication.1));
}

/// Turns of the workers, and the commands in each.
fn event_loop(report: &mut Report<'_>, totals: &Totals, rate: &Rate) {
    report.field("eventloop_cycles", totals.turns);
    report.field("eventloop_duration_sum", totals.nanos / 1000);
    report.field("eventloop_duration_cmd_sum", totals.command_nanos / 1000);
    report.field("instantaneous_eventloop_cycles_per_sec", rate.turns as u64);
    let per_turn = if rate.turns > 0.0 { rate.nanos / 1000.0 / rate.turns } else { 0.0 };
    report.field("instantaneous_eventloop_duration_usec", per_turn.ceil() as u64);
    report.field("total_client_processing_events", totals.batches);
    report.field("eventloop_cycles_with_clients_processing", totals.busy_turns);
    let length = totals.pipelined as f64 / totals.batches.max(1) as f64;
    report.field("avg_pipeline_length", format_args!("{length:.2}"));
    report.field("avg_pipeline_length_sum", totals.pipelined);
    report.field("avg_pipeline_length_cnt", totals.batches);
}

/// Keys that expired, were evicted, or were looked for.
fn keys(report: &mut Report<'_>) {
    let server = report.server;
    let figures = &server.figures;
    let data = server.keyspace.stats();
    report.field("expired_subkeys", data.expired_fields);
    report.field("expired_subkeys_active", data.expired_fields_active);
    // Valkey's name for it.
    report.field("expired_fields", data.expired_fields);
    report.field("expired_keys", data.expired);
    report.field("expired_keys_active", data.expired_active);
    let of = |figure: fn(&crate::observation::traffic::Traffic) -> u64| {
        server.traffic().map(figure).sum::<u64>()
    };
    report.field("expired_stale_perc", "0.00");
    report.field("expired_keys_with_volatile_items_stale_perc", "0.00");
    let unfinished = of(|traffic| traffic.expiry_unfinished.load(Relaxed));
    report.field("expired_time_cap_reached_count", unfinished);
    let expiring = of(|traffic| traffic.expiry_nanos.load(Relaxed));
    report.field("expire_cycle_cpu_milliseconds", expiring / 1_000_000);
    report.field("evicted_keys", data.evicted);
    let since = figures.over_limit_since.load(Relaxed);
    let current = if since > 0 { unix_ms() - since } else { 0 };
    let before = figures.over_limit_ms.load(Relaxed);
    report.field("total_eviction_exceeded_time", before + current);
    report.field("current_eviction_exceeded_time", current);
    report.field("evicted_clients", figures.evicted_clients.load(Relaxed));
    report.field("evicted_scripts", server.commands.scripts.evicted());
    report.field("keyspace_hits", data.hits);
    report.field("keyspace_misses", data.misses);
}

/// Compaction, under the names of Redis's active defragmentation. Addresses tell which blocks are
/// to be moved: none is looked at in vain.
fn compaction(report: &mut Report<'_>) {
    let stats = report.server.keyspace.compaction_stats();
    report.field("active_defrag_hits", stats.moved);
    report.field("active_defrag_misses", 0);
    report.field("active_defrag_key_hits", stats.keys);
    report.field("active_defrag_key_misses", 0);
    let current = stats.current.unwrap_or_default();
    report.field("total_active_defrag_time", (stats.time + current).as_millis());
    report.field("current_active_defrag_time", current.as_millis());
}

/// Nanoseconds in milliseconds with two decimals.
fn millis(nanos: u64) -> String {
    format!("{:.2}", nanos as f64 / 1e6)
}

/// `# Hotkeys`: the collection that there is, if any, and the milliseconds of all commands since it
/// began.
pub fn hotkeys(report: &mut Report<'_>) {
    let now = unix_ms();
    let hotkeys = &report.server.commands.hotkeys;
    let shown =
        hotkeys.look(|collection, [nanos, _]| (collection.is_active(now), nanos / 1_000_000));
    if let Some((is_active, millis)) = shown {
        report.field("hotkeys-tracking-active", u8::from(is_active));
        report.field("hotkeys-cmd-cpu-time", millis);
    }
}

/// `# Debug`, shown only if requested by name.
pub fn debug(report: &mut Report<'_>) {
    let server = report.server;
    let most = |figure: fn(&crate::observation::traffic::Traffic) -> u64| {
        server.traffic().map(figure).max().unwrap_or_default()
    };
    report.field("eventloop_duration_aof_sum", 0);
    report.field("eventloop_duration_cron_sum", server.totals().upkeep_nanos / 1000);
    let longest = most(|traffic| traffic.turn_nanos_max.load(Relaxed));
    report.field("eventloop_duration_max", longest.div_ceil(1000));
    let commands = most(|traffic| traffic.turn_commands_max.load(Relaxed));
    report.field("eventloop_cmd_per_cycle_max", commands);
    report.zeros(&["io_threaded_reads_pending", "io_threaded_writes_pending"]);
    // Interpreters have no pages of their own: all allocated memory is active.
    let interpreters = &server.commands.scripts.interpreters;
    let used: usize = interpreters.iter().map(|bytes| bytes.load(Relaxed)).sum();
    report.field("allocator_allocated_lua", used);
    report.field("allocator_active_lua", used);
    report.zeros(&["allocator_resident_lua", "allocator_frag_bytes_lua"]);
}

/// `# Commandstats`: a line per command that was called or refused.
pub fn commands(report: &mut Report<'_>) {
    let commands = report.server.commands.clone();
    for index in 0..commands.registry.len() as u16 {
        let stats = commands.command(index);
        if stats.calls + stats.rejected + stats.failed == 0 {
            continue;
        }
        let micros = stats.nanos / 1000;
        let per_call = stats.nanos as f64 / 1000.0 / stats.calls.max(1) as f64;
        report.put(format_args!(
            "cmdstat_{}:calls={},usec={micros},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
            commands.registry.full_name(index),
            stats.calls,
            stats.rejected,
            stats.failed,
        ));
        let slow = commands.slowlog.totals_of(index);
        if slow.count > 0 {
            let (count, sum, max) = (slow.count, millis(slow.sum), millis(slow.max));
            report.put(format_args!(
                ",slowlog_count={count},slowlog_time_ms_sum={sum},slowlog_time_ms_max={max}"
            ));
        }
        report.put(format_args!("\r\n"));
    }
}

/// `# Errorstats`: a line per error code.
pub fn errors(report: &mut Report<'_>) {
    let commands = report.server.commands.clone();
    for (code, count) in commands.errors() {
        let code = String::from_utf8_lossy(&code).into_owned();
        report.put(format_args!("errorstat_{code}:count={count}\r\n"));
    }
}

/// `# Latencystats`: the configured percentiles of every command that was called, in microseconds.
pub fn latencies(report: &mut Report<'_>) {
    let (commands, config) = (report.server.commands.clone(), report.config.clone());
    for index in 0..commands.registry.len() as u16 {
        let durations = commands.durations(index);
        if durations.total() == 0 {
            continue;
        }
        let mut line = String::new();
        for percentile in config.latency_tracking_info_percentiles.iter() {
            let micros = durations.percentile(*percentile) as f64 / 1000.0;
            let comma = if line.is_empty() { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(line, "{comma}p{percentile}={micros:.3}");
        }
        let name = commands.registry.full_name(index);
        report.put(format_args!("latency_percentiles_usec_{name}:{line}\r\n"));
    }
}
