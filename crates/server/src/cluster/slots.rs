//! Slots of a member in a cluster with members that hold only some slots: it claims slots that wait
//! for it, loads slots that it becomes an owner of, and removes slots that it no longer owns.
//!
//! ```text
//!  admitted   slots wait for it, their last owner, and its data are the cluster's
//!             -> asks for them, and waits until a view gives it them, or they wait no longer
//!  then       keeps the files that have keys of other slots (`aside.rs`), serves, and removes
//!             these keys; when that is done, takes its share
//!  incoming   the primaries' data arrive one after another, and are loaded beside the present data
//!             -> says that they have arrived
//! ```

use super::agent::{Agent, MemberPhase};
use super::aside;
use super::copy::FAILURE_PAUSE;
use super::state::copy::Incoming;
use super::state::slots::{Aside, SlotLoad};
use super::transport::{Hold, Role};
use crate::durability::replace::{check, leniency};
use crate::observation::pluralized::Pluralized;
use crate::server::Server;
use petrel_cluster::FROM_PEERS;
use petrel_keyspace::Handle;
use petrel_persistence::{LoadFrom, Progress, load_from};
use std::io::Seek;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Keys that are looked at for slots that were lost, in one turn.
const SWEPT_PER_TURN: usize = 512;

/// Interval between two checks whether loaded data are durable.
const DURABLE_PAUSE: Duration = Duration::from_millis(1);

impl Agent {
    /// At the admission to a cluster in which members hold the data of some slots.
    pub(super) fn admitted_to_slots(&mut self) {
        self.slots.may_claim = self.membership.has_data();
        if self.slots.may_claim && self.transport.may_claim(self.identity()).0 {
            tracing::info!("cluster: claiming the hash slots of which this was the last owner");
            self.transport.hold(self.identity(), Hold::TakeUnheld);
        }
    }

    /// Continues the above work. Returns true if there is more to do at once.
    pub(super) fn go_on_with_slots(&mut self) -> bool {
        if !self.node.is_partial() {
            return false;
        }
        if self.phase == MemberPhase::Waiting {
            if self.awaits_claimed_slots() {
                return false;
            }
            if matches!(self.slots.aside, Aside::NotBegun) {
                self.node.mark_other_slots();
            }
            if !self.has_kept_files() {
                return false;
            }
            self.report_leftover();
            self.serve();
        }
        self.go_on_loading_slots();
        let goes_on = self.node.sweep(SWEPT_PER_TURN, &mut self.machine);
        if !self.slots.has_taken && !self.node.has_leftover() {
            self.slots.has_taken = true;
            self.transport.hold(self.identity(), Hold::Take);
        }
        self.report_arrivals();
        self.node.report_evicted(&mut self.machine) | goes_on
    }

    /// Whether the files of the former incarnation are kept, if keys are going to be removed.
    fn has_kept_files(&mut self) -> bool {
        self.slots.aside = match std::mem::take(&mut self.slots.aside) {
            Aside::NotBegun => self.begin_to_keep_files(),
            Aside::Failed(at) if at.elapsed() >= FAILURE_PAUSE => self.begin_to_keep_files(),
            Aside::Runs(thread) if thread.is_finished() => {
                let kept = thread.join().unwrap_or_else(|_| Err("the thread panicked".into()));
                match kept {
                    Ok(()) => Aside::Done,
                    Err(why) => {
                        tracing::error!("cluster: {why}");
                        Aside::Failed(Instant::now())
                    }
                }
            }
            other => other,
        };
        matches!(self.slots.aside, Aside::Done)
    }

    fn begin_to_keep_files(&self) -> Aside {
        let (former, own) = (self.node.former_slots(), self.identity());
        let members = self.membership.state.lock().members.clone();
        let own = members.iter().find(|member| member.identity == own);
        let is_owner = own.is_some_and(|own| own.role == Role::Data);
        if former.is_empty() || !is_owner || !self.membership.has_data() {
            return Aside::Done;
        }
        let (server, membership) = (self.machine.host.server.clone(), self.membership.clone());
        let work = move || {
            let kept = aside::keep_if_needed(&server, &former);
            membership.waker.wake();
            kept
        };
        match std::thread::Builder::new().name("petrel-aside".into()).spawn(work) {
            Ok(thread) => Aside::Runs(thread),
            Err(error) => {
                tracing::error!("cluster: no thread can be started to keep files: {error}");
                Aside::Failed(Instant::now())
            }
        }
    }

