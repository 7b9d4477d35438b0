//! `oom-score-adj`: how soon the kernel ends this process when memory runs out.

use crate::config::{Config, OomAdjustment};
use parking_lot::Mutex;
use std::io;

const FILE: &str = "/proc/self/oom_score_adj";

/// The score before its first adjustment, while it is adjusted.
#[derive(Default)]
pub struct OomScore(Mutex<Option<i32>>);

impl OomScore {
    /// Sets the score according to the configuration, or restores it.
    ///
    /// # Errors
    /// If the kernel refuses, or is another.
    pub fn apply(&self, config: &Config) -> io::Result<()> {
        let mut before = self.0.lock();
        let value = i32::from(config.oom_score_adj_values.of_primary());
        let score = match (config.oom_score_adj, *before) {
            (OomAdjustment::No, None) => return Ok(()),
            (OomAdjustment::No, Some(base)) => {
                write(base)?;
                *before = None;
                return Ok(());
            }
            (OomAdjustment::Absolute, _) => value,
            (OomAdjustment::Yes | OomAdjustment::Relative, Some(base)) => base + value,
            (OomAdjustment::Yes | OomAdjustment::Relative, None) => read()? + value,
        };
        let base = before.map_or_else(read, Ok)?;
        write(score.clamp(-1000, 1000))?;
        *before = Some(base);
        Ok(())
    }
}

fn read() -> io::Result<i32> {
    let text = std::fs::read_to_string(FILE)?;
    text.trim().parse().map_err(|_| io::Error::other("the score is no number"))
}

fn write(score: i32) -> io::Result<()> {
    std::fs::write(FILE, score.to_string())
}
