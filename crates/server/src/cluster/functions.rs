//! Auxiliary state, such as function libraries, which all members have alike: a command that
//! changes it is executed on a copy by a thread of its own, which has the members agree on the
//! result, waits, and answers.
//!
//! ```text
//!  worker    FUNCTION LOAD ── Call without slots ──▶ thread
//!  thread    executes it on a copy of version v ── change of v ──▶ fabric ──▶ the leader
//!            version v + 1 is this change: the others have it -> answers; is another: once more
//!  fabric    other state was agreed on ──▶ thread: replace the present state
//! ```
//!
//! A member that begins to serve replaces the state that it has loaded or received by the agreed
//! state. If there is none yet, it keeps its own; the founder's is agreed on first.

use super::function_echoes::{FunctionEchoes, Texts};
use super::machine::Machine;
use super::rejoin;
use super::state::functions::{Applied, FunctionRequest};
use super::state::membership::Membership;
use crate::server::Server;
use crate::state::mailbox::RemoteReply;
use petrel_commands::Fail;
use petrel_commands::aux_state::{AuxError, NamedForm};
use petrel_commands::scripting::{Library, List};
use petrel_fabric::{AUX_MAX, AuxChange, AuxOutcome, AuxStates, Fabric};
use petrel_keyspace::aux_state::{self, FUNCTIONS};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a client waits for a reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time for which other members are awaited that may be gone.
const OTHERS_PATIENCE: Duration = Duration::from_secs(2);

/// Until the leader is asked again, which may be another by then.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// Until state is loaded again that could not be.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

const UNKNOWN: Fail =
    Fail::fixed("UNKNOWN The members have not agreed in time; the change may still be made");

const OVERTAKEN: Fail = Fail::fixed("TRYAGAIN Other changes of function libraries were made first");

/// The number of the member that has founded the cluster.
const FOUNDER: u16 = 0;

impl Membership {
    /// Starts the thread.
    pub(super) fn begin_functions(self: &Arc<Self>, server: &Arc<Server>) -> io::Result<()> {
        let (server, membership) = (server.clone(), self.clone());
        let work = move || {
            let machine = Machine::new(&server, membership.clone());
            let echoes = FunctionEchoes::default();
            let (has_begun, has_complained) = (false, false);
            Worker { membership, server, machine, echoes, has_begun, has_complained }.run();
        };
        let thread = std::thread::Builder::new().name("petrel-functions".into()).spawn(work)?;
        *self.functions.thread.lock() = Some(thread);
        Ok(())
    }

    /// Replaces the present state by the latest agreed one, unless it is the same version; with
    /// `anyway`, also then, because other state may have been loaded. Returns the present version.
    pub(super) fn apply_aux(&self, server: &Server, anyway: bool) -> u64 {
        let fabric = self.fabric.lock().clone();
        let mut applied = self.functions.applied.lock();
        let Some(fabric) = fabric else { return applied.version };
        let agreed = fabric.aux_states();
        let is_newer = agreed.version > applied.version;
        let is_late = applied.failed.is_some_and(|failed| failed.elapsed() < FAILURE_PAUSE);
        let is_again = anyway && agreed.version == applied.version && agreed.version > 0;
        if !(is_newer && !is_late || is_again) {
            return applied.version;
        }
        match server.commands.exchange_aux(&forms(&agreed)) {
            Ok(()) => {
                *applied = Applied { version: agreed.version, failed: None };
                server.log_aux_states();
                fabric.has_aux(agreed.version);
            }
            Err(AuxError { name, why }) => {
                applied.failed = Some(Instant::now());
                tracing::error!("cluster: the agreed {name} cannot be loaded: {why}");
            }
        }
        applied.version
    }
}

/// The thread.
struct Worker {
    membership: Arc<Membership>,
    server: Arc<Server>,
    machine: Machine,
    /// Changes that clients of Redis Cluster may ask for again here.
    echoes: FunctionEchoes,
    /// The agreed state was taken over once.
    has_begun: bool,
    /// The founder's state was reported to be too large.
    has_complained: bool,
}

impl Worker {
    fn run(&mut self) {
        while !self.server.is_stopping() {
            let request = self.membership.functions.next();
            if self.membership.state.lock().is_serving {
                let version = self.refresh();
                if version == 0 {
                    self.bring_in();
                }
            }
            let Some(request) = request else { continue };
            let reply = self.fulfil(&request);
            let FunctionRequest { client, seq, .. } = request;
            let (slot, id) = (client.slot, client.id);
            rejoin::deliver(&self.server, client.worker, RemoteReply { slot, id, seq, reply });
        }
    }

    /// Takes over what other members have agreed on. Returns the present version.
    fn refresh(&mut self) -> u64 {
        let libraries = &self.server.commands.libraries;
        let before = libraries.list();
        let version = self.membership.apply_aux(&self.server, false);
        let after = libraries.list();
        // What there was before this member served is no change.
        if std::mem::replace(&mut self.has_begun, true) && !Arc::ptr_eq(&before, &after) {
            self.echoes.record(&texts(&before), &texts(&after));
        }
        version
    }

