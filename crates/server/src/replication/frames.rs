//! Applying the frames that a Petrel sends: the effects of each commit, with the stripes of all its
//! keys held, so that no reader sees half of it.

use super::apply::{Applier, ERRORS_LOGGED, Executed, PrimaryHost};
use super::attempt::Link;
use super::lanes::find_run;
use petrel_commands::{Executor, Host, Shared};
use petrel_keyspace::{Cleared, Handle, KeyHash, Misfit};
use petrel_persistence::effects::{GroupError, Keeper, apply_surveyed, survey};
use petrel_replication::Frame;
use petrel_replication::frame::{TURN, WHOLE};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Work left over while a commit is applied; empty in between, and kept for its capacity.
#[derive(Default)]
pub(super) struct Aside {
    cleared: Vec<Cleared>,
    pub failures: Failures,
}

/// An effect that could not be applied: its kind, its key, and the reason.
pub(super) type Failure = (String, Option<Vec<u8>>, String);

/// Failures of some commits: the first ones, and the number of others. A stream that does not fit
/// the data has as many failures as effects.
#[derive(Default)]
pub(super) struct Failures {
    pub first: Vec<Failure>,
    pub more: u64,
}

impl Failures {
    pub fn push(&mut self, failure: Failure) {
        // No more than this is logged.
        match (self.first.len() as u64) < ERRORS_LOGGED {
            true => self.first.push(failure),
            false => self.more += 1,
        }
    }

    pub fn append(&mut self, other: &mut Failures) {
        self.more += std::mem::take(&mut other.more);
        other.first.drain(..).for_each(|failure| self.push(failure));
    }
}

/// Parts outside of the keyspace that commits need.
struct Surroundings<'a> {
    shared: &'a Shared,
    host: &'a mut PrimaryHost,
    cleared: &'a mut Vec<Cleared>,
    failures: &'a mut Failures,
}

impl Keeper for Surroundings<'_> {
    fn cleared(&mut self, cleared: Cleared) {
        self.cleared.push(cleared);
    }

    fn aux(&mut self, handle: &mut Handle, name: &[u8], bytes: &[u8]) {
        match self.shared.load_aux(name, bytes) {
            Ok(()) => self.shared.record_aux(handle, name),
            Err(error) => self.failures.push(("Aux".into(), None, error.to_string())),
        }
    }

    fn misfit(&mut self, misfit: Misfit) {
        self.failures.push((misfit.effect, misfit.key, misfit.why.into()));
    }

    fn applied(&mut self, handle: &mut Handle) {
        if self.cleared.len() == usize::from(handle.keyspace().databases()) {
            self.host.flushed_all(handle, false);
        }
    }
}

/// Applies a group that was surveyed, and serves clients that wait for its keys. The thread is in a
/// batch and holds nothing.
///
/// # Errors
/// If a value in it cannot be read.
pub(super) fn apply_group(
    exec: &mut Executor,
    host: &mut PrimaryHost,
    group: &[u8],
    (keys, whole): (&[(u16, KeyHash)], bool),
    aside: &mut Aside,
) -> Result<(), GroupError> {
    let Aside { cleared, failures } = aside;
    let mut around = Surroundings { shared: &exec.shared, host, cleared, failures };
    let applied = apply_surveyed(&mut exec.ks, group, keys, whole, &mut around);
    for cleared in aside.cleared.drain(..) {
        if host.flushes_in_background() { host.discard(cleared) } else { drop(cleared) }
    }
    while exec.has_ready() {
        exec.serve_ready(host);
    }
    applied
}

