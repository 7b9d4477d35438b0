//! ACL checks of the gate: permissions of a session, and the error, count and log entry of a
//! denial.

use super::check::{Call, Denial, Reason};
use super::log::{Context, LogEntry};
use super::permissions::Permissions;
use super::user::{Access, Seen, User};
use super::users::Users;
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::session::Session;
use crate::spec::{Command, Flags};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Executor {
    /// The user of a session; `None` if it has to log in.
    pub fn user<'s>(&'s self, session: &'s Session) -> Option<&'s Arc<User>> {
        user_of(&self.shared.users, session)
    }

    /// Whether the session's permissions may be limited.
    #[inline]
    pub(crate) fn restricts(&self, session: &Session) -> bool {
        session.access != Access::Default || self.shared.users.restrict_default()
    }

    /// Permissions of a session; `None` if it has to log in.
    pub fn permissions(&mut self, session: &Session) -> Option<&Permissions> {
        let user = user_of(&self.shared.users, session)?;
        // The version is read first: if the permissions change in between, they are read again next
        // time.
        let version = user.version();
        let is_seen = |seen: &Seen| seen.version == version && Arc::ptr_eq(&seen.user, user);
        if !self.seen.as_ref().is_some_and(is_seen) {
            let (user, permissions) = (user.clone(), user.permissions());
            self.seen = Some(Seen { user, version, permissions });
        }
        self.seen.as_ref().map(|seen| &*seen.permissions)
    }

    /// Checks a call of a session, without logging or counting a denial. The number of arguments
    /// matches the arity.
    ///
    /// # Errors
    /// The denial.
    pub fn check_call(
        &mut self,
        session: &Session,
        command: Command,
        args: &[&[u8]],
    ) -> Result<(), Denial> {
        let databases = self.ks.keyspace().databases();
        let db = session.db_of_next_queued();
        match self.permissions(session) {
            Some(own) => own.check(&Call { command, args, db, databases }),
            None if command.spec.flags.contains(Flags::NO_AUTH) => Ok(()),
            None => Err(Denial { reason: Reason::Command, index: 0 }),
        }
    }

    /// Checks the permissions of the session's user; logs and counts a denial.
    pub(crate) fn admit_user(
        &mut self,
        command: Command,
        args: &[&[u8]],
        session: &Session,
        host: &mut dyn Host,
    ) -> Outcome {
        if self.user(session).is_some_and(|user| user.may_do_everything()) {
            return Ok(());
        }
        let checked = self.check_call(session, command, args);
        checked.map_err(|denial| self.refuse(denial, command, args, session, host))
    }

    #[cold]
    fn refuse(
        &mut self,
        denial: Denial,
        command: Command,
        args: &[&[u8]],
        session: &Session,
        host: &mut dyn Host,
    ) -> Fail {
        let name = self.registry().full_name(command.index).to_owned();
        let object = match denial.index {
            0 => name.clone().into_bytes(),
            index => args[index].to_vec(),
        };
        let user = self.user(session).map_or(Vec::new(), |user| user.name().to_vec());
        self.note_refusal(denial.reason.into(), object, &user, session, host);
        if session.in_exec && !self.within_script {
            return Fail::new(format!(
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: {}",
                reason_in_exec(denial.reason)
            ));
        }
        let fail = refusal(denial.reason, &user, &name);
        if self.within_script {
            let why = fail.text().strip_prefix(b"NOPERM ").unwrap_or(fail.text());
            return Fail::new([b"ERR ACL failure in script: ", why].concat());
        }
        fail
    }

    /// Counts and logs a denial.
    pub fn note_refusal(
        &mut self,
        kind: DenialKind,
        object: Vec<u8>,
        user: &[u8],
        session: &Session,
        host: &mut dyn Host,
    ) {
        let context = match () {
            () if self.within_script => Context::Script,
            () if session.in_multi() || session.in_exec => Context::Multi,
            () => Context::TopLevel,
        };
        let users = &self.shared.users;
        users.refused[kind as usize].fetch_add(1, Relaxed);
        let entry = LogEntry {
            count: 1,
            reason: kind.name(),
            context,
            object,
            user: user.to_vec(),
            client: host.client_info(session),
            id: 0,
            created_ms: 0,
            updated_ms: 0,
        };
        users.log.add(entry, self.ks.now_ms());
    }
}

fn user_of<'s>(users: &'s Users, session: &'s Session) -> Option<&'s Arc<User>> {
    match session.access {
        Access::Default => Some(users.default_user()),
        Access::User => session.user(),
        Access::Unauthenticated => None,
    }
}

impl Ctx<'_> {
    /// Whether the caller may run the current command and read every key, which commands with key
    /// patterns need.
    pub(crate) fn reads_every_key(&mut self) -> bool {
        let (command, args) = (self.command, self.request.args);
        let permissions = self.exec.permissions(self.session);
        permissions.is_some_and(|own| own.read_every_key(command, args))
    }
}

/// Kind of a denial in `INFO` and `ACL LOG`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DenialKind {
    /// A login.
    Login,
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A database.
    Database,
}

impl DenialKind {
    fn name(self) -> &'static str {
        match self {
            DenialKind::Login => "auth",
            DenialKind::Command => "command",
            DenialKind::Key => "key",
            DenialKind::Channel => "channel",
            DenialKind::Database => "database",
        }
    }
}

impl From<Reason> for DenialKind {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Database => DenialKind::Database,
            Reason::Command => DenialKind::Command,
            Reason::Key => DenialKind::Key,
            Reason::Channel => DenialKind::Channel,
        }
    }
}

fn refusal(reason: Reason, user: &[u8], name: &str) -> Fail {
    match reason {
        Reason::Database => Fail::fixed("NOPERM No permissions to access database"),
        Reason::Key => Fail::fixed("NOPERM No permissions to access a key"),
        Reason::Channel => Fail::fixed("NOPERM No permissions to access a channel"),
        Reason::Command => {
            let why = format!(" has no permissions to run the '{name}' command");
            Fail::new([b"NOPERM User ", user, why.as_bytes()].concat())
        }
    }
}

fn reason_in_exec(reason: Reason) -> &'static str {
    match reason {
        Reason::Database => "no permission",
        Reason::Command => "no permission to execute the command or subcommand",
        Reason::Key => "no permission to touch the specified keys",
        Reason::Channel => {
            "no permission to access one of the channels used as arguments to the command"
        }
    }
}
