//! Redirection of clients with `CLIENT CAPA redirect`: a replica redirects commands on data to the
//! primary, as Valkey does: <https://valkey.io/commands/client-capa/>.

use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::session::Session;
use crate::spec::{Command, Flags};
use petrel_table::bits;

impl Executor {
    /// Rejects a command with a redirection to the primary. A transaction is redirected as a whole,
    /// so commands that `EXEC` runs are not checked again.
    #[cold]
    pub(super) fn admit_redirectable(
        &mut self,
        command: Command,
        session: &Session,
        host: &mut dyn Host,
    ) -> Outcome {
        if self.within_script || session.in_exec {
            return Ok(());
        }
        let queued = session.queue_run_by(command);
        let mut flags = command.spec.flags;
        for command in queued.iter().flat_map(|queue| queue.commands()) {
            flags = flags.with(command.spec.flags);
        }
        if !flags.intersects(bits!(Flags: WRITE, READONLY)) {
            return Ok(());
        }
        let only_reads = !flags.contains(Flags::WRITE);
        if host.primary_for(only_reads).is_none() {
            return Ok(());
        }
        host.settle_role(&mut self.ks);
        match host.primary_for(only_reads) {
            Some(address) => Err(Fail::redirect(&address)),
            None => Ok(()),
        }
    }
}
