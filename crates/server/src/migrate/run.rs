//! The thread that moves keys.

use super::source;
use super::source::{KeyRequest, Outcome, Parcel};
use super::target::{Target, Targets, Trouble};
use crate::client::Client;
use crate::host::ServerHost;
use crate::server::Server;
use crate::state::mailbox::Message;
use crate::state::migrate::{Migration, Taken, Task};
use petrel_commands::{Answer, Executor, Fail, Host, Offloaded};
use petrel_persistence::rdb::Dialect;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

/// Keys that are sent at a time.
const KEYS_AT_ONCE: usize = 64;

/// Interval between two checks whether a pause is over.
const HELD_PAUSE: Duration = Duration::from_millis(10);

/// Maximum number of times that a constantly changing key is sent.
const ROUNDS_MAX: usize = 16;

impl Server {
    /// Moves keys, and answers the client when that is done.
    pub fn migrate(self: Arc<Self>, migration: Migration, call: Offloaded) {
        let mut queue = self.migrator.queue.lock();
        if queue.is_none() {
            *queue = self.start_migrating();
        }
        let client = migration.client.clone();
        let protocol = call.protocol();
        let submitted = match &*queue {
            Some(queue) => queue.send((migration, call)).is_ok(),
            None => false,
        };
        if !submitted {
            let answer = Answer::new(protocol, |reply| {
                reply.error(b"ERR cannot start a thread to migrate keys");
            });
            self.answer(&client, answer);
        }
    }

    /// Starts the thread that carries migrations out.
    fn start_migrating(self: &Arc<Self>) -> Option<mpsc::Sender<Task>> {
        let (sender, receiver) = mpsc::channel();
        let (owner, cached) = (Arc::downgrade(self), self.migrator.cached.clone());
        let (keyspace, commands) = (self.keyspace.clone(), self.commands.clone());
        let thread = std::thread::Builder::new().name("petrel-migrator".into());
        let work = move || {
            run(Executor::new(keyspace.attach(), commands), &owner, &receiver, cached);
        };
        match thread.spawn(work) {
            Ok(_) => Some(sender),
            Err(error) => {
                tracing::warn!("cannot start a thread to migrate keys: {error}");
                None
            }
        }
    }

    /// Sends the reply of a call that another thread has finished.
    pub(crate) fn answer(&self, client: &Client, answer: Answer) {
        let (slot, id) = (client.slot, client.id);
        self.tell(usize::from(client.worker), Message::Answer { slot, id, answer });
    }
}

/// Carries out migrations until the server is gone.
fn run(
    mut exec: Executor,
    server: &Weak<Server>,
    queue: &mpsc::Receiver<Task>,
    cached: Arc<AtomicUsize>,
) {
    let mut targets = Targets::new(cached);
    loop {
        let next = match targets.next_look() {
            Some(pause) => queue.recv_timeout(pause),
            None => queue.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
        };
        targets.drop_idle();
        let (migration, call) = match next {
            Ok(next) => next,
            Err(mpsc::RecvTimeoutError::Timeout) => continue,
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        let Some(server) = server.upgrade() else { return };
        let client = migration.client.clone();
        let mut host = ServerHost::apart(server.clone());
        exec.ks.set_events(host.wanted_events());
        let outcome = Move::new(&mut exec, &mut host, &mut targets, (&migration, &call)).run();
        host.take_upkeep_invalidations(&mut exec.ks);
        host.send_invalidations();
        host.send_broadcasts();
        host.call_workers();
        let answer = exec.finish(&call, &mut host, outcome);
        server.answer(&client, answer);
    }
}

/// A migration that is being carried out.
struct Move<'m> {
    exec: &'m mut Executor,
    host: &'m mut ServerHost,
    targets: &'m mut Targets,
    migration: &'m Migration,
    call: &'m Offloaded,
    target: Option<Target>,
    /// Dialect in which the target reads hashes with expiring fields, as far as known.
    dialect: Dialect,
    /// The first error that the target answered.
    refused: Option<Vec<u8>>,
    found: bool,
}

impl<'m> Move<'m> {
    fn new(
        exec: &'m mut Executor,
        host: &'m mut ServerHost,
        targets: &'m mut Targets,
        (migration, call): (&'m Migration, &'m Offloaded),
    ) -> Self {
        let dialect = host.dump_dialect();
        let (target, refused, found) = (None, None, false);
        Move { exec, host, targets, migration, call, target, dialect, refused, found }
    }

