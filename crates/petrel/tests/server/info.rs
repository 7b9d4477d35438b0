//! INFO: what operators' tools look for is there, and counts.

use crate::harness::*;
use crate::replication_primary::Peer;

with_each_backend!(
    lengths_of_values_are_counted,
    hot_keys_are_mentioned,
    fields_are_there,
    figures_count,
    errors_of_too_many_kinds,
    sections_are_chosen
);

/// Fields of Redis 8.8 and Valkey 9 that tools read, by section. Some have no counterpart here and
/// are 0.
const FIELDS: &[(&str, &str)] = &[
    (
        "server",
        "redis_version redis_mode os arch_bits process_id run_id tcp_port uptime_in_seconds uptime_in_days hz configured_hz lru_clock executable config_file io_threads_active server_time_usec",
    ),
    (
        "clients",
        "connected_clients cluster_connections maxclients client_recent_max_input_buffer client_recent_max_output_buffer blocked_clients tracking_clients pubsub_clients watching_clients clients_in_timeout_table total_watched_keys total_blocking_keys total_blocking_keys_on_nokey active_clients paused_reason paused_actions paused_timeout_milliseconds",
    ),
    (
        "memory",
        "used_memory used_memory_human used_memory_rss used_memory_peak used_memory_peak_time used_memory_peak_perc used_memory_overhead used_memory_startup used_memory_dataset used_memory_dataset_perc allocator_allocated allocator_active allocator_resident total_system_memory used_memory_lua used_memory_scripts maxmemory maxmemory_policy allocator_frag_ratio mem_fragmentation_ratio mem_not_counted_for_evict mem_replication_backlog mem_clients_slaves mem_clients_normal mem_overhead_db_hashtable_rehashing mem_allocator active_defrag_running lazyfree_pending_objects lazyfreed_objects",
    ),
    (
        "persistence",
        "loading async_loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_status rdb_saves rdb_saves_consecutive_failures aof_enabled aof_rewrite_in_progress aof_last_write_status",
    ),
    (
        "stats",
        "total_connections_received total_commands_processed instantaneous_ops_per_sec total_net_input_bytes total_net_output_bytes instantaneous_input_kbps rejected_connections sync_full expired_subkeys expired_keys expired_keys_active expired_stale_perc expired_time_cap_reached_count expire_cycle_cpu_milliseconds evicted_keys evicted_clients evicted_scripts active_defrag_hits active_defrag_misses active_defrag_key_hits active_defrag_key_misses total_active_defrag_time current_active_defrag_time total_eviction_exceeded_time current_eviction_exceeded_time keyspace_hits keyspace_misses pubsub_channels pubsub_patterns pubsubshard_channels latest_fork_usec total_forks migrate_cached_sockets tracking_total_keys tracking_total_items tracking_total_prefixes unexpected_error_replies total_error_replies dump_payload_sanitizations total_reads_processed total_writes_processed io_threaded_reads_processed io_threaded_writes_processed reply_buffer_shrinks reply_buffer_expands client_query_buffer_limit_disconnections client_output_buffer_limit_disconnections eventloop_cycles eventloop_duration_sum eventloop_duration_cmd_sum instantaneous_eventloop_cycles_per_sec instantaneous_eventloop_duration_usec total_client_processing_events eventloop_cycles_with_clients_processing avg_pipeline_length avg_pipeline_length_sum avg_pipeline_length_cnt slowlog_commands_count slowlog_commands_time_ms_sum slowlog_commands_time_ms_max acl_access_denied_auth acl_access_denied_cmd acl_access_denied_key acl_access_denied_channel",
    ),
    (
        "replication",
        "role connected_slaves master_failover_state master_replid master_replid2 master_repl_offset second_repl_offset repl_backlog_active",
    ),
    (
        "cpu",
        "used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children used_cpu_sys_main_thread used_cpu_user_main_thread used_active_time_main_thread",
    ),
    ("cluster", "cluster_enabled"),
    (
        "debug",
        "eventloop_duration_aof_sum eventloop_duration_cron_sum eventloop_duration_max eventloop_cmd_per_cycle_max",
    ),
];

