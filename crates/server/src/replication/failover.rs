//! FAILOVER: a primary hands its role over to one of its replicas, without a write lost.
//!
//! ```text
//! FAILOVER, on a worker   writes of clients are held back ─ a thread takes over
//! a thread of its own     asks the replicas ─ waits until one has executed everything ─ follows that one
//! link's thread           PSYNC id offset FAILOVER ─ +CONTINUE: it is the primary ─ clients go on
//!                                                  ─ anything else: this server is the primary as before
//! ```
//!
//! The stream stands still meanwhile: a replica that has it all can go on with it under a name of
//! its own. <https://redis.io/docs/latest/commands/failover/>

use super::out::GET_ACK;
use crate::pause::PauseReason;
use crate::server::{Server, unix_ms};
use parking_lot::{Condvar, Mutex, MutexGuard};
use petrel_keyspace::Handle;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks whether a replica has executed everything.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What `FAILOVER` asks for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Wanted {
    /// The replica that is to be the primary; any if there is none.
    pub target: Option<(String, u16)>,
    /// Goes on with the target when the time is up.
    pub force: bool,
    /// Milliseconds that a replica may take to execute everything.
    pub timeout_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// No replica has executed everything yet.
    WaitsForSync,
    /// The replica at the address that is followed is asked to be the primary.
    InProgress,
}

#[derive(Clone, Copy, Debug)]
struct Handover {
    phase: Phase,
    /// Tells it from an earlier one.
    number: u64,
}

/// The handover that there is, if any.
#[derive(Default)]
pub struct Failover {
    now: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    handover: Option<Handover>,
    /// Handovers so far.
    count: u64,
}

/// The stream does not move while this is held and no handover is going on.
pub(super) struct Still<'f>(MutexGuard<'f, Progress>);

impl Still<'_> {
    /// Whether a handover is going on, during which nothing is appended to the stream.
    pub fn is_needed(&self) -> bool {
        self.0.handover.is_some()
    }
}

impl Failover {
    /// `master_failover_state` of `INFO`.
    pub fn word(&self) -> &'static str {
        match self.now.lock().handover.map(|handover| handover.phase) {
            None => "no-failover",
            Some(Phase::WaitsForSync) => "waiting-for-sync",
            Some(Phase::InProgress) => "failover-in-progress",
        }
    }

    /// Whether a handover is going on.
    pub fn is_active(&self) -> bool {
        self.now.lock().handover.is_some()
    }

    /// Whether the server that is followed is to be asked to be the primary.
    pub(super) fn is_handing_over(&self) -> bool {
        self.now.lock().handover.is_some_and(|handover| handover.phase == Phase::InProgress)
    }

    /// Keeps a handover from beginning.
    pub(super) fn still(&self) -> Still<'_> {
        Still(self.now.lock())
    }

    fn begin(&self) -> Option<u64> {
        let mut now = self.now.lock();
        if now.handover.is_some() {
            return None;
        }
        now.count += 1;
        now.handover = Some(Handover { phase: Phase::WaitsForSync, number: now.count });
        Some(now.count)
    }

    /// The next phase; false if the handover is over.
    fn proceed(&self, number: u64) -> bool {
        let mut now = self.now.lock();
        let place = now.handover.as_mut().filter(|handover| handover.number == number);
        place.map(|handover| handover.phase = Phase::InProgress).is_some()
    }

    /// Ends the handover, if there is one: whether the role was being handed over already.
    fn end(&self) -> Option<bool> {
        let ended = self.now.lock().handover.take()?;
        self.changed.notify_all();
        Some(ended.phase == Phase::InProgress)
    }

    /// Waits for a moment; false if the handover is over.
    fn wait(&self, number: u64) -> bool {
        let mut now = self.now.lock();
        self.changed.wait_for(&mut now, LOOK_EVERY);
        now.handover.is_some_and(|handover| handover.number == number)
    }
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
        // From now on, so that what is written after the reply is written at the new primary.
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
                        tracing::warn!("the replica has not executed every write, and is forced");
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
