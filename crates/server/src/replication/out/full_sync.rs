//! A copy of everything for replicas that cannot go on where they were.
//!
//! ```text
//! with everything held   the stream's end is noted ── an image begins
//! a thread of its own    writes the image as RDB ─ a part at a time ─▶ the queue of each replica
//! ```
//!
//! All replicas waiting at that time share the snapshot. It is sent as it is made if all of them
//! accept an end mark (`capa eof`); otherwise it is written to a file first, since its length is
//! sent before it. Changes made meanwhile are in the backlog.

use crate::config::Config;
use crate::random_id::random_id;
use crate::replication::rdb_aux::SavedHistory;
use crate::server::{Server, unix_ms};
use crate::state::outgoing::replica::{Replica, Stage};
use bytes::Bytes;
use petrel_keyspace::Handle;
use petrel_keyspace::aux_state::FUNCTIONS;
use petrel_persistence::Image;
use petrel_persistence::rdb::{FileError, FileOptions, FileWriter, Form};
use petrel_persistence::value::least_common;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Bytes of a copy that are sent together.
const PART_LEN: usize = 256 * 1024;

/// Source of a copy: a snapshot (none for a copy without keys), and its position in the history.
type Copied = (Option<Image>, Option<SavedHistory>);

/// A copy that is about to be sent.
struct Job {
    /// None of a copy without keys.
    image: Option<Image>,
    replicas: Vec<Arc<Replica>>,
    by_mark: bool,
    /// Position in the history.
    history: Option<SavedHistory>,
    written: Written,
}

/// Format of a copy.
#[derive(Clone, Copy)]
struct Written {
    options: FileOptions,
    /// RDB version needed for the contents known in advance.
    least: u16,
}

/// Passes the written bytes to every replica.
struct FanOut<'f> {
    server: &'f Server,
    replicas: &'f [Arc<Replica>],
    part: Vec<u8>,
    patience: Duration,
}

/// Reason to abandon a copy without remaining replicas.
const LEFT: &str = "the replicas have left";

fn have_left(replicas: &[Arc<Replica>]) -> bool {
    replicas.iter().all(|replica| replica.has_left())
}

impl FanOut<'_> {
    fn pass_on(&mut self) -> io::Result<()> {
        let next = Vec::with_capacity(PART_LEN);
        let part = Bytes::from(std::mem::replace(&mut self.part, next));
        for replica in self.replicas.iter().filter(|replica| !replica.has_left()) {
            if !replica.send_part(&part, self.patience) && !replica.has_left() {
                tracing::warn!("replica {} is closed: it reads nothing", replica.name());
                self.server.close_replica(replica);
            }
        }
        if let Some(stream) = self.server.outgoing.stream() {
            stream.owners.call(&self.server.workers);
        }
        match have_left(self.replicas) {
            true => Err(io::Error::new(io::ErrorKind::BrokenPipe, LEFT)),
            false => Ok(()),
        }
    }
}

impl Write for FanOut<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.extend_from_slice(bytes);
        if self.part.len() >= PART_LEN {
            self.pass_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()
    }
}

impl Server {
    /// Begins to send a copy to the replicas that wait for one, if they have waited long enough.
    /// The thread is in no batch.
    pub(super) fn sync_if_due(self: &Arc<Self>, ks: &mut Handle, config: &Config) {
        if self.outgoing.syncing.load(SeqCst) || self.commands.is_loading() {
            return;
        }
        let waiting = self.outgoing.waiting();
        let Some(first) = waiting.first() else { return };
        let kind = |replica: &Replica| {
            (replica.options.wants, replica.options.dialect, replica.has_only_redis_types())
        };
        let is_like = |replica: &&Arc<Replica>| kind(replica) == kind(first);
        let replicas: Vec<_> = waiting.iter().filter(is_like).cloned().collect();
        let by_mark = config.replication.repl_diskless_sync
            && replicas.iter().all(|replica| replica.options.knows_end_mark);
        let most = config.replication.repl_diskless_sync_max_replicas;
        let is_full = most > 0 && replicas.len() as i64 >= most;
        let delay_ms = config.replication.repl_diskless_sync_delay.saturating_mul(1000);
        if by_mark && !is_full && unix_ms() - first.waits_since < delay_ms {
            return;
        }
        if let Err(error) = self.begin_sync(ks, config, replicas, by_mark) {
            tracing::error!("no copy can be sent to replicas: {error}");
        }
    }

