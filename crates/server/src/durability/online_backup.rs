//! Online backups (`BACKUP`): a base and the changes after it, without a pause.
//!
//! ```text
//! START   pending ── the log is rewritten, or turned on for the backup ──▶ snapshotting
//!         ── its base is there: a link to it ──▶ incrementing
//! SEAL    the log continues in a new file: links to those before, and a manifest ──▶ sealed
//! ```
//!
//! From the rewrite until the backup is sealed, the log is not rewritten again: its files stay. A
//! thread of its own links or copies files and waits for the disk, never a worker. The lock of the
//! backup is not held meanwhile.

pub use crate::state::online_backup::BackupError;

use super::log::Rewriting;
use crate::client::Client;
use crate::config::Config;
use crate::host::ServerHost;
use crate::server::Server;
use crate::state::online_backup::{BorrowedLog, Phase, link_into, remove};
use crate::unix_time::unix_ms;
use petrel_commands::{Answer, Executor, Fail, Offloaded};
use petrel_keyspace::Handle;
use petrel_persistence::log::{Manifest, SystemFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Time for which sealing waits until the log is written.
const SEAL_PATIENCE: Duration = Duration::from_secs(10);

impl Server {
    /// Directory of backups, an absolute path.
    fn backup_directory(&self) -> io::Result<PathBuf> {
        std::path::absolute(&self.config.snapshot().backupdirname)
    }

    /// Begins a backup, of the data as it will be in a moment.
    ///
    /// # Errors
    /// If there is one already, or a file in its directory.
    pub(crate) fn start_backup(&self) -> Result<(), BackupError> {
        let directory = self.backup_directory()?;
        self.online_backup.lock().start(&directory, unix_ms() / 1000)
    }

    /// Gives up the backup.
    ///
    /// # Errors
    /// If there is none that is not sealed.
    pub(crate) fn abort_backup(&self) -> Result<(), BackupError> {
        if !self.online_backup.lock().phase().is_active() {
            return Err("No backup in progress".into());
        }
        self.fail_backup("aborted by user");
        Ok(())
    }

    /// Removes the files of the backup.
    ///
    /// # Errors
    /// If it is in progress.
    pub(crate) fn clean_up_backup(&self) -> Result<(), BackupError> {
        self.online_backup.lock().clean_up()
    }

    /// Ends a backup that is in progress, because it cannot be completed.
    pub(crate) fn fail_backup(&self, why: &str) {
        self.online_backup.lock().fail(why);
        self.durability.is_pinned.store(false, Relaxed);
    }

    /// Whether the log runs only for the backup.
    pub(crate) fn is_log_borrowed(&self) -> bool {
        self.online_backup.lock().borrowed.is_some()
    }

    /// Continues the backup; called about ten times a second, by one thread, which holds no
    /// lock.
    pub(crate) fn tend_backup(self: &Arc<Self>, ks: &mut Handle, config: &Config) {
        let (phase, is_seal_wanted, ended_at) = {
            let backup = self.online_backup.lock();
            if backup.phase() == Phase::Idle && backup.borrowed.is_none() {
                return;
            }
            (backup.phase(), backup.is_seal_wanted, backup.ended_at())
        };
        match phase {
            Phase::Pending => self.begin_backup_base(ks, config),
            Phase::Snapshotting if !self.durability.is_rewriting() => self.take_backup_base_apart(),
            Phase::Incrementing if !self.has_whole_log() => {
                self.fail_backup("the log was interrupted");
            }
            // Its errors are in the state.
            Phase::Incrementing if is_seal_wanted && self.begin_backup_seal().is_ok() => {
                self.seal_backup(None);
            }
            Phase::Sealed
                if config.backup_sealed_ttl > 0
                    && unix_ms() / 1000 - ended_at >= config.backup_sealed_ttl =>
            {
                let _ = self.clean_up_backup();
            }
            _ => {}
        }
        self.return_log(ks, config);
    }

    /// Whether the files of the log hold every change since its base.
    fn has_whole_log(&self) -> bool {
        let durability = &self.durability;
        durability.is_on()
            && durability.is_complete.load(Relaxed)
            && !durability.needs_base.load(Relaxed)
            && !durability.is_apart.load(Relaxed)
    }

    fn begin_backup_base(self: &Arc<Self>, ks: &mut Handle, config: &Config) {
        let durability = &self.durability;
        if self.commands.is_loading() || durability.is_apart.load(Relaxed) {
            return;
        }
        let is_inside = ks.is_inside();
        if !is_inside {
            ks.enter();
        }
        let rewrites = durability.rewrites.load(Relaxed);
        let begun = match durability.is_on() || self.borrow_log(ks, config) {
            // A rewrite that is running becomes that of the backup.
            true => self.begin_rewrite(ks),
            false => Ok(Rewriting::Scheduled),
        };
        if !is_inside {
            ks.exit();
        }
        match begun {
            Ok(Rewriting::Begun | Rewriting::Already) => {
                durability.is_pinned.store(true, SeqCst);
                self.online_backup.lock().begin_base(rewrites);
            }
            Ok(Rewriting::Scheduled) => {}
            Err(error) => self.fail_backup(&error.to_string()),
        }
    }

    /// Turns the log on for the backup; false if that is not possible now.
    fn borrow_log(self: &Arc<Self>, ks: &mut Handle, config: &Config) -> bool {
        let Some(turning) = self.durability.turning.try_lock() else { return false };
        let keeps_files = Path::new(&*config.appenddirname.lossy()).exists();
        self.online_backup.lock().borrowed = Some(BorrowedLog { keeps_files });
        match self.turn_log_on(ks, config, &turning) {
            Ok(()) => true,
            Err(why) => {
                self.online_backup.lock().borrowed = None;
                self.fail_backup(&why);
                false
            }
        }
    }

    /// The rewrite has ended: a thread links its base.
    fn take_backup_base_apart(self: &Arc<Self>) {
        if std::mem::replace(&mut self.online_backup.lock().is_working, true) {
            return;
        }
        let server = self.clone();
        self.work_on_backup(move || {
            if let Err(error) = server.take_backup_base() {
                server.backup_failed(&error);
            }
        });
    }

    fn take_backup_base(&self) -> io::Result<()> {
        let rewrites = self.durability.rewrites.load(Relaxed);
        let base = self.durability.directory.lock().as_ref().and_then(|directory| {
            let base = directory.manifest().base()?;
            Some(directory.path_of(base))
        });
        let is_new = rewrites > self.online_backup.lock().rewrites;
        let base = base.filter(|_| is_new && self.has_whole_log());
        let base = base.ok_or_else(|| io::Error::other("the log could not be rewritten"))?;
        let link = link_into(&self.backup_directory()?, &base)?;
        if !self.online_backup.lock().add_base(&link) {
            remove(&link);
        }
        Ok(())
    }

    /// Reserves the backup for the thread that seals it.
    ///
    /// # Errors
    /// If its base is not there, or another thread has reserved it.
    pub(crate) fn begin_backup_seal(&self) -> Result<(), BackupError> {
        self.online_backup.lock().begin_seal()
    }

    /// Seals the reserved backup in a moment.
    pub(crate) fn seal_backup_later(&self) {
        let mut backup = self.online_backup.lock();
        (backup.is_working, backup.is_seal_wanted) = (false, true);
    }

    /// Seals the reserved backup: it holds everything until now. The call is answered once it is
    /// sealed, or the log cannot be written; the backup has failed then.
    pub(crate) fn seal_backup(self: &Arc<Self>, call: Option<(Offloaded, Arc<Client>)>) {
        let server = self.clone();
        let unserved = call.as_ref().map(|(call, client)| (call.protocol(), client.clone()));
        let begun = self.work_on_backup(move || {
            let mut exec = Executor::new(server.keyspace.attach(), server.commands.clone());
            let sealed = server.seal_files(&mut exec.ks);
            match &sealed {
                Ok(()) => server.durability.is_pinned.store(false, Relaxed),
                Err(error) => server.backup_failed(error),
            }
            if let Some((call, client)) = call {
                let outcome = sealed.map(|()| "OK").map_err(Fail::from);
                let answer = exec.finish(&call, &mut ServerHost::apart(server.clone()), outcome);
                server.answer(&client, answer);
            }
        });
        if !begun && let Some((protocol, client)) = unserved {
            let why = b"ERR Backup failed: cannot start a thread";
            self.answer(&client, Answer::new(protocol, |reply| reply.error(why)));
        }
    }

    fn backup_failed(&self, error: &dyn std::fmt::Display) {
        self.online_backup.lock().is_working = false;
        self.fail_backup(&error.to_string());
    }

    fn seal_files(&self, ks: &mut Handle) -> Result<(), BackupError> {
        let (manifest, logs) = self.close_log_files(ks)?;
        let name = self.config.snapshot().appendfilename.lossy().into_owned() + ".manifest";
        let directory = self.backup_directory()?;
        let mut files = Vec::new();
        let linked = logs.iter().try_for_each(|log| {
            files.push(link_into(&directory, log)?);
            Ok(())
        });
        let path = directory.join(name);
        let written = linked.and_then(|()| {
            files.push(path.clone());
            fs::write(&path, manifest.to_string())?;
            fs::File::open(&path)?.sync_all()?;
            fs::File::open(&directory)?.sync_all()
        });
        let is_sealed = written.is_ok() && self.online_backup.lock().seal(&files, unix_ms() / 1000);
        if !is_sealed {
            files.iter().for_each(|file| remove(file));
        }
        written?;
        if is_sealed { Ok(()) } else { Err("No backup in progress".into()) }
    }

    /// Runs work of the backup on a thread of its own: `petrel-backup`. Returns false if it cannot
    /// be started; the backup has failed then.
    fn work_on_backup(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let thread = std::thread::Builder::new().name("petrel-backup".into());
        let spawned = thread.spawn(work);
        if let Err(error) = &spawned {
            self.backup_failed(&format!("cannot start a thread: {error}"));
        }
        spawned.is_ok()
    }

    /// Continues the log in a new file. Returns the files before, and the paths of those
    /// with changes, once they are written.
    fn close_log_files(&self, ks: &mut Handle) -> Result<(Manifest, Vec<PathBuf>), BackupError> {
        const OFF: &str = "the log is off";
        let log = self.durability.log().ok_or(OFF)?;
        let _rotating = self.durability.rotating.lock();
        if !self.has_whole_log() {
            return Err("the log was interrupted".into());
        }
        let (file, head, manifest, files) = {
            let mut directory = self.durability.directory.lock();
            let directory = directory.as_mut().ok_or(OFF)?;
            let manifest = directory.manifest().clone();
            let (file, head) = directory.begin_effects(unix_ms(), true)?;
            let file = SystemFile::new(file);
            let file = file.inspect_err(|_| directory.abandon_effects(directory.last_seq()))?;
            let files: Vec<_> = manifest.logs().map(|log| directory.path_of(log)).collect();
            (Box::new(file), head, manifest, files)
        };
        ks.enter();
        ks.lock_all();
        let next = log.rotate(&self.keyspace, file, head, false);
        ks.unlock();
        ks.exit();
        let (last, start) = (next - 1, Instant::now());
        log.want(last);
        while log.durable() < last {
            if start.elapsed() > SEAL_PATIENCE {
                return Err("the log cannot be written".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok((manifest, files))
    }

    /// Turns off the log that ran for a backup which has ended, unless it is wanted meanwhile.
    fn return_log(self: &Arc<Self>, ks: &mut Handle, config: &Config) {
        let durability = &self.durability;
        let borrowed = {
            let mut backup = self.online_backup.lock();
            if config.appendonly {
                backup.borrowed = None;
            }
            match backup.borrowed {
                Some(borrowed) if !backup.phase().is_active() => borrowed,
                Some(_) if durability.has_failed() => {
                    drop(backup);
                    return self.fail_backup("the log cannot be written");
                }
                _ => return,
            }
        };
        if durability.is_rewriting() {
            return;
        }
        let Some(_turning) = durability.turning.try_lock() else { return };
        if self.config.snapshot().appendonly {
            return;
        }
        if !durability.is_complete.load(Relaxed) {
            // Its first base is not needed any more.
            durability.rewrite_scheduled.store(false, Relaxed);
        }
        let is_inside = ks.is_inside();
        if !is_inside {
            ks.enter();
        }
        self.turn_log_off(ks);
        if !is_inside {
            ks.exit();
        }
        self.online_backup.lock().borrowed = None;
        if !borrowed.keeps_files
            && let Some(directory) = durability.directory.lock().take()
        {
            directory.remove();
        }
    }
}
