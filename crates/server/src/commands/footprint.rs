//! The memory of the server, as `INFO memory` and `MEMORY STATS` divide it up.
//!
//! `used` is counted exactly by the keyspace and limited by `maxmemory`. `allocated`, `active` and
//! `held` are of both allocators: the keyspace's own heap, used for entries, and the general one
//! for everything else, including values from 16 KiB on. If the general allocator provides no
//! statistics, the known users are summed: values, connections, scripts.

use crate::lifecycle::process::{AllocatorUse, resident_bytes, system_bytes};
use crate::server::Server;
use std::sync::atomic::Ordering::Relaxed;

/// Sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Footprint {
    /// Keys, values and tables, and the connections with their buffers.
    pub used: u64,
    /// The most that `used` was, as far as it was looked at.
    pub peak: u64,
    /// Part of `used`: hash tables.
    pub tables: u64,
    /// Part of `used`: field names of compact hashes.
    pub schemas: u64,
    /// Part of `used`: connections and their buffers.
    pub clients: u64,
    /// Bytes of the general allocator before the data was loaded; not part of `used`.
    pub startup: u64,
    /// Blocks of both allocators that are in use.
    pub allocated: u64,
    /// Memory of the slabs and pages that hold blocks in use.
    pub active: u64,
    /// Memory of the allocators: also free slabs and pages that are yet to be returned. All memory
    /// of the process that is no part of a file, stacks included.
    pub held: u64,
    /// Physical memory of the process.
    pub resident: u64,
    /// Physical memory of the machine.
    pub system: u64,
    /// Keys of all databases.
    pub keys: u64,
}

impl Footprint {
    /// The sizes as they are now.
    pub fn of(server: &Server) -> Self {
        let (stats, heap) = (server.keyspace.stats(), server.keyspace.heap().stats());
        let peak = server.figures.note_memory(stats.used);
        let databases = 0..server.keyspace.databases();
        let clients = server.client_bytes();
        let beside = heap.huge_bytes + clients + server.commands.script_bytes();
        let of_general = AllocatorUse { allocated: beside, active: beside };
        let general = server.process.allocator_use().unwrap_or(of_general);
        let allocated = heap.live_bytes + general.allocated;
        let active = heap.slab_bytes - heap.retained_bytes + general.active;
        let (resident, held) = resident_bytes();
        Footprint {
            used: stats.used,
            peak,
            tables: stats.tables,
            schemas: stats.schemas,
            clients,
            startup: server.figures.startup_bytes.load(Relaxed),
            allocated,
            // Of pages in use, untouched ones are not resident.
            active: active.max(allocated).min(held),
            held,
            resident,
            system: system_bytes(),
            keys: databases.map(|db| server.keyspace.db_stats(db).keys).sum(),
        }
    }

    /// Bytes that are not keys and values.
    pub fn overhead(&self) -> u64 {
        (self.tables + self.schemas + self.clients).min(self.used)
    }

    /// Keys and values.
    pub fn dataset(&self) -> u64 {
        self.used - self.overhead()
    }

    /// Keys and values in percent of `used`.
    pub fn dataset_percent(&self) -> f64 {
        ratio(self.dataset(), self.used) * 100.0
    }

    /// `used` in percent of its peak.
    pub fn peak_percent(&self) -> f64 {
        ratio(self.used, self.peak) * 100.0
    }

    /// Memory of slabs and pages for every byte in use.
    pub fn fragmentation(&self) -> f64 {
        ratio(self.active, self.allocated)
    }

    /// Memory of the allocators for every byte of slabs and pages.
    pub fn held_ratio(&self) -> f64 {
        ratio(self.held, self.active)
    }

    /// Memory of the process for every byte of the allocators.
    pub fn resident_overhead(&self) -> f64 {
        ratio(self.resident, self.held)
    }

    /// Memory of the process for every byte of `used`.
    pub fn resident_ratio(&self) -> f64 {
        ratio(self.resident, self.used)
    }
}

/// 0 if there is nothing to compare with.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