    fn begin_sync(
        self: &Arc<Self>,
        ks: &mut Handle,
        config: &Config,
        replicas: Vec<Arc<Replica>>,
        by_mark: bool,
    ) -> io::Result<()> {
        let (server, (send, job)) = (self.clone(), mpsc::sync_channel::<Job>(1));
        let work = move || {
            if let Ok(job) = job.recv() {
                server.send_copy(job);
            }
            server.outgoing.syncing.store(false, SeqCst);
        };
        // Before the image begins, for one that has has to be gone through.
        std::thread::Builder::new().name("petrel-sync".into()).spawn(work)?;
        self.outgoing.syncing.store(true, SeqCst);
        let (wants_keys, _) = replicas.first().map_or((true, true), |first| first.options.wants);
        ks.enter();
        self.replication.lock_all_at_a_point(ks);
        let is_amid = self.replication.is_amid() || self.replication.failover.is_active();
        if is_amid || self.awaits_commands(&replicas) {
            // The thread ends, since nothing is sent to it: tried again in a moment.
            ks.unlock();
            ks.exit();
            return Ok(());
        }
        let written = self.written(config, &replicas);
        let image = wants_keys.then(|| Image::begin(ks, written.options));
        if let Some(None) = image {
            // The thread ends, since nothing is sent to it: tried again once that image is written.
            ks.unlock();
            ks.exit();
            return Ok(());
        }
        let stream = self.begin_stream(ks, config);
        self.settle_encoding(&stream, config);
        let at = stream.backlog.forget_database();
        let readers: Vec<_> = replicas.iter().map(|_| stream.backlog.reader(at)).collect();
        let id = self.replication.ids().id;
        let history = self.history_to_save();
        ks.unlock();
        ks.exit();
        for (replica, reader) in replicas.iter().zip(readers) {
            replica.set_stage(Stage::Copied);
            if replica.speaks_psync {
                let words = self.stream_words(replica, &stream, at);
                replica.tell(format!("+FULLRESYNC {id} {at}{words}\r\n").as_bytes());
            }
            if let (Ok(reader), false) = (reader, replica.options.takes_copy_only) {
                replica.set_reader(reader);
            }
            self.outgoing.full_syncs.fetch_add(1, Relaxed);
        }
        let mut image = image.flatten();
        if let Some(image) = &mut image {
            // Leave the other cores to clients.
            image.threads = (self.workers.len() / 2).max(1);
        }
        let names: Vec<_> = replicas.iter().map(|replica| replica.name()).collect();
        tracing::info!("sending a copy, of offset {at}, to {}", names.join(", "));
        // It waits for it.
        let _ = send.send(Job { image, replicas, by_mark, history, written });
        Ok(())
    }

    /// Chooses the format of a copy for these replicas, which accept the same one. The whole
    /// keyspace is locked.
    fn written(&self, config: &Config, replicas: &[Arc<Replica>]) -> Written {
        let mut options = self.copy_options(config);
        let (wants_keys, said) = replicas
            .first()
            .map_or((true, None), |first| (first.options.wants.0, first.options.dialect));
        options.dialect = said.unwrap_or(options.dialect);
        options.only_redis_types =
            replicas.first().is_some_and(|first| first.has_only_redis_types());
        if options.only_redis_types {
            options.version_max = least_common(options.version_max);
        }
        let keyspace = &self.keyspace;
        let any_expiring =
            (0..keyspace.databases()).any(|db| keyspace.db_stats(db).expiring > 0) && wants_keys;
        // Replicas that do not know such hashes are to see that from the first line.
        let expiring = any_expiring.then(|| Form::hash(Some(0), options.dialect).version());
        Written { options, least: expiring.unwrap_or(0) }
    }

