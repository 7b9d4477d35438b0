//! Commits of different lanes have no key in common, so several threads apply them.
//!
//! ```text
//! stream        │3│7│3│12│7│ ... │16│0│...      frames of single lanes, then one of several
//! link's thread  3 . 3 . . ...  ▲             what belongs to it, then it waits for the others
//! a hand         . 7 . . 7 ...  │             each lane in its order
//! a hand         . . . 12 . ... │
//!                               all earlier frames are applied: a consistent point
//! ```
//!
//! The offset, images and acknowledgements know such points alone. A reader may see a change of one
//! lane before an earlier one of another meanwhile.

use super::apply::{Applier, PrimaryHost, tell_others};
use super::attempt::Link;
use super::frames::{Aside, Failures, apply_group, survey_group};
use crate::server::Server;
use crate::state::replication::replica_expires;
use petrel_commands::Executor;
use petrel_keyspace::KeyHash;
use petrel_replication::Frame;
use petrel_replication::frame::LANES;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Commits from which on others are called: fewer are done before they would have come.
const SHARED_MIN: usize = 64;

/// Commits, and bytes, that are shared out together.
const SHARED_MAX: usize = 4096;
const SHARED_BYTES_MAX: usize = 1 << 20;

/// Number of keys prefetched before the first of them is needed.
const AHEAD: usize = 12;

/// A frame of a single lane in the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    at: usize,
    len: usize,
    lane: u8,
}

impl Place {
    /// End of the range.
    pub fn end(&self) -> usize {
        self.at + self.len
    }

    fn read<'i>(&self, input: &'i [u8]) -> Option<Frame<'i>> {
        // It was read when it was found.
        Frame::read(&input[self.at..self.end()], u64::MAX).ok().flatten()
    }
}

/// The frames of single lanes that the input goes on with at a place, as far as they are whole and
/// sound.
pub(super) fn find_run(input: &[u8], mut at: usize, longest: u64, run: &mut Vec<Place>) {
    let end = at.saturating_add(SHARED_BYTES_MAX);
    while run.len() < SHARED_MAX
        && at < end
        && let Some(&petrel_replication::frame::MARK) = input.get(at)
        && let Ok(Some(Frame { lane, len, .. })) = Frame::read(&input[at..], longest)
        && lane < LANES
    {
        run.push(Place { at, len, lane });
        at += len;
    }
}

/// Commits for a thread to apply.
struct Job {
    input: Arc<Vec<u8>>,
    places: Vec<Place>,
}

/// Result of a job.
#[derive(Default)]
struct Done {
    failures: Failures,
    /// Fault in a frame.
    broken: Option<String>,
    /// The latest epoch that something was committed to.
    epoch: u64,
}

/// A thread, and the channels to it and from it.
struct Hand {
    jobs: SyncSender<Job>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
}

/// The threads that help the link's.
#[derive(Default)]
pub(super) struct ApplyThreads {
    list: Vec<Hand>,
    /// The threads have been started, or could not be.
    were_called: bool,
    /// The latest epoch that they have committed something to.
    pub epoch: u64,
}

impl ApplyThreads {
    /// Starts the threads, with the first work for them: one for each core but this thread's.
    fn call(&mut self, server: &Arc<Server>) {
        if std::mem::replace(&mut self.were_called, true) {
            return;
        }
        let count = server.workers.len().min(LANES.into());
        for number in 1..count {
            match Hand::start(server.clone(), number) {
                Ok(hand) => self.list.push(hand),
                Err(error) => {
                    tracing::warn!("effects are applied by {number} threads: {error}");
                    return;
                }
            }
        }
    }
}

impl ApplyThreads {
    /// Gives the threads their shares: which of them have got one.
    fn share_out(&self, input: &Arc<Vec<u8>>, shares: Vec<Vec<Place>>) -> Vec<usize> {
        let mut called = Vec::new();
        for (at, places) in shares.into_iter().enumerate().filter(|(_, share)| !share.is_empty()) {
            // One that has ended is found out when it is waited for.
            let _ = self.list[at].jobs.send(Job { input: input.clone(), places });
            called.push(at);
        }
        called
    }

    /// Ends the threads after their present jobs. The caller holds no locks, and is in no batch.
    pub fn end(self) {
        for Hand { jobs, done, thread } in self.list {
            drop((jobs, done));
            // One that has panicked has ended as well.
            let _ = thread.join();
        }
    }

    /// Waits for these threads: what became of their shares. None if one has ended; then there are
    /// none any more.
    fn gather(&mut self, called: &[usize]) -> Option<Vec<Done>> {
        let all: Vec<_> = called.iter().map(|&at| self.list[at].done.recv().ok()).collect();
        let all: Option<Vec<Done>> = all.into_iter().collect();
        match &all {
            Some(all) => {
                let epochs = all.iter().map(|done| done.epoch);
                self.epoch = epochs.fold(self.epoch, u64::max);
            }
            None => self.list.clear(),
        }
        all
    }
}