/// Finds the locks that a group needs. `None` if it names a database that does not exist here; this
/// is recorded, and the group is skipped.
///
/// # Errors
/// If it is malformed.
pub(super) fn survey_group(
    exec: &Executor,
    frame: Frame<'_>,
    keys: &mut Vec<(u16, KeyHash)>,
    failures: &mut Failures,
) -> Result<Option<bool>, GroupError> {
    match survey(&exec.ks, frame.group, frame.lane == WHOLE, keys) {
        Ok(whole) => Ok(Some(whole)),
        Err(GroupError::Database(db)) => {
            let why = format!("there is no database {db} here (databases)");
            failures.push(("Database".into(), None, why));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Applier {
    /// Applies the frames that stand next in the input; false if none is whole yet, or the next has
    /// to be the first of a turn.
    ///
    /// # Errors
    /// If what stands there is no frame, or its effects are none.
    pub(super) fn apply_next(
        &mut self,
        input: &Arc<Vec<u8>>,
        link: &Link,
        executed: &mut Executed,
    ) -> Result<bool, String> {
        if self.session.in_multi() {
            return Err(self.distrust("a frame within a transaction of commands"));
        }
        let longest = self.longest() as u64;
        let mut run = std::mem::take(&mut self.run);
        run.clear();
        find_run(input, self.parsed, longest, &mut run);
        if let Some(last) = run.last() {
            self.apply_run(input, &run, link)?;
            self.count_frames(last.end(), true, executed);
            self.run = run;
            return Ok(true);
        }
        let frame = match Frame::read(&input[self.parsed..], longest) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                self.is_incomplete = true;
                return Ok(false);
            }
            Err(why) => return Err(self.distrust(&why.to_string())),
        };
        let end = self.parsed + frame.len;
        match frame.lane {
            TURN => {
                let has_frames = frame.group != [0];
                link.server.replication.link.sends_frames.store(has_frames, Relaxed);
                self.count_frames(end, has_frames, executed);
            }
            // Another thread may enter before it, and must find the executed commands counted.
            WHOLE if executed.whole > self.counted => return Ok(false),
            _ => {
                self.apply_alone(frame, link)?;
                self.count_frames(end, true, executed);
            }
        }
        Ok(true)
    }

    /// Applies a frame that goes before all that follow.
    fn apply_alone(&mut self, frame: Frame<'_>, link: &Link) -> Result<(), String> {
        self.exec.ks.refresh_clock();
        let Applier { exec, host, aside, .. } = self;
        let mut keys = Vec::new();
        let needs = survey_group(exec, frame, &mut keys, &mut aside.failures);
        let applied = needs.and_then(|whole| match whole {
            Some(whole) => apply_group(exec, host, frame.group, (&keys, whole), aside),
            None => Ok(()),
        });
        let failures = std::mem::take(&mut self.aside.failures);
        self.note_failures(link, failures);
        applied.map_err(|error| self.distrust(&format!("a frame that cannot be applied: {error}")))
    }

    fn count_frames(&mut self, end: usize, has_frames: bool, executed: &mut Executed) {
        self.parsed = end;
        executed.whole = end;
        executed.relayed.marks = true;
        executed.relayed.frames = Some(has_frames);
    }

    /// Stops reading frames; returns the error for the log.
    pub(super) fn distrust(&mut self, what: &str) -> String {
        self.distrusts_frames = true;
        format!(
            "its stream holds {what}; a new copy is needed, and commands will be requested in place of effects"
        )
    }

    /// Whether this server offers to read frames.
    pub(super) fn reads_frames(&self) -> bool {
        !self.distrusts_frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_failures_the_first_are_kept() {
        let one = |number: u32| (format!("Add {number}"), None, "it is no number".to_owned());
        let (mut all, mut part) = (Failures::default(), Failures::default());
        (0..3).for_each(|number| all.push(one(number)));
        (3..1000).for_each(|number| part.push(one(number)));
        all.append(&mut part);
        assert_eq!((all.first.len() as u64, all.more), (ERRORS_LOGGED, 1000 - ERRORS_LOGGED));
        assert_eq!(all.first[3], one(3));
        assert_eq!((part.first.len(), part.more), (0, 0));
    }
}