    /// Sends a copy, on the calling thread.
    fn send_copy(self: &Arc<Self>, job: Job) {
        let Job { image, replicas, by_mark, history, written } = job;
        let (start, config) = (Instant::now(), self.config.snapshot());
        let patience = Duration::from_secs(config.replication.repl_timeout.max(1) as u64);
        let part = Vec::with_capacity(PART_LEN);
        let mut sink = FanOut { server: self, replicas: &replicas, part, patience };
        let sent = match by_mark {
            true => self.send_marked((image, history), &mut sink, written),
            false => self.send_by_file((image, history), &mut sink, written),
        };
        let is_sent = sent.is_ok();
        for replica in replicas.iter().filter(|replica| !replica.has_left()) {
            if !is_sent {
                self.close_replica(replica);
                continue;
            }
            if !by_mark {
                replica.heard_at.store(unix_ms(), Relaxed);
                let stage =
                    if replica.options.takes_copy_only { Stage::Loads } else { Stage::Online };
                replica.set_stage(stage);
            }
            let seconds = start.elapsed().as_secs_f64();
            tracing::info!("replica {} was sent its copy in {seconds:.2} s", replica.name());
        }
        if let Err(error) = sent {
            tracing::warn!("a copy for replicas was abandoned: {error}");
        }
        if let Some(stream) = self.outgoing.stream() {
            stream.owners.call(&self.workers);
        }
    }

    fn send_marked(
        &self,
        copy: Copied,
        sink: &mut FanOut<'_>,
        written: Written,
    ) -> Result<(), FileError> {
        let mark = random_id();
        sink.write_all(format!("$EOF:{mark}\r\n").as_bytes())?;
        // The replica sees that it has begun, however long the first keys take.
        sink.flush()?;
        let replicas = sink.replicas;
        self.write_copy(copy, replicas, &mut *sink, written)?;
        sink.write_all(mark.as_bytes())?;
        // What finds the end by a mark may not get anything behind it before it has said so; that
        // may be at once.
        sink.replicas.iter().for_each(|replica| replica.set_stage(Stage::Loads));
        Ok(sink.flush()?)
    }

    /// By way of a file that has no name.
    fn send_by_file(
        &self,
        copy: Copied,
        sink: &mut FanOut<'_>,
        written: Written,
    ) -> Result<(), FileError> {
        let path = std::path::PathBuf::from(format!("temp-repl-{}.rdb", std::process::id()));
        let made = File::options().read(true).write(true).create_new(true).open(&path);
        let mut file = match made {
            Ok(file) => file,
            Err(error) => {
                // It has to be gone through all the same.
                self.write_copy(copy, sink.replicas, io::sink(), written)?;
                return Err(error.into());
            }
        };
        let _ = std::fs::remove_file(&path);
        self.write_copy(copy, sink.replicas, &mut file, written)?;
        let len = file.stream_position()?;
        file.rewind()?;
        sink.write_all(format!("${len}\r\n").as_bytes())?;
        let mut part = vec![0; PART_LEN];
        loop {
            match file.read(&mut part)? {
                0 => return Ok(sink.flush()?),
                read => sink.write_all(&part[..read])?,
            }
        }
    }

    /// Writes an RDB file for these replicas, as long as one of them is there. An image is gone
    /// through even if that fails.
    fn write_copy(
        &self,
        copy: Copied,
        replicas: &[Arc<Replica>],
        out: impl Write + Send,
        Written { options, least }: Written,
    ) -> Result<(), FileError> {
        let (image, history) = copy;
        // Read after the end of the stream was recorded: later changes are in the stream.
        let states = self.commands.aux_forms();
        let functions = FileWriter::<io::Sink>::FUNCTIONS_VERSION;
        let has_functions =
            options.version_max >= functions && states.iter().any(|(name, _)| name == FUNCTIONS);
        let least = if has_functions { least.max(functions) } else { least };
        let mut file = FileWriter::unseekable(out, options, least)?;
        if let Some(history) = history {
            history.describe(&mut file);
        }
        self.describe_file(&mut file, &states);
        if let Some(image) = image {
            let mut before = 0;
            let written = image.write(&mut self.keyspace.attach(), &mut file, |keys| {
                let ends = || self.is_stopping() || have_left(replicas);
                self.delay_saving(keys - std::mem::replace(&mut before, keys), ends);
                if ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if written.is_none() {
                let why = if self.is_stopping() { "the server stops" } else { LEFT };
                return Err(io::Error::other(why).into());
            }
        }
        file.finish_unseekable()?;
        Ok(())
    }
}
