//! Completeness of a log: checks that its files, one after the other, hold everything that was
//! logged up to their end.
//!
//! Each block names the epoch of the one before it, across files; the manifest names the epoch at
//! which the base ends. So a file that was cut, anywhere but at the end of the last one, is
//! detected by the next one with blocks.

use super::format::FILE_HEAD_LEN;
use super::manifest::{Entry, FileKind, Manifest};
use super::read::BlockReader;
use super::replay::Replayed;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Summary of a file of effects: what other files depend on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Piece {
    /// Number of blocks.
    pub blocks: u64,
    /// The epoch that the first block says was before it, if there is one.
    pub follows: Option<u64>,
    /// Epoch of the last block, of this file or before.
    pub last_epoch: Option<u64>,
    /// Bytes of whole blocks, and of the head; 0 without a whole head.
    pub whole: u64,
    /// Bytes behind them.
    pub torn: u64,
    /// Identity of the log.
    pub log_id: [u8; 16],
}

impl From<&Replayed> for Piece {
    fn from(replayed: &Replayed) -> Self {
        let Replayed { blocks, follows, last_epoch, whole, torn, log_id, .. } = *replayed;
        Piece { blocks, follows, last_epoch, whole, torn, log_id }
    }
}

impl Piece {
    /// Summarises a file of `len` bytes of which this many blocks are whole.
    pub fn read_by<R: Read>(reader: &BlockReader<R>, blocks: u64, len: u64) -> Self {
        Piece {
            blocks,
            follows: reader.follows(),
            last_epoch: reader.last_epoch(),
            whole: reader.position(),
            torn: len.saturating_sub(reader.position()),
            log_id: reader.head.log_id,
        }
    }
}

/// The files of effects of a log, as they are read in their order.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The first block follows on an epoch before this one, if that is known and it was not read.
    before: Option<u64>,
    /// Epoch of the last block.
    pub last_epoch: Option<u64>,
    /// Identity of the log, as the last file has it.
    pub log_id: Option<[u8; 16]>,
    /// Identity of the log, as the first file with blocks has it.
    pub log_id_of_blocks: Option<[u8; 16]>,
    /// A file with a torn end, and the number of its whole bytes.
    pub torn: Option<(Entry, u64)>,
}

impl Chain {
    /// A chain of the files of a manifest, of which none was read.
    pub fn new(manifest: &Manifest) -> Self {
        // A log that has no base of its own begins with the first epoch.
        let first = manifest.is_own.then_some(1);
        let before = manifest.base().and_then(|base| base.epoch).or(first);
        Chain { before, ..Chain::default() }
    }

    /// Adds the next file of effects, which is to follow on those before.
    ///
    /// # Errors
    /// If something is missing: one line that says what to do.
    pub fn add(&mut self, entry: &Entry, piece: &Piece) -> Result<(), String> {
        let name = &entry.name;
        let len = piece.whole + piece.torn;
        if piece.whole < FILE_HEAD_LEN as u64 {
            return Err(format!(
                "{name} has {len} bytes, and each file of the log has {FILE_HEAD_LEN} before the manifest names it: it was \
                 cut. Put it back from a backup; to start without what it held, take its line out of the manifest, whose \
                 first line counts the files"
            ));
        }
        if let Some(follows) = piece.follows {
            if let Some((torn, whole)) = &self.torn {
                return Err(format!(
                    "{} ends at byte {whole} in the middle of a block, but {name} goes on behind it: what was between them \
                     is lost; `petrel check` tells more",
                    torn.name
                ));
            }
            if let Some(before) = self.before.take()
                && follows >= before
            {
                return Err(format!(
                    "{name} goes on behind epoch {follows}, but what came before it from epoch {before} on is in no file: a \
                     file before it was cut. Put the files back from a backup"
                ));
            }
        }
        if piece.blocks > 0 && *self.log_id_of_blocks.get_or_insert(piece.log_id) != piece.log_id {
            return Err(format!("{name} belongs to another log than the files before it"));
        }
        self.last_epoch = piece.last_epoch;
        self.log_id = Some(piece.log_id);
        if piece.torn > 0 && self.torn.is_none() {
            self.torn = Some((entry.clone(), piece.whole));
        }
        Ok(())
    }
}

/// Checks that a file that the manifest names, of `len` bytes, is as long as it was when Petrel
/// went on behind it.
///
/// # Errors
/// If it is not: one line.
pub fn check_len(entry: &Entry, len: u64) -> Result<(), String> {
    match entry.len {
        Some(was) if was != len => Err(format!(
            "{} has {len} bytes, and had {was} when Petrel went on behind it: put it back from a backup",
            entry.name
        )),
        _ => Ok(()),
    }
}

/// Checks that the base that a manifest names may begin with these bytes: one that is named as an
/// RDB file is one, also if it has no bytes at all.
///
/// # Errors
/// If it may not: one line.
pub fn check_base(entry: &Entry, head: &[u8], len: u64) -> Result<(), String> {
    let is_named_rdb = entry.kind == FileKind::Base && entry.name.ends_with(".rdb");
    match is_named_rdb && !crate::aof::begins_as_rdb(head) {
        true => Err(format!(
            "{} is the base of the log and no RDB file; it has {len} bytes. A base is whole before the manifest names it: put \
             it back from a backup",
            entry.name
        )),
        false => Ok(()),
    }
}

/// Describes an empty file of commands that is the base, or not the last file of the log: it may be
/// right, or have lost everything.
pub fn about_empty(entry: &Entry, len: u64, is_last: bool) -> Option<&'static str> {
    match entry.kind {
        _ if len > 0 => None,
        FileKind::Base => Some("empty: right only if there were no keys when it was written"),
        FileKind::Commands if !is_last => {
            Some("empty: right only if nothing was written before the next file was begun")
        }
        _ => None,
    }
}

/// Checks that a manifest of another server, at this path, names all that there is. That server
/// names a file of commands before it writes to it; so one that has some, and comes after all that
/// are named, tells that the manifest was cut, unless a newer base tells that it was about to be
/// replaced.
///
/// # Errors
/// The file that is not named: one line that says what to do.
pub fn check_names(path: &Path, manifest: &Manifest) -> Result<(), String> {
    if !manifest.is_foreign() {
        return Ok(());
    }
    let (directory, prefix) = (path.parent(), path.file_stem().and_then(|stem| stem.to_str()));
    let (Some(directory), Some(prefix)) = (directory, prefix) else { return Ok(()) };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(files) = fs::read_dir(directory) else { return Ok(()) };
    let last = |kind| manifest.entries.iter().filter(|e| e.kind == kind).map(|e| e.seq).max();
    let (base, commands) = (last(FileKind::Base), last(FileKind::Commands));
    let mut unnamed = None;
    for file in files.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'));
        let Some((number, kind)) = rest.and_then(|rest| rest.split_once('.')) else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        let holds = file.metadata().is_ok_and(|meta| meta.len() > 0);
        match kind {
            _ if manifest.names(&name) || !holds => {}
            "base.rdb" | "base.aof" if number > base.unwrap_or(0) => return Ok(()),
            "incr.aof" if number > commands.unwrap_or(0) => unnamed = Some(name),
            _ => {}
        }
    }
    match unnamed {
        None => Ok(()),
        Some(name) => Err(format!(
            "{} does not name {name}, which is newer than all that it names and holds commands: the manifest was cut. Put it \
             back, or move {name} away to start without it",
            path.display()
        )),
    }
}
