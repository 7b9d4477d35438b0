//! A panic on the link's thread ends the link, and not replication: its locks are released, its
//! helper threads end, and if a batch was partially applied, the data belong to no history until
//! there is a new copy.

use super::apply::Applier;
use crate::server::Server;
use crate::state::replication::{LinkState, Replication};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Runs a link's work. A panic becomes an error, and the applier is replaced.
///
/// # Errors
/// The error of the work, or a line about the panic.
pub(super) fn survive(
    server: &Arc<Server>,
    applier: &mut Applier,
    work: impl FnOnce(&mut Applier) -> Result<(), String>,
) -> Result<(), String> {
    let done = catch_unwind(AssertUnwindSafe(|| work(applier)));
    done.unwrap_or_else(|panic| {
        let fresh = Applier::new(server);
        std::mem::replace(applier, fresh).give_up(server, applier);
        Err(format!("a panic of this server ({}) has ended the link", text_of(&*panic)))
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

impl Applier {
    /// Ends after a panic, and prepares `next` according to the interrupted work.
    fn give_up(self, server: &Server, next: &mut Applier) {
        let replication = &server.replication;
        let Applier { exec, hands, distrusts_frames, broken, faults, .. } = self;
        // Release locks that other threads may wait for.
        drop(exec);
        hands.end();
        let _applying = replication.applying.lock();
        let was_loading =
            replication.link.state() == LinkState::Sync && server.commands.is_loading();
        let was_amid = replication.is_amid.load(Relaxed);
        (next.broken, next.faults) = (broken, faults);
        next.distrusts_frames =
            distrusts_frames || was_amid && replication.link.sends_frames.load(Relaxed);
        if was_amid || was_loading {
            next.broken = Some(replication.ids().id);
            next.faults += 1;
            // A server that was promoted meanwhile has begun a history without a past.
            replication.is_broken.store(replication.is_replica(), Relaxed);
        }
        if was_loading {
            next.clear(true);
            replication.replica_expires.forget();
            server.finish_loading();
        }
        replication.is_amid.store(false, Relaxed);
    }
}

impl Replication {
    /// Whether the data was in no history; from now on it is the beginning of one.
    pub(super) fn was_broken(&self) -> bool {
        let was_broken = self.is_amid();
        self.is_broken.store(false, Relaxed);
        was_broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, SavePoints, SharedConfig};
    use crate::lifecycle::process::Indifferent;
    use petrel_commands::Executor;

    fn server() -> Arc<Server> {
        let config = Config { save: SavePoints::default(), ..Config::default() };
        let config = Arc::new(SharedConfig::new(config, None));
        let (registry, _) = crate::commands::registry(config.renames());
        Server::new(config, registry, Box::new(Indifferent))
    }

    /// Checks that another thread can lock the whole keyspace.
    fn hold_all(server: &Arc<Server>) {
        let mut other = Executor::new(server.keyspace.attach(), server.commands.clone());
        other.begin();
        other.ks.lock_all();
        other.ks.unlock();
        other.end();
    }

    #[test]
    fn a_panic_amid_a_batch_leaves_no_lock_and_costs_the_history() {
        let server = server();
        let replication = &server.replication;
        replication.is_replica.store(true, Relaxed);
        replication.link.sends_frames.store(true, Relaxed);
        let mut applier = Applier::new(&server);
        assert!(applier.history(&server).is_some());
        let why = survive(&server, &mut applier, |applier| {
            let _applying = server.replication.applying.lock();
            applier.exec.begin();
            server.replication.is_amid.store(true, Relaxed);
            applier.exec.ks.lock_all();
            panic!("of a test");
        });
        let why = why.unwrap_err();
        assert!(why.contains("of a test"), "{why}");
        hold_all(&server);
        assert_eq!((applier.history(&server), applier.faults), (None, 1));
        assert!(!applier.reads_frames());
        assert!(replication.is_amid() && !replication.is_amid.load(Relaxed));
        assert!(replication.was_broken() && !replication.is_amid());
    }

    #[test]
    fn a_panic_between_two_batches_costs_the_link_alone() {
        let server = server();
        let mut applier = Applier::new(&server);
        let why = survive(&server, &mut applier, |_| panic!("number {}", 7));
        assert!(why.unwrap_err().contains("number 7"));
        assert!(applier.history(&server).is_some() && applier.reads_frames());
        assert_eq!(applier.faults, 0);
        assert!(!server.replication.is_amid());
        assert_eq!(survive(&server, &mut applier, |_| Ok(())), Ok(()));
    }

    #[test]
    fn a_panic_amid_a_copy_leaves_an_empty_server_that_is_not_loading() {
        let server = server();
        server.replication.is_replica.store(true, Relaxed);
        let mut applier = Applier::new(&server);
        let ended = survive(&server, &mut applier, |_| {
            server.replication.link.enter(LinkState::Sync);
            server.begin_loading(&server.config.snapshot());
            panic!("during a copy");
        });
        assert!(ended.is_err() && !server.commands.is_loading());
        assert_eq!((applier.history(&server), applier.faults), (None, 1));
        hold_all(&server);
    }
}