    /// Proposes the founder's state, before any other.
    fn bring_in(&mut self) {
        let states = self.server.commands.aux_forms();
        let own = self.membership.state.lock().me;
        let is_founder = own.is_some_and(|own| own.node.0 == FOUNDER);
        let Some(fabric) = self.membership.fabric.lock().clone() else { return };
        if !is_founder || states.is_empty() || fabric.aux_states().version > 0 {
            return;
        }
        let change = change_of(states);
        let len = AuxStates::default().with(&change).len();
        if len <= AUX_MAX {
            self.agree(&fabric, change, Instant::now() + ASK_PAUSE);
        } else if !std::mem::replace(&mut self.has_complained, true) {
            let why = too_long(len);
            tracing::warn!("cluster: {}", String::from_utf8_lossy(why.text()));
        }
    }

    /// Executes a command and returns its reply.
    fn fulfil(&mut self, request: &FunctionRequest) -> Vec<u8> {
        let until = request.since + PATIENCE;
        let fabric = self.membership.fabric.lock().clone();
        let Some(fabric) = fabric else { return Fail::NO_MAJORITY.to_reply() };
        let args: Vec<&[u8]> = request.args.iter().map(Vec::as_slice).collect();
        let mut error = Fail::NO_MAJORITY;
        while Instant::now() < until && !self.server.is_stopping() {
            let is_serving = self.membership.state.lock().is_serving;
            if !is_serving || !self.membership.has_lease() {
                return Fail::NO_MAJORITY.to_reply();
            }
            let from = self.refresh();
            let agreed = fabric.aux_states();
            if from != agreed.version {
                // It cannot be loaded, or there is a later one by now.
                self.membership.functions.await_news(ASK_PAUSE);
                continue;
            }
            let (reply, changed) = self.machine.draft(&args, request.resp3);
            if reply.first() == Some(&b'-') {
                // A client of Redis Cluster may have sent it to another member first.
                let echo = if request.is_for_each_node { self.echoes.take(&args) } else { None };
                return echo.unwrap_or(reply);
            }
            if changed.is_empty() {
                return reply;
            }
            let change = AuxChange { from, ..change_of(changed) };
            let len = agreed.with(&change).len();
            if len > AUX_MAX {
                return too_long(len).to_reply();
            }
            match self.agree(&fabric, change, until) {
                AuxOutcome::Made => return reply,
                AuxOutcome::Lost => error = OVERTAKEN,
                AuxOutcome::Open | AuxOutcome::Unknown => return UNKNOWN.to_reply(),
            }
        }
        error.to_reply()
    }

    /// Has the members agree on a change of the states of a version.
    fn agree(&self, fabric: &Fabric, change: AuxChange, until: Instant) -> AuxOutcome {
        let Ok(mark) = getrandom::u64() else { return AuxOutcome::Lost };
        let (from, change) = (change.from, AuxChange { mark, ..change });
        loop {
            fabric.set_aux(change.clone());
            let again = Instant::now() + ASK_PAUSE;
            let mut outcome = fabric.aux_states().outcome(from, mark);
            while outcome == AuxOutcome::Open && Instant::now() < again {
                let pause = again.saturating_duration_since(Instant::now());
                self.membership.functions.await_news(pause);
                outcome = fabric.aux_states().outcome(from, mark);
            }
            if outcome != AuxOutcome::Open {
                self.membership.apply_aux(&self.server, false);
                if outcome == AuxOutcome::Made {
                    // Its client may call them at once, wherever the primary of its keys is.
                    fabric.await_aux(from + 1, OTHERS_PATIENCE);
                }
                return outcome;
            }
            if Instant::now() >= until || self.server.is_stopping() {
                return outcome;
            }
        }
    }
}

fn texts(list: &List) -> Texts {
    let text = |library: &Arc<Library>| (library.name.clone(), library.code.clone().into());
    list.libraries.values().map(text).collect()
}

/// The agreed states by name, in their whole forms.
fn forms(agreed: &AuxStates) -> Vec<NamedForm> {
    let functions = (FUNCTIONS.to_vec(), aux_state::put_texts(&agreed.sources));
    let others = agreed.others.iter().map(|(name, form)| (name.clone(), form.clone()));
    others.chain((!agreed.sources.is_empty()).then_some(functions)).collect()
}

/// The change to these whole forms.
fn change_of(forms: Vec<NamedForm>) -> AuxChange {
    let mut change = AuxChange::default();
    for (name, form) in forms {
        if name == FUNCTIONS {
            let sources = aux_state::texts(&form).unwrap_or_default();
            change.sources = Some(sources.into_iter().map(<[u8]>::to_vec).collect());
        } else {
            change.others.insert(name, form);
        }
    }
    change
}

fn too_long(len: usize) -> Fail {
    Fail::new(format!(
        "ERR the function libraries would have {len} bytes together, at most {AUX_MAX} are allowed in a cluster: delete unused ones with FUNCTION DELETE"
    ))
}
