//! What may be executed: the first step of the gate.

use crate::ctx::Host;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::registry::Command;
use crate::session::{Modes, Session};
use crate::spec::Flags;
use crate::transactions::not_inside;
use petrel_resp::{Protocol, Reply};
use petrel_table::bits;

impl Executor {
    /// Refuses a command that the session may not call, or that cannot be executed now.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        command: Command,
        args: &[&[u8]],
        session: &Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
        nested: bool,
    ) -> Outcome {
        let spec = command.spec;
        if !spec.accepts(args.len()) {
            return Err(self.refuse_arity(command, session));
        }
        let is_restricted = self.restricts(session);
        if is_restricted || spec.flags.intersects(bits!(Flags: PROTECTED, NO_MULTI)) {
            self.admit_some(command, args, session, host, is_restricted)?;
        }
        if self.shared.refuses_some() {
            self.admit_in_state(command, args, session, host, reply)?;
        }
        // What a primary has executed is executed, whatever it takes.
        if spec.flags.contains(Flags::DENYOOM) && !nested && !session.is(Modes::LOADER) {
            self.admit_memory(args, host, reply)?;
        }
        if session.modes.intersects(Modes::SUBSCRIBER.with(Modes::MONITOR)) {
            self.admit_listener(command, session)?;
        }
        Ok(())
    }

    /// Refuses a command that would need memory where there is none.
    #[inline(always)]
    pub(crate) fn admit_memory(
        &mut self,
        args: &[&[u8]],
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Outcome {
        let needed = args.iter().map(|arg| arg.len()).sum();
        let has_room = self.make_room(needed);
        if self.ks.has_invalidations() {
            host.invalidate(&mut self.ks, Some(reply));
        }
        if has_room { Ok(()) } else { Err(Fail::OUT_OF_MEMORY) }
    }

    /// The error of a wrong number of arguments. Valkey tells nobody of commands who has not logged
    /// in.
    #[cold]
    fn refuse_arity(&self, command: Command, session: &Session) -> Fail {
        let needs_login = !command.spec.flags.contains(Flags::NO_AUTH);
        if needs_login && self.conceals_commands(session) {
            return Fail::NO_AUTH;
        }
        Fail::new(self.registry().arity_error(command.index))
    }

    pub(crate) fn conceals_commands(&self, session: &Session) -> bool {
        !session.is_authenticated() && self.shared.dialect().is_valkey()
    }

    /// What a connection may send that is sent messages.
    #[cold]
    fn admit_listener(&self, command: Command, session: &Session) -> Outcome {
        if session.is(Modes::SUBSCRIBER) {
            self.admit_subscriber(command, session)?;
        }
        let touches_keys = bits!(Flags: WRITE, READONLY, MAY_REPLICATE);
        if session.is(Modes::MONITOR) && command.spec.flags.intersects(touches_keys) {
            return Err(Fail::fixed("ERR Replica can't interact with the keyspace"));
        }
        Ok(())
    }

    /// A connection that speaks RESP2 cannot tell messages from replies: while it is subscribed it
    /// may send only what is answered in a way that it can.
    fn admit_subscriber(&self, command: Command, session: &Session) -> Outcome {
        let name = command.spec.meta.name;
        let is_about_it = command.spec.flags.contains(Flags::PUBSUB) && name.ends_with("subscribe");
        if session.protocol == Protocol::Resp3
            || session.in_exec
            || is_about_it
            || matches!(name, "ping" | "quit" | "reset")
        {
            return Ok(());
        }
        let name = self.registry().full_name(command.index);
        Err(Fail::new(format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        )))
    }

    /// What not every session may do, and what not every moment allows.
    fn admit_some(
        &mut self,
        command: Command,
        args: &[&[u8]],
        session: &Session,
        host: &mut dyn Host,
        is_restricted: bool,
    ) -> Outcome {
        let flags = command.spec.flags;
        if !session.is_authenticated() && !flags.contains(Flags::NO_AUTH) {
            return Err(Fail::NO_AUTH);
        }
        if flags.contains(Flags::PROTECTED) {
            host.admit_protected(command)?;
        }
        if flags.contains(Flags::NO_MULTI) && session.in_multi() {
            return Err(not_inside(self, command));
        }
        if is_restricted {
            self.admit_user(command, args, session, host)?;
        }
        Ok(())
    }
}
