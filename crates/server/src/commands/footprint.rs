//! The memory of the server, as `INFO memory` and `MEMORY STATS` divide it up.
//!
//! `used` is what the keyspace counts to the byte and `maxmemory` limits. Blocks of entries come from the keyspace's
//! own heap; `allocated` and `active` are of that heap, and of what is counted elsewhere: connections, scripts.

use crate::process::{resident_bytes, system_bytes};
use crate::server::Server;

/// Sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Footprint {
    /// Keys, values and tables, and the connections with their buffers.
    pub used: u64,
    /// The most that `used` was, as far as it was looked at.
    pub peak: u64,
    /// Part of `used`: hash tables.
    pub tables: u64,
    /// Part of `used`: connections and their buffers.
    pub clients: u64,
    /// Blocks of the heap that are in use, connections and scripts.
    pub allocated: u64,
    /// Memory of the heap, connections and scripts.
    pub active: u64,
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
        let beside = clients + server.commands.script_bytes();
        Footprint {
            used: stats.used,
            peak,
            tables: stats.tables,
            clients,
            allocated: heap.live_bytes + heap.huge_bytes + beside,
            active: heap.slab_bytes + heap.huge_bytes + beside,
            resident: resident_bytes(),
            system: system_bytes(),
            keys: databases.map(|db| server.keyspace.db_stats(db).keys).sum(),
        }
    }

    /// What is not keys and values.
    pub fn overhead(&self) -> u64 {
        (self.tables + self.clients).min(self.used)
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

    /// Memory of the heap for every byte in use.
    pub fn fragmentation(&self) -> f64 {
        ratio(self.active, self.allocated)
    }

    /// Memory of the process for every byte of the heap.
    pub fn resident_overhead(&self) -> f64 {
        ratio(self.resident, self.active)
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
