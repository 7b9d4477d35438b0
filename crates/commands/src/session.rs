//! Session: the state of a connection that commands read and change.

use crate::acl::{Access, User};
use crate::hashes::fieldsets::Fieldsets;
use crate::modes::Modes;
use crate::reply_slots::ReplySlots;
use crate::spec::{Command, Queue};
use crate::tracking::mode::Tracking;
use crate::watched_away::WatchedAway;
use petrel_keyspace::WatchedKey;
use petrel_resp::Protocol;
use petrel_table::GateFlags;
use std::collections::HashSet;
use std::sync::Arc;

/// State of a connection that commands read and change. Idle connections keep one as well, so
/// rarely used state lies behind a box.
#[derive(Debug)]
pub struct Session {
    /// Selected database.
    pub db: u16,
    /// Protocol that `HELLO` chose.
    pub protocol: Protocol,
    /// Origin of the session's permissions.
    pub access: Access,
    /// Modes that are on.
    pub modes: Modes,
    /// Reply mode (`CLIENT REPLY`).
    pub replies: Replies,
    /// True while `EXEC` runs the queued commands.
    pub in_exec: bool,
    /// Closes the connection once its output is written.
    pub close: bool,
    /// Rarely used state, allocated on first use.
    pub extras: Option<Box<Extras>>,
}

/// State of a connection that most connections do not use.
#[derive(Debug, Default)]
pub struct Extras {
    /// An open `MULTI`, or watched keys.
    pub transaction: Option<Box<Transaction>>,
    /// `CLIENT TRACKING ON`.
    pub tracking: Option<Tracking>,
    /// `CLIENT IMPORT-SOURCE ON`: reads expired keys while they are still stored.
    pub imports: bool,
    /// ACL user other than the default user; valid if `access` is `User`.
    pub user: Option<Arc<User>>,
    /// Replies waiting for replies of other nodes.
    pub slots: Option<Box<ReplySlots>>,
    /// Field sets of `HIMPORT PREPARE`.
    pub fieldsets: Option<Box<Fieldsets>>,
}

/// Reply mode of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Replies {
    /// Replies are sent.
    #[default]
    On,
    /// Replies are dropped.
    Off,
    /// `CLIENT REPLY SKIP` itself: drops its reply and the next.
    SkipNext,
    /// Drops this reply, unless the command turns replies on.
    Skip,
}

/// An open transaction, or watched keys waiting for one.
#[derive(Debug, Default)]
pub struct Transaction {
    /// True after `MULTI`.
    pub open: bool,
    /// A command could not be queued, so `EXEC` will be rejected.
    pub spoiled: bool,
    /// Commands in order.
    pub queued: Queue,
    /// Database selected after the queued commands, if one of them selects one.
    pub db: Option<u16>,
    /// Bytes of the queued arguments.
    pub bytes: usize,
    /// Keys of `WATCH`.
    pub watched: HashSet<WatchedKey>,
    /// Bytes of their names.
    pub watched_bytes: usize,
    /// Watched keys with a primary on another node.
    pub watched_away: Option<Box<WatchedAway>>,
}

impl Transaction {
    /// Resets it for reuse by another connection; keeps the queue's memory.
    pub(crate) fn clear(&mut self) {
        let Transaction { open, spoiled, queued, db, bytes, watched, .. } = self;
        (*open, *spoiled, *db, *bytes) = (false, false, None, 0);
        (self.watched_away, self.watched_bytes) = (None, 0);
        queued.clear();
        if watched.capacity() > 0 {
            *watched = HashSet::new();
        }
    }
}

impl Session {
    /// The state of a new connection.
    pub fn new(authenticated: bool) -> Self {
        let access = if authenticated { Access::Default } else { Access::Unauthenticated };
        Session {
            db: 0,
            protocol: Protocol::Resp2,
            access,
            modes: Modes::NONE,
            replies: Replies::On,
            in_exec: false,
            close: false,
            extras: None,
        }
    }

    /// Whether a mode is on.
    #[inline]
    pub fn is(&self, mode: Modes) -> bool {
        self.modes.contains(mode)
    }

    /// Switches a mode on or off.
    pub fn set(&mut self, mode: Modes, on: bool) {
        self.modes = if on { self.modes.with(mode) } else { self.modes.without(mode) };
    }

