//! A stop waits for replicas that have not acknowledged every write.

use crate::config::Config;
use crate::pause::PauseReason;
use crate::server::Server;
use crate::state::outgoing::ReplicaLine;
use crate::state::shutdown::LOOK;
use crate::unix_time::unix_ms;
use petrel_keyspace::Handle;

impl Server {
    /// Whether a stop waits for replicas, unless it is to be at once.
    pub(crate) fn has_to_await_replicas(&self, config: &Config) -> bool {
        config.replication.shutdown_timeout > 0 && !self.lagging_replicas().is_empty()
    }

    /// Replicas that have not acknowledged every change.
    fn lagging_replicas(&self) -> Vec<ReplicaLine> {
        let written = self.outgoing.written();
        self.outgoing.lines().into_iter().filter(|line| line.offset < written).collect()
    }

    /// Waits until every replica has executed every write, for `shutdown-timeout` at most, while
    /// the stop is still wanted. Clients cannot write from then on. The thread is in no batch.
    pub(super) fn await_replicas(&self, ks: &mut Handle, config: &Config) {
        if !self.has_to_await_replicas(config) {
            return;
        }
        tracing::info!("Waiting for replicas before shutting down.");
        let began = unix_ms();
        self.pause_clients(PauseReason::Shutdown, began, i64::MAX, true);
        self.await_writes(ks);
        let patience_ms = config.replication.shutdown_timeout.saturating_mul(1000);
        loop {
            self.ask_replicas();
            let lagging = self.lagging_replicas();
            if lagging.is_empty() || !self.closing.is_requested() {
                return;
            }
            if unix_ms() - began >= patience_ms {
                return self.log_lagging(&lagging);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn log_lagging(&self, lagging: &[ReplicaLine]) {
        let written = self.outgoing.written();
        for ReplicaLine { ip, port, state, offset, lag, .. } in lagging {
            let behind = written.saturating_sub(*offset);
            tracing::warn!(
                "Lagging replica {ip}:{port} reported offset {behind} behind master, lag={lag}, state={state}."
            );
        }
        let all = self.outgoing.lines().len();
        let in_sync = all.saturating_sub(lagging.len());
        tracing::warn!("{in_sync} of {all} replicas are in sync when shutting down.");
    }
}
