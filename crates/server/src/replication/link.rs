//! The thread that follows the primary.
//!
//! ```text
//! wait for a primary to follow ─ connect ─ shake hands ─┬─ copy ─┐
//!    ▲                                                  └────────┴─▶ stream: receive ─ execute
//!    │                                                                       ─ ACK once a second
//!    ├─ a pause that grows, up to a second ◀─ the connection fails, or another role is requested
//!    └─────────────────────── up to a minute ◀─ the primary's stream cannot be applied: it costs
//!                                               a copy
//! ```

use super::apply::Applier;
use super::attempt::{Link, check_request};
use super::copy;
use super::handshake::{Frames, Introduction, REFUSES, shake_hands};
use super::panic_recovery::survive;
use super::wire::Wire;
use crate::client::{Client, Flag};
use crate::config::Config;
use crate::server::{Server, unix_ms};
use crate::state::replication::{LinkState, replica_expires};
use petrel_net::{Endpoint, Slot, local_endpoint, peer_endpoint};
use petrel_replication::primary::{Offer, Words};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Interval between two acknowledgements of executed commands.
const ACK_EVERY: Duration = Duration::from_secs(1);

/// Interval between two checks whether the requested part of the stream is on the disk.
const SYNC_LOOK_EVERY: Duration = Duration::from_millis(10);

/// Until the next try: at first, and the most that it grows to.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// First and longest pause after faults that cost a copy each. A link that lasts as long as the
/// longest pause is trusted again.
const FAULT_PAUSE_MIN: Duration = Duration::from_millis(100);
const FAULT_PAUSE_MAX: Duration = Duration::from_secs(60);

/// For how long this server's own replicas are waited for that are closed.
const LEAVE_PATIENCE: Duration = Duration::from_millis(100);

/// After which a failure that goes on is logged again.
const REPEAT_AFTER: Duration = Duration::from_secs(30);

impl Server {
    /// Starts the thread that follows primaries.
    pub(super) fn start_link(self: &Arc<Self>) -> io::Result<()> {
        let server = self.clone();
        let thread = std::thread::Builder::new().name("petrel-replica".into());
        thread.spawn(move || follow_requests(&server)).map(drop)
    }
}

/// Follows whomever the server is to follow, until it stops.
fn follow_requests(server: &Arc<Server>) {
    replica_expires::follows();
    let mut applier = Applier::new(server);
    let mut troubles = Troubles::default();
    let (mut pause, mut failed_number) = (Duration::ZERO, 0);
    while !server.is_stopping() {
        server.assume_role();
        let Some(link) = next_link(server, pause, failed_number) else { continue };
        let (began, mut faults) = (Instant::now(), applier.faults);
        let figures = &server.replication.link;
        let ended = survive(server, &mut applier, |applier| link.run(applier, &mut troubles));
        server.replication.requested.lock().socket = None;
        if figures.held_for() >= FAULT_PAUSE_MAX {
            applier.faults -= std::mem::take(&mut faults);
        }
        leave(server, LinkState::Connect);
        if link.check_request().is_err() {
            (pause, failed_number, applier.faults) = (Duration::ZERO, 0, 0);
            continue;
        }
        figures.heard_at.store(0, Relaxed);
        if let Err(why) = ended {
            troubles.note(&link, &why);
        }
        // A link that has held is made again at once.
        let has_held = began.elapsed() > PAUSE_MAX;
        pause = match applier.faults {
            now if now > faults => pause_after(now),
            _ if has_held => PAUSE_MIN,
            _ => (2 * pause).clamp(PAUSE_MIN, PAUSE_MAX),
        };
        failed_number = link.request_number;
    }
}

/// Pause after this number of consecutive faults: it doubles with each.
fn pause_after(faults: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(faults.saturating_sub(1));
    FAULT_PAUSE_MIN.saturating_mul(doubled).min(FAULT_PAUSE_MAX)
}

/// Waits for something to follow, and for a pause if the last try of the same failed.
fn next_link(server: &Arc<Server>, pause: Duration, failed_number: u64) -> Option<Link> {
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    let replication = &server.replication;
    let mut requested = replication.requested.lock();
    let is_again = requested.number == failed_number && !requested.is_at_once;
    let is_idle = requested.primary.is_none() || server.commands.is_loading();
    if is_idle || is_again {
        let patience = if is_idle { LOOK_EVERY.min(pause.max(PAUSE_MIN) * 5) } else { pause };
        let before = requested.number;
        replication.role_requested.wait_for(&mut requested, patience);
        if is_idle || requested.number != before {
            return None;
        }
    }
    if requested.is_role_pending() {
        return None;
    }
    let (host, port) = requested.primary.clone()?;
    requested.is_at_once = false;
    Some(Link { server: server.clone(), host, port, request_number: requested.number })
}

