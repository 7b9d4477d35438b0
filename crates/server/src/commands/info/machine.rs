//! The server as a process on a machine: `server`, `clients`, `threads`, `cpu`.

use super::Report;
use crate::config::Config;
use crate::lifecycle::process::{Whose, cpu_time, system_name};
use crate::pause::PauseReason;
use crate::unix_time::unix_ms;
use petrel_commands::{VALKEY_VERSION, redis_version};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day.
const DAY: u32 = 24 * 60 * 60;

/// Bits of the clock by which the policies measure the time since a key was used.
const ACCESS_CLOCK_MASK: i64 = (1 << 24) - 1;

/// `# Server`
pub fn server(report: &mut Report<'_>) {
    let (server, config) = (report.server, report.config.clone());
    let dialect = server.commands.dialect();
    report.field("redis_version", redis_version(dialect));
    if dialect.is_valkey() {
        report.field("server_name", "valkey");
        report.field("valkey_version", VALKEY_VERSION);
        report.field("valkey_release_stage", "ga");
        report.field("availability_zone", config.availability_zone.lossy());
    }
    report.field("petrel_version", env!("CARGO_PKG_VERSION"));
    report.field("redis_git_sha1", "00000000");
    report.field("redis_git_dirty", 0);
    report.field("redis_build_id", 0);
    let is_redis_cluster = server.commands.topology.get().is_some();
    let mode = if is_redis_cluster { "cluster" } else { "standalone" };
    report.field(server.commands.identity().choose("redis_mode", "server_mode"), mode);
    report.field("os", system_name());
    report.field("arch_bits", usize::BITS);
    // Redis's text for a compiler other than GCC.
    report.field("gcc_version", "0.0.0");
    report.field("atomicvar_api", "c11-builtin");
    report.field("monotonic_clock", "POSIX clock_gettime");
    report.field("multiplexing_api", server.backend());
    report.field("io_backend", server.backend());
    report.field("process_id", std::process::id());
    report.field("process_supervised", server.process.supervisor());
    report.field("run_id", &server.run_id);
    report.field("tcp_port", config.port);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    report.field("server_time_usec", now.as_micros());
    report.field("uptime_in_seconds", server.uptime_seconds());
    report.field("uptime_in_days", server.uptime_seconds() / DAY);
    report.field("hz", config.hz);
    report.field("configured_hz", config.hz);
    report.field("clients_hz", config.hz);
    report.field("lru_clock", (unix_ms() / 1000) & ACCESS_CLOCK_MASK);
    let executable = std::env::current_exe().unwrap_or_default();
    report.field("executable", executable.display());
    let file = server.config.file().map(|path| path.display().to_string());
    report.field("config_file", file.unwrap_or_default());
    report.field("io_threads_active", u8::from(server.workers.len() > 1));
    listeners(report, &config);
}

fn listeners(report: &mut Report<'_>, config: &Config) {
    let mut index = 0;
    if config.port != 0 {
        let binds: String = config.bind.iter().map(|bind| format!("bind={bind},")).collect();
        report.field("listener0", format_args!("name=tcp,{binds}port={}", config.port));
        index += 1;
    }
    if let Some(path) = &config.unixsocket {
        let name = format!("listener{index}");
        report.field(&name, format_args!("name=unix,bind={}", path.display()));
    }
}

/// `# Clients`
pub fn clients(report: &mut Report<'_>) {
    let server = report.server;
    let sum = |figure: fn(&crate::observation::traffic::Traffic) -> i64| {
        server.traffic().map(figure).sum::<i64>()
    };
    let most = |figure: fn(&crate::observation::traffic::Traffic) -> u64| {
        server.traffic().map(figure).max()
    };
    report.field("connected_clients", server.connections_present(report.asker));
    report.field("cluster_connections", 0);
    report.field("active_clients", server.active_clients());
    report.field("maxclients", server.connections_max.load(Relaxed));
    let input = most(|traffic| traffic.input_peak.load(Relaxed));
    report.field("client_recent_max_input_buffer", input.unwrap_or(0));
    let output = most(|traffic| traffic.output_peak.load(Relaxed));
    report.field("client_recent_max_output_buffer", output.unwrap_or(0));
    let paused = sum(|traffic| traffic.paused.load(Relaxed) as i64);
    let blocked = server.commands.blocked_clients() as i64;
    report.field("blocked_clients", paused + blocked);
    report.field("tracking_clients", server.trackers.len());
    report.field("pubsub_clients", server.channels.clients());
    report.field("watching_clients", sum(|traffic| traffic.watchers.load(Relaxed)));
    let now = unix_ms();
    let (actions, reason, left) = match server.commands.pause.active(now) {
        None => ("none", "none", 0),
        Some(writes) => {
            let actions = if writes { "write" } else { "all" };
            let reason = server.commands.pause.reason(now).map_or("none", PauseReason::name);
            (actions, reason, server.commands.pause.until_ms() - now)
        }
    };
    report.field("paused_reason", reason);
    report.field("paused_actions", actions);
    report.field("paused_timeout_milliseconds", left.max(0));
    let timed = server.workers.iter().map(|worker| worker.blocked.with_deadline());
    report.field("clients_in_timeout_table", timed.sum::<usize>());
    report.field("total_watched_keys", sum(|traffic| traffic.watched.load(Relaxed)));
    let keys = server.keyspace.waited_keys();
    report.field("total_blocking_keys", keys.keys);
    report.field("total_blocking_keys_on_nokey", keys.or_loss);
}

/// `# Threads`
pub fn threads(report: &mut Report<'_>) {
    let server = report.server;
    for (index, worker) in server.workers.iter().enumerate() {
        let clients = worker.load.load(Relaxed);
        let reads = worker.traffic.reads.load(Relaxed);
        let writes = worker.traffic.writes.load(Relaxed);
        let [system, user] = worker.traffic.cpu_us.each_ref().map(seconds);
        report.field(
            &format!("io_thread_{index}"),
            format_args!(
                "clients={clients},reads={reads},writes={writes},\
                 cpu_sys={system:.6},cpu_user={user:.6}"
            ),
        );
    }
    let (moved, running) = server.helpers.counts();
    report.field("helper_commands", moved);
    report.field("helper_commands_running", running);
}

/// `# CPU`
pub fn cpu(report: &mut Report<'_>) {
    let (own, children) = (cpu_time(Whose::Process), cpu_time(Whose::Children));
    for (name, seconds) in [
        ("used_cpu_sys", own.system),
        ("used_cpu_user", own.user),
        ("used_cpu_sys_children", children.system),
        ("used_cpu_user_children", children.user),
    ] {
        report.field(name, format_args!("{seconds:.6}"));
    }
    let Some(first) = report.server.traffic().next() else { return };
    let [system, user] = first.cpu_us.each_ref().map(seconds);
    let busy = first.busy_nanos.load(Relaxed) + first.upkeep_nanos.load(Relaxed);
    for (name, seconds) in [
        ("used_cpu_sys_main_thread", system),
        ("used_cpu_user_main_thread", user),
        ("used_active_time_main_thread", busy as f64 / 1e9),
    ] {
        report.field(name, format_args!("{seconds:.6}"));
    }
}

/// Seconds of a figure in microseconds.
fn seconds(micros: &AtomicU64) -> f64 {
    micros.load(Relaxed) as f64 / 1e6
}
