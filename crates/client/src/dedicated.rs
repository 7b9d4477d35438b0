//! [`Dedicated`]: a connection that one caller has to itself.

use std::future::IntoFuture;
use std::sync::Arc;

use petrel_table::UNANSWERED;

use crate::client::Call;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::Lane;
use crate::reply::FromReply;
use crate::request::{Command, DedicatedTarget, Request, Target};

/// A connection of one caller, for commands that block on the server (`BLPOP`), or change the state
/// of their connection (`WATCH`, `SELECT`). Made by
/// [`Client::dedicated`](crate::Client::dedicated); closed when dropped.
///
/// Does not reconnect, since the server's state of the connection is lost with it. Blocking
/// commands have no deadline but their own. A call that is dropped may still be executed, and the
/// next one is answered after it.
#[derive(Debug)]
pub struct Dedicated {
    pub(crate) lane: OwnedLane,
}

/// A lane that is closed when it is dropped.
pub(crate) struct OwnedLane(pub(crate) Arc<Lane>);

impl Drop for OwnedLane {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl std::fmt::Debug for OwnedLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lane")
    }
}

impl Target for &mut Dedicated {}
impl DedicatedTarget for &mut Dedicated {}

impl<'a, C, R: FromReply> IntoFuture for Request<&'a mut Dedicated, C, R> {
    type Output = Result<R>;
    type IntoFuture = Call<'a, R>;

    fn into_future(self) -> Call<'a, R> {
        let mut command = self.command;
        command.resolve();
        let lane: &'a Lane = &self.target.lane.0;
        match check_answered(&command) {
            Ok(()) => Call::new(lane, command, 0),
            Err(error) => Call::refused(lane, command, error),
        }
    }
}

/// Refuses what would be answered by pushes, by nothing or without end.
pub(crate) fn check_answered(command: &Command) -> Result<()> {
    match UNANSWERED.contains(&command.info.name) {
        true => Err(Error::new(ErrorKind::Unanswered)),
        false => Ok(()),
    }
}
