//! Keeps the files of a former incarnation of the member beside those of the present one, before
//! its keys are removed: `NAME.rejoin.TIME`.

use crate::config::Config;
use crate::server::Server;
use petrel_cluster::{SlotSet, slot_of};
use petrel_keyspace::Cursor;
use petrel_persistence::leftover::stamp;
use petrel_persistence::log::Manifest;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Interval between two checks whether changes are durable.
const DURABLE_PAUSE: Duration = Duration::from_millis(1);

/// Keys that are looked at together.
const SCANNED: usize = 512;

/// Attempts while the log deletes files that its manifest has named.
const ATTEMPTS: usize = 8;

/// Keeps the files if there are keys of these slots. On the thread of the caller, which may take
/// as long as copying the last file of the log.
///
/// # Errors
/// If the files cannot be kept: what to change.
pub(super) fn keep_if_needed(server: &Arc<Server>, slots: &SlotSet) -> Result<(), String> {
    match has_keys(server, slots) {
        true => keep(server),
        false => Ok(()),
    }
}

/// Keeps the files.
///
/// # Errors
/// If that fails: what to change.
pub(super) fn keep(server: &Server) -> Result<(), String> {
    await_log(server);
    let config = server.config.snapshot();
    let kept = keep_files(&config).map_err(|error| {
        format!(
            "the former data cannot be kept beside {}: {error}; free space",
            config.dir.display()
        )
    })?;
    for path in kept {
        tracing::warn!(
            "cluster: this server's former data are kept as {}: delete them when they are not needed",
            path.display()
        );
    }
    Ok(())
}

/// Waits until the log has everything that is in memory.
fn await_log(server: &Server) {
    let Some(log) = server.durability.log() else { return };
    let epoch = server.keyspace.epochs().now();
    log.want(epoch);
    while log.durable() < epoch && !server.is_stopping() {
        std::thread::sleep(DURABLE_PAUSE);
    }
}

fn has_keys(server: &Server, slots: &SlotSet) -> bool {
    let mut handle = server.keyspace.attach();
    for db in 0..server.keyspace.databases() {
        let mut cursor = Cursor::default();
        loop {
            let mut is_found = false;
            handle.enter();
            cursor = handle.scan_removing(db, cursor, SCANNED, &|_| false, |entry| {
                is_found |= slots.contains(slot_of(entry.key()));
            });
            handle.exit();
            if is_found {
                return true;
            }
            if cursor == Cursor::default() || server.is_stopping() {
                break;
            }
        }
    }
    false
}

fn keep_files(config: &Config) -> io::Result<Vec<PathBuf>> {
    let mut kept = Vec::new();
    let log = PathBuf::from(config.appenddirname.lossy().into_owned());
    let manifest = log.join(format!("{}.manifest", config.appendfilename.lossy()));
    if manifest.exists() {
        kept.push(keep_log(&log, &manifest)?);
    }
    if config.dbfilename.exists() {
        let aside = free_name(&config.dbfilename);
        link(&config.dbfilename, &aside)?;
        kept.push(aside);
    }
    File::open(".")?.sync_all()?;
    Ok(kept)
}

/// Keeps the files that the manifest of a log names. The last one grows, so it is copied.
fn keep_log(log: &Path, manifest: &Path) -> io::Result<PathBuf> {
    let mut attempts = 0;
    loop {
        let aside = free_name(log);
        fs::create_dir(&aside)?;
        match link_log(log, manifest, &aside) {
            Ok(()) => return Ok(aside),
            Err(error) => {
                // Only other names of files that are here.
                fs::remove_dir_all(&aside)?;
                attempts += 1;
                if error.kind() != io::ErrorKind::NotFound || attempts == ATTEMPTS {
                    return Err(error);
                }
            }
        }
    }
}

fn link_log(log: &Path, manifest: &Path, aside: &Path) -> io::Result<()> {
    let text = fs::read_to_string(manifest)?;
    let parsed = Manifest::parse(&text).map_err(|error| io::Error::other(error.to_string()))?;
    let mut files: Vec<&str> =
        parsed.base().into_iter().chain(parsed.logs()).map(|entry| &*entry.name).collect();
    if let Some(last) = files.pop() {
        copy(&log.join(last), &aside.join(last))?;
    }
    for file in files {
        link(&log.join(file), &aside.join(file))?;
    }
    // Last, so that a directory with a manifest is complete.
    let name = manifest.file_name().unwrap_or_default();
    fs::write(aside.join(name), text)?;
    File::open(aside.join(name))?.sync_all()?;
    File::open(aside)?.sync_all()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    File::open(to)?.sync_all()
}

/// Gives a file a second name, or copies it where the file system has no second names.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Err(error),
        _ => copy(from, to),
    })
}

/// A name beside a file or directory that nothing has.
fn free_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".rejoin.{}", stamp()));
    let mut numbers = 2..;
    let mut free = PathBuf::from(&name);
    while free.exists() {
        let mut next = name.clone();
        next.push(format!("-{}", numbers.next().unwrap_or(u32::MAX)));
        free = next.into();
    }
    free
}
