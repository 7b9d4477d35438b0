//! What keeps a server from executing commands for a while, whoever sends them.

use crate::ctx::Host;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::registry::Command;
use crate::session::{Modes, Session};
use crate::spec::Flags;
use petrel_resp::Reply;

/// A state of the server in which it refuses commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Hindrance {
    /// Data is being loaded: what needs it is refused.
    Loading = 1,
    /// Saving in the background failed, and is meant to be relied upon: writes are refused.
    NotSaved = 2,
    /// The log cannot be written: writes are refused.
    NotLogged = 4,
    /// There are fewer replicas than writes are meant to reach (`min-replicas-to-write`): writes
    /// are refused.
    NotReplicated = 8,
}

impl Executor {
    /// Refuses what cannot be executed in this state of the server.
    #[cold]
    pub(crate) fn admit_hindered(
        &mut self,
        command: Command,
        args: &[&[u8]],
        session: &Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Outcome {
        let flags = command.spec.flags;
        if self.shared.is_loading() && !session.is(Modes::LOADER) && !flags.contains(Flags::LOADING)
        {
            return Err(Fail::loading(self.shared.dialect()));
        }
        let Some(fail) = self.shared.write_hindrance() else { return Ok(()) };
        if session.is(Modes::LOADER) || !self.counts_as_write(command, session, &fail) {
            return Ok(());
        }
        // A lack of memory is the error of both.
        if flags.contains(Flags::DENYOOM) && !self.within_script {
            self.admit_memory(args, host, reply)?;
        }
        Err(fail)
    }

    /// Whether a command is refused where writes are. What `EXEC` runs was looked at when it was
    /// called; `PING` is refused so that whoever asks after the server's health hears of it,
    /// unless it is others who are missing.
    fn counts_as_write(&self, command: Command, session: &Session, fail: &Fail) -> bool {
        let writes = |command: Command| command.spec.flags.contains(Flags::WRITE);
        if self.within_script {
            return writes(command);
        }
        if session.in_exec {
            return false;
        }
        let queued = session.open_transaction_queue().filter(|_| command.spec.meta.name == "exec");
        writes(command)
            || (command.spec.meta.name == "ping" && *fail != Fail::TOO_FEW_REPLICAS)
            || queued.is_some_and(|queue| queue.commands().any(writes))
    }
}
