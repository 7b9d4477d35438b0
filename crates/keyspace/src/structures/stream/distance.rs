//! Entries read by a consumer group, and its lag, as far as they are known: deleted entries are not
//! counted, so a figure is valid only if no deleted entry lies in its range.

use crate::structures::stream::Stream;
use crate::structures::stream::group::Group;
use crate::structures::stream::id::StreamId;

impl Stream {
    /// Number of entries ever added up to and including `id`; none if unknown.
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if self.is_empty() && id <= self.last_id {
            return Some(self.added);
        }
        if id != StreamId::MIN && id < self.max_deleted {
            return None;
        }
        let first = self.first_id();
        match id.cmp(&self.last_id) {
            std::cmp::Ordering::Equal => return Some(self.added),
            std::cmp::Ordering::Greater => return None,
            std::cmp::Ordering::Less => {}
        }
        // No entry after the first one was deleted.
        if self.max_deleted == StreamId::MIN || self.max_deleted < first {
            match id.cmp(&first) {
                std::cmp::Ordering::Less => return self.added.checked_sub(self.len),
                std::cmp::Ordering::Equal => {
                    return self.added.checked_sub(self.len).map(|before| before + 1);
                }
                std::cmp::Ordering::Greater => {}
            }
        }
        None
    }

    /// Whether an entry above `id` may have been deleted between others.
    pub fn deleted_after(&self, id: StreamId) -> bool {
        if self.is_empty() || self.max_deleted == StreamId::MIN {
            return false;
        }
        if self.first_id() > self.max_deleted {
            // The latest deletion was before all entries.
            return false;
        }
        id <= self.max_deleted
    }

    /// Number of entries not yet delivered to a group; none if unknown.
    pub fn lag(&self, group: &Group) -> Option<i64> {
        if self.is_empty() {
            return Some(0);
        }
        let first = self.first_id();
        if group.last_delivered() < first && self.max_deleted < first {
            // All deleted entries and the group's position are before the first entry.
            return Some(self.len as i64);
        }
        self.lag_by_counters(group, self.deleted_after(group.last_delivered()))
    }

    /// Like `lag`, counted as Valkey does: entries trimmed before delivery to the group count too
    /// if its number of entries read is known, and a deletion at the front makes the lag unknown,
    /// as a deletion between others does.
    pub fn lag_with_trimmed(&self, group: &Group) -> Option<i64> {
        let has_deleted = !self.is_empty() && self.max_deleted != StreamId::MIN;
        self.lag_by_counters(group, has_deleted && group.last_delivered() <= self.max_deleted)
    }

    fn lag_by_counters(&self, group: &Group, deleted_ahead: bool) -> Option<i64> {
        let read = match group.entries_read() {
            Some(read) if !deleted_ahead => Some(read),
            _ => self.entries_up_to(group.last_delivered()),
        };
        // XSETID may have set the counter of entries below the number read.
        read.map(|read| self.added.wrapping_sub(read) as i64)
    }

    /// A group's new counter of entries read after the delivery of these entries, the next ones
    /// above its last delivered ID.
    pub fn read_after(&self, group: &Group, ids: &[StreamId]) -> Option<u64> {
        let first = self.first_id();
        let (mut last, mut read) = (group.last_delivered(), group.entries_read());
        for &id in ids {
            read = match read {
                Some(read) if last >= first && !self.deleted_after(last) => Some(read + 1),
                // A known counter stays valid while the stream has never had an entry.
                known if self.added == 0 => known,
                _ => self.entries_up_to(id),
            };
            last = id;
        }
        read
    }
}
