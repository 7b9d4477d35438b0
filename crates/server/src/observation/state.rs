//! Dump of every worker's state into the log, for operators with clients that wait for an unknown
//! reason. It takes no lock that a worker holds for long, so it works even if no command is
//! answered any more.

use crate::server::Server;
use std::fmt::Write;
use std::fs::read_to_string;
use std::sync::atomic::Ordering::Relaxed;

impl Server {
    /// Writes into the log what every worker and every thread of the process does.
    pub fn log_state(&self) {
        let gate = self.keyspace.survey_gate();
        let running = &self.commands.scripts.running;
        tracing::warn!(
            "state: {} keyspace threads, {} inside, {} waiting to enter; {}; slow scripts: {}",
            gate.slots,
            gate.inside,
            gate.parked,
            if gate.intent {
                "a thread wants or has all of it"
            } else {
                "no thread wants all of it"
            },
            running.first().map_or("none".into(), |script| {
                let seconds = script.since.elapsed().as_secs_f32();
                format!("{:?} {} since {seconds:.3} s", script.kind, script.name)
            }),
        );
        (0..self.workers.len()).for_each(|index| tracing::warn!("state: {}", self.state_of(index)));
        threads().iter().for_each(|thread| tracing::warn!("state: {thread}"));
    }

    fn state_of(&self, index: usize) -> String {
        let worker = &self.workers[index];
        let traffic = &worker.traffic;
        format!(
            "worker {index} {:?}, turn {}, {} connections, {} paused, {} bytes in buffers, {} messages, {} bytes of pushes wait{}",
            traffic.doing(),
            traffic.turns.load(Relaxed),
            worker.load.load(Relaxed),
            traffic.paused.load(Relaxed),
            traffic.buffered.load(Relaxed),
            worker.messages_waiting(),
            worker.pushes.bytes(),
            if worker.holds.load(Relaxed) { ", delays replies until they are durable" } else { "" },
        )
    }
}

/// A line for each thread of this process: its name, its state as in proc(5), in what part of the
/// kernel it waits.
fn threads() -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let describe = |path: std::path::PathBuf| {
        let read = |name| read_to_string(path.join(name)).unwrap_or_default();
        let stat = read("stat");
        // The name is in parentheses, and may hold some itself.
        let mut fields = stat.rsplit(')').next()?.split_whitespace();
        let state = fields.next()?;
        let mut line = format!("thread {} {state}", read("comm").trim_end());
        let (user, system) = (fields.nth(10)?, fields.next()?);
        let wait = read("wchan");
        let _ = write!(line, ", {user} and {system} ticks, waits in {}", wait.trim_end());
        Some(line)
    };
    tasks.flatten().filter_map(|task| describe(task.path())).collect()
}
