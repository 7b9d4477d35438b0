//! Copies of a member's data for joining members: sent while clients are served, received into a
//! file and loaded in place of the old data. If members hold only some slots, the data of slots are
//! sent in the same way; `slots.rs` loads them.
//!
//! ```text
//!  source   with everything held: positions of the lanes, an image begins
//!           a thread of its own writes the image as RDB ─ parts ─▶ the agent ─▶ the link
//!  joiner   the link ─▶ the agent ─▶ a nameless file; whole: a thread of its own loads it
//! ```

use super::agent::{Agent, MemberPhase};
use super::aside;
use super::machine::Machine;
use super::state::copy::{Incoming, Part, Sent, Share};
use super::state::membership::Membership;
use super::transport::Hold;
use crate::durability::replace::{check, leniency};
use crate::server::Server;
use petrel_cluster::{Fetch, Identity, SLOTS, SlotSet, slot_of};
use petrel_keyspace::{Cleared, Handle};
use petrel_persistence::rdb::{FileError, FileOptions, FileWriter, Form};
use petrel_persistence::{Image, Loaded, load};
use std::io::{self, Seek, Write};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, SyncSender, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Bytes of a copy that are sent together.
const PART_LEN: usize = 256 * 1024;

/// Parts that wait for the agent.
const PARTS_MAX: usize = 8;

/// Bytes that wait to be sent to a member while it gets a copy.
const UNSENT_MAX: usize = 1 << 20;

/// While another image is being taken, until a copy is tried again.
const IMAGE_PAUSE: Duration = Duration::from_millis(100);

/// After a copy could not be loaded, until another is asked for.
pub(super) const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Passes the written bytes to the agent.
struct ToAgent {
    parts: SyncSender<Part>,
    part: Vec<u8>,
    membership: Arc<Membership>,
}

impl ToAgent {
    fn pass_on(&self, part: Part) -> io::Result<()> {
        let is_over = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the member is gone");
        self.parts.send(part).map_err(is_over)?;
        self.membership.waker.wake();
        Ok(())
    }
}

impl Write for ToAgent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.extend_from_slice(bytes);
        if self.part.len() >= PART_LEN {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let next = Vec::with_capacity(PART_LEN);
        let part = std::mem::replace(&mut self.part, next);
        self.pass_on(Part::Bytes(part))
    }
}

impl Agent {
    /// Goes on with the copy that this member gets, and with the one that it sends. True if there
    /// is something to go on with soon.
    pub(super) fn go_on_with_copies(&mut self) -> bool {
        if self.copies.loading.is_none() && self.node.has_to_rejoin() {
            self.rejoin("this member's data can no longer be brought up to date");
        } else if self.phase == MemberPhase::Fetching {
            self.go_on_fetching();
        }
        self.begin_to_send();
        self.send_parts();
        self.phase == MemberPhase::Fetching || self.copies.sent.is_some()
    }

    fn rejoin(&mut self, why: &str) {
        if !std::mem::replace(&mut self.copies.has_to_rejoin, true) {
            tracing::warn!("cluster: {why}; rejoining");
            self.transport.rejoin(self.identity());
        }
    }

    fn go_on_fetching(&mut self) {
        if let Some(loading) = &self.copies.loading {
            match loading.try_recv() {
                Ok(Ok(())) => self.serve_what_was_loaded(),
                Ok(Err(why)) => {
                    tracing::error!("cluster: {why}");
                    (self.copies.loading, self.copies.failed) = (None, Some(Instant::now()));
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    (self.copies.loading, self.copies.failed) = (None, Some(Instant::now()));
                }
            }
            return;
        }
        if let Some(failed) = self.copies.failed {
            if failed.elapsed() >= FAILURE_PAUSE {
                self.rejoin("the data could not be loaded");
            }
            return;
        }
        match self.node.fetch() {
            Some(Fetch::Unasked) => self.ask_for_a_copy(),
            Some(Fetch::Loads) => self.load(),
            Some(Fetch::Asked(_) | Fetch::Comes(_) | Fetch::Failed) | None => {}
        }
    }

    /// Asks one of the members that have the data, by turns.
    fn ask_for_a_copy(&mut self) {
        let members = self.membership.state.lock().members.clone();
        let own = self.identity();
        let sources = members.iter().filter(|member| {
            member.holds_slots
                && member.identity != own
                && self.node.is_linked(member.identity.node)
        });
        let sources: Vec<Identity> = sources.map(|member| member.identity).collect();
        if sources.is_empty() {
            return;
        }
        // Lives differ in this, so one after another asks different members.
        let at = (own.incarnation as usize + usize::from(own.node.0)) % sources.len();
        let source = sources[at].node;
        if self.node.fetch_from(source) {
            // Of a copy before, in this life or another, only a part may have come.
            self.machine.incoming = Incoming::default();
            tracing::info!("cluster: asking member {} for a copy of the data", source.0);
        }
    }

