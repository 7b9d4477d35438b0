//! Asking for a review, and what each worker does for it.

use crate::client::{Client, Flag};
use crate::event_loop::worker::Worker;
use crate::host::ServerHost;
use crate::state::mailbox::Message;
use crate::state::pubsub::ChannelKind;
use crate::state::review::{Asker, Review};
use petrel_commands::acl::{DEFAULT_USER, User};
use petrel_commands::{Ctx, Outcome};
use petrel_net::Driver;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};

/// Replies OK once no connection of these changed users is subscribed to channels forbidden to it.
pub fn reply_when_reviewed(ctx: &mut Ctx<'_>, users: Vec<Arc<User>>) -> Outcome {
    let host = ServerHost::of(ctx);
    let (server, caller, worker) = (host.server.clone(), host.client.clone(), host.worker());
    let subscribers = server.clients().into_iter().filter(|client| concerns(client, &users));
    let (own, others): (Vec<_>, Vec<_>) =
        subscribers.partition(|client| usize::from(client.worker) == worker);
    let lost: Vec<_> = own.iter().filter(|client| host.hears_too_much(client)).collect();
    lost.iter().filter(|client| client.id != caller.id).for_each(|client| server.kill(client));
    ctx.session.close |= lost.iter().any(|client| client.id == caller.id);
    // Where no listener is known one may be about to come, so that every worker looks; but
    // no client waits for it.
    let waits = !others.is_empty() && !ctx.session.close && !ctx.session.in_exec;
    let asker = match waits {
        true => Some(Asker { client: caller, call: ctx.offload()? }),
        false => {
            ctx.ok()?;
            None
        }
    };
    let left = AtomicUsize::new(server.workers.len() - 1);
    let review = Arc::new(Review { users: users.into(), left, asker });
    let workers = (0..server.workers.len()).filter(|&other| other != worker);
    workers.for_each(|other| server.tell(other, Message::Review(review.clone())));
    Ok(())
}

/// Whether a connection listens, and is of one of these users.
fn concerns(client: &Client, users: &[Arc<User>]) -> bool {
    let is_of = |user: &Arc<User>, own: &Option<Arc<User>>| match own {
        Some(own) => Arc::ptr_eq(own, user),
        None => user.name() == DEFAULT_USER,
    };
    client.has(Flag::PubSub) && {
        let own = client.user();
        users.iter().any(|user| is_of(user, &own))
    }
}

impl ServerHost {
    /// Whether a connection of this worker has a subscription that its user may not have.
    fn hears_too_much(&self, client: &Client) -> bool {
        let user = client.user();
        let user = user.as_ref().unwrap_or_else(|| self.server.commands.users.default_user());
        let Some(own) = self.subscribers.of(client.id) else { return false };
        let permissions = user.permissions();
        ChannelKind::ALL.iter().any(|&kind| {
            let forbidden =
                |name: &Arc<[u8]>| !permissions.allow_channel(name, kind == ChannelKind::Pattern);
            own.names(kind).iter().any(forbidden)
        })
    }
}

impl<D: Driver> Worker<D> {
    /// Closes connections of this worker that hear too much; the last worker that has done so
    /// answers.
    pub(crate) fn review(&mut self, review: &Review) {
        let host = &self.engine.host;
        let is_forbidden =
            |client: &Client| concerns(client, &review.users) && host.hears_too_much(client);
        let slots: Vec<_> = self
            .connections()
            .filter(|conn| is_forbidden(&conn.client))
            .map(|conn| conn.slot)
            .collect();
        self.begin();
        slots.into_iter().for_each(|slot| self.forget(slot));
        self.engine.exec.end();
        let is_last = review.left.fetch_sub(1, AcqRel) == 1;
        if let Some(asker) = review.asker.as_ref().filter(|_| is_last) {
            let Asker { client, call } = asker;
            let answer = self.engine.exec.finish(call, &mut self.engine.host, Ok("OK"));
            let (slot, id) = (client.slot, client.id);
            let message = Message::Answer { slot, id, answer };
            self.engine.host.server.tell(usize::from(client.worker), message);
        }
    }
}
