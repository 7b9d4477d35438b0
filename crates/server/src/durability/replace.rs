//! Replaces the data by a copy of another server's.

use crate::config::Config;
use crate::observation::pluralized::Pluralized;
use crate::server::Server;
use petrel_persistence::rdb::{FileError, FileReader, Leniency, Nowhere, Section};
use petrel_persistence::{LoadOptions, Loaded, UNKNOWN_LEN};
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A file without a name, in the working directory.
///
/// # Errors
/// If none can be made.
pub(crate) fn unnamed_file(purpose: &str) -> io::Result<File> {
    let path = format!("temp-{purpose}-{}.rdb", std::process::id());
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Deviations that are accepted in another server's copy.
pub(crate) fn leniency(config: &Config) -> Leniency {
    Leniency {
        any_version: config.accepts_any_rdb_version(),
        any_sum: !config.rdbchecksum,
        any_count: true,
    }
}

/// Reads a copy to its end without keeping anything: whether it is whole, and of known types.
///
/// # Errors
/// If it is not.
pub(crate) fn check(file: &File, len: u64, leniency: Leniency) -> Result<(), FileError> {
    let mut reader = FileReader::new(file, len, leniency)?;
    loop {
        match reader.next_section()? {
            Section::LongKey(head) => reader.read_value(&head, &mut Nowhere)?,
            Section::End => return Ok(()),
            _ => {}
        }
    }
}

impl Server {
    /// Removes the data with `clear`, in the background or not, and loads a copy with `load`, while
    /// commands that need the data are refused. They still are afterwards, until
    /// [`Server::finish_loading`].
    ///
    /// # Errors
    /// One line that says why there is no data now.
    pub(crate) fn replace_data(
        &self,
        len: u64,
        clear: &mut dyn FnMut(bool),
        load: impl FnOnce(LoadOptions) -> Result<Loaded, String>,
    ) -> Result<Loaded, String> {
        let config = self.config.snapshot();
        let progress = &self.snapshot.progress;
        for figure in [&progress.loaded, &progress.keys, &progress.expired] {
            figure.store(0, Relaxed);
        }
        progress.total.store(if len == UNKNOWN_LEN { 0 } else { len }, Relaxed);
        if !self.is_stopping() {
            progress.stop.store(false, Relaxed);
        }
        self.begin_loading(&config);
        clear(config.replication.replica_lazy_flush);
        let options = LoadOptions {
            threads: self.workers.len(),
            leniency: leniency(&config),
            // When it goes is the other server's to say.
            keeps_expired: true,
            merges: false,
        };
        let loaded = load(options).and_then(|loaded| {
            let taken = self.commands.replace_aux(&loaded.aux_states());
            taken.map_err(|error| error.to_string()).map(|()| loaded)
        });
        // Later than all that the threads have committed which loaded.
        self.log_aux_states();
        loaded.map_err(|why| {
            clear(true);
            format!("the copy cannot be loaded: {why}; there is no data now")
        })
    }

    /// Logs the number of keys that a copy of another server's data replaces, if there are any.
    pub(crate) fn report_replaced(&self, whose: &str) {
        let databases = 0..self.keyspace.databases();
        let keys = databases.map(|db| self.keyspace.db_stats(db).keys).sum::<u64>();
        if keys == 0 {
            return;
        }
        let (keys, config) = (Pluralized(keys, "key"), self.config.snapshot());
        match config.dbfilename.exists() {
            true => tracing::warn!(
                "dropping {keys} here for {whose} copy; {} has the last saved data until the next save",
                config.dbfilename.display()
            ),
            false => tracing::warn!("dropping {keys} here for {whose} copy"),
        }
    }

    /// Logs the load of a copy.
    pub(crate) fn report_copy(&self, whose: &str, loaded: &Loaded, start: Instant) {
        let keys = Pluralized(self.snapshot.progress.keys.load(Relaxed), "key");
        let seconds = start.elapsed().as_secs_f64();
        tracing::info!(
            "loaded {whose} copy: {keys}, {} bytes, {seconds:.2} s, RDB version {}",
            loaded.end,
            loaded.version
        );
        if loaded.modules > 0 {
            let modules = Pluralized(loaded.modules as u64, "module");
            tracing::warn!("auxiliary data of {modules} was skipped");
        }
    }
}
