//! What a connection reads is remembered for it if it asked for that (`CLIENT TRACKING`): the keys
//! of every command that only reads, under the locks that the command held.

use crate::ctx::Host;
use crate::execute::{Execution, Executor, Request};
use crate::registry::Command;
use crate::session::Session;
use crate::spec::Group;
use petrel_keyspace::Reader;
use petrel_resp::Reply;
use petrel_table::keys::key_positions;
use std::sync::Arc;

/// `CLIENT TRACKING ON`, as its connection remembers it.
#[derive(Clone, Debug)]
pub struct Tracking {
    /// The connection, as those who change keys know it.
    pub reader: Arc<Reader>,
    /// Which reads are remembered.
    pub mode: TrackingMode,
    /// `CLIENT CACHING`: the next command is the exception.
    pub caching: bool,
}

/// Which reads of a connection are remembered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrackingMode {
    /// All.
    All,
    /// Those that `CLIENT CACHING YES` announces.
    OptIn,
    /// All but those that `CLIENT CACHING NO` announces.
    OptOut,
    /// None: the connection is told of keys that it has not read.
    Broadcast,
}

impl Tracking {
    /// Whether the next command's reads are remembered.
    pub fn remembers(&self) -> bool {
        match self.mode {
            TrackingMode::All => true,
            TrackingMode::OptIn => self.caching,
            TrackingMode::OptOut => !self.caching,
            TrackingMode::Broadcast => false,
        }
    }
}

impl Executor {
    /// Executes a command of a connection that tracks what it reads, or imports data.
    #[cold]
    pub(crate) fn execute_apart(
        &mut self,
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
            true => self.execute_tracking(request, session, host, reply),
            false => self.execute_one(request, session, host, reply),
        };
        if sees_expired {
            self.ks.see_expired(false);
        }
        execution
    }

    /// Executes a command of a connection that tracks what it reads.
    fn execute_tracking(
        &mut self,
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Execution {
        if self.ks.holds_any() || session.in_exec {
            return self.execute_one(request, session, host, reply);
        }
        // What has to go for want of room, in the table or in memory, is told before the reply.
        self.ks.forget_readers();
        self.make_room(0);
        if self.ks.has_invalidations() {
            host.invalidate(&mut self.ks, Some(reply));
        }
        let execution = self.execute_one(request, session, host, reply);
        let is_client = request
            .command
            .is_some_and(|command| self.registry().full_name(command.index).starts_with("client|"));
        if !is_client
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
