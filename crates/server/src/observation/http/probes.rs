//! Liveness and readiness.
//!
//! `/health` fails if the process has to be restarted: a worker's event loop does not turn. It
//! answers 200 while the data is loaded, and while commands are refused.
//!
//! `/ready` fails while a load balancer should send clients elsewhere: where `PING` is answered
//! with an error, and where commands would be although `PING` is not.

use crate::server::Server;
use petrel_commands::{Fail, ServerState};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Workers turn at least once a second; one that does not for so long is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(3);

/// A look at all workers, which lasts until each has turned.
pub struct Liveness {
    before: Vec<u64>,
    due: Instant,
}

impl Liveness {
    /// Begins to watch; none while the workers are not all there yet.
    pub fn watch(server: &Server, now: Instant) -> Option<Self> {
        let before = turns(server);
        let runs = before.iter().all(|&turns| turns > 0);
        runs.then(|| Liveness { before, due: now + STUCK_AFTER })
    }

    /// The result, once it is known: the worker that is stuck, if one is.
    pub fn result(&self, server: &Server, now: Instant) -> Option<Result<(), usize>> {
        let mut pairs = turns(server).into_iter().zip(&self.before);
        match pairs.position(|(now, before)| now == *before) {
            None => Some(Ok(())),
            Some(worker) => (now > self.due).then_some(Err(worker)),
        }
    }
}

fn turns(server: &Server) -> Vec<u64> {
    server.traffic().map(|traffic| traffic.turns.load(Relaxed)).collect()
}

/// The reason for sending clients elsewhere, if there is one.
pub fn unready(server: &Server) -> Option<String> {
    if server.is_stopping() {
        return Some("stopping".into());
    }
    if turns(server).contains(&0) {
        return Some("starting".into());
    }
    let cluster = server.commands.cluster.get();
    // A witness may be loading what every member gets, and will not be ready when it has.
    let is_witness = cluster.is_some_and(|cluster| cluster.lacks_data().is_some());
    if server.commands.is_loading() && !is_witness {
        return Some("loading the data".into());
    }
    if let Some(why) = cluster.and_then(|cluster| cluster.unready()) {
        return Some(why.into());
    }
    if let Some((host, port)) = server.replication.awaits_first_sync() {
        return Some(format!("waiting for the data of the primary at {host}:{port}"));
    }
    if server.commands.is_in_state(ServerState::Stale) {
        return Some(text(&Fail::MASTER_DOWN));
    }
    // Reads are served while replicas are missing, and so is PING.
    let fail = server.commands.write_refusal().filter(|fail| *fail != Fail::TOO_FEW_REPLICAS);
    fail.map(|fail| text(&fail))
}

fn text(fail: &Fail) -> String {
    String::from_utf8_lossy(fail.text()).into_owned()
}