    /// Moves every key; what to answer.
    fn run(mut self) -> Result<&'static str, Fail> {
        let replace = self.migration.replace;
        let requests = self.migration.keys.iter().map(|key| KeyRequest { key, replace });
        let requests: Vec<_> = requests.collect();
        let mut requests = &requests[..];
        while !requests.is_empty() {
            let some = &requests[..requests.len().min(KEYS_AT_ONCE)];
            let done = self.move_some(some).map_err(Trouble::fail)?;
            requests = &requests[done..];
        }
        if let Some(target) = self.target.take() {
            self.targets.keep(target);
        }
        match (self.refused, self.found) {
            (Some(text), _) => Err(Trouble::Refused(text).fail()),
            (None, true) => Ok("OK"),
            (None, false) => Ok("NOKEY"),
        }
    }

    /// Moves some keys; how many of them, if they would be too much at a time.
    fn move_some(&mut self, requests: &[KeyRequest<'m>]) -> Result<usize, Trouble> {
        let left = self.send(requests)?;
        let (done, mut again) = (requests.len() - left.untouched, left.again);
        let mut rounds = 1;
        while !again.is_empty() {
            if rounds == ROUNDS_MAX {
                return Err(Trouble::Unsteady);
            }
            let left = self.send(&again)?;
            again.drain(..again.len() - left.untouched);
            again.extend(left.again);
            rounds += 1;
        }
        Ok(done)
    }

    /// Sends keys once, and removes those here that have arrived.
    fn send(&mut self, requests: &[KeyRequest<'m>]) -> Result<Left<'m>, Trouble> {
        self.admit()?;
        let (exec, host) = (&mut *self.exec, &mut *self.host);
        let (parcels, untouched) = source::pack(exec, host, self.migration, requests, self.dialect);
        self.found |= !parcels.is_empty();
        let delivered = if parcels.is_empty() { Ok(Vec::new()) } else { self.deliver(&parcels) };
        let admitted = self.admit();
        let has_arrived = |at: usize| {
            let replies = delivered.as_ref().ok().filter(|_| admitted.is_ok());
            replies.is_some_and(|replies: &Vec<Taken>| replies[at].is_ok())
        };
        let outcomes = source::settle(self.exec, self.host, self.migration, &parcels, has_arrived);
        admitted?;
        let again = self.sort_out(&parcels, delivered?, &outcomes)?;
        Ok(Left { again, untouched })
    }

    /// Waits while a pause holds the migration back.
    fn admit(&mut self) -> Result<(), Trouble> {
        loop {
            self.exec.ks.refresh_clock();
            match self.exec.admit_offloaded(self.call, self.host) {
                Ok(true) => return Ok(()),
                Ok(false) if self.host.server.is_stopping() => return Err(Trouble::Stopped),
                Ok(false) => std::thread::sleep(HELD_PAUSE),
                Err(fail) => return Err(Trouble::NotAdmitted(fail)),
            }
        }
    }

    /// Checks the outcome of each key; returns the ones to send again.
    fn sort_out(
        &mut self,
        parcels: &[Parcel<'m>],
        delivered: Vec<Taken>,
        outcomes: &[Outcome],
    ) -> Result<Vec<KeyRequest<'m>>, Trouble> {
        let (mut again, mut gone) = (Vec::new(), Vec::new());
        let sent_as = self.dialect;
        for ((parcel, taken), outcome) in parcels.iter().zip(delivered).zip(outcomes) {
            match (taken, outcome) {
                (Ok(()), Outcome::Settled) => {}
                (Ok(()), Outcome::Changed) => {
                    again.push(KeyRequest { replace: true, ..parcel.request })
                }
                (Ok(()), Outcome::Gone) => gone.push(parcel.request.key),
                (Err(text), _)
                    if parcel.has_dialects
                        && is_of_form(&text)
                        && sent_as == self.host.dump_dialect() =>
                {
                    self.dialect = other(sent_as);
                    again.push(parcel.request);
                }
                (Err(text), _) => {
                    self.refused.get_or_insert(text);
                }
            }
        }
        if let (false, Some(target)) = (gone.is_empty(), &mut self.target) {
            let mut request = vec![&b"DEL"[..]];
            request.extend(gone);
            target.call(&[&request])?;
        }
        Ok(again)
    }

    /// Sends keys to the target; for each, whether it took it.
    fn deliver(&mut self, parcels: &[Parcel<'_>]) -> Result<Vec<Taken>, Trouble> {
        let mut target = match self.target.take() {
            Some(target) => target,
            None => self.targets.connect(self.migration)?,
        };
        let ttls: Vec<String> = parcels.iter().map(|parcel| parcel.ttl_ms.to_string()).collect();
        let requests = parcels.iter().zip(&ttls).map(|(parcel, ttl)| {
            let KeyRequest { key, replace } = parcel.request;
            let mut request: Vec<&[u8]> = vec![b"RESTORE", key, ttl.as_bytes(), &parcel.payload];
            request.extend(replace.then_some(&b"REPLACE"[..]));
            request
        });
        let requests: Vec<Vec<&[u8]>> = requests.collect();
        let requests: Vec<&[&[u8]]> = requests.iter().map(|request| &request[..]).collect();
        // A connection that fails is closed.
        let taken = target.call(&requests)?;
        self.target = Some(target);
        Ok(taken)
    }
}

/// Result of sending keys once.
struct Left<'m> {
    /// Keys to send again.
    again: Vec<KeyRequest<'m>>,
    /// Number of last keys that were not sent, because there was too much at a time.
    untouched: usize,
}

/// Whether an error says that the form of a value is not known.
fn is_of_form(error: &[u8]) -> bool {
    let says = |text: &[u8]| error.windows(text.len()).any(|part| part == text);
    says(b"DUMP payload version") || says(b"Bad data format")
}

fn other(dialect: Dialect) -> Dialect {
    match dialect {
        Dialect::Redis => Dialect::Valkey,
        Dialect::Valkey => Dialect::Redis,
    }
}
