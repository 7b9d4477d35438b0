//! MEMORY, except `MEMORY USAGE`.

use super::footprint::Footprint;
use super::info::human;
use crate::client::CONNECTION_BYTES;
use crate::host::ServerHost;
use crate::server::Server;
use petrel_commands::server::help::help;
use petrel_commands::server::memory::usage;
use petrel_commands::{CommandSpec, Ctx, Outcome};
use petrel_resp::Reply;
use petrel_table::commands as meta;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// `MEMORY`.
pub const MEMORY: CommandSpec = CommandSpec::container(&meta::MEMORY, SUBCOMMANDS);

static SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::MEMORY_DOCTOR, doctor),
    CommandSpec::new(&meta::MEMORY_HELP, help),
    CommandSpec::new(&meta::MEMORY_MALLOC_STATS, malloc_stats),
    CommandSpec::new(&meta::MEMORY_PURGE, purge),
    CommandSpec::new(&meta::MEMORY_STATS, stats),
    CommandSpec::new(&meta::MEMORY_USAGE, usage),
];

/// `MEMORY STATS`
fn stats(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let memory = Footprint::of(&server);
    let databases: Vec<u16> = (0..server.keyspace.databases())
        .filter(|&db| server.keyspace.db_stats(db).keys > 0)
        .collect();
    let (sizes, ratios) = (sizes(&memory), ratios(&memory));
    ctx.reply.map(sizes.len() + databases.len() + ratios.len());
    for (name, bytes) in sizes {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.integer(bytes);
    }
    for db in databases {
        database(&server, &memory, db, ctx.reply);
    }
    for (name, ratio) in ratios {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.double(ratio);
    }
    Ok(())
}

fn sizes(memory: &Footprint) -> Vec<(&'static str, i64)> {
    let bytes_per_key = memory.used.checked_div(memory.keys).unwrap_or(0);
    let [used, active, held] = [memory.used, memory.active, memory.held].map(|bytes| bytes as i64);
    vec![
        ("peak.allocated", memory.peak as i64),
        ("total.allocated", used),
        ("startup.allocated", memory.startup as i64),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", memory.clients as i64),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", 0),
        ("functions.caches", 0),
        ("hash.templates", memory.schemas as i64),
        ("overhead.db.hashtable.lut", memory.tables as i64),
        ("overhead.db.hashtable.rehashing", 0),
        ("overhead.total", memory.overhead() as i64),
        ("db.dict.rehashing.count", 0),
        ("keys.count", memory.keys as i64),
        ("keys.bytes-per-key", bytes_per_key as i64),
        ("dataset.bytes", memory.dataset() as i64),
        ("allocator.allocated", memory.allocated as i64),
        ("allocator.active", active),
        ("allocator.resident", held),
        ("allocator.muzzy", 0),
        ("allocator-fragmentation.bytes", active - memory.allocated as i64),
        ("allocator-rss.bytes", held - active),
        ("rss-overhead.bytes", memory.resident as i64 - held),
        ("fragmentation.bytes", memory.resident as i64 - used),
    ]
}

