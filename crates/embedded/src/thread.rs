//! State of an engine in one thread: an executor, as a worker of the server has one, and the
//! session of the client that was served last.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::Duration;

use petrel_client::{Command as ClientCommand, Value};
use petrel_commands::{
    Command, Execution, Executor, Host, Moment, NO_MODULES, Outcome, Session, transactions,
};
use petrel_keyspace::{Cleared, Pace};

use crate::engine::Core;
use crate::reply::ValueReply;
use crate::upkeep::Freeing;

/// Arguments of a command for which no allocation is made.
const ARGUMENTS_INLINE: usize = 8;

/// `proto-max-bulk-len` and `client-query-buffer-limit` of the server.
const STRING_LEN_MAX: usize = 512 << 20;
const QUERY_BUFFER_LIMIT: usize = 1 << 30;

/// Milliseconds between two rounds of upkeep of the thread's own.
const UPKEEP_MS: i64 = 100;

thread_local! {
    static THREADS: RefCell<Vec<Thread>> = const { RefCell::new(Vec::new()) };
}

/// Lets `work` have what this thread has of the engine, which is made if it is not there.
pub(crate) fn with<T>(core: &Arc<Core>, work: impl FnOnce(&mut Thread) -> T) -> T {
    let mut work = Some(work);
    let result = THREADS.try_with(|threads| {
        let mut threads = threads.try_borrow_mut().ok()?;
        let place = match threads.iter().position(|thread| thread.engine == core.id) {
            Some(place) => place,
            None => {
                threads.retain(|thread| thread.core.strong_count() > 0);
                threads.push(Thread::new(core));
                threads.len() - 1
            }
        };
        Some(work.take()?(&mut threads[place]))
    });
    match (result, work) {
        (Ok(Some(result)), _) => result,
        // The thread is ending, and its thread-local state is gone.
        (_, Some(work)) => work(&mut Thread::new(core)),
        (_, None) => unreachable!("work that began has a result"),
    }
}

/// State of an engine in this thread.
pub(crate) struct Thread {
    engine: u64,
    core: Weak<Core>,
    runner: Runner,
    /// Session of the client served last, with the client's number.
    session: Option<(u64, Session)>,
}

/// An executor of this thread.
pub(crate) struct Runner {
    exec: Executor,
    host: EmbeddedHost,
    /// Time of this thread's last upkeep, Unix milliseconds.
    tended_at: i64,
}

impl Thread {
    fn new(core: &Arc<Core>) -> Self {
        let exec = Executor::new(core.keyspace.attach(), core.shared.clone());
        let host = EmbeddedHost { freeing: core.upkeep.freeing() };
        let runner = Runner { exec, host, tended_at: 0 };
        Self { engine: core.id, core: Arc::downgrade(core), runner, session: None }
    }

    /// Executes a command of a client; `make` creates its session if another client was served
    /// last. The reply is written in place: a value is too large to move.
    #[inline]
    pub(crate) fn execute_as(
        &mut self,
        command: &ClientCommand,
        client: u64,
        make: impl FnOnce() -> Session,
        reply: &mut ValueReply<'_>,
    ) {
        let Self { runner, session, .. } = self;
        // The session stays where it is: it is too long to be moved for each command.
        let kept = match session {
            Some((of, kept)) if *of == client => kept,
            other => &mut other.insert((client, make())).1,
        };
        runner.execute_into(command, kept, reply);
    }

    /// The executor, for sessions that are not kept.
    pub(crate) fn runner(&mut self) -> &mut Runner {
        &mut self.runner
    }
}

impl Runner {
    pub(crate) fn execute(&mut self, command: &ClientCommand, session: &mut Session) -> Value {
        let mut reply = ValueReply::default();
        self.execute_into(command, session, &mut reply);
        reply.into_value()
    }

    fn execute_into(
        &mut self,
        command: &ClientCommand,
        session: &mut Session,
        reply: &mut ValueReply<'_>,
    ) {
        let mut room: [&[u8]; ARGUMENTS_INLINE] = [&[]; ARGUMENTS_INLINE];
        let mut count = 0;
        let mut arguments = command.arguments();
        for (place, argument) in room.iter_mut().zip(&mut arguments) {
            *place = argument;
            count += 1;
        }
        if count == ARGUMENTS_INLINE {
            let all: Vec<&[u8]> = room.into_iter().chain(arguments).collect();
            return self.call(&all, session, reply);
        }
        self.call(&room[..count], session, reply);
    }

    fn call(&mut self, args: &[&[u8]], session: &mut Session, reply: &mut ValueReply<'_>) {
        let Self { exec, host, .. } = self;
        exec.ks.refresh_clock_if_due();
        let execution = loop {
            let moment = match exec.begin_unless_busy() {
                true => Moment::NONE,
                false => Moment::CLIENT.with(Moment::KEPT_OUT),
            };
            let request = exec.prepare(args, None);
            let execution = exec.execute_at(moment, &request, session, host, reply);
            exec.end();
            // The slow script has ended meanwhile.
            if execution != Execution::NextTurn {
                break execution;
            }
        };
        debug_assert_eq!(execution, Execution::Answered, "no command waits without a ticket");
        self.tend();
    }

    /// Ends a transaction that was begun and not executed.
    pub(crate) fn abandon(&mut self, session: &mut Session) {
        if session.transaction().is_some() {
            self.exec.begin();
            transactions::abandon(&mut self.exec, session);
            self.exec.end();
        }
    }

    /// Gives back what only this thread can: blocks in its cache, interpreters that were flushed.
    fn tend(&mut self) {
        let now = self.exec.ks.now_ms();
        if now.wrapping_sub(self.tended_at) < UPKEEP_MS {
            return;
        }
        self.tended_at = now;
        self.exec.drop_flushed();
        self.exec.ks.tick_at(Pace { expire: Duration::ZERO, compact: Duration::ZERO });
    }
}

/// Host of commands in a process without a server.
struct EmbeddedHost {
    freeing: Freeing,
}

impl Host for EmbeddedHost {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn admit_protected(&mut self, _: Command) -> Outcome {
        Err(NO_MODULES)
    }

    fn client_label(&mut self) -> (String, String) {
        ("embedded".to_owned(), String::new())
    }

    fn string_len_max(&self) -> usize {
        STRING_LEN_MAX
    }

    fn query_buffer_limit(&self) -> usize {
        QUERY_BUFFER_LIMIT
    }

    fn discard(&mut self, cleared: Cleared) {
        self.freeing.free(cleared);
    }

    fn log(&mut self, _: u8, _: &str) {}
}
