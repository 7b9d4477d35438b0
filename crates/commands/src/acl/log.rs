//! ACL LOG: recent denials.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum age of an entry, in milliseconds, up to which a similar denial is added to it.
const ALIKE_MS_MAX: i64 = 60_000;

/// Maximum number of entries that a new denial is compared with.
const COMPARED_MAX: usize = 10;

/// Maximum length of a logged key, channel or name, in bytes.
const OBJECT_BYTES_MAX: usize = 1024;

/// Origin of a denied command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Context {
    /// Called by a connection.
    TopLevel,
    /// In a transaction, when it was queued or executed.
    Multi,
    /// Called by a script.
    Script,
}

impl Context {
    /// Name in `ACL LOG`.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Script => "lua",
        }
    }
}

/// Entry of the log: one or more similar denials.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Number of denials.
    pub count: u64,
    /// `auth`, `command`, `key`, `channel` or `database`.
    pub reason: &'static str,
    /// Origin of the command.
    pub context: Context,
    /// The denied command, key, channel, database or user name.
    pub object: Vec<u8>,
    /// Name of the user.
    pub user: Vec<u8>,
    /// The client of the last denial, in the format of `CLIENT LIST`.
    pub client: Vec<u8>,
    /// Number of the entry, unique while the server runs.
    pub id: u64,
    /// Time of the first denial, Unix milliseconds.
    pub created_ms: i64,
    /// Time of the last denial, Unix milliseconds.
    pub updated_ms: i64,
}

/// The log, newest first.
#[derive(Default)]
pub struct AclLog {
    len_max: AtomicUsize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    next_id: u64,
    newest_first: VecDeque<LogEntry>,
}

impl AclLog {
    /// Sets the maximum number of entries (`acllog-max-len`). Applies from the next entry on.
    pub fn set_len_max(&self, len_max: usize) {
        self.len_max.store(len_max, Relaxed);
    }

    /// The newest `count` entries.
    pub fn newest(&self, count: usize) -> Vec<LogEntry> {
        self.entries().newest_first.iter().take(count).cloned().collect()
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.entries().newest_first.clear();
    }

    /// Adds a denial. Sets the entry's number, count and times.
    pub fn add(&self, mut entry: LogEntry, now_ms: i64) {
        let len_max = self.len_max.load(Relaxed);
        if len_max == 0 {
            return;
        }
        entry.object.truncate(OBJECT_BYTES_MAX);
        entry.user.truncate(OBJECT_BYTES_MAX);
        let mut entries = self.entries();
        let is_alike = |other: &LogEntry| {
            (other.reason, other.context) == (entry.reason, entry.context)
                && (&other.object, &other.user) == (&entry.object, &entry.user)
                && now_ms - other.updated_ms <= ALIKE_MS_MAX
        };
        let alike = entries.newest_first.iter().take(COMPARED_MAX).position(is_alike);
        let known = alike.and_then(|at| entries.newest_first.remove(at));
        let merged = match known {
            Some(known) => LogEntry {
                count: known.count + 1,
                client: entry.client,
                updated_ms: now_ms,
                ..known
            },
            None => {
                let id = entries.next_id;
                entries.next_id += 1;
                LogEntry { count: 1, id, created_ms: now_ms, updated_ms: now_ms, ..entry }
            }
        };
        entries.newest_first.push_front(merged);
        entries.newest_first.truncate(len_max);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str) -> LogEntry {
        LogEntry {
            count: 0,
            reason: "key",
            context: Context::TopLevel,
            object: object.into(),
            user: b"u".to_vec(),
            client: Vec::new(),
            id: 0,
            created_ms: 0,
            updated_ms: 0,
        }
    }

    fn shown(log: &AclLog) -> Vec<(String, u64, u64)> {
        let entries = log.newest(usize::MAX).into_iter();
        entries.map(|e| (String::from_utf8_lossy(&e.object).into(), e.id, e.count)).collect()
    }

    #[test]
    fn what_is_alike_is_one_entry_that_comes_to_the_front() {
        let log = AclLog::default();
        log.set_len_max(3);
        for (object, at) in [("a", 0), ("b", 1), ("a", 60_000), ("a", 120_001)] {
            log.add(entry(object), at);
        }
        let expected = [("a".into(), 2, 1), ("a".into(), 0, 2), ("b".into(), 1, 1)];
        assert_eq!(shown(&log), expected);
        log.add(entry("c"), 120_002);
        assert_eq!(shown(&log).len(), 3);
        log.set_len_max(0);
        log.add(entry("d"), 120_003);
        assert_eq!(shown(&log)[0].0, "c");
        log.clear();
        assert!(shown(&log).is_empty());
    }
}