fn lengths_of_values_are_counted(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    client.text(&["SET", "a", ""]);
    client.text(&["SET", "b", "12345"]);
    client.text(&["SET", "c", &"x".repeat(5000)]);
    client.text(&["RPUSH", "l", "1", "2", "3"]);
    client.text(&["SADD", "s", "1", "2"]);
    client.text(&["ZADD", "z", "1", "m"]);
    client.text(&["HSET", "h", "f", "v"]);
    client.text(&["XADD", "x", "*", "f", "v"]);
    client.text(&["SELECT", "3"]);
    client.text(&["SET", "d", "1"]);
    let expected = "# Keysizes\r\n\
        db0_distrib_strings_sizes:0=1,4=1,4K=1\r\ndb0_distrib_lists_items:2=1\r\n\
        db0_distrib_sets_items:2=1\r\ndb0_distrib_zsets_items:1=1\r\n\
        db0_distrib_hashes_items:1=1\r\ndb3_distrib_strings_sizes:1=1\r\n";
    assert_eq!(client.text(&["INFO", "keysizes"]), expected);
    assert!(!client.text(&["INFO", "everything"]).contains("# Keysizes"));
    client.text(&["MULTI"]);
    client.text(&["SET", "e", "1"]);
    client.text(&["INFO", "keysizes"]);
    assert_eq!(client.text(&["EXEC"]), "[OK # Keysizes\r\n]");
}

fn hot_keys_are_mentioned(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    assert_eq!(client.text(&["INFO", "hotkeys"]), "# Hotkeys\r\n");
    client.text(&["HOTKEYS", "START", "METRICS", "1", "CPU"]);
    assert!(
        client.text(&["INFO"]).contains("\r\nhotkeys-tracking-active:1\r\nhotkeys-cmd-cpu-time:")
    );
    client.text(&["HOTKEYS", "STOP"]);
    assert!(client.text(&["INFO", "hotkeys"]).contains("\r\nhotkeys-tracking-active:0\r\n"));
}

fn fields_are_there(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    for (section, fields) in FIELDS {
        let text = client.text(&["INFO", section]);
        for field in fields.split(' ') {
            let line = format!("\r\n{field}:");
            assert_eq!(text.matches(&line).count(), 1, "{field} in {text}");
        }
    }
}

fn figures_count(backend: &str) {
    let server = Server::start(backend, &["--slowlog-log-slower-than", "0"]);
    let mut client = server.connect();
    client.send_bytes(&encode(&[b"SET", b"k", b"v"]).repeat(8));
    (0..8).for_each(|_| drop(client.receive()));
    for field in [
        "total_client_processing_events",
        "eventloop_cycles_with_clients_processing",
        "avg_pipeline_length_cnt",
        "slowlog_commands_count",
        "active_clients",
        "used_memory_peak_time",
    ] {
        assert!(server.info(field) > 0, "{field}");
    }
    assert!(server.info("avg_pipeline_length_sum") >= 8);
    let stats = client.text(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_set:")).unwrap();
    assert!(line.contains(":calls=8,") && line.contains(",slowlog_count=8,"), "{line}");
    assert_eq!(client.text(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]), "OK");
    client.text(&["FLUSHALL", "ASYNC"]);
    eventually("what was flushed is freed", || server.info("lazyfreed_objects") == 1);
    assert_eq!(client.text(&["CONFIG", "RESETSTAT"]), "OK");
    assert_eq!(server.info("lazyfreed_objects"), 0);
    assert!(server.info("avg_pipeline_length_sum") < 8);
    assert_eq!(server.info("slowlog_commands_count"), 0);
    eventually("turns take time", || server.info("eventloop_duration_sum") > 0);
    client.text(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    let clients = client.text(&["INFO", "clients"]);
    assert!(clients.contains("paused_actions:write\r\n"), "{clients}");
    assert!(clients.contains("paused_reason:client_pause\r\n"), "{clients}");
}

fn errors_of_too_many_kinds(backend: &str) {
    let server = Server::start(backend, &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    for i in 0..200 {
        client.text(&["DEBUG", "ERROR", &format!("E{i} of a kind")]);
    }
    let errors = "# Errorstats\r\nerrorstat_ERRORSTATS_DISABLED:count=1\r\n";
    assert_eq!(client.text(&["INFO", "errorstats"]), errors);
    assert_eq!(server.info("total_error_replies"), 200);
    client.text(&["CONFIG", "RESETSTAT"]);
    client.text(&["GET"]);
    let errors = "# Errorstats\r\nerrorstat_ERR:count=1\r\n";
    assert_eq!(client.text(&["INFO", "errorstats"]), errors);
}

fn sections_are_chosen(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    let mut headings = |sections: &[&str]| {
        let text = client.text(&[&["INFO"], sections].concat());
        text.lines().filter(|line| line.starts_with('#')).map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(headings(&["CPU", "replication", "nosuch"]), ["# Replication", "# CPU"]);
    assert_eq!(headings(&["nosuch"]), [""; 0]);
    let usual = headings(&[]);
    assert_eq!(headings(&["default"]), usual);
    let all = headings(&["all"]);
    assert_eq!(headings(&["everything", "cpu"]), all);
    for heading in ["# Commandstats", "# Latencystats"] {
        assert!(all.iter().any(|other| other == heading) && !usual.iter().any(|o| o == heading));
    }
    assert!(!all.contains(&"# Debug".to_string()));
}

/// Sections of `INFO` with fields of their own; those of others are named by commands, keys, errors.
const SECTIONS: [&str; 12] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "threads",
    "stats",
    "replication",
    "cpu",
    "modules",
    "cluster",
    "scriptingengines",
    "debug",
];

/// Names of the fields of a section, without numbered ones (by thread or listener).
fn names(client: &mut Client, section: &str) -> Vec<String> {
    let text = client.text(&["INFO", section]);
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned()));
    names.filter(|name| !name.ends_with(|last: char| last.is_ascii_digit())).collect()
}