    /// Whether the session is authenticated, or needs no authentication.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        self.access != Access::Unauthenticated
    }

    /// The authenticated user, unless it is the default user.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.extras.as_ref()?.user.as_ref().filter(|_| self.access == Access::User)
    }

    /// Switches to this user; `None`: the default user.
    pub fn become_user(&mut self, user: Option<Arc<User>>) {
        self.access = if user.is_some() { Access::User } else { Access::Default };
        if user.is_some() || self.extras.is_some() {
            self.extras_mut().user = user;
        }
    }

    /// Requires authentication from now on.
    pub fn log_out(&mut self) {
        self.become_user(None);
        self.access = Access::Unauthenticated;
    }

    /// Whether commands are being queued for `EXEC`.
    #[inline]
    pub fn in_multi(&self) -> bool {
        self.transaction().is_some_and(|transaction| transaction.open)
    }

    /// Database of the next command to execute or queue.
    pub(crate) fn db_of_next_queued(&self) -> u16 {
        let open = self.transaction().filter(|transaction| transaction.open);
        open.and_then(|transaction| transaction.db).unwrap_or(self.db)
    }

    /// Rarely used state, allocated if missing.
    pub fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Tracking state, if `CLIENT TRACKING` is on.
    pub fn tracking(&self) -> Option<&Tracking> {
        self.extras.as_ref()?.tracking.as_ref()
    }

    /// Like [`Session::tracking`], but mutable.
    pub fn tracking_mut(&mut self) -> Option<&mut Tracking> {
        self.extras.as_mut()?.tracking.as_mut()
    }

    /// Replies waiting for replies of other nodes, if any.
    pub fn reply_slots(&self) -> Option<&ReplySlots> {
        self.extras.as_ref()?.slots.as_deref()
    }

    /// Like [`Session::reply_slots`], but mutable; created if missing.
    pub fn reply_slots_mut(&mut self) -> &mut ReplySlots {
        self.extras_mut().slots.get_or_insert_default()
    }

    /// Whether `CLIENT TRACKING` or `CLIENT IMPORT-SOURCE` is on.
    pub(crate) fn tracks_or_imports(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.tracking.is_some() || extras.imports)
    }

    /// Switches `CLIENT IMPORT-SOURCE` on or off.
    pub fn set_imports(&mut self, on: bool) {
        if on || self.extras.is_some() {
            self.extras_mut().imports = on;
        }
    }

    /// The transaction, if there is one.
    #[inline]
    pub fn transaction(&self) -> Option<&Transaction> {
        self.extras.as_ref()?.transaction.as_deref()
    }

    /// The transaction, created if missing.
    pub fn transaction_mut(&mut self) -> &mut Transaction {
        self.extras_mut().transaction.get_or_insert_default()
    }

    /// The transaction, if `MULTI` has opened it.
    pub fn open_transaction(&mut self) -> Option<&mut Transaction> {
        self.extras.as_mut()?.transaction.as_deref_mut().filter(|transaction| transaction.open)
    }

    /// Takes the field sets out.
    pub fn take_fieldsets(&mut self) -> Option<Box<Fieldsets>> {
        self.extras.as_mut()?.fieldsets.take()
    }

    /// Swaps the field sets.
    pub(crate) fn swap_fieldsets(&mut self, others: &mut Option<Box<Fieldsets>>) {
        if let Some(extras) = self.extras.as_mut() {
            std::mem::swap(&mut extras.fieldsets, others);
        } else if others.is_some() {
            self.extras_mut().fieldsets = others.take();
        }
    }

    /// Queued commands of an open `MULTI`.
    pub fn open_transaction_queue(&self) -> Option<&Queue> {
        self.transaction().filter(|transaction| transaction.open).map(|open| &open.queued)
    }

    /// Commands that this one runs, if it is `EXEC`.
    pub(crate) fn queue_run_by(&self, command: Command) -> Option<&Queue> {
        let runs = command.spec.gate.contains(GateFlags::RUNS_QUEUE);
        self.open_transaction_queue().filter(|_| runs)
    }

    /// Ends the transaction and returns it.
    pub fn take_transaction(&mut self) -> Option<Box<Transaction>> {
        self.extras.as_mut()?.transaction.take()
    }
}
