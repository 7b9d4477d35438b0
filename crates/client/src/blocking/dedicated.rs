//! [`Dedicated`]: a connection that one thread has to itself.

use std::sync::Arc;

use super::{Client, Deadline, Shared};
use crate::dedicated::check_answered;
use crate::error::Result;
use crate::pipeline::{Pipeline, Replies};
use crate::reply::FromReply;
use crate::request::{DedicatedTarget, Request, Target};

/// A connection of one thread, for commands that block on the server (`BLPOP`), or change the state
/// of their connection (`WATCH`, `SELECT`). Made by [`Client::dedicated`]; closed when dropped.
///
/// It is not made anew when it is lost, since what the server knew of it is lost, too. Commands
/// Does not reconnect, since the server's state of the connection is lost with it. Blocking
/// commands have no deadline but their own.
pub struct Dedicated {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Dedicated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dedicated").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Client {
    /// A connection that one thread has to itself, with the same options.
    pub fn dedicated(&self) -> Result<Dedicated> {
        let shared = Shared::open(self.shared.options.clone(), false)?;
        Ok(Dedicated { shared: Arc::new(shared) })
    }
}

impl Target for &mut Dedicated {}
impl DedicatedTarget for &mut Dedicated {}

impl<C, R: FromReply> Request<&mut Dedicated, C, R> {
    /// Sends the command and waits for its reply.
    pub fn run(self) -> Result<R> {
        self.target.shared.clone().reply_to(self.command, |shared, command| {
            check_answered(&command)?;
            let limit = match command.waits() {
                true => command.timeout,
                false => command.timeout.or(shared.options.timeout),
            };
            shared.call(command, Deadline::after(limit), 0)
        })
    }
}

impl Dedicated {
    /// Sends a pipeline and waits for its replies; errors of single commands are among them.
    pub fn run(&mut self, pipeline: Pipeline) -> Result<Replies> {
        self.shared.run_pipeline(pipeline, 0)
    }
}