/// Notes that the link is in another state, and what follows for the gate.
fn leave(server: &Server, state: LinkState) {
    let figures = &server.replication.link;
    if figures.state() == LinkState::Connected {
        figures.down_since.store(unix_ms() / 1000, Relaxed);
    }
    figures.enter(state);
    server.apply_role(&server.config.snapshot());
}

impl Link {
    /// Follows the primary until the connection fails, or another is to be followed.
    fn run(&self, applier: &mut Applier, troubles: &mut Troubles) -> Result<(), String> {
        let figures = &self.server.replication.link;
        for tries in &figures.tries {
            tries.fetch_add(1, Relaxed);
        }
        figures.enter(LinkState::Connecting);
        figures.sends_frames.store(false, Relaxed);
        let config = self.server.config.snapshot();
        let (server, number) = (self.server.clone(), self.request_number);
        let check = move || check_request(&server, number);
        let mut wire = Wire::connect(&self.host, self.port, &config, check)?;
        {
            let mut requested = self.server.replication.requested.lock();
            self.check_request()?;
            requested.socket = wire.socket().try_clone().ok();
        }
        let _shown = self.show(&wire);
        figures.enter(LinkState::Handshake);
        let offer = self.introduce(&mut wire, applier, &config)?;
        let primary = format_args!("{}:{}", self.host, self.port);
        let (Offer::Continue { words, .. } | Offer::Copy { words, .. }) = offer;
        let Words { frames, is_petrel } = words;
        figures.sends_frames.store(frames, Relaxed);
        if figures.is_petrel.swap(is_petrel, Relaxed) != is_petrel {
            // The replicas' handshakes stated otherwise.
            self.server.replication.tell_downstream(|downstream| downstream.renamed());
        }
        match offer {
            Offer::Continue { id, .. } => {
                if let Some(id) = id {
                    self.rename_history(id);
                }
                let offset = self.server.replication.offset();
                tracing::info!("the primary at {primary} continues after byte {offset}");
            }
            Offer::Copy { id, offset, .. } => {
                tracing::info!(
                    "the primary at {primary} sends a copy: history {id}, byte {offset}"
                );
                copy::take_over(&mut wire, self, applier, (id, offset))?;
            }
        }
        self.server.keep_stream(applier);
        self.server.note_encoding(frames);
        self.note_connected();
        self.server.finish_failover();
        troubles.forget();
        self.stream(&mut wire, applier)
    }

    /// Requests the missing part of the stream; in a failover, also asks the replica at the other
    /// end to become the primary. If it refuses, this server is the primary again.
    fn introduce(
        &self,
        wire: &mut Wire,
        applier: &Applier,
        config: &Config,
    ) -> Result<Offer, String> {
        let hands_over = self.server.replication.failover.is_handing_over();
        let history = applier.history(&self.server);
        let frames = match (applier.reads_frames(), self.server.needs_commands(config)) {
            (true, false) => Frames::Reads,
            (true, true) => Frames::WantsCommands,
            (false, _) => Frames::Silent,
        };
        let wants_commands = frames == Frames::WantsCommands;
        self.server.replication.link.asked_commands.store(wants_commands, Relaxed);
        let offer = shake_hands(wire, &Introduction { config, history, hands_over, frames });
        if !hands_over {
            return offer;
        }
        let why = match &offer {
            // It is the primary. One that was forced, and did not get every write, sends a copy.
            Ok(_) => {
                self.server.finish_failover();
                return offer;
            }
            // After a lost connection, the other end's decision is unknown: ask again.
            Err(why) if !why.contains(REFUSES) => return offer,
            // It did become one: the answer that said so was lost.
            Err(why) if why.contains("can't be sent to a master") => {
                self.server.finish_failover();
                return offer;
            }
            Err(why) => why.clone(),
        };
        self.server.abort_failover(&why, None);
        Err(why)
    }

