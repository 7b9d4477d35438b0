//! What a connection reads is remembered for it if it asked for that (`CLIENT TRACKING`): the keys
//! of every command that only reads, under the locks that the command held.

pub(crate) mod mode;

use crate::admit::Moment;
use crate::execute::{Execution, Executor};
use crate::host::Host;
use crate::session::Session;
use crate::spec::{Command, Group, Request};
use petrel_resp::Reply;
use petrel_table::keys::key_positions;

impl Executor {
    /// Executes a command of a connection that tracks what it reads, or imports data.
    #[cold]
    pub(crate) fn execute_apart(
        &mut self,
        moment: Moment,
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Execution {
        let imports = session.extras.as_ref().is_some_and(|extras| extras.imports);
        let sees_expired = imports && self.ks.keeps_expired();
        if sees_expired {
            self.ks.see_expired(true);
        }
        let execution = match session.tracking().is_some() {
            true => self.execute_tracking(moment, request, session, host, reply),
            false => self.execute_one(moment, request, session, host, reply),
        };
        if sees_expired {
            self.ks.see_expired(false);
        }
        execution
    }

    /// Executes a command of a connection that tracks what it reads.
    fn execute_tracking(
        &mut self,
        moment: Moment,
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Execution {
        if self.ks.holds_any() || session.in_exec {
            return self.execute_one(moment, request, session, host, reply);
        }
        // What has to go for want of room, in the table or in memory, is told before the reply.
        self.ks.forget_readers();
        self.make_room(0);
        if self.ks.has_invalidations() {
            host.invalidate(&mut self.ks, Some(reply));
        }
        let execution = self.execute_one(moment, request, session, host, reply);
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

    /// Remembers the keys of a command that reads, if the connection wants it, while what it has
    /// read cannot change.
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
        // A script remembers what its commands read.
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
