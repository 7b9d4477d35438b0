//! Queue of copies that were evicted here and not reported to their primaries yet. Keys beyond its
//! limit are discarded: their primaries learn that at the next change of the key.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Maximum number of keys kept, and of their bytes.
const KEYS_MAX: usize = 16 * 1024;
const BYTES_MAX: usize = 1 << 20;

/// A key with its database.
pub(crate) type DbKey = (u16, Box<[u8]>);

/// Evicted copies, in order of their eviction.
#[derive(Default)]
pub(crate) struct Evicted {
    queue: Mutex<Queue>,
    has_any: AtomicBool,
}

#[derive(Default)]
struct Queue {
    keys: VecDeque<DbKey>,
    bytes: usize,
}

impl Evicted {
    /// Adds an evicted copy; its stripe is locked.
    pub fn add(&self, db: u16, key: &[u8]) {
        let mut queue = self.queue.lock();
        if queue.keys.len() < KEYS_MAX && queue.bytes + key.len() <= BYTES_MAX {
            queue.bytes += key.len();
            queue.keys.push_back((db, key.into()));
            self.has_any.store(true, Relaxed);
        }
    }

    /// Takes the first keys: at most `count`, and none after their total size reaches `bytes`.
    pub fn take(&self, count: usize, bytes: usize) -> Vec<DbKey> {
        let mut taken = Vec::new();
        if !self.has_any.load(Relaxed) {
            return taken;
        }
        let (mut queue, mut left) = (self.queue.lock(), bytes);
        while taken.len() < count && left > 0 {
            let Some(next) = queue.keys.pop_front() else { break };
            queue.bytes -= next.1.len();
            left = left.saturating_sub(next.1.len());
            taken.push(next);
        }
        self.has_any.store(!queue.keys.is_empty(), Relaxed);
        taken
    }

    /// Whether the queue may contain keys.
    pub fn has_any(&self) -> bool {
        self.has_any.load(Relaxed)
    }

    /// Empties the queue when the node joins under a new incarnation, without copies.
    pub fn clear(&self) {
        *self.queue.lock() = Queue::default();
        self.has_any.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_limit_to_what_is_kept_and_taken() {
        let evicted = Evicted::default();
        assert!(evicted.take(10, 10).is_empty() && !evicted.has_any());
        for _ in 0..KEYS_MAX + 5 {
            evicted.add(1, b"key");
        }
        assert_eq!(evicted.take(usize::MAX, usize::MAX).len(), KEYS_MAX);
        let large = vec![0; BYTES_MAX / 4];
        (0..8).for_each(|db| evicted.add(db, &large));
        evicted.add(9, b"small");
        assert_eq!(evicted.take(3, usize::MAX).len(), 3);
        assert!(evicted.has_any());
        assert_eq!(evicted.take(3, 1), [(3, large.into())]);
        assert!(!evicted.has_any());
        evicted.add(9, b"small");
        evicted.clear();
        assert!(evicted.take(1, 1).is_empty() && evicted.queue.lock().bytes == 0);
    }
}
