//! [`Pipeline`]: commands that are sent in one piece, as a transaction if that is wanted.

use std::marker::PhantomData;
use std::time::Duration;

use petrel_resp::Value;

use crate::buffer::CommandBuffer;
use crate::client::Client;
use crate::dedicated::Dedicated;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::{Exchange, Lane, Outcome};
use crate::reply::FromReply;
use crate::request::{Command, Request, Target};

/// Commands that are sent in one piece, with no command of another caller of the same client in
/// between, and answered together. With [`Pipeline::transaction`] the server executes them as one.
///
/// ```no_run
/// # async fn example(client: petrel_client::Client) -> petrel_client::Result<()> {
/// use petrel_client::{Commands, Pipeline};
///
/// let mut pipeline = Pipeline::new();
/// let visits = pipeline.incr("visits").queue();
/// let name = pipeline.get("name").queue();
/// let mut replies = client.run(pipeline).await?;
/// let visits: i64 = replies.take(visits)?;
/// let name = replies.take(name)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Pipeline {
    pub(crate) commands: Vec<Command>,
    pub(crate) is_transaction: bool,
}

/// Names a command of a [`Pipeline`], and the type of its reply.
#[derive(Debug)]
pub struct Queued<R> {
    index: usize,
    reply: PhantomData<fn() -> R>,
}

/// The replies to a [`Pipeline`].
#[derive(Debug, Default)]
pub struct Replies {
    /// By command; taken ones are gone.
    values: Vec<Option<Value>>,
    names: Vec<String>,
}

impl Pipeline {
    /// Commands that are executed one after the other; other clients may come in between.
    pub fn new() -> Self {
        Self::default()
    }

    /// Commands that are executed as one (`MULTI` and `EXEC`).
    pub fn transaction() -> Self {
        Self { is_transaction: true, ..Self::default() }
    }

    /// Number of queued commands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether no command is queued.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Refuses commands that would wait, or change the connection for others.
    pub(crate) fn check(&mut self) -> Result<()> {
        for command in &mut self.commands {
            command.resolve();
            // Within a transaction, commands that wait answer at once instead.
            if command.info.is_of_session || (command.waits() && !self.is_transaction) {
                return Err(Error::new(ErrorKind::NeedsDedicated).of_command(&command.name()));
            }
        }
        Ok(())
    }

    /// Executes the commands by a function that executes one after the other, for targets of other
    /// crates ([`LocalTarget`](crate::LocalTarget)). Those of a transaction come between `MULTI`
    /// and `EXEC`.
    pub fn run_with(mut self, mut execute: impl FnMut(&Command) -> Value) -> Result<Replies> {
        self.check()?;
        let names: Vec<String> = self.commands.iter().map(Command::name).collect();
        if names.is_empty() {
            return Ok(Replies::new(Vec::new(), names));
        }
        let around = |name: &str| self.is_transaction.then(|| Command::raw(name));
        let (multi, exec) = (around("MULTI"), around("EXEC"));
        let all = multi.iter().chain(&self.commands).chain(&exec);
        let values = all.map(&mut execute).collect();
        match self.is_transaction {
            true => Replies::executed(values, names),
            false => Ok(Replies::new(values, names)),
        }
    }

    async fn run(mut self, lane: &Lane, retries: u32) -> Result<Replies> {
        self.check()?;
        if self.is_empty() {
            return Ok(Replies::default());
        }
        let mut operation = lane.telemetry().begin_batch(&self.commands, self.is_transaction);
        let mut sending = self.sending();
        let retries = if sending.may_retry { retries } else { 0 };
        let limit = sending.limit.or(lane.timeout());
        let buffers = std::mem::take(&mut sending.buffers);
        let replies = sending.replies(Exchange::new(lane, buffers, limit, retries).await);
        operation.end(replies.as_ref().err());
        replies
    }

    /// The encoded commands.
    pub(crate) fn sending(self) -> Sending {
        let names: Vec<String> = self.commands.iter().map(Command::name).collect();
        let may_retry = self.commands.iter().all(|command| command.may_retry);
        let limit = self.commands.iter().map(|command| command.timeout).max().flatten();
        let mut buffers: Vec<CommandBuffer> = Vec::with_capacity(names.len() + 2);
        let is_transaction = self.is_transaction;
        buffers.extend(is_transaction.then(|| Command::raw("MULTI").buffer));
        buffers.extend(self.commands.into_iter().map(|command| command.buffer));
        buffers.extend(is_transaction.then(|| Command::raw("EXEC").buffer));
        Sending { names, buffers, limit, may_retry, is_transaction }
    }
}

/// A pipeline as it is sent.
pub(crate) struct Sending {
    names: Vec<String>,
    /// With those of `MULTI` and `EXEC`.
    pub(crate) buffers: Vec<CommandBuffer>,
    /// The longest time that a command of it allows itself.
    pub(crate) limit: Option<Duration>,
    /// Whether it may be sent again.
    pub(crate) may_retry: bool,
    is_transaction: bool,
}

