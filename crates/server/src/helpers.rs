//! Helper threads for long commands of a worker's clients: `petrel-helper`. `long.rs` of the
//! commands says when a command moves to them, and how it is ended.
//!
//! There are at most as many helpers as workers. They are started when needed, and end after some
//! seconds without work. Further commands wait, and so do commands with keys that another helper
//! has locked; their clients count as blocked meanwhile.

use crate::host::{ServerHost, client_of};
use crate::server::Server;
use crate::state::helpers::{Next, State, Task, Tasks};
use petrel_commands::{Blocked, Executor, Helped, Host};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Pause before the retry of a command that was put off by a pause or an exclusive lock.
const AGAIN_PAUSE: Duration = Duration::from_millis(1);

/// Interval at which a helper looks whether postponed clients can be served.
const POSTPONED_PAUSE: Duration = Duration::from_millis(10);

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
        let (keyspace, commands) = (self.keyspace.clone(), self.commands.clone());
        let thread = std::thread::Builder::new().name("petrel-helper".into());
        let work = move || {
            let _guard = EndOnPanic(owner.clone());
            let mut exec = Executor::new(keyspace.attach(), commands);
            exec.give_way();
            run(exec, &owner, &tasks);
        };
        match thread.spawn(work) {
            Ok(_) => state.threads += 1,
            Err(error) => tracing::warn!("cannot start a helper thread: {error}"),
        }
    }
}

/// Executes queued commands until there is none for a while, or the server is gone.
fn run(mut exec: Executor, server: &Weak<Server>, tasks: &Tasks) {
    loop {
        let task = match tasks.next(exec.has_postponed().then_some(POSTPONED_PAUSE)) {
            Next::Task(task) => Some(task),
            Next::Nothing => None,
            Next::Ended => return,
        };
        let Some(server) = server.upgrade() else { break };
        let mut host = ServerHost::apart(server.clone());
        match task {
            Some(task) => help(&mut exec, &mut host, tasks, task),
            None => serve_postponed(&mut exec, &mut host),
        }
    }
    tasks.state.lock().threads -= 1;
}

/// Executes one command, and serves the clients blocked on keys that it changed.
fn help(exec: &mut Executor, host: &mut ServerHost, tasks: &Tasks, task: Task) {
    host.measure_reply_room();
    exec.ks.set_events(host.wanted_events());
    let mut helped = Helped::Ended;
    in_batch(exec, host, |exec, host| helped = exec.help_with(&task.blocked, task.begun, host));
    while exec.has_ready() {
        in_batch(exec, host, |exec, host| exec.serve_ready(host));
    }
    let blocked = &task.blocked;
    match helped {
        Helped::Answered(answer) => drop(host.answer(blocked, answer)),
        Helped::TooLong => {
            let (client, most) = (client_of(blocked), host.reply_max().unwrap_or(0));
            host.server.note_output_limit(client, most as u64);
            host.server.kill(client);
        }
        Helped::Ended => {}
        Helped::Again => {
            std::thread::sleep(AGAIN_PAUSE);
            tasks.put_back(Task { begun: task.begun + 1, ..task });
        }
        Helped::Blocked => return tasks.keep(task, &host.server.commands.long),
    }
    tasks.release_kept();
}

/// Serves blocked clients that a pause kept from being served, once it is over.
fn serve_postponed(exec: &mut Executor, host: &mut ServerHost) {
    in_batch(exec, host, |exec, host| {
        if host.server.commands.pause.active(exec.ks.now_ms()).is_none() {
            exec.serve_postponed(host);
        }
    });
}

/// Runs `work` inside the keyspace, and sends the invalidations that it caused.
fn in_batch(
    exec: &mut Executor,
    host: &mut ServerHost,
    work: impl FnOnce(&mut Executor, &mut ServerHost),
) {
    exec.begin();
    exec.ks.refresh_clock();
    work(exec, host);
    exec.end();
    host.take_upkeep_invalidations(&mut exec.ks);
    host.send_invalidations();
    host.send_broadcasts();
    host.call_workers();
}

/// Ends the process if a helper panics, as for a worker: its stripes stay locked.
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
