//! Copies that were evicted here, of which their primaries have not heard yet. What finds no room
//! is forgotten: its primary hears of it at the next change of the key.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Keys that are kept at most, and their bytes.
const KEYS_MAX: usize = 16 * 1024;
const BYTES_MAX: usize = 1 << 20;

/// A key with its database.
pub(crate) type DbKey = (u16, Box<[u8]>);

/// Those copies, in the order in which they went.
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
    /// A copy goes; its stripe is held.
    pub fn add(&self, db: u16, key: &[u8]) {
        let mut queue = self.queue.lock();
        if queue.keys.len() < KEYS_MAX && queue.bytes + key.len() <= BYTES_MAX {
            queue.bytes += key.len();
            queue.keys.push_back((db, key.into()));
            self.has_any.store(true, Relaxed);
        }
    }

    /// Takes the first ones: so many at most, and no more once their keys have so many bytes.
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

    /// Whether there are any.
    pub fn has_any(&self) -> bool {
        self.has_any.load(Relaxed)
    }

    /// Another life begins, in which no copies are here.
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
