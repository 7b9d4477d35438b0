//! Pauses as the whole server sees them: commands are held back by the gate
//! ([`petrel_commands::Pause`]), and nothing expires or is evicted meanwhile.

use crate::server::Server;
use crate::state::mailbox::Message;
pub use petrel_commands::PauseReason;

impl Server {
    /// Holds back commands for a reason until `until_ms`; then nothing expires or is evicted
    /// either.
    pub fn pause_clients(
        &self,
        reason: PauseReason,
        now_ms: i64,
        until_ms: i64,
        writes_only: bool,
    ) {
        let pause = &self.commands.pause;
        pause.start(reason, now_ms, until_ms, writes_only);
        self.keyspace.hold_until(pause.until_ms());
    }

    /// Ends the pause for a reason.
    pub fn unpause(&self, reason: PauseReason) {
        let pause = &self.commands.pause;
        pause.end(reason);
        self.keyspace.hold_until(pause.until_ms());
        (0..self.workers.len()).for_each(|worker| self.tell(worker, Message::Unpause));
    }
}