impl Sending {
    /// The replies in what came of sending it.
    pub(crate) fn replies(self, outcome: Result<Outcome>) -> Result<Replies> {
        let Self { names, is_transaction, .. } = self;
        let values = match outcome {
            Ok(Outcome::Many(values)) => values,
            Ok(Outcome::One(value)) => vec![value],
            Ok(Outcome::Failed(_)) => return Err(Error::new(ErrorKind::Closed)),
            Err(error) => {
                return Err(error.of_command(if is_transaction { "EXEC" } else { "pipeline" }));
            }
        };
        match is_transaction {
            true => Replies::executed(values, names),
            false => Ok(Replies::new(values, names)),
        }
    }
}

/// The replies within that of `EXEC`.
fn executed(mut values: Vec<Value>, names: &[String]) -> Result<Vec<Value>> {
    let last = values.pop().unwrap_or(Value::Null);
    match last {
        Value::Array(values) if values.len() == names.len() => Ok(values),
        Value::Null | Value::NullArray => {
            Err(Error::new(ErrorKind::WatchedKeyChanged).of_command("EXEC"))
        }
        Value::Error(text) => {
            // The error of a command that was not queued says more than that of EXEC.
            let refused = values.iter().skip(1).zip(names).find_map(|(value, name)| match value {
                Value::Error(text) => Some(Error::from_reply(text).of_command(name)),
                _ => None,
            });
            Err(refused.unwrap_or_else(|| Error::from_reply(&text).of_command("EXEC")))
        }
        other => Err(Error::unexpected("the replies of the transaction", &other)),
    }
}

impl Replies {
    pub(crate) fn new(values: Vec<Value>, names: Vec<String>) -> Self {
        Self { values: values.into_iter().map(Some).collect(), names }
    }

    /// Result of a transaction, from the replies to `MULTI`, to its commands, and to `EXEC`.
    pub(crate) fn executed(values: Vec<Value>, names: Vec<String>) -> Result<Self> {
        Ok(Self::new(executed(values, &names)?, names))
    }

    /// The reply to a command. Each can be taken once.
    pub fn take<R: FromReply>(&mut self, queued: Queued<R>) -> Result<R> {
        let name = self.names.get(queued.index).map_or("", String::as_str);
        let value = self.values.get_mut(queued.index).and_then(Option::take);
        let Some(value) = value else {
            let text = "this pipeline has no such command".to_owned();
            return Err(Error::new(ErrorKind::Configuration(text)));
        };
        R::from_reply(value).map_err(|error| error.of_command(name))
    }

    /// The replies that were not taken, in order; errors among them as they came.
    pub fn into_values(self) -> Vec<Value> {
        self.values.into_iter().flatten().collect()
    }
}

impl Target for &mut Pipeline {}

impl<C, R: FromReply> Request<&mut Pipeline, C, R> {
    /// Appends the command to the pipeline.
    pub fn queue(self) -> Queued<R> {
        let index = self.target.commands.len();
        self.target.commands.push(self.command);
        Queued { index, reply: PhantomData }
    }
}

impl Client {
    /// Sends a pipeline and returns its replies; errors of single commands are among them. If all
    /// of its commands only read, it is sent again when the connection is lost.
    pub async fn run(&self, pipeline: Pipeline) -> Result<Replies> {
        pipeline.run(self.lane(), self.options().retries).await
    }

    /// Executes a transaction that depends on values it reads. The keys are watched; `make` reads
    /// with the connection and returns a transaction ([`Pipeline::transaction`]); if a key changed
    /// meanwhile, `make` is called again, up to `attempts` times in all.
    ///
    /// The attempts share one dedicated connection, which is closed in the end.
    pub async fn watch_and_run<K: crate::ToArg>(
        &self,
        keys: &[K],
        attempts: u32,
        mut make: impl AsyncFnMut(&mut Dedicated) -> Result<Pipeline>,
    ) -> Result<Replies> {
        use crate::typed::DedicatedCommands;
        let mut connection = self.dedicated().await?;
        let mut last = Error::new(ErrorKind::WatchedKeyChanged);
        for _ in 0..attempts {
            connection.watch(keys).await?;
            let mut transaction = make(&mut connection).await?;
            transaction.is_transaction = true;
            match transaction.run(&connection.lane.0, 0).await {
                Err(error) if matches!(error.kind(), ErrorKind::WatchedKeyChanged) => last = error,
                result => return result,
            }
        }
        Err(last)
    }
}

impl Dedicated {
    /// Sends a pipeline and returns its replies; errors of single commands are among them.
    pub async fn run(&mut self, pipeline: Pipeline) -> Result<Replies> {
        pipeline.run(&self.lane.0, 0).await
    }
}
