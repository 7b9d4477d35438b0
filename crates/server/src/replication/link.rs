//! The thread that follows the primary.
//!
//! ```text
//! wait for a primary to follow ─ connect ─ shake hands ─┬─ copy ─┐
//!        ▲                                              └────────┴─▶ stream: receive ─ execute ─ ACK once a second
//!        └────────── a pause that grows, up to a second ◀─ the connection fails, or the wish changes
//! ```

use super::apply::Applier;
use super::handshake::{Introduction, Offer, shake_hands};
use super::wire::Wire;
use super::{LinkState, copy};
use crate::server::{Server, unix_ms};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Between two acknowledgements of what has been executed.
const ACK_EVERY: Duration = Duration::from_secs(1);

/// Until the next try: at first, and the most that it grows to.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// After which a failure that goes on is logged again.
const REPEAT_AFTER: Duration = Duration::from_secs(30);

/// One attempt to follow a primary.
pub(super) struct Link {
    pub server: Arc<Server>,
    host: String,
    port: u16,
    /// [`super::Wish::number`] when it began.
    wish_number: u64,
}

impl Server {
    /// Starts the thread that follows primaries.
    pub(super) fn start_link(self: &Arc<Self>) -> io::Result<()> {
        let server = self.clone();
        let thread = std::thread::Builder::new().name("petrel-replica".into());
        thread.spawn(move || follow_wishes(&server)).map(drop)
    }
}

/// Follows whomever the server is to follow, until it stops.
fn follow_wishes(server: &Arc<Server>) {
    let mut applier = Applier::new(server);
    let mut troubles = Troubles::default();
    let (mut pause, mut failed_number) = (Duration::ZERO, 0);
    while !server.is_stopping() {
        server.assume_role();
        let Some(link) = next_link(server, pause, failed_number) else { continue };
        let began = Instant::now();
        let figures = &server.replication.link;
        let ended = link.run(&mut applier, &mut troubles);
        server.replication.wish.lock().socket = None;
        leave(server, LinkState::Connect);
        if link.check_wish().is_err() {
            (pause, failed_number) = (Duration::ZERO, 0);
            continue;
        }
        figures.heard_at.store(0, Relaxed);
        if let Err(why) = ended {
            troubles.note(&link, &why);
        }
        // A link that has held is made again at once.
        let has_held = began.elapsed() > PAUSE_MAX;
        pause = if has_held { PAUSE_MIN } else { (2 * pause).clamp(PAUSE_MIN, PAUSE_MAX) };
        failed_number = link.wish_number;
    }
}

/// Waits for something to follow, and for a pause if the last try of the same failed.
fn next_link(server: &Arc<Server>, pause: Duration, failed_number: u64) -> Option<Link> {
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    let replication = &server.replication;
    let mut wish = replication.wish.lock();
    let is_again = wish.number == failed_number;
    let is_idle = wish.primary.is_none() || server.commands.is_loading();
    if is_idle || is_again {
        let patience = if is_idle { LOOK_EVERY.min(pause.max(PAUSE_MIN) * 5) } else { pause };
        let before = wish.number;
        replication.wished.wait_for(&mut wish, patience);
        if is_idle || wish.number != before {
            return None;
        }
    }
    if wish.pending_role {
        return None;
    }
    let (host, port) = wish.primary.clone()?;
    Some(Link { server: server.clone(), host, port, wish_number: wish.number })
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
    /// Whether this is still to be followed.
    ///
    /// # Errors
    /// If not; for the log.
    pub fn check_wish(&self) -> Result<(), String> {
        let now = self.server.replication.wish_number.load(Acquire);
        if now == self.wish_number && !self.server.is_stopping() {
            return Ok(());
        }
        Err("it is no longer to be followed".into())
    }

    /// Follows the primary until the connection fails, or another is to be followed.
    fn run(&self, applier: &mut Applier, troubles: &mut Troubles) -> Result<(), String> {
        let figures = &self.server.replication.link;
        for tries in &figures.tries {
            tries.fetch_add(1, Relaxed);
        }
        figures.enter(LinkState::Connecting);
        let config = self.server.config.snapshot();
        let mut wire = Wire::connect(&self.host, self.port, &config)?;
        {
            let mut wish = self.server.replication.wish.lock();
            self.check_wish()?;
            wish.socket = wire.socket().try_clone().ok();
        }
        figures.enter(LinkState::Handshake);
        let history = applier.history(&self.server);
        let offer = shake_hands(&mut wire, &Introduction { config: &config, history })?;
        let primary = format_args!("{}:{}", self.host, self.port);
        match offer {
            Offer::Continue { id } => {
                if let Some(id) = id {
                    self.rename_history(id);
                }
                let offset = self.server.replication.offset();
                tracing::info!("the primary at {primary} goes on behind byte {offset}");
            }
            Offer::Copy { id, offset } => {
                tracing::info!(
                    "the primary at {primary} sends a copy: history {id}, byte {offset}"
                );
                let copied = copy::receive(&mut wire, self)?;
                copy::install(&mut wire, self, applier, copied, (id, offset))?;
            }
        }
        self.note_connected();
        troubles.forget();
        self.stream(&mut wire, applier)
    }

    /// The primary has named the history anew, and goes on with it.
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
    }

    fn note_connected(&self) {
        let figures = &self.server.replication.link;
        let now = unix_ms() / 1000;
        figures.heard_at.store(now, Relaxed);
        let since = figures.down_since.swap(0, Relaxed);
        if since > 0 {
            figures.down_seconds.fetch_add((now - since).max(0), Relaxed);
        }
        figures.tries[0].store(0, Relaxed);
        figures.enter(LinkState::Connected);
        self.server.apply_role(&self.server.config.snapshot());
    }

    /// Executes what the primary sends, and acknowledges it.
    fn stream(&self, wire: &mut Wire, applier: &mut Applier) -> Result<(), String> {
        let figures = &self.server.replication.link;
        let lost = |error: io::Error| format!("the connection is lost: {error}");
        applier.begin_stream(std::mem::take(wire.received()));
        // At once: a primary may wait for it before it sends more.
        let mut acked_at: Option<Instant> = None;
        loop {
            let asked = applier.execute_received(self)?;
            let is_due = acked_at.is_none_or(|at| at.elapsed() >= ACK_EVERY);
            if asked.is_some() || is_due {
                let offset = asked.unwrap_or_else(|| self.server.replication.offset());
                wire.send(&applier.acknowledgement(offset)).map_err(lost)?;
                acked_at = Some(Instant::now());
            }
            if applier.has_whole_commands() {
                continue;
            }
            self.check_wish()?;
            let waited = acked_at.map_or(ACK_EVERY, |at| at.elapsed());
            if wire.receive_within(ACK_EVERY.saturating_sub(waited)).map_err(lost)? {
                applier.take_from(wire.received());
                figures.heard_at.store(unix_ms() / 1000, Relaxed);
            }
        }
    }
}

/// What went wrong lately, so that what goes on going wrong is not logged each time.
#[derive(Default)]
struct Troubles {
    last: Option<(String, Instant)>,
}

impl Troubles {
    fn note(&mut self, link: &Link, why: &str) {
        let is_known =
            self.last.as_ref().is_some_and(|(last, at)| last == why && at.elapsed() < REPEAT_AFTER);
        if !is_known {
            tracing::warn!(
                "the primary at {}:{}: {why}; trying again until it can be followed",
                link.host,
                link.port
            );
            self.last = Some((why.into(), Instant::now()));
        }
    }

    fn forget(&mut self) {
        self.last = None;
    }
}
