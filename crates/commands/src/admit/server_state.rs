//! Server states in which commands are rejected for a while: loading, `MISCONF`, read-only replica,
//! not a member of its cluster.

use crate::ctx::Invocation;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::modes::Modes;
use crate::server::state::ServerState;
use crate::session::Session;
use crate::spec::{Command, Flags, GateFlags};

impl Executor {
    /// Rejects commands that the server's states do not allow.
    #[cold]
    pub(super) fn admit_in_state(
        &mut self,
        command: Command,
        invocation: Invocation<'_>,
    ) -> Outcome {
        let Invocation { request, session, host, reply, .. } = invocation;
        if session.is(Modes::LOADER) {
            return Ok(());
        }
        let flags = command.spec.flags;
        if self.shared.is_in_state(ServerState::ReadOnly) && self.writes(command, session) {
            if !self.within_script {
                host.settle_role(&mut self.ks);
            }
            if self.shared.is_in_state(ServerState::ReadOnly) {
                return Err(Fail::READ_ONLY);
            }
        }
        if self.shared.is_in_state(ServerState::Stale) {
            self.admit_stale(command, session)?;
        }
        if !flags.contains(Flags::LOADING) {
            if self.shared.is_in_state(ServerState::Apart) {
                // A witness may be loading the data that every member gets.
                self.admit_apart(command, session)?;
            } else if self.shared.is_loading() {
                return Err(Fail::loading(self.shared.dialect()));
            }
        }
        let Some(fail) = self.shared.write_refusal() else { return Ok(()) };
        if !self.counts_as_write(command, session, &fail) {
            return Ok(());
        }
        // If memory is exhausted, too, that is the reported error.
        if flags.contains(Flags::DENYOOM) && !self.within_script {
            self.admit_memory(request.args, host, reply)?;
        }
        Err(fail)
    }

    /// Rejects commands that need the cluster's data on a node without data. A witness, which never
    /// has any, replies to `PING`, because it is healthy nevertheless.
    fn admit_apart(&self, command: Command, session: &Session) -> Outcome {
        let cluster = self.shared.cluster.get();
        match cluster.and_then(|cluster| cluster.lacks_data()) {
            None => Err(Fail::loading(self.shared.dialect())),
            Some(_) if self.asks_after_health(command, session) => Ok(()),
            Some(fail) => Err(fail),
        }
    }

    /// Whether a command is a health check.
    fn asks_after_health(&self, command: Command, session: &Session) -> bool {
        let is_called = !self.within_script && !session.in_exec;
        is_called && command.spec.gate.contains(GateFlags::HEALTH_CHECK)
    }

    /// Rejects commands that need fresh data if the data may be stale.
    fn admit_stale(&self, command: Command, session: &Session) -> Outcome {
        let is_fresh = |command: Command| !command.spec.flags.contains(Flags::STALE);
        if self.within_script {
            return match is_fresh(command) {
                true => Err(Fail::fixed("ERR Can not execute the command on a stale replica")),
                false => Ok(()),
            };
        }
        let is_refused = match session.queue_run_by(command) {
            Some(queue) => queue.commands().any(is_fresh),
            None => is_fresh(command) && !session.in_exec,
        };
        if is_refused { Err(Fail::MASTER_DOWN) } else { Ok(()) }
    }

    /// Whether a command writes, or executes a transaction that writes. Commands that `EXEC` runs
    /// were checked with it.
    fn writes(&self, command: Command, session: &Session) -> bool {
        let writes = |command: Command| command.spec.flags.contains(Flags::WRITE);
        if session.in_exec && !self.within_script {
            return false;
        }
        let queued = session.queue_run_by(command).filter(|_| !self.within_script);
        writes(command) || queued.is_some_and(|queue| queue.commands().any(writes))
    }

    /// Whether a command is rejected where writes are. `PING` is rejected too, so that health
    /// checks fail; except when only replicas are missing (`NOREPLICAS`).
    fn counts_as_write(&self, command: Command, session: &Session, fail: &Fail) -> bool {
        let tells = *fail != Fail::TOO_FEW_REPLICAS;
        tells && self.asks_after_health(command, session) || self.writes(command, session)
    }
}