    fn load(&mut self) {
        let incoming = std::mem::take(&mut self.machine.incoming);
        let (server, membership) = (self.machine.host.server.clone(), self.membership.clone());
        let (done, loading) = mpsc::sync_channel(1);
        let work = move || {
            let loaded = replace_data(&server, &membership, incoming);
            server.finish_loading();
            let _ = done.send(loaded);
            membership.waker.wake();
        };
        let config = self.machine.host.server.config.snapshot();
        // Before the thread begins: no other life of the member may find that nothing is loaded.
        self.machine.host.server.begin_loading(&config);
        match std::thread::Builder::new().name("petrel-join".into()).spawn(work) {
            Ok(_) => self.copies.loading = Some(loading),
            Err(error) => {
                tracing::error!("cluster: no thread can be started to load the data: {error}");
                self.machine.host.server.finish_loading();
                self.copies.failed = Some(Instant::now());
            }
        }
    }

    fn serve_what_was_loaded(&mut self) {
        self.copies.loading = None;
        if self.node.has_to_rejoin() {
            // Looked at in the next turn.
            return;
        }
        self.node.loaded(&mut self.machine);
        self.serve();
        self.transport.hold(self.identity(), Hold::Take);
    }

    /// The next member that is to be sent data, and may be.
    fn wants_data(&self) -> Option<(Identity, Share)> {
        if self.node.is_partial() {
            return self.node.slots_wanted().first().map(|&to| (to, Share::Slots));
        }
        let to = self.node.copies_wanted().first().copied();
        to.filter(|&to| self.node.may_begin_copy(to)).map(|to| (to, Share::All))
    }

    /// Begins to send data to a member that has asked for them, if none is being sent any.
    fn begin_to_send(&mut self) {
        let tried = self.copies.tried.is_some_and(|tried| tried.elapsed() < IMAGE_PAUSE);
        if tried || self.copies.sent.is_some() || self.phase != MemberPhase::Serving {
            return;
        }
        let Some((to, share)) = self.wants_data() else { return };
        let server = self.machine.host.server.clone();
        let (parts, received) = mpsc::sync_channel(PARTS_MAX);
        let (send, begun) = mpsc::sync_channel::<Image>(1);
        let out = ToAgent { parts, part: Vec::new(), membership: self.membership.clone() };
        let options = copy_options(&server);
        let work = move || {
            if let Ok(image) = begun.recv()
                && let Err(error) = write_copy(&server, image, share, out, options)
            {
                tracing::warn!("cluster: a copy of the data was abandoned: {error}");
            }
        };
        // Before the image begins, for one that has has to be gone through.
        if let Err(error) = std::thread::Builder::new().name("petrel-copy".into()).spawn(work) {
            return tracing::error!("cluster: no thread can be started for a copy: {error}");
        }
        // The thread ends if nothing is sent to it: tried again once another image is written.
        let Some((mut image, slots)) = self.begin_image(to, share, options) else {
            self.copies.tried = Some(Instant::now());
            return;
        };
        // Leave the other cores to clients.
        image.threads = (self.machine.host.server.workers.len() / 2).max(1);
        let _ = send.send(image);
        let what = match (share, slots) {
            (Share::All, _) => "a copy of the data".into(),
            (Share::Slots, 0) => return,
            (Share::Slots, slots) => format!("the data of {slots} hash slots"),
        };
        tracing::info!("cluster: sending {what} to member {}", to.node.0);
        let start = Instant::now();
        self.copies.sent = Some(Sent { to, share, parts: received, start, bytes: 0 });
    }

    /// Begins the snapshot for a member, consistent with its position in the lanes; also returns
    /// the number of slots. `None` while another snapshot is running.
    fn begin_image(
        &mut self,
        to: Identity,
        share: Share,
        options: FileOptions,
    ) -> Option<(Image, usize)> {
        let exec = &mut self.machine.exec;
        exec.begin();
        exec.ks.lock_all();
        let (image, slots) = match share {
            Share::All => {
                let image = Image::begin(&mut exec.ks, options);
                if image.is_some() {
                    self.node.begin_copy(to);
                }
                (image, SLOTS.into())
            }
            Share::Slots => {
                // Nothing is looked at before they are known.
                let known = Arc::new(OnceLock::<SlotSet>::new());
                let wanted = known.clone();
                let is_wanted =
                    move |key: &[u8]| wanted.get().is_some_and(|set| set.contains(slot_of(key)));
                let image = Image::begin_some(&mut exec.ks, options, Arc::new(is_wanted));
                let begun = image.as_ref().and_then(|_| self.node.begin_slots(to));
                let slots = begun.as_ref().map_or(0, |slots| slots.iter().count());
                begun.into_iter().for_each(|slots| drop(known.set(slots)));
                (image, slots)
            }
        };
        exec.ks.unlock();
        exec.end();
        image.map(|image| (image, slots))
    }

