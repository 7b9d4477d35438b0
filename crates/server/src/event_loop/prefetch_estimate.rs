//! Statistics of a worker's last batches, from which prefetching is estimated.

/// Bytes of a cache line.
const LINE: usize = 64;
/// Minimum and maximum of an entry's cache lines to prefetch: a processor keeps about twenty
/// requests in flight, and prefetches lines further on by itself.
const LINES_MIN: usize = 2;
const LINES_MAX: usize = 16;

/// Means over the last batches.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// Bytes of a command and its reply: about those of the entry that it reads or writes.
    bytes: usize,
    /// Commands of a batch, in sixteenths.
    depth: usize,
}

impl Habit {
    /// Records a batch: commands, and bytes of them and their replies.
    #[inline]
    pub fn note(&mut self, commands: u64, bytes: usize) {
        if commands > 0 {
            self.bytes = (self.bytes * 7 + bytes / commands as usize) / 8;
            self.depth = (self.depth * 7 + commands as usize * 16) / 8;
        }
    }

    /// Cache lines that entries are likely to take.
    #[inline]
    pub fn lines(&self) -> usize {
        self.bytes.div_ceil(LINE).clamp(LINES_MIN, LINES_MAX)
    }

    /// Whether connections send their commands nearly one by one, so that a batch has none to look
    /// ahead to.
    #[inline]
    pub fn is_shallow(&self) -> bool {
        self.depth < 2 * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_what_commands_carry() {
        let mut habit = Habit::default();
        assert_eq!(habit.lines(), LINES_MIN);
        (0..50).for_each(|_| habit.note(20, 20 * 540));
        assert!((8..=9).contains(&habit.lines()), "{}", habit.lines());
        (0..50).for_each(|_| habit.note(1, 1 << 20));
        assert_eq!(habit.lines(), LINES_MAX);
        (0..100).for_each(|_| habit.note(1, 40));
        assert_eq!(habit.lines(), LINES_MIN);
    }

    #[test]
    fn batches_of_one_are_shallow() {
        let mut habit = Habit::default();
        (0..50).for_each(|_| habit.note(1, 40));
        assert!(habit.is_shallow());
        (0..50).for_each(|_| habit.note(5, 200));
        assert!(!habit.is_shallow());
        habit.note(0, 0);
        assert!(!habit.is_shallow());
    }
}
