//! FAILOVER: a primary hands its role over to one of its replicas, without a write lost.
//!
//! ```text
//! FAILOVER, on a worker   writes of clients are held back ─ a thread takes over
//! a thread of its own     asks the replicas ─ waits until one has executed everything ─ follows it
//! link's thread           PSYNC id offset FAILOVER ─ +CONTINUE, or a copy of one that was
//!                                                    forced: it is the primary ─ clients go on
//!                                                  ─ an error: this is the primary as before
//! ```
//!
//! The stream stands still meanwhile: a replica that has it all can go on with it under a name of
//! its own. <https://redis.io/docs/latest/commands/failover/>

use super::out::GET_ACK;
use crate::pause::PauseReason;
use crate::server::{Server, unix_ms};
use petrel_keyspace::Handle;
use std::io;
use std::sync::Arc;

/// Arguments of `FAILOVER`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Wanted {
    /// The replica that is to be the primary; any if there is none.
    pub target: Option<(String, u16)>,
    /// Goes on with the target when the time is up.
    pub force: bool,
    /// Milliseconds that a replica may take to execute everything.
    pub timeout_ms: Option<i64>,
}

impl Server {
    /// Begins to hand the role over; false if it is being handed over already.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn begin_failover(self: &Arc<Self>, wanted: Wanted) -> io::Result<bool> {
        let Some(number) = self.replication.failover.begin() else { return Ok(false) };
        let server = self.clone();
        let work = move || server.hand_over(number, &wanted);
        let thread = std::thread::Builder::new().name("petrel-failover".into());
        // Pause clients before the reply, so that later writes are executed by the new primary.
        self.pause_clients(PauseReason::Failover, unix_ms(), i64::MAX, true);
        if let Err(error) = thread.spawn(work) {
            self.replication.failover.end();
            self.unpause(PauseReason::Failover);
            return Err(error);
        }
        Ok(true)
    }

    /// Waits for a replica that has executed everything, and follows it.
    fn hand_over(self: &Arc<Self>, number: u64, wanted: &Wanted) {
        let failover = &self.replication.failover;
        let mut ks = self.keyspace.attach();
        self.await_writes(&mut ks);
        let deadline = wanted.timeout_ms.map(|ms| unix_ms().saturating_add(ms));
        let shown = |target: &Option<(String, u16)>| match target {
            Some((host, port)) => format!("{host}:{port}"),
            None => "any replica".into(),
        };
        tracing::info!("handing the role of the primary over to {}", shown(&wanted.target));
        let mut asked = None;
        let target = loop {
            if let Some(found) = self.replica_with_everything(&mut asked, wanted.target.as_ref()) {
                break found;
            }
            if deadline.is_some_and(|deadline| unix_ms() >= deadline) {
                match (&wanted.target, wanted.force) {
                    (Some(target), true) => {
                        tracing::warn!(
                            "the replica has not executed every write; the failover is forced"
                        );
                        break target.clone();
                    }
                    _ => {
                        self.abort_failover("no replica caught up in time", None);
                        return;
                    }
                }
            }
            if !failover.wait(number) {
                return;
            }
        };
        if !failover.proceed(number) {
            return;
        }
        ks.enter();
        let followed = self.follow(Some(target), &mut ks);
        ks.exit();
        if let Err(error) = followed {
            self.abort_failover(&format!("no thread can follow the replica: {error}"), None);
        }
    }

    /// The writes that had begun before clients were held back are over when this returns. The
    /// thread is in no batch.
    pub(crate) fn await_writes(&self, ks: &mut Handle) {
        ks.enter();
        ks.lock_all();
        ks.unlock();
        ks.exit();
    }

    /// The address of a replica that has executed everything, while nothing is written. `asked` is
    /// where the stream ended before the replicas were asked, and behind the question.
    fn replica_with_everything(
        &self,
        asked: &mut Option<(u64, u64)>,
        wanted: Option<&(String, u16)>,
    ) -> Option<(String, u16)> {
        let stream = self.outgoing.stream()?;
        let end = stream.backlog.end();
        let (before, behind) = asked.unwrap_or((end, 0));
        if behind != end {
            // One from before says nothing of the question, which is to be counted as well.
            self.outgoing.expect_answers();
            *asked = Some((end, stream.backlog.append_aside(GET_ACK)));
            stream.owners.call_at_once(&self.workers);
            return None;
        }
        let lines = self.outgoing.lines();
        let is_wanted = |(ip, port): (&str, u16)| {
            wanted.is_none_or(|(host, wanted)| ip == host && port == *wanted)
        };
        // A replica answers before it counts the question, and counts it before it serves another.
        let found = lines.into_iter().find(|line| {
            let has_everything = line.offset >= before && line.has_answered;
            line.state == "online" && has_everything && is_wanted((&line.ip, line.port))
        });
        found.map(|line| (line.ip, line.port))
    }

    /// Ends the handover, and the server is the primary again; false if there is none. `ks`, if the
    /// thread has one, is in a batch.
    pub(super) fn abort_failover(self: &Arc<Self>, why: &str, ks: Option<&mut Handle>) -> bool {
        let Some(was_handing_over) = self.replication.failover.end() else { return false };
        tracing::warn!("the role of the primary is not handed over: {why}");
        if was_handing_over {
            let followed = match ks {
                Some(ks) => self.follow(None, ks),
                None => {
                    let mut ks = self.keyspace.attach();
                    ks.enter();
                    let followed = self.follow(None, &mut ks);
                    ks.exit();
                    followed
                }
            };
            // REPLICAOF NO ONE starts no thread: that of the link is there.
            debug_assert!(followed.is_ok());
        }
        self.unpause(PauseReason::Failover);
        true
    }

    /// The replica has become the primary, which this server follows.
    pub(super) fn finish_failover(&self) {
        if self.replication.failover.end().is_some() {
            tracing::info!("the role of the primary is handed over");
            self.unpause(PauseReason::Failover);
        }
    }
}
