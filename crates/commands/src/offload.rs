//! Commands that are finished on another thread of the server: MIGRATE, which waits for
//! another server.
//!
//! The handler hands over what there is to do and returns what [`Ctx::leave`] returns. The thread
//! that does it works on keys with [`Executor::on_keys`], and answers the client in the end with
//! [`Executor::finish`].

use crate::blocking::Answer;
use crate::ctx::{Ctx, Host};
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::registry::Command;
use petrel_keyspace::{Handle, KeyHash, Naming};
use petrel_resp::Protocol;
use std::time::Duration;

impl Ctx<'_> {
    /// Leaves the reply to the host, which executes nothing else for the client before it has
    /// answered.
    ///
    /// # Errors
    /// In a transaction, which cannot wait; the host is then not to do anything.
    pub fn leave(&mut self) -> Outcome {
        if self.session.in_exec {
            let name = self.command.spec.meta.name.to_ascii_uppercase();
            return Err(Fail::new(format!("ERR {name} is not allowed in a transaction")));
        }
        self.exec.reply_comes_later();
        Ok(())
    }
}

impl Executor {
    /// Works on keys whose stripes are locked meanwhile, and serves clients blocked on what has
    /// changed. The thread is in a batch and holds nothing.
    pub fn on_keys<R>(
        &mut self,
        hashes: &[KeyHash],
        host: &mut dyn Host,
        work: impl FnOnce(&mut Handle) -> R,
    ) -> R {
        self.lock_instead(Some(hashes), host);
        self.ks.name_events(Naming::ByEffect);
        let result = work(&mut self.ks);
        if self.ks.has_events() {
            self.publish_events(host);
        }
        self.settle(host);
        result
    }

    /// Counts a call that was left to the host, and makes its answer: a status, or an error.
    pub fn finish(
        &mut self,
        command: Command,
        duration: Duration,
        protocol: Protocol,
        outcome: Result<&'static str, Fail>,
    ) -> Answer {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.stats.called(command.index, nanos, outcome.is_err());
        if let Err(fail) = &outcome {
            self.shared.count_error(fail);
        }
        Answer::new(protocol, |reply| match &outcome {
            Ok(status) => reply.simple(status),
            Err(fail) => reply.error(fail.text()),
        })
    }
}