    /// Shows the connection in `CLIENT LIST` as long as the returned value lives.
    fn show(&self, wire: &Wire) -> Shown<'_> {
        let (server, socket) = (&self.server, wire.socket());
        let peer = peer_endpoint(socket.as_fd()).unwrap_or(Endpoint::Unix);
        let local = local_endpoint(socket.as_fd()).unwrap_or(Endpoint::Unix);
        let now = server.uptime_seconds();
        let fd = socket.as_raw_fd();
        let client = Client::new(server.next_client_id(), 0, Slot::NOWHERE, now, fd, peer, local);
        client.set(Flag::Primary, true);
        client.set(Flag::Authenticated, true);
        *server.replication.link.client.lock() = Some(Arc::new(client));
        Shown(server)
    }

    /// Pauses the primary's stream during `CLIENT PAUSE`: the offset does not advance.
    fn is_paused(&self) -> bool {
        const STEP: Duration = Duration::from_millis(10);
        let is_paused = self.server.commands.pause.active(unix_ms()).is_some();
        if is_paused {
            std::thread::sleep(STEP);
        }
        is_paused
    }

    /// The primary continues its history under a new id.
    fn rename_history(&self, id: String) {
        let replication = &self.server.replication;
        {
            let mut ids = replication.ids.lock();
            if ids.id == id {
                return;
            }
            let earlier = std::mem::replace(&mut ids.id, id);
            ids.second_id = earlier;
            ids.second_offset = replication.offset() + 1;
        }
        replication.tell_downstream(|downstream| downstream.renamed());
        // A client that sees this link up sees the others on the way to ask for the new name.
        self.server.outgoing.await_leavers(LEAVE_PATIENCE);
    }

    fn note_received(&self, bytes: usize) {
        let figures = &self.server.replication.link;
        figures.heard_at.store(unix_ms() / 1000, Relaxed);
        figures.received.fetch_add(bytes as u64, Relaxed);
        if let Some(client) = figures.client() {
            client.received.fetch_add(bytes as u64, Relaxed);
            client.active_at.store(self.server.uptime_seconds(), Relaxed);
        }
    }

    fn note_connected(&self) {
        let figures = &self.server.replication.link;
        let now = unix_ms() / 1000;
        figures.heard_at.store(now, Relaxed);
        figures.up_since.store(now, Relaxed);
        let since = figures.down_since.swap(0, Relaxed);
        if since > 0 {
            figures.down_seconds.fetch_add((now - since).max(0), Relaxed);
        }
        figures.tries[0].store(0, Relaxed);
        figures.has_synced.store(true, Relaxed);
        figures.enter(LinkState::Connected);
        self.server.apply_role(&self.server.config.snapshot());
    }

    /// Executes the primary's stream and acknowledges it.
    fn stream(&self, wire: &mut Wire, applier: &mut Applier) -> Result<(), String> {
        let lost = |error: io::Error| format!("the connection is lost: {error}");
        applier.begin_stream(std::mem::take(wire.received()));
        // At once: a primary may wait for it before it sends more.
        let mut acked_at: Option<Instant> = None;
        // Offset of the last requested acknowledgement, until it is on the disk.
        let mut awaited: Option<i64> = None;
        loop {
            let is_paused = self.is_paused();
            let asked = if is_paused { None } else { applier.execute_received(self)? };
            let is_due = acked_at.is_none_or(|at| at.elapsed() >= ACK_EVERY);
            let is_synced = awaited.is_some_and(|at| applier.synced().is_none_or(|to| to >= at));
            awaited = asked.or(awaited.filter(|_| !is_synced));
            if asked.is_some() || is_due || is_synced {
                let offset = asked.unwrap_or_else(|| self.server.replication.offset());
                wire.send(&applier.acknowledgement(offset)).map_err(lost)?;
                acked_at = Some(Instant::now());
            }
            self.check_request()?;
            if is_paused || applier.has_whole_commands() {
                continue;
            }
            let waited = acked_at.map_or(ACK_EVERY, |at| at.elapsed());
            let pause = if awaited.is_some() { SYNC_LOOK_EVERY } else { ACK_EVERY };
            if wire.receive_within(pause.min(ACK_EVERY.saturating_sub(waited))).map_err(lost)? {
                self.note_received(wire.received().len());
                applier.take_from(wire.received());
            }
        }
    }
}

/// The connection is in `CLIENT LIST`.
struct Shown<'s>(&'s Server);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        *self.0.replication.link.client.lock() = None;
    }
}

/// Recent errors, so that a repeated one is not logged each time.
#[derive(Default)]
struct Troubles {
    last: Option<(String, Instant)>,
}

impl Troubles {
    fn note(&mut self, link: &Link, why: &str) {
        let is_known =
            self.last.as_ref().is_some_and(|(last, at)| last == why && at.elapsed() < REPEAT_AFTER);
        if !is_known {
            tracing::warn!("the primary at {}:{}: {why}; retrying", link.host, link.port);
            self.last = Some((why.into(), Instant::now()));
        }
    }

    fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_faults_double_up_to_a_minute() {
        let millis = |faults| pause_after(faults).as_millis();
        assert_eq!([1, 2, 3, 6].map(millis), [100, 200, 400, 3200]);
        assert_eq!([10, 11, 40, u32::MAX].map(millis), [51_200, 60_000, 60_000, 60_000]);
    }
}