    fn send_part(&mut self, to: Identity, share: Share, part: &[u8], is_last: bool) -> bool {
        match share {
            Share::All => self.node.send_copy(to, part, is_last),
            Share::Slots => self.node.send_slots(to, part, is_last),
        }
    }

    fn send_parts(&mut self) {
        while let Some((to, share)) = self.copies.sent.as_ref().map(|sent| (sent.to, sent.share)) {
            if self.is_blocked(to.node.0) || self.node.unsent_bytes(to.node) > UNSENT_MAX {
                return;
            }
            let Some(sent) = &mut self.copies.sent else { return };
            let goes_on = match sent.parts.try_recv() {
                Ok(Part::Bytes(part)) => {
                    sent.bytes += part.len() as u64;
                    self.send_part(to, share, &part, false)
                }
                Ok(Part::End) => {
                    let (bytes, seconds) = (sent.bytes, sent.start.elapsed().as_secs_f64());
                    if self.send_part(to, share, &[], true) {
                        tracing::info!(
                            "cluster: member {} was sent {bytes} bytes in {seconds:.2} s",
                            to.node.0
                        );
                    }
                    false
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    // The member's receiving ends with the link, and it asks again.
                    let link = self.linked.get(&to.node.0).map(|linked| linked.link);
                    link.into_iter().for_each(|link| self.close(link));
                    false
                }
            };
            if !goes_on {
                // The writing thread notices this with its next part.
                self.copies.sent = None;
            }
        }
    }
}

/// Options of copies for members, which read everything that this server writes.
fn copy_options(server: &Server) -> FileOptions {
    let options = server.copy_options(&server.config.snapshot());
    FileOptions { version_max: FileOptions::ANY_VERSION, ..options }
}

/// Writes an RDB file. The image is gone through even if that fails.
fn write_copy(
    server: &Server,
    image: Image,
    share: Share,
    out: ToAgent,
    options: FileOptions,
) -> Result<(), FileError> {
    // The first line says what may come.
    let newest = Form::hash(Some(0), options.dialect).version();
    let mut file = FileWriter::unseekable(out, options, newest)?;
    let states = match share {
        Share::All => server.commands.aux_forms(),
        Share::Slots => Vec::new(),
    };
    server.describe_file(&mut file, &states);
    let written = image.write(&mut server.keyspace.attach(), &mut file, |_| {
        if server.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if written.is_none() {
        return Err(io::Error::other("the server stops").into());
    }
    let mut out = file.finish_unseekable()?;
    out.flush()?;
    Ok(out.pass_on(Part::End)?)
}

/// Loads a copy in the place of the data.
fn replace_data(
    server: &Arc<Server>,
    membership: &Arc<Membership>,
    incoming: Incoming,
) -> Result<(), String> {
    let (mut file, len) =
        incoming.finish().map_err(|error| format!("the copy cannot be stored: {error}"))?;
    let unsound =
        |error: &dyn std::fmt::Display| format!("the copy of {len} bytes is invalid: {error}");
    let config = server.config.snapshot();
    check(&file, len, leniency(&config)).map_err(|error| unsound(&error))?;
    file.rewind().map_err(|error| unsound(&error))?;
    if membership.has_data() {
        aside::keep(server)?;
    }
    let noted = membership.note_data(false);
    noted.map_err(|error| format!("cannot record that the data are being replaced: {error}"))?;
    let start = Instant::now();
    server.report_replaced("another member's");
    let mut machine = Machine::new(server, membership.clone());
    let mut clear = |in_background| clear(server, &mut machine, in_background);
    let loaded: Loaded = server.replace_data(len, &mut clear, |options| {
        let loaded = load(file, len, &server.keyspace, options, &server.snapshot.progress);
        loaded.map_err(|error| error.to_string())
    })?;
    server.report_copy("another member's", &loaded, start);
    Ok(())
}

/// Removes every key.
fn clear(server: &Server, machine: &mut Machine, in_background: bool) {
    let exec = &mut machine.exec;
    exec.begin();
    let cleared = clear_all(&mut exec.ks);
    exec.end();
    machine.end_turn();
    if in_background { server.reaper.reap(cleared) } else { drop(cleared) }
}

fn clear_all(ks: &mut Handle) -> Cleared {
    ks.lock_all();
    let cleared = ks.clear(None);
    ks.unlock();
    cleared
}