    /// Says that keys are removed: those of hash slots that are not this member's.
    fn report_leftover(&self) {
        if !self.node.has_leftover() {
            return;
        }
        let keyspace = &self.machine.host.server.keyspace;
        let keys = (0..keyspace.databases()).map(|db| keyspace.db_stats(db).keys).sum::<u64>();
        if keys > 0 {
            tracing::warn!(
                "cluster: of the {} here, removing those in hash slots that other members own now",
                Pluralized(keys, "key")
            );
        }
    }

    /// Whether a view may yet give this member slots that have waited for it.
    fn awaits_claimed_slots(&self) -> bool {
        if !self.slots.may_claim {
            return false;
        }
        let (may_claim, epoch) = self.transport.may_claim(self.identity());
        may_claim || self.node.view().epoch < epoch
    }

    fn go_on_loading_slots(&mut self) {
        if let Some(loading) = self.slots.loading.take_if(|loading| loading.is_over()) {
            match loading.end() {
                Ok(()) => self.node.slots_loaded(true, &mut self.machine),
                Err(why) => {
                    tracing::error!("cluster: data of hash slots could not be loaded: {why}");
                    self.slots.failed = Some(Instant::now());
                }
            }
        }
        if !self.node.has_slots_to_load() || self.slots.loading.is_some() {
            return;
        }
        match self.slots.failed {
            Some(failed) if failed.elapsed() < FAILURE_PAUSE => {}
            Some(_) => {
                // The slots are requested again.
                self.slots.failed = None;
                self.node.slots_loaded(false, &mut self.machine);
            }
            None => self.load_slots(),
        }
    }

    fn load_slots(&mut self) {
        let incoming = std::mem::take(&mut self.machine.incoming);
        let (server, membership) = (self.machine.host.server.clone(), self.membership.clone());
        let progress = Arc::<Progress>::default();
        let heard = progress.clone();
        let work = move || {
            let loaded = load_beside(&server, incoming, &heard);
            membership.waker.wake();
            loaded
        };
        match std::thread::Builder::new().name("petrel-slots".into()).spawn(work) {
            Ok(thread) => self.slots.loading = Some(SlotLoad { progress, thread: Some(thread) }),
            Err(error) => {
                tracing::error!("cluster: no thread can be started to load hash slots: {error}");
                self.slots.failed = Some(Instant::now());
            }
        }
    }

    /// Says which slots' data are here, so that a view names this member as an owner.
    fn report_arrivals(&mut self) {
        let now = (self.node.view().epoch, self.node.arrivals());
        if self.slots.reported == Some(now) {
            return;
        }
        self.slots.reported = Some(now);
        self.membership.figures.note_slots(self.node.slot_counts());
        let arrived = self.node.arrived();
        if !arrived.is_empty() {
            self.transport.arrived(self.identity(), now.0, &arrived);
        }
    }

    /// Ends what loads data of slots.
    pub(super) fn stop_loading_slots(&mut self) {
        self.slots.loading = None;
    }
}

/// Loads data of slots beside the present data.
fn load_beside(server: &Server, incoming: Incoming, progress: &Progress) -> Result<(), String> {
    let (mut file, len) =
        incoming.finish().map_err(|error| format!("they cannot be stored: {error}"))?;
    let unsound = |error: &dyn std::fmt::Display| format!("the {len} bytes are invalid: {error}");
    let leniency = leniency(&server.config.snapshot());
    check(&file, len, leniency).map_err(|error| unsound(&error))?;
    file.rewind().map_err(|error| unsound(&error))?;
    let start = Instant::now();
    let threads = (server.workers.len() / 2).max(1);
    // No client here caches keys of slots that are not read here, or waits for them.
    let settle = |handle: &mut Handle| {
        handle.take_invalidations();
        while handle.next_ready().is_some() {}
    };
    let from = LoadFrom { origin: FROM_PEERS, threads, leniency, settle: &settle };
    let loaded = load_from(file, len, &server.keyspace, from, progress);
    if !loaded.map_err(|error| error.to_string())?.is_whole {
        return Err("the membership has ended".into());
    }
    // The primary may give them up when it hears that they are here.
    if let Some(log) = server.durability.log() {
        let epoch = server.keyspace.epochs().now();
        log.want(epoch);
        while log.durable() < epoch {
            if progress.stop.load(Relaxed) {
                return Err("the membership has ended".into());
            }
            std::thread::sleep(DURABLE_PAUSE);
        }
    }
    let keys = Pluralized(progress.keys.load(Relaxed), "key");
    let seconds = start.elapsed().as_secs_f64();
    tracing::info!("cluster: loaded {keys} of hash slots, {len} bytes, in {seconds:.2} s");
    Ok(())
}
