//! Sessions that clients may resume: a bounded number, for a bounded time.

use parking_lot::Mutex;
use rustls::server::StoresServerSessions;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Kept in the order in which they came, which is the order in which they end.
#[derive(Debug)]
pub struct Sessions {
    kept: Mutex<Kept>,
    count_max: usize,
    lifetime: Duration,
}

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<Vec<u8>, (Instant, Vec<u8>)>,
    order: VecDeque<(Instant, Vec<u8>)>,
}

/// Sessions kept where the configuration sets no number.
const COUNT_DEFAULT: usize = 1 << 20;

impl Sessions {
    /// Keeps at most `count_max` sessions (0: a million), each for `lifetime`.
    pub fn new(count_max: usize, lifetime: Duration) -> Arc<Self> {
        let count_max = if count_max == 0 { COUNT_DEFAULT } else { count_max };
        Arc::new(Sessions { kept: Mutex::default(), count_max, lifetime })
    }

    fn is_over(&self, since: Instant) -> bool {
        since.elapsed() >= self.lifetime
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let mut kept = self.kept.lock();
        let Kept { by_id, order } = &mut *kept;
        while let Some((since, _)) = order.front()
            && (order.len() >= self.count_max || self.is_over(*since))
            && let Some((since, id)) = order.pop_front()
        {
            // A session that was put again under its id is younger than this entry.
            if by_id.get(&id).is_some_and(|(other, _)| *other == since) {
                by_id.remove(&id);
            }
        }
        let now = Instant::now();
        order.push_back((now, key.clone()));
        by_id.insert(key, (now, value));
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let kept = self.kept.lock();
        let (since, value) = kept.by_id.get(key)?;
        (!self.is_over(*since)).then(|| value.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (since, value) = self.kept.lock().by_id.remove(key)?;
        (!self.is_over(since)).then_some(value)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_give_way_and_all_end() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        for id in 0..3u8 {
            assert!(sessions.put(vec![id], vec![id, id]));
        }
        assert_eq!(sessions.get(&[0]), None);
        assert_eq!(sessions.get(&[1]), Some(vec![1, 1]));
        assert_eq!(sessions.take(&[2]), Some(vec![2, 2]));
        assert_eq!(sessions.take(&[2]), None);
        let over = Sessions::new(2, Duration::ZERO);
        over.put(vec![1], vec![1]);
        assert_eq!(over.get(&[1]), None);
    }
}
