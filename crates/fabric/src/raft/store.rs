//! `raft.redb`: Raft log, vote and snapshot, synced before they are acknowledged.
//!
//! ```text
//! log    index -> entry
//! facts  "origin" identity of the node · "vote" · "committed" · "purged" · "snapshot"
//!        "generation" state of the cluster that the node continues · "successor" address of a
//!        member of the cluster that continues the node's
//! ```

use super::Types;
use crate::state::VoterId;
use crate::wire::{decode, encode};
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    Entry, LogId, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError, Vote,
};
use parking_lot::Mutex;
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const FACTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("facts");

/// redb's page cache, in bytes.
const CACHE: usize = 1 << 20;

/// Error of reading or writing the store.
#[derive(Debug)]
pub(crate) struct StoreError(String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "raft.redb: {}", self.0)
    }
}

impl std::error::Error for StoreError {}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        StoreError(error.into().to_string())
    }
}

pub(super) fn malformed(error: std::io::Error) -> StoreError {
    StoreError(format!("malformed contents: {error}"))
}

/// Persistent node identity, generated once and kept over all incarnations.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Origin {
    pub uuid: u128,
    pub name: String,
    /// None before the node was admitted for the first time, like `id`.
    pub cluster: Option<u128>,
    pub id: Option<VoterId>,
}

/// The database file.
#[derive(Clone)]
pub(crate) struct Store(Arc<File>);

struct File {
    path: PathBuf,
    /// None while it cannot be opened.
    database: Mutex<Option<Arc<Database>>>,
    /// Error of the last failed write.
    failure: Mutex<Option<String>>,
    /// The fact "committed" has changed since it was last synced.
    is_unsynced: AtomicBool,
}

impl Store {
    /// Opens the file, or creates it. Only one process can have it open.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (database, failure, is_unsynced) = Default::default();
        let file = File { path: path.into(), database, failure, is_unsynced };
        let store = Store(Arc::new(file));
        store.open_again()?;
        store.write(|write| {
            write.open_table(LOG)?;
            write.open_table(FACTS)?;
            Ok(())
        })?;
        Ok(store)
    }

    fn open_again(&self) -> Result<(), StoreError> {
        let mut database = self.0.database.lock();
        // Closes the old one first, since it locks the file.
        *database = None;
        let opened = Database::builder().set_cache_size(CACHE).create(&self.0.path)?;
        *database = Some(Arc::new(opened));
        Ok(())
    }

    fn database(&self) -> Result<Arc<Database>, StoreError> {
        let closed = || StoreError("it is not open".into());
        self.0.database.lock().clone().ok_or_else(closed)
    }

    /// Makes the file writable again after a disk failure, from which redb does not recover while
    /// the file is open. Nothing else may use the store meanwhile.
    ///
    /// # Errors
    /// Advice for the operator if it cannot be written.
    pub fn mend(&self, origin: &Origin) -> Result<(), String> {
        let mended = self.set_origin(origin).or_else(|_| {
            self.open_again()?;
            self.set_origin(origin)
        });
        match mended {
            Ok(()) => {
                *self.0.failure.lock() = None;
                Ok(())
            }
            Err(error) => Err(self.record_failure(&error)),
        }
    }

    /// Error of the last failed write with advice for the operator, if there was one.
    pub fn failure(&self) -> Option<String> {
        self.0.failure.lock().clone()
    }

    fn record_failure(&self, error: &StoreError) -> String {
        let why = format!(
            "{} cannot be written: {}; free space or repair the disk: this server is not a member \
             until it is writable",
            self.0.path.display(),
            error.0
        );
        self.0.failure.lock().get_or_insert(why).clone()
    }

    fn write<T>(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.commit(Durability::Immediate, change)
    }

    fn commit<T>(
        &self,
        durability: Durability,
        change: impl FnOnce(&WriteTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let written = self.database().and_then(|database| {
            let mut write = database.begin_write()?;
            write.set_durability(durability)?;
            let result = change(&write)?;
            write.commit()?;
            Ok(result)
        });
        written.inspect_err(|error| drop(self.record_failure(error)))
    }

    fn fact<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let read = self.database()?.begin_read()?;
        let table = read.open_table(FACTS)?;
        let Some(bytes) = table.get(name)? else { return Ok(None) };
        decode(bytes.value()).map(Some).map_err(malformed)
    }

    fn set_fact(&self, name: &str, fact: &impl Serialize) -> Result<(), StoreError> {
        self.write(|write| put_fact(write, name, fact))
    }

    /// The node's identity, if it was generated.
    pub fn origin(&self) -> Result<Option<Origin>, StoreError> {
        self.fact("origin")
    }

    /// Stores the node's identity.
    pub fn set_origin(&self, origin: &Origin) -> Result<(), StoreError> {
        self.set_fact("origin", origin)
    }

    /// Clears log, vote and snapshot, because the node gets another Raft id.
    pub fn reset(&self, origin: &Origin) -> Result<(), StoreError> {
        self.write(|write| {
            write.delete_table(LOG)?;
            write.delete_table(FACTS)?;
            write.open_table(LOG)?;
            put_fact(write, "origin", origin)
        })
    }

    /// Like [`Store::reset`], but the node then founds its cluster again, with this encoded state.
    pub fn begin_generation(&self, origin: &Origin, state: &[u8]) -> Result<(), StoreError> {
        self.write(|write| {
            write.delete_table(LOG)?;
            write.delete_table(FACTS)?;
            write.open_table(LOG)?;
            put_fact(write, "generation", &state)?;
            put_fact(write, "origin", origin)
        })
    }

    /// Syncs the index of the last committed entry, if that has changed: without a majority, a node
    /// that restarts knows nothing later.
    ///
    /// # Errors
    /// If the file cannot be written: consensus ends with that error at its next write.
    pub fn sync_committed(&self) -> Result<(), StoreError> {
        match self.0.is_unsynced.swap(false, Relaxed) {
            true => self.write(|_| Ok(())),
            false => Ok(()),
        }
    }

    /// The state with which the node founds its cluster again, until that is done.
    pub fn generation(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.fact("generation")
    }

    /// Records that the node has founded its cluster again.
    pub fn end_generation(&self) -> Result<(), StoreError> {
        self.write(|write| {
            write.open_table(FACTS)?.remove("generation")?;
            Ok(())
        })
    }

    /// Like [`Store::reset`], but the node then joins the cluster of this address, whether it has
    /// founded the former one or not.
    pub fn follow(&self, origin: &Origin, address: &str) -> Result<(), StoreError> {
        self.write(|write| {
            write.delete_table(LOG)?;
            write.delete_table(FACTS)?;
            write.open_table(LOG)?;
            put_fact(write, "successor", &address)?;
            put_fact(write, "origin", origin)
        })
    }

    /// The address of a member of the cluster that continues the node's former one.
    pub fn successor(&self) -> Result<Option<String>, StoreError> {
        self.fact("successor")
    }

    /// The last snapshot.
    pub(super) fn snapshot<T: DeserializeOwned>(&self) -> Result<Option<T>, StoreError> {
        self.fact("snapshot")
    }

    pub(super) fn set_snapshot(&self, snapshot: &impl Serialize) -> Result<(), StoreError> {
        self.set_fact("snapshot", snapshot)
    }

    fn entries(&self, range: impl RangeBounds<u64>) -> Result<Vec<Entry<Types>>, StoreError> {
        let read = self.database()?.begin_read()?;
        let table = read.open_table(LOG)?;
        let mut entries = Vec::new();
        for row in table.range(range)? {
            entries.push(decode(row?.1.value()).map_err(malformed)?);
        }
        Ok(entries)
    }

    fn last_entry(&self) -> Result<Option<Entry<Types>>, StoreError> {
        let read = self.database()?.begin_read()?;
        let table = read.open_table(LOG)?;
        let Some((_, bytes)) = table.last()? else { return Ok(None) };
        decode(bytes.value()).map(Some).map_err(malformed)
    }

    fn append_entries(
        &self,
        entries: impl IntoIterator<Item = Entry<Types>>,
    ) -> Result<(), StoreError> {
        self.write(|write| {
            let mut table = write.open_table(LOG)?;
            for entry in entries {
                let bytes = encode(&entry).map_err(malformed)?;
                table.insert(entry.log_id.index, bytes.as_slice())?;
            }
            Ok(())
        })
    }
}

