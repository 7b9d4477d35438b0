//! Queue of forwarded commands for the agent: bounded, and allocated as it fills.

use super::deferred::Forward;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};

/// Maximum number of forwarded commands that wait for the agent.
const TASKS_MAX: usize = 16 * 1024;

/// Creates the queue. A channel with room for all commands would take 2 MB from the start.
pub(in crate::cluster) fn queue() -> (TaskSender, TaskReceiver) {
    let (sender, receiver) = mpsc::channel();
    let queued = Arc::new(AtomicUsize::new(0));
    (TaskSender { sender, queued: queued.clone() }, TaskReceiver { receiver, queued })
}

/// End of the threads that forward commands.
pub(in crate::cluster) struct TaskSender {
    sender: Sender<Forward>,
    queued: Arc<AtomicUsize>,
}

/// End of the agent.
pub(in crate::cluster) struct TaskReceiver {
    receiver: Receiver<Forward>,
    queued: Arc<AtomicUsize>,
}

impl TaskSender {
    /// Queues a command; false if there are too many, or the agent has ended.
    pub fn send(&self, forward: Forward) -> bool {
        let has_room = self.queued.fetch_add(1, Relaxed) < TASKS_MAX;
        let is_sent = has_room && self.sender.send(forward).is_ok();
        if !is_sent {
            self.queued.fetch_sub(1, Relaxed);
        }
        is_sent
    }
}

impl TaskReceiver {
    /// Takes the next command, if there is one.
    pub fn take(&self) -> Option<Forward> {
        let forward = self.receiver.try_recv().ok()?;
        self.queued.fetch_sub(1, Relaxed);
        Some(forward)
    }
}
