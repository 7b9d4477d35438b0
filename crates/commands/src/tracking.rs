//! Client tracking (`CLIENT TRACKING`): remembers the keys of every read-only command under the
//! locks of the command.

pub(crate) mod mode;

use crate::ctx::Invocation;
use crate::execute::{Execution, Executor};
use crate::session::Session;
use crate::spec::{Command, Group, Request};
use petrel_table::keys::key_positions;

impl Executor {
    /// Executes a command of a connection with `CLIENT TRACKING` or `CLIENT IMPORT-SOURCE`.
    #[cold]
    pub(crate) fn execute_apart(&mut self, invocation: Invocation<'_>) -> Execution {
        let session = &*invocation.session;
        let imports = session.extras.as_ref().is_some_and(|extras| extras.imports);
        let sees_expired = imports && self.ks.keeps_expired();
        if sees_expired {
            self.ks.see_expired(true);
        }
        let execution = match session.tracking().is_some() {
            true => self.execute_tracking(invocation),
            false => self.execute_one(invocation),
        };
        if sees_expired {
            self.ks.see_expired(false);
        }
        execution
    }

    /// Executes a command of a connection with `CLIENT TRACKING`.
    fn execute_tracking(&mut self, mut invocation: Invocation<'_>) -> Execution {
        if self.ks.holds_any() || invocation.session.in_exec {
            return self.execute_one(invocation);
        }
        // Invalidations due to a full tracking table or evictions are sent before the reply.
        self.ks.forget_readers();
        self.make_room(0);
        if self.ks.has_invalidations() {
            invocation.host.invalidate(&mut self.ks, Some(&mut *invocation.reply));
        }
        let execution = self.execute_one(invocation.lend());
        let Invocation { request, session, .. } = invocation;
        let is_client = request
            .command
            .is_some_and(|command| self.registry().full_name(command.index).starts_with("client|"));
        let was_executed =
            matches!(execution, Execution::Answered | Execution::Waits | Execution::Forwarded);
        if was_executed
            && !is_client
            && !session.in_multi()
            && let Some(tracking) = session.tracking_mut()
        {
            tracking.caching = false;
        }
        execution
    }

    /// Registers the connection as a reader of the command's keys, if it tracks them. Called while
    /// the keys are still locked, so that no change is missed.
    #[cold]
    pub(crate) fn remember_reads(
        &mut self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
    ) {
        let Some(tracking) = session.tracking().filter(|tracking| tracking.remembers()) else {
            return;
        };
        // Commands in a script register their keys themselves.
        if command.spec.meta.group == Group::Scripting {
            return;
        }
        let mut keys = Vec::new();
        if key_positions(command.spec.meta.keys, request.args, &mut keys).is_err() {
            return;
        }
        for key in keys {
            let key = self.ks.key(request.args[key.index as usize]);
            self.ks.remember_reader(key, &tracking.reader);
        }
    }
}
