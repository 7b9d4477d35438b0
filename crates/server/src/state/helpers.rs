//! The queue of commands for helper threads.

use parking_lot::{Condvar, Mutex};
use petrel_commands::{Blocked, LongHeld};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Time without work after which a helper ends.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// The helpers of a server.
#[derive(Default)]
pub struct Helpers {
    pub(crate) tasks: Arc<Tasks>,
}

/// Queued commands, and the condition on which idle helpers wait.
#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) state: Mutex<State>,
    pub(crate) has_come: Condvar,
}

/// Queued commands and counts of helpers.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) queue: VecDeque<Task>,
    /// Commands that need a stripe held by a helper, until any helper has finished a command.
    kept: Vec<Task>,
    pub(crate) threads: usize,
    pub(crate) idle: usize,
    pub(crate) moved: u64,
}

/// A command of a blocked client.
pub(crate) struct Task {
    pub(crate) blocked: Arc<Blocked>,
    /// Number of times it was begun.
    pub(crate) begun: u32,
}

/// Outcomes of waiting for a task.
pub(crate) enum Next {
    /// A command to execute.
    Task(Task),
    /// No command within the pause.
    Nothing,
    /// No command within [`IDLE_MAX`]: the helper ends, and is not counted any more.
    Ended,
}

impl Helpers {
    /// Number of commands handed to helpers since the start, and of those queued or running.
    pub fn counts(&self) -> (u64, usize) {
        let state = self.tasks.state.lock();
        let busy = state.threads - state.idle;
        (state.moved, state.queue.len() + state.kept.len() + busy)
    }
}

impl Tasks {
    /// Waits for the next task, for at most `pause` if there is one: then the helper has other work
    /// and does not end.
    pub(crate) fn next(&self, pause: Option<Duration>) -> Next {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.queue.pop_front() {
                return Next::Task(task);
            }
            state.idle += 1;
            let limit = pause.unwrap_or(IDLE_MAX);
            let timed_out = self.has_come.wait_for(&mut state, limit).timed_out();
            state.idle -= 1;
            if timed_out && state.queue.is_empty() {
                if pause.is_some() {
                    return Next::Nothing;
                }
                state.threads -= 1;
                return Next::Ended;
            }
        }
    }

    /// Appends a task to be tried again.
    pub(crate) fn put_back(&self, task: Task) {
        self.state.lock().queue.push_back(task);
    }

    /// Keeps a task until another helper has finished its command. That helper unlocks its stripes
    /// before it [releases](Tasks::release_kept) the kept tasks, so that none is left behind.
    pub(crate) fn keep(&self, task: Task, held: &LongHeld) {
        let mut state = self.state.lock();
        if held.any() { state.kept.push(task) } else { state.queue.push_back(task) }
    }

    /// Queues all kept tasks again.
    pub(crate) fn release_kept(&self) {
        let mut state = self.state.lock();
        let kept = std::mem::take(&mut state.kept);
        let count = kept.len();
        state.queue.extend(kept);
        drop(state);
        if count > 0 {
            self.has_come.notify_all();
        }
    }
}
