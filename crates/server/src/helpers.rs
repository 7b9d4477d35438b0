//! Threads that execute what takes long for a worker's clients: `petrel-helper`. When a command goes
//! to them, and what they may do: `long.rs` of the commands.
//!
//! There are as many as workers at most, begun when they are needed; one ends when there is nothing
//! to do for some seconds. What more than they can do at once waits, and so do commands whose keys
//! another helper holds; their clients count as blocked meanwhile.

use crate::client::Client;
use crate::host::{ServerHost, client_of};
use crate::server::Server;
use parking_lot::{Condvar, Mutex};
use petrel_commands::{Blocked, Executor, Helped, Host, LongHeld};
use petrel_net::{Endpoint, Slot};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A helper without work ends after this.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// Before a command is tried again that a pause, or a thread that wants the whole keyspace, put off.
const AGAIN_PAUSE: Duration = Duration::from_millis(1);

/// The helpers of a server.
#[derive(Default)]
pub struct Helpers {
    tasks: Arc<Tasks>,
}

#[derive(Default)]
struct Tasks {
    state: Mutex<State>,
    has_come: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Task>,
    /// Those that want what a helper holds, until any helper has done something.
    kept: Vec<Task>,
    threads: usize,
    idle: usize,
    moved: u64,
}

struct Task {
    blocked: Arc<Blocked>,
    /// How often it was begun.
    begun: u32,
}

impl Helpers {
    /// Commands that went to helpers, since the start; and those that are there.
    pub fn counts(&self) -> (u64, usize) {
        let state = self.tasks.state.lock();
        let busy = state.threads - state.idle;
        (state.moved, state.queue.len() + state.kept.len() + busy)
    }
}

impl Server {
    /// Whether there is a helper, or one can be begun.
    pub(crate) fn has_helpers(self: &Arc<Self>) -> bool {
        if self.is_stopping() {
            return false;
        }
        let mut state = self.helpers.tasks.state.lock();
        if state.threads == 0 || state.idle == 0 && state.threads < self.workers.len() {
            self.begin_helper(&mut state);
        }
        state.threads > 0
    }

    /// Lets a helper execute a command.
    pub(crate) fn run_on_helper(self: &Arc<Self>, blocked: &Arc<Blocked>) {
        let mut state = self.helpers.tasks.state.lock();
        if state.threads == 0 {
            // The last has ended since it was looked for.
            self.begin_helper(&mut state);
        }
        state.moved += 1;
        state.queue.push_back(Task { blocked: blocked.clone(), begun: 0 });
        drop(state);
        self.helpers.tasks.has_come.notify_one();
    }

    fn begin_helper(self: &Arc<Self>, state: &mut State) {
        let (owner, tasks) = (Arc::downgrade(self), self.helpers.tasks.clone());
        let mut exec = Executor::new(self.keyspace.attach(), self.commands.clone());
        exec.give_way();
        let thread = std::thread::Builder::new().name("petrel-helper".into());
        let work = move || {
            let _guard = EndOnPanic(owner.clone());
            run(exec, &owner, &tasks);
        };
        match thread.spawn(work) {
            Ok(_) => state.threads += 1,
            Err(error) => tracing::warn!("no thread for commands that take long: {error}"),
        }
    }
}

/// Executes what comes until there is nothing for a while, or the server is gone.
fn run(mut exec: Executor, server: &Weak<Server>, tasks: &Tasks) {
    loop {
        let Some(task) = tasks.next() else { return };
        let Some(server) = server.upgrade() else { break };
        let nobody = Client::new(0, u16::MAX, Slot::NOWHERE, 0, -1, Endpoint::Unix, Endpoint::Unix);
        let mut host = ServerHost::new(server.clone(), Arc::new(nobody));
        host.measure_reply_room();
        exec.ks.set_events(host.config.notify_keyspace_events.wanted());
        exec.begin();
        exec.ks.refresh_clock();
        let helped = exec.help_with(&task.blocked, task.begun, &mut host);
        exec.end();
        host.take_upkeep_invalidations(&mut exec.ks);
        host.send_invalidations();
        host.send_broadcasts();
        host.call_workers();
        let blocked = &task.blocked;
        match helped {
            Helped::Answered(answer) => drop(host.answer(blocked, answer)),
            Helped::TooLong => {
                let (client, most) = (client_of(blocked), host.reply_max().unwrap_or(0));
                server.note_output_limit(client, most as u64);
                server.kill(client);
            }
            Helped::Ended => {}
            Helped::Again => {
                std::thread::sleep(AGAIN_PAUSE);
                tasks.put_back(Task { begun: task.begun + 1, ..task });
            }
            Helped::Blocked => {
                tasks.keep(task, &server.commands.long);
                continue;
            }
        }
        tasks.release_kept();
    }
    tasks.state.lock().threads -= 1;
}

/// Ends the process if a helper panics, as for a worker: the stripes that it holds stay locked.
struct EndOnPanic(Weak<Server>);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(server) = self.0.upgrade()
        {
            server.fail("a helper thread panicked".into());
        }
    }
}

impl Tasks {
    /// The next task; none, and one thread less, if there is none for long.
    fn next(&self) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.queue.pop_front() {
                return Some(task);
            }
            state.idle += 1;
            let timed_out = self.has_come.wait_for(&mut state, IDLE_MAX).timed_out();
            state.idle -= 1;
            if timed_out && state.queue.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Has a task tried again.
    fn put_back(&self, task: Task) {
        self.state.lock().queue.push_back(task);
    }

    /// Keeps a task until another helper has done what it does. That one lets go of its stripes
    /// before it [releases](Tasks::release_kept) what is kept, so that none is left behind.
    fn keep(&self, task: Task, held: &LongHeld) {
        let mut state = self.state.lock();
        match held.any() {
            true => state.kept.push(task),
            false => state.queue.push_back(task),
        }
    }

    /// Has those tried again that wanted what a helper held.
    fn release_kept(&self) {
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