fn ratios(memory: &Footprint) -> [(&'static str, f64); 6] {
    [
        ("dataset.percentage", memory.dataset_percent()),
        ("peak.percentage", memory.peak_percent()),
        ("allocator-fragmentation.ratio", memory.fragmentation()),
        ("allocator-rss.ratio", memory.held_ratio()),
        ("rss-overhead.ratio", memory.resident_overhead()),
        ("fragmentation", memory.resident_ratio()),
    ]
}

/// Writes a database's share of the tables, estimated by its share of the keys. Expiries need no
/// table of their own.
fn database(server: &Server, memory: &Footprint, db: u16, reply: &mut dyn Reply) {
    let keys = server.keyspace.db_stats(db).keys;
    let share = u128::from(memory.tables) * u128::from(keys) / u128::from(memory.keys.max(1));
    reply.bulk(format!("db.{db}").as_bytes());
    reply.map(2);
    reply.bulk(b"overhead.hashtable.main");
    reply.integer(share as i64);
    reply.bulk(b"overhead.hashtable.expires");
    reply.integer(0);
}

/// `MEMORY DOCTOR`
fn doctor(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let advice = diagnose(&Footprint::of(&server), server.connections());
    ctx.reply.verbatim(b"txt", advice.as_bytes());
    Ok(())
}

/// Data below which ratios say nothing.
const TOO_LITTLE: u64 = 5 << 20;

fn diagnose(memory: &Footprint, connections: usize) -> String {
    if memory.used < TOO_LITTLE {
        return "There is too little data to say anything about its memory.\n".into();
    }
    let mut findings = String::new();
    let mut find = |name: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(findings, " * {name}: {text}");
    };
    if memory.peak > memory.used / 2 * 3 {
        find(
            "Peak memory",
            format!(
                "the data took {} at its peak and takes {} now. Memory that was freed serves new data first; MEMORY PURGE \
             returns what is not needed to the system.",
                human(memory.peak),
                human(memory.used),
            ),
        );
    }
    if memory.fragmentation() > 1.2 {
        find(
            "Fragmentation",
            format!(
                "the heap holds {:.2} bytes for every byte in use. It is compacted in the background; if this does not \
             pass, the data changes its sizes faster than that.",
                memory.fragmentation(),
            ),
        );
    }
    if memory.resident_overhead() > 1.5 {
        find(
            "Resident memory",
            format!(
                "the process takes {:.2} bytes for every byte of the heap. Large buffers of clients, or an allocator that \
             keeps memory, are the usual reasons; see MEMORY STATS and MEMORY MALLOC-STATS.",
                memory.resident_overhead(),
            ),
        );
    }
    let buffers = memory.clients.saturating_sub((connections * CONNECTION_BYTES) as u64);
    if buffers > memory.used / 4 {
        find(
            "Clients",
            format!(
                "their buffers hold {}. CLIENT LIST shows whose; client-output-buffer-limit and maxmemory-clients bound \
             them.",
                human(buffers),
            ),
        );
    }
    if findings.is_empty() {
        return "No problem was found in the use of memory.\n".into();
    }
    format!("Found in the use of memory:\n\n{findings}")
}

/// `MEMORY MALLOC-STATS`
fn malloc_stats(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let heap = server.keyspace.heap().stats();
    let report = format!(
        "Heap of keys and values, bytes\n\
         reserved address space: {}\nslabs: {}\nin use: {}\nfree in caches of threads: {}\n\
         free slabs kept: {}\nlarge blocks, from {}: {}\nfragmentation: {} %\n\nAllocator {}\n{}",
        heap.reserved,
        heap.slab_bytes,
        heap.live_bytes,
        heap.cached_bytes,
        heap.retained_bytes,
        server.process.allocator(),
        heap.huge_bytes,
        heap.fragmentation_pct(),
        server.process.allocator(),
        server.process.allocator_report(),
    );
    ctx.reply.verbatim(b"txt", report.as_bytes());
    Ok(())
}

/// `MEMORY PURGE`
fn purge(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    // The other workers follow in their upkeep: only a thread itself can free its caches.
    server.figures.purges.fetch_add(1, Relaxed);
    server.keyspace.heap().purge();
    server.process.purge_allocator();
    ctx.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEALTHY: Footprint = Footprint {
        used: 100 << 20,
        peak: 100 << 20,
        tables: 10 << 20,
        schemas: 0,
        clients: 1 << 20,
        allocated: 90 << 20,
        startup: 1 << 20,
        active: 95 << 20,
        held: 96 << 20,
        resident: 110 << 20,
        system: 1 << 34,
        keys: 1 << 20,
    };

    #[test]
    fn the_doctor_finds_what_is_there() {
        assert!(diagnose(&Footprint::default(), 1).contains("too little data"));
        assert!(diagnose(&HEALTHY, 10).contains("No problem"));
        let sick = [
            ("Peak memory", Footprint { peak: 200 << 20, ..HEALTHY }),
            (
                "Fragmentation",
                Footprint { active: 120 << 20, held: 120 << 20, resident: 130 << 20, ..HEALTHY },
            ),
            ("Resident memory", Footprint { resident: 200 << 20, ..HEALTHY }),
            ("Clients", Footprint { clients: 50 << 20, ..HEALTHY }),
        ];
        for (name, memory) in sick {
            let advice = diagnose(&memory, 10);
            assert!(advice.contains(name), "{advice}");
            assert_eq!(advice.matches(" * ").count(), 1, "{advice}");
        }
    }
}
