//! Ends of transactions and watches, under the locks of the watched keys.

use crate::fail::Fail;
use crate::modes::Modes;
use crate::session::Session;
use crate::spec::Command;
use petrel_keyspace::Handle;
use petrel_table::GateFlags;

/// Marks the client's transaction as failed by a rejected command: an open transaction can no
/// longer be executed, and a rejected `EXEC` ends it with every watch, open or not. Returns the
/// error to reply.
pub(crate) fn spoil(
    ks: &mut Handle,
    session: &mut Session,
    command: Option<Command>,
    fail: Fail,
) -> Fail {
    if !command.is_some_and(|command| command.spec.gate.contains(GateFlags::RUNS_QUEUE)) {
        if let Some(transaction) = session.open_transaction() {
            transaction.spoiled = true;
        }
        return fail;
    }
    abandon(ks, session);
    // A redirected client sends the whole transaction to the other node.
    let is_routing = session.is(Modes::CLUSTER_CLIENT) && fail == Fail::CROSS_SLOT;
    if is_routing || fail.is_redirection() { fail } else { aborted(&fail) }
}

/// Error of an `EXEC` that is rejected because of `fail`.
pub(crate) fn aborted(fail: &Fail) -> Fail {
    let reason = fail.text();
    let reason = reason.strip_prefix(b"ERR ").unwrap_or(reason);
    Fail::new([b"EXECABORT Transaction discarded because of: ", reason].concat())
}

/// Ends an open transaction and every watch. The thread is in a batch.
pub(crate) fn abandon(ks: &mut Handle, session: &mut Session) {
    release(ks, session);
    session.take_transaction();
}

/// Ends every watch. The thread is in a batch.
pub(crate) fn release(ks: &mut Handle, session: &mut Session) {
    let Some(transaction) = session.extras.as_mut().and_then(|extras| extras.transaction.as_mut())
    else {
        return;
    };
    transaction.watched_away = None;
    for watched in std::mem::take(&mut transaction.watched) {
        if ks.holds_any() {
            ks.unwatch(&watched);
        } else {
            ks.lock(ks.hash(watched.key()));
            ks.unwatch(&watched);
            ks.unlock();
        }
    }
    if !transaction.open {
        session.take_transaction();
    }
}

/// Whether the session watches keys; ending its transaction then requires their locks.
pub(crate) fn watches_keys(session: &Session) -> bool {
    session.transaction().is_some_and(|transaction| !transaction.watched.is_empty())
}
