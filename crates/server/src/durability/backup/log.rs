//! Shipping the log: it goes on in a new file every `backup-log-interval` seconds in which anything
//! was written, and files that are written to no more are shipped.

use crate::server::Server;
use petrel_persistence::log::Manifest;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Interval between two checks of the log.
const TICK: Duration = Duration::from_millis(250);
/// Number of files at which the log is rewritten into one.
const FILES_MAX: usize = 1024;

/// Looks at the log of a server until it stops, on a thread of its own.
///
/// # Errors
/// If no thread can be started.
pub(super) fn follow(server: &Arc<Server>) -> std::io::Result<()> {
    let server = Arc::downgrade(server);
    let work = move || follow_until_the_end(&server);
    std::thread::Builder::new().name("petrel-sealer".into()).spawn(work)?;
    Ok(())
}

fn follow_until_the_end(server: &Weak<Server>) {
    let mut follower = Follower {
        files: Manifest::default(),
        epoch: 0,
        is_shipped: true,
        sealed_at: Instant::now(),
    };
    loop {
        std::thread::sleep(TICK);
        match server.upgrade() {
            Some(server) if !server.is_stopping() => follower.look(&server),
            _ => return,
        }
    }
}

/// State of the log as last seen.
struct Follower {
    /// The files that the log has left behind.
    files: Manifest,
    /// Once this epoch is durable, nothing more is written to the files.
    epoch: u64,
    is_shipped: bool,
    /// Time when the log was last sealed for a backup.
    sealed_at: Instant,
}

impl Follower {
    fn look(&mut self, server: &Server) {
        let interval = server.config.snapshot().backup_log_interval;
        // While it is rewritten, which file is the last is not settled.
        if interval == 0 || server.durability.is_rewriting() {
            return;
        }
        let Some(log) = server.durability.log() else { return };
        let files = server.durability.closed_files();
        if files != self.files {
            (self.files, self.is_shipped) = (files, false);
            self.epoch = server.keyspace.epochs().now();
            log.want(self.epoch);
        }
        if !self.is_shipped && log.durable() >= self.epoch {
            self.is_shipped = true;
            server.backups.ship_log(&server.durability, &self.files);
        }
        if self.sealed_at.elapsed() >= Duration::from_secs(interval.into()) {
            self.sealed_at = Instant::now();
            if let Err(error) = server.seal_log() {
                tracing::error!("the log cannot continue in a new file for the backup: {error}");
            }
            if self.files.entries.len() >= FILES_MAX {
                server.durability.schedule_rewrite();
            }
        }
    }
}
