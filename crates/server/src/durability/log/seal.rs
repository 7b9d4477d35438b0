//! Sealing: the log continues in a new file, so that the old files never change any more and can be
//! copied.

use crate::server::Server;
use crate::state::log::Durability;
use crate::unix_time::unix_ms;
use petrel_persistence::log::{Log, Manifest, SystemFile};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

impl Durability {
    /// The files of the log but the one that is written to.
    pub(crate) fn closed_files(&self) -> Manifest {
        let directory = self.directory.lock();
        let mut files = directory.as_ref().map_or_else(Manifest::default, |d| d.manifest().clone());
        if self.is_written() {
            files.entries.pop();
        }
        files
    }

    /// Names and paths of closed files of the log. Their lengths are counted too.
    pub(crate) fn settle(&self, files: &Manifest) -> Vec<(String, PathBuf)> {
        let directory = self.directory.lock();
        let Some(directory) = &*directory else { return Vec::new() };
        self.weigh(directory);
        files.entries.iter().map(|entry| (entry.name.clone(), directory.path_of(entry))).collect()
    }
}

impl Server {
    /// Continues in a new file, if anything was written to the current one and nothing prevents it.
    /// The whole keyspace is locked for some microseconds. The thread is in no batch.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn seal_log(&self) -> io::Result<()> {
        let Some(log) = self.durability.log() else { return Ok(()) };
        let _rotating = self.durability.rotating.lock();
        // A concurrent rewrite sees this flag, or is seen: otherwise the files of both might not be
        // in the order of their numbers.
        self.durability.sealing.store(true, SeqCst);
        let sealed = self.seal(&log);
        self.durability.sealing.store(false, SeqCst);
        sealed
    }

    fn seal(&self, log: &Log) -> io::Result<()> {
        let durability = &self.durability;
        if durability.rewriting_since.load(SeqCst) != 0
            || durability.has_failed()
            || !durability.is_complete.load(Relaxed)
            || !log.has_blocks()
        {
            return Ok(());
        }
        let (file, head) = {
            let mut directory = durability.directory.lock();
            let Some(directory) = &mut *directory else { return Ok(()) };
            let (file, head) = directory.begin_effects(unix_ms(), true)?;
            let file = SystemFile::new(file);
            let file = file.inspect_err(|_| directory.abandon_effects(directory.last_seq()))?;
            (Box::new(file), head)
        };
        // No thread may wait for the directory while everything is held: it is free by now.
        let mut handle = self.keyspace.attach();
        handle.enter();
        handle.lock_all();
        log.rotate(&self.keyspace, file, head, false);
        handle.unlock();
        handle.exit();
        Ok(())
    }
}
