//! Replies of other nodes: they fill reply slots, and resume connections with commands that waited
//! for them.

use crate::client::Flag;
use crate::event_loop::batch::{Progress, Stop};
use crate::event_loop::connection::Conn;
use crate::event_loop::worker::Worker;
use crate::state::mailbox::RemoteReply;
use petrel_commands::ReplySlots;
use petrel_net::{Driver, Output, Slot};
use petrel_resp::Resume;

impl<D: Driver> Worker<D> {
    /// Stores replies of other nodes. Those to closed connections are dropped.
    pub(crate) fn take_remote(&mut self, replies: Vec<RemoteReply>) {
        let mut answered: Vec<(Slot, u64)> = Vec::new();
        for RemoteReply { slot, id, seq, reply } in replies {
            let conn = self.conn_mut(slot).filter(|conn| conn.client.id == id);
            let slots = conn.and_then(|conn| conn.session.extras.as_mut()?.slots.as_mut());
            let Some(slots) = slots else { continue };
            slots.answer(seq, &reply);
            if answered.last() != Some(&(slot, id)) {
                answered.push((slot, id));
            }
        }
        self.begin();
        for (slot, id) in answered {
            // A connection may have been answered, and have ended, meanwhile.
            if self.conn(slot).is_some_and(|conn| conn.client.id == id)
                && let Some(conn) = self.take(slot)
            {
                self.settle_remote(conn);
            }
        }
        self.engine.exec.end();
    }

    /// Sends a connection its due replies, and resumes it if it waited for them.
    fn settle_remote(&mut self, mut conn: Box<Conn>) {
        let slot = conn.slot;
        let mut output = self.output_for(slot);
        conn.hold_replies(&mut output);
        let held = conn.session.reply_slots().map_or(0, ReplySlots::bytes);
        let (is_subscriber, is_evicted) =
            (conn.client.has(Flag::PubSub), !conn.client.has(Flag::NoEvict));
        if held > self.engine.host.output_max(is_subscriber, is_evicted) {
            self.engine.host.server.note_output_limit(&conn.client, held as u64);
            conn.doomed = true;
        }
        let stop = Stop::Incomplete { needed: 0, resume: Resume::default() };
        self.finish(conn, Progress { consumed: 0, stop, last: 0 }, output);
    }

    /// Sends due replies of other nodes, if there are any, to a connection without other output.
    #[inline]
    pub(crate) fn send_due(&mut self, conn: &mut Conn, mut output: Output) {
        if conn.session.extras.is_some() {
            if conn.take_due(&mut output) {
                self.own.ready.push_back(conn.slot);
            }
            self.engine.host.publish(&conn.session, 0, 0);
            if !output.is_empty() {
                self.count_sent(conn, output.len());
                return self.driver.send(conn.slot, output);
            }
        }
        self.driver.recycle(output);
    }
}