fn put_fact(write: &WriteTransaction, name: &str, fact: &impl Serialize) -> Result<(), StoreError> {
    let bytes = encode(fact).map_err(malformed)?;
    write.open_table(FACTS)?.insert(name, bytes.as_slice())?;
    Ok(())
}

pub(super) fn read_failed(error: StoreError) -> StorageError<VoterId> {
    StorageIOError::read(&error).into()
}

pub(super) fn write_failed(error: StoreError) -> StorageError<VoterId> {
    StorageIOError::write(&error).into()
}

impl RaftLogReader<Types> for Store {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<Types>>, StorageError<VoterId>> {
        self.entries(range).map_err(read_failed)
    }
}

impl RaftLogStorage<Types> for Store {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError<VoterId>> {
        let purged: Option<LogId<VoterId>> = self.fact("purged").map_err(read_failed)?;
        let last = self.last_entry().map_err(read_failed)?.map(|entry| entry.log_id);
        Ok(LogState { last_purged_log_id: purged, last_log_id: last.or(purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<VoterId>) -> Result<(), StorageError<VoterId>> {
        self.set_fact("vote", vote).map_err(write_failed)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<VoterId>>, StorageError<VoterId>> {
        self.fact("vote").map_err(read_failed)
    }

    async fn save_committed(
        &mut self,
        committed: Option<LogId<VoterId>>,
    ) -> Result<(), StorageError<VoterId>> {
        // Synced later (`Store::sync_committed`), so that commits are not slowed.
        let saved = self.commit(Durability::None, |write| put_fact(write, "committed", &committed));
        self.0.is_unsynced.store(true, Relaxed);
        saved.map_err(write_failed)
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<VoterId>>, StorageError<VoterId>> {
        let committed: Option<Option<LogId<VoterId>>> =
            self.fact("committed").map_err(read_failed)?;
        Ok(committed.flatten())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> Result<(), StorageError<VoterId>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.append_entries(entries).map_err(write_failed)?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId<VoterId>) -> Result<(), StorageError<VoterId>> {
        let truncated = self.write(|write| {
            write.open_table(LOG)?.retain_in(from.index.., |_, _| false)?;
            Ok(())
        });
        truncated.map_err(write_failed)
    }

    async fn purge(&mut self, upto: LogId<VoterId>) -> Result<(), StorageError<VoterId>> {
        let purged = self.write(|write| {
            write.open_table(LOG)?.retain_in(..=upto.index, |_, _| false)?;
            put_fact(write, "purged", &upto)
        });
        purged.map_err(write_failed)
    }
}
