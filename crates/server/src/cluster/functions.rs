//! Libraries of functions, which all members have alike: what changes them is executed on a copy
//! by a thread of its own, which has the members agree on what came of it, waits, and answers.
//!
//! ```text
//!  worker    FUNCTION LOAD ── Call without slots ──▶ thread
//!  thread    executes it on a copy of version v ── change of v ──▶ fabric ──▶ the leader
//!            version v + 1 is this change: the others have it -> answers; is another: once more
//!  fabric    other libraries were agreed on ──▶ thread: replace the present ones
//! ```
//!
//! A member that begins to serve replaces the libraries that it has loaded or received by the
//! agreed ones. If there are no agreed ones yet, it keeps its own; the founder's are agreed on
//! first.

use super::machine::Machine;
use super::rejoin;
use super::state::functions::{Applied, FunctionRequest};
use super::state::membership::Membership;
use crate::server::Server;
use crate::state::mailbox::RemoteReply;
use petrel_commands::Fail;
use petrel_fabric::{FUNCTIONS_MAX, Fabric, FunctionsChange, FunctionsOutcome, functions_len};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a client waits for a reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time for which other members are awaited that may be gone.
const OTHERS_PATIENCE: Duration = Duration::from_secs(2);

/// Until the leader is asked again, which may be another by then.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// Until libraries are loaded again that could not be.
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
            Worker { membership, server, machine, has_complained: false }.run();
        };
        let thread = std::thread::Builder::new().name("petrel-functions".into()).spawn(work)?;
        *self.functions.thread.lock() = Some(thread);
        Ok(())
    }

    /// Replaces the present libraries by the latest agreed ones, unless they are the same; with
    /// `anyway`, also then, because others may have been loaded. Returns the present version.
    pub(super) fn apply_functions(&self, server: &Server, anyway: bool) -> u64 {
        let fabric = self.fabric.lock().clone();
        let mut applied = self.functions.applied.lock();
        let Some(fabric) = fabric else { return applied.version };
        let agreed = fabric.functions();
        let is_newer = agreed.version > applied.version;
        let is_late = applied.failed.is_some_and(|failed| failed.elapsed() < FAILURE_PAUSE);
        let is_again = anyway && agreed.version == applied.version && agreed.version > 0;
        if !(is_newer && !is_late || is_again) {
            return applied.version;
        }
        match server.commands.exchange_libraries(&agreed.sources) {
            Ok(()) => {
                *applied = Applied { version: agreed.version, failed: None };
                server.log_libraries();
                fabric.has_functions(agreed.version);
            }
            Err(fail) => {
                applied.failed = Some(Instant::now());
                let why = String::from_utf8_lossy(fail.text()).into_owned();
                tracing::error!("cluster: the agreed function libraries cannot be loaded: {why}");
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
    /// The founder's libraries were reported to be too many.
    has_complained: bool,
}

impl Worker {
    fn run(&mut self) {
        while !self.server.is_stopping() {
            let request = self.membership.functions.next();
            if self.membership.state.lock().is_serving {
                let version = self.membership.apply_functions(&self.server, false);
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

    /// Proposes the founder's libraries, before any others.
    fn bring_in(&mut self) {
        let sources = self.server.commands.library_texts();
        let own = self.membership.state.lock().me;
        let is_founder = own.is_some_and(|own| own.node.0 == FOUNDER);
        let Some(fabric) = self.membership.fabric.lock().clone() else { return };
        if !is_founder || sources.is_empty() || fabric.functions().version > 0 {
            return;
        }
        let len = functions_len(&sources);
        if len <= FUNCTIONS_MAX {
            self.agree(&fabric, 0, sources, Instant::now() + ASK_PAUSE);
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
            let from = self.membership.apply_functions(&self.server, false);
            if from != fabric.functions().version {
                // They cannot be loaded, or there are others by now.
                self.membership.functions.await_news(ASK_PAUSE);
                continue;
            }
            let (reply, sources) = self.machine.draft(&args, request.resp3);
            if reply.first() == Some(&b'-') {
                return reply;
            }
            let len = functions_len(&sources);
            if len > FUNCTIONS_MAX {
                return too_long(len).to_reply();
            }
            match self.agree(&fabric, from, sources, until) {
                FunctionsOutcome::Made => return reply,
                FunctionsOutcome::Lost => error = OVERTAKEN,
                FunctionsOutcome::Open | FunctionsOutcome::Unknown => return UNKNOWN.to_reply(),
            }
        }
        error.to_reply()
    }

    /// Has the members agree on these libraries, in the place of those of a version.
    fn agree(
        &self,
        fabric: &Fabric,
        from: u64,
        sources: Vec<Vec<u8>>,
        until: Instant,
    ) -> FunctionsOutcome {
        let Ok(mark) = getrandom::u64() else { return FunctionsOutcome::Lost };
        let change = FunctionsChange { from, mark, sources };
        loop {
            fabric.set_functions(change.clone());
            let again = Instant::now() + ASK_PAUSE;
            let mut outcome = fabric.functions().outcome(from, mark);
            while outcome == FunctionsOutcome::Open && Instant::now() < again {
                let pause = again.saturating_duration_since(Instant::now());
                self.membership.functions.await_news(pause);
                outcome = fabric.functions().outcome(from, mark);
            }
            if outcome != FunctionsOutcome::Open {
                self.membership.apply_functions(&self.server, false);
                if outcome == FunctionsOutcome::Made {
                    // Its client may call them at once, wherever the primary of its keys is.
                    fabric.await_functions(from + 1, OTHERS_PATIENCE);
                }
                return outcome;
            }
            if Instant::now() >= until || self.server.is_stopping() {
                return outcome;
            }
        }
    }
}

fn too_long(len: usize) -> Fail {
    Fail::new(format!(
        "ERR the function libraries would have {len} bytes together, at most {FUNCTIONS_MAX} are allowed in a cluster: delete unused ones with FUNCTION DELETE"
    ))
}