#[test]
fn no_field_of_redis_or_valkey_is_missing() {
    let own = |program: &std::path::PathBuf| program.ends_with(env!("CARGO_BIN_EXE_petrel"));
    for program in Peer::programs().into_iter().filter(|program| !own(program)) {
        let peer = Peer::start(&program, &[]).expect("it starts");
        let is_valkey = peer.connect().text(&["INFO", "server"]).contains("valkey_version:");
        let dialect = if is_valkey { "valkey" } else { "redis" };
        let server = Server::start("epoll", &["--dialect", dialect]);
        let (mut there, mut here) = (peer.connect(), server.connect());
        for section in SECTIONS {
            let ours = names(&mut here, section);
            let mut missing = names(&mut there, section);
            missing.retain(|name| !ours.contains(name));
            assert!(missing.is_empty(), "{section} of {}: {missing:?}", program.display());
        }
    }
}

#[test]
fn compaction_is_counted_as_defragmentation() {
    let debug = ["--enable-debug-command", "yes"];
    let server = Server::start("epoll", &debug);
    let mut client = server.connect();
    client.call(&["DEBUG", "POPULATE", "100000", "key", "100"]);
    // Nine of ten keys are removed: the others are spread over many pages.
    let script = "for i = 0, 99999 do if i % 10 > 0 then redis.call('DEL', 'key:' .. i) end end";
    client.call(&["EVAL", script, "0"]);
    eventually("entries are moved", || server.info("active_defrag_key_hits") > 0);
    eventually("the round ends", || server.info("active_defrag_running") == 0);
    assert!(server.info("active_defrag_hits") >= server.info("active_defrag_key_hits"));
    assert!(server.info("total_active_defrag_time") > 0);
}

#[test]
fn modules_are_listed_as_exporters_read_them() {
    for (dialect, json) in [("redis", "ReJSON"), ("valkey", "json")] {
        let server = Server::start("epoll", &["--dialect", dialect]);
        let text = server.connect().text(&["INFO", "modules"]);
        let lines: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("module:name=")).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines.iter().all(|line| line.split(',').count() == 7), "{text}");
        assert!(lines.iter().any(|line| line.starts_with(json)), "{text}");
        let list = server.connect().text(&["MODULE", "LIST"]);
        assert!(list.contains(json) && list.contains("vectorset") && list.contains("bf"), "{list}");
    }
}