impl Hand {
    fn start(server: Arc<Server>, number: usize) -> io::Result<Self> {
        let (jobs, to_do) = sync_channel::<Job>(1);
        let (say, done) = sync_channel(1);
        let thread = std::thread::Builder::new().name(format!("petrel-lane-{number}"));
        let thread = thread.spawn(move || {
            replica_expires::follows();
            let (mut exec, mut host) = Applier::tools(&server);
            let mut aside = Aside::default();
            for Job { input, places } in to_do {
                let mut done = Done::default();
                exec.begin();
                apply_share(&mut exec, &mut host, (&input, &places), &mut aside, &mut done);
                exec.end();
                done.epoch = exec.ks.take_need();
                tell_others(&mut exec, &mut host);
                drop(input);
                if say.send(done).is_err() {
                    break;
                }
            }
        })?;
        Ok(Hand { jobs, done, thread })
    }
}

/// Applies a thread's share of a run. The thread is in a batch.
fn apply_share(
    exec: &mut Executor,
    host: &mut PrimaryHost,
    (input, places): (&[u8], &[Place]),
    aside: &mut Aside,
    done: &mut Done,
) {
    host.begin_turn(exec);
    exec.ks.refresh_clock();
    let (mut keys, mut ends) = (Vec::with_capacity(places.len()), Vec::new());
    for place in places {
        let Some(frame) = place.read(input) else { break };
        let begin = keys.len();
        match survey_group(exec, frame, &mut keys, &mut done.failures) {
            // A group of a lane never needs everything.
            Ok(Some(_)) => {}
            Ok(None) => keys.truncate(begin),
            Err(error) => {
                done.broken = Some(error.to_string());
                break;
            }
        }
        ends.push(keys.len());
    }
    let mut begin = 0;
    for (place, &end) in places.iter().zip(&ends) {
        if exec.ks.should_yield() {
            exec.end();
            exec.begin();
        }
        look_ahead(exec, &keys, begin);
        let needs = &keys[std::mem::replace(&mut begin, end)..end];
        let Some(frame) = place.read(input) else { break };
        if let Err(error) = apply_group(exec, host, frame.group, (needs, false), aside) {
            done.broken = Some(error.to_string());
            break;
        }
    }
    done.failures.append(&mut aside.failures);
}

/// Prefetches data for later changes.
#[inline]
fn look_ahead(exec: &Executor, keys: &[(u16, KeyHash)], at: usize) {
    if let Some((_, hash)) = keys.get(at + 2 * AHEAD) {
        exec.ks.prefetch_stripe(*hash);
    }
    let Some(peek) = exec.ks.peeker() else { return };
    if let Some((db, hash)) = keys.get(at + AHEAD) {
        peek.prefetch_bucket(*db, *hash);
    }
    if let Some((db, hash)) = keys.get(at + AHEAD / 2) {
        peek.prefetch_entry(*db, *hash, 2);
    }
}

impl Applier {
    /// Applies a run of frames of single lanes, with other threads if it is long. The thread is in
    /// a batch.
    ///
    /// # Errors
    /// If the effects of a frame are none, or a thread has ended.
    pub(super) fn apply_run(
        &mut self,
        input: &Arc<Vec<u8>>,
        run: &[Place],
        link: &Link,
    ) -> Result<(), String> {
        if run.len() >= SHARED_MIN {
            self.hands.call(&link.server);
        }
        let (mut done, count) = (Done::default(), self.hands.list.len() + 1);
        if run.len() < SHARED_MIN || count == 1 {
            let Applier { exec, host, aside, .. } = self;
            apply_share(exec, host, (input, run), aside, &mut done);
            return self.note_done(done, link);
        }
        let mut shares = vec![Vec::new(); count];
        for place in run {
            shares[usize::from(place.lane) % count].push(*place);
        }
        let own = shares.pop().unwrap_or_default();
        let called = self.hands.share_out(input, shares);
        let Applier { exec, host, aside, .. } = self;
        apply_share(exec, host, (input, &own), aside, &mut done);
        // One that waits for everything waits for this batch, and a hand for the one.
        exec.end();
        let others = self.hands.gather(&called);
        self.exec.begin();
        self.note_done(done, link)?;
        let Some(others) = others else {
            return Err(self.distrust("a frame by which a thread that applies effects has ended"));
        };
        for done in others {
            self.note_done(done, link)?;
        }
        Ok(())
    }

    fn note_done(&mut self, done: Done, link: &Link) -> Result<(), String> {
        self.note_failures(link, done.failures);
        match done.broken {
            None => Ok(()),
            Some(why) => Err(self.distrust(&format!("a frame that cannot be applied: {why}"))),
        }
    }
}
