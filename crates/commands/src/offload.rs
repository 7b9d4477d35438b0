//! Offloaded commands, finished on another thread of the server: MIGRATE, which waits for another
//! server, and commands that change users, which wait for other workers.
//!
//! The handler calls [`Ctx::offload`] with the remaining work. The offload thread asks the gate
//! before each of its steps ([`Executor::admit_offloaded`]), works on keys with
//! [`Executor::on_keys`], and replies to the client in the end with [`Executor::finish`], which
//! accounts for the whole call.

use crate::acl::{Access, User};
use crate::admit::Verdict;
use crate::answer::{Answer, Ticket};
use crate::ctx::{Ctx, Invocation};
use crate::execute::Executor;
use crate::fail::Fail;
use crate::host::Host;
use crate::moment::Moment;
use crate::session::Session;
use crate::spec::{Command, Request};
use petrel_keyspace::{Handle, KeyHash, Naming};
use petrel_resp::{Protocol, RespWriter};
use std::sync::Arc;
use std::time::Instant;

/// A call that another thread finishes.
pub struct Offloaded {
    command: Command,
    args: Vec<Box<[u8]>>,
    db: u16,
    protocol: Protocol,
    access: Access,
    user: Option<Arc<User>>,
    client: Ticket,
    begun: Instant,
}

impl Offloaded {
    /// RESP version of the client.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }
}

impl Ctx<'_> {
    /// Hands the call to the host, which executes no other command of the client before the reply.
    ///
    /// # Errors
    /// In a transaction, which cannot wait, and where there is no client to answer; the host is
    /// then not to do anything.
    pub fn offload(&mut self) -> Result<Offloaded, Fail> {
        let client = if self.session.in_exec { None } else { self.host.ticket() };
        let Some(client) = client else {
            let name = self.command.spec.meta.name.to_ascii_uppercase();
            return Err(Fail::new(format!("ERR {name} is not allowed in a transaction")));
        };
        self.exec.reply_comes_later();
        Ok(Offloaded {
            command: self.command,
            args: self.args().iter().map(|&arg| arg.into()).collect(),
            db: self.db(),
            protocol: self.session.protocol,
            access: self.session.access,
            user: self.session.user().cloned(),
            client,
            begun: Instant::now(),
        })
    }
}

impl Executor {
    /// Whether a call may proceed: false while clients are paused. The thread holds no locks.
    ///
    /// # Errors
    /// If it is refused by now: the server has become a replica, or the user may no longer do it.
    pub fn admit_offloaded(&mut self, call: &Offloaded, host: &mut dyn Host) -> Result<bool, Fail> {
        let args: Vec<&[u8]> = call.args.iter().map(|arg| &arg[..]).collect();
        let request = Request { args: &args, command: Some(call.command), hash: None, owner: None };
        let mut session = Session::new(true);
        session.db = call.db;
        if let Some(user) = &call.user {
            session.become_user(Some(user.clone()));
        }
        session.access = call.access;
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        let mut reply = RespWriter::new(&mut bytes, &mut values, call.protocol);
        let other = host.act_for(call.client.clone());
        let (request, session, moment) = (&request, &mut session, Moment::CLIENT);
        let invocation =
            Invocation { request, session, host: &mut *host, reply: &mut reply, moment };
        let verdict = self.admit(invocation, true);
        host.act_for(other);
        match verdict {
            Verdict::Hold => Ok(false),
            Verdict::Refuse(fail) => Err(fail),
            _ => Ok(true),
        }
    }

    /// Works on keys under their stripes' locks, and serves clients blocked on changed keys. The
    /// thread must be in a batch and hold no locks.
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

    /// Adds a call to the statistics, and builds its reply: a status, or an error.
    pub fn finish(
        &mut self,
        call: &Offloaded,
        host: &mut dyn Host,
        outcome: Result<&'static str, Fail>,
    ) -> Answer {
        if let Err(fail) = &outcome {
            self.shared.count_error(fail);
        }
        let answer = Answer::new(call.protocol, |reply| match &outcome {
            Ok(status) => reply.simple(status),
            Err(fail) => reply.error(fail.text()),
        });
        let args: Vec<&[u8]> = call.args.iter().map(|arg| &arg[..]).collect();
        let nanos = u64::try_from(call.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.begin_before(nanos);
        let other = host.act_for(call.client.clone());
        self.account_offloaded(call.command, &args, outcome.is_err(), answer.bytes.len(), host);
        host.act_for(other);
        answer
    }
}
