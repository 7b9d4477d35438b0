//! [`Embedded`]: the handle that takes commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use petrel_client::{
    Command, ErrorKind, FromReply, LocalTarget, Pipeline, Replies, Result, Target, Value,
};
use petrel_commands::acl::User;
use petrel_commands::{Access, Session};
use petrel_resp::Protocol;

use crate::engine::Core;
use crate::reply::{Short, ValueReply};
use crate::thread;

/// A client of an [`Engine`](crate::Engine) in this process. It takes the typed commands of
/// [`petrel_client::Commands`], each of which is executed by `run`, or when it is awaited; both
/// return when it is done. It is cheap to clone, and all threads can use it at the same time.
///
/// Commands that wait (`BLPOP`) or belong to a connection (`SELECT`, `WATCH`) are refused;
/// transactions are [pipelines](Pipeline::transaction).
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    /// Tells clients apart in what threads keep.
    id: u64,
    db: u16,
    login: Login,
}

/// User of a client: its permissions apply.
#[derive(Clone)]
pub(crate) enum Login {
    Default,
    User(Arc<User>),
    Unauthenticated,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("database", &self.inner.db).finish_non_exhaustive()
    }
}

impl Embedded {
    pub(crate) fn new(core: Arc<Core>, login: Login) -> Self {
        Self::make(core, 0, login)
    }

    fn make(core: Arc<Core>, db: u16, login: Login) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let id = IDS.fetch_add(1, Relaxed);
        Self { inner: Arc::new(Inner { core, id, db, login }) }
    }

    /// A client of the same user in another database.
    ///
    /// # Errors
    /// If there is no database of this number.
    pub fn in_database(&self, db: u16) -> Result<Self> {
        let Inner { core, login, .. } = &*self.inner;
        if db >= core.keyspace.databases() {
            let text = format!("there is no database {db}");
            return Err(ErrorKind::Configuration(text).into());
        }
        Ok(Self::make(core.clone(), db, login.clone()))
    }

    /// The database that it is in.
    pub fn database(&self) -> u16 {
        self.inner.db
    }

    /// Executes the commands of a pipeline one after the other, or as one if it is a transaction;
    /// errors of single commands are among the replies.
    pub fn run(&self, pipeline: Pipeline) -> Result<Replies> {
        let mut session = self.session();
        let core = &self.inner.core;
        thread::with(core, |thread| {
            let runner = thread.runner();
            let replies = pipeline.run_with(|command| runner.execute(command, &mut session));
            runner.abandon(&mut session);
            replies
        })
    }

    fn execute_into(&self, command: &Command, reply: &mut ValueReply<'_>) {
        let Inner { core, id, .. } = &*self.inner;
        thread::with(core, |thread| {
            thread.execute_as(command, *id, || self.session(), reply);
        });
    }

    /// Initial session of a connection of this client.
    fn session(&self) -> Session {
        let Inner { db, login, .. } = &*self.inner;
        let mut session = Session::new(!matches!(login, Login::Unauthenticated));
        session.db = *db;
        session.protocol = Protocol::Resp3;
        if let Login::User(user) = login {
            session.become_user(Some(user.clone()));
            debug_assert_eq!(session.access, Access::User);
        }
        session
    }
}

impl Target for &Embedded {}

impl LocalTarget for &Embedded {
    fn execute(self, command: &Command) -> Value {
        let mut reply = ValueReply::default();
        self.execute_into(command, &mut reply);
        reply.into_value()
    }

    #[inline]
    fn execute_as<R: FromReply>(self, command: &Command) -> Result<R> {
        let mut short = Short::NONE;
        let mut reply = ValueReply::with_short(&mut short);
        self.execute_into(command, &mut reply);
        let value = reply.into_value();
        // The type's own code runs when the command is over, and nothing is held any more.
        match short.get() {
            Some(text) => R::from_string(text),
            None => R::from_reply(value),
        }
    }
}
