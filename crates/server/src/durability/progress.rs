//! Telling the operator how far a long load or save is: in the log now and then, and on a terminal
//! as it goes.

use crate::config::Config;
use crate::server::Server;
use crate::unix_time::unix_ms;
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering::Relaxed;

/// Milliseconds between two lines of the log about it.
const TOLD_MS: i64 = 5000;

/// Cells of the bar on a terminal.
const BAR: usize = 30;

impl Server {
    /// Tells how far a load or a save is; called about ten times a second, by one thread.
    pub(crate) fn tell_progress(&self, config: &Config) {
        let Some((what, percent, left)) = self.progress() else {
            self.snapshot.told_at.store(0, Relaxed);
            return;
        };
        // What goes on is not done yet, whatever it rounds to.
        let percent = percent.min(99.9);
        let text = match left {
            Some(0) => format!("{what}: {percent:.1} %, about done"),
            Some(seconds) => format!("{what}: {percent:.1} %, about {seconds} s left"),
            None => format!("{what}: {percent:.1} %"),
        };
        // Behind the line the cursor returns, so that a line of the log takes its place.
        let mut stdout = std::io::stdout();
        if config.logfile.is_none() && stdout.is_terminal() {
            let line = format!("{} {text}\x1b[K\r", bar(percent));
            let shown = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
            if shown.is_ok() {
                return;
            }
        }
        let now = unix_ms();
        match self.snapshot.told_at.load(Relaxed) {
            0 => self.snapshot.told_at.store(now, Relaxed),
            told if now - told >= TOLD_MS => {
                self.snapshot.told_at.store(now, Relaxed);
                tracing::info!("{text}");
            }
            _ => {}
        }
    }

    /// The running task, its progress in percent, and the estimated seconds left, if known.
    fn progress(&self) -> Option<(&'static str, f64, Option<i64>)> {
        let snapshot = &self.snapshot;
        if self.commands.is_loading() {
            let left = snapshot.seconds_left();
            return Some(("loading", snapshot.loaded_percent(), (left >= 0).then_some(left)));
        }
        let since = snapshot.saving_since.load(Relaxed);
        let (written, total) =
            (snapshot.keys_written.load(Relaxed), snapshot.keys_total.load(Relaxed));
        if since == 0 || total == 0 {
            return None;
        }
        let done = (written as f64 / total as f64).min(1.0);
        let elapsed = (unix_ms() - since).max(1) as f64 / 1000.0;
        let left = (done > 0.0).then(|| (elapsed * (1.0 - done) / done).round() as i64);
        Some(("saving", 100.0 * done, left))
    }
}

fn bar(percent: f64) -> String {
    let full = ((percent / 100.0).clamp(0.0, 1.0) * BAR as f64) as usize;
    format!("[{}{}]", "#".repeat(full), "-".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_whatever_it_shows() {
        assert_eq!(bar(0.0), format!("[{}]", "-".repeat(30)));
        assert_eq!(bar(50.0), format!("[{}{}]", "#".repeat(15), "-".repeat(15)));
        for percent in [-1.0, 99.9, 100.0, 250.0, f64::NAN] {
            assert_eq!(bar(percent).len(), BAR + 2, "{percent}");
        }
    }
}
