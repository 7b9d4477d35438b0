//! Invalidations on their way from the commands that changed keys to the clients that track them.

use crate::client::{Client, Flag};
use crate::host::ServerHost;
use crate::state::outbox::{Delivery, Form, Push, Recipient};
use crate::state::tracking::pending::{Change, Invalidations};
use crate::state::tracking::tracker::Tracker;
use crate::state::tracking::writers::{NO_WRITER, number_at};
use petrel_keyspace::{BatchInvalidations, Handle, Reader, ReaderId, Readers};
use petrel_resp::{Protocol, Reply};
use std::mem;
use std::sync::Arc;

/// Keys of broadcasts that are collected before they are sent, if the turn is not over before.
const BROADCASTS_MAX: usize = 4096;

/// Changes that wait for the end of a batch, or of a long script.
const WAITING_MAX: usize = 64;

/// A longer message is no longer copied for each that gets it.
const STAGED_LEN_MAX: usize = 4096;

/// So long a name leaves room for the rest of its message.
const STAGED_NAME_MAX: usize = STAGED_LEN_MAX - 64;

/// Beginning of the RESP3 push, and of the channel message that RESP2 connections get.
const INVALIDATE: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";
const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n";

/// The push of RESP3 about one key, up to the length of its name.
const INVALIDATE_ONE: &[u8] = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$";

/// Contents of an invalidation.
pub(super) enum News<'a> {
    /// These keys have changed.
    Keys(&'a [&'a [u8]]),
    /// All keys may have.
    Everything,
}

impl News<'_> {
    /// Whether it is short enough to be copied for each that gets it.
    fn is_short(&self) -> bool {
        match self {
            News::Keys(keys) => {
                keys.iter().map(|key| key.len() + 24).sum::<usize>() <= STAGED_LEN_MAX
            }
            News::Everything => true,
        }
    }

    /// Appends it in the form that connections of RESP3 get, or, as the message of a channel, those
    /// of RESP2.
    #[inline]
    fn write(&self, form: Form, out: &mut Vec<u8>) {
        if let (News::Keys([key]), Form::Resp3) = (self, form) {
            return write_key(key, out);
        }
        let (head, null): (&[u8], &[u8]) = match form {
            Form::Resp3 => (INVALIDATE, b"_\r\n"),
            _ => (MESSAGE, b"$-1\r\n"),
        };
        out.extend_from_slice(head);
        let News::Keys(keys) = self else { return out.extend_from_slice(null) };
        put_header(out, b'*', keys.len());
        for key in *keys {
            put_header(out, b'$', key.len());
            out.extend_from_slice(key);
            out.extend_from_slice(b"\r\n");
        }
    }

    fn push(&self, form: Form) -> Push {
        let mut bytes = Vec::new();
        self.write(form, &mut bytes);
        Push::of_form(bytes.into(), form)
    }
}

/// Appends RESP3's push about one key that has changed.
#[inline]
fn write_key(key: &[u8], out: &mut Vec<u8>) {
    match HEADS.get(key.len().wrapping_sub(10)) {
        Some(head) => out.extend_from_slice(head),
        None => {
            out.extend_from_slice(INVALIDATE_ONE);
            put_line(out, key.len());
        }
    }
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

/// Beginning of the push for names of 10 to 99 bytes, the most common ones: copied at once.
static HEADS: [[u8; INVALIDATE_ONE.len() + 4]; 90] = {
    let mut heads = [[0; INVALIDATE_ONE.len() + 4]; 90];
    let mut n = 0;
    while n < heads.len() {
        let (head, digits) = heads[n].split_at_mut(INVALIDATE_ONE.len());
        head.copy_from_slice(INVALIDATE_ONE);
        let len = n as u8 + 10;
        digits.copy_from_slice(&[b'0' + len / 10, b'0' + len % 10, b'\r', b'\n']);
        n += 1;
    }
    heads
};

fn put_header(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.push(kind);
    put_line(out, len);
}

/// Appends a number, and what ends a line.
fn put_line(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A connection that gets an invalidation, and in which form.
#[derive(Clone, Copy)]
struct Destination {
    to: Recipient,
    worker: u16,
    form: Form,
}

impl Destination {
    fn of(client: &Client, form: Form) -> Self {
        Destination { to: Recipient::of(client), worker: client.worker, form }
    }
}

impl ServerHost {
    /// Takes the invalidations of the running command. Those for its own connection are written to
    /// `reply`, if given.
    pub(crate) fn take_invalidations(&mut self, ks: &mut Handle, reply: Option<&mut dyn Reply>) {
        let me = &self.client;
        let may_get_some = me.has(Flag::Tracking) || me.has(Flag::Redirected);
        let writer = self.writer.unwrap_or(me.id);
        let Invalidations { waiting, routes, .. } = &mut self.invalidations;
        routes.refresh(&self.server.trackers);
        let held = &mut self.held;
        let is_taken = !may_get_some
            && ks.drain_changed_keys(|name, readers, by_client| {
                // None of these is for the connection of the running command.
                if let Readers::One(reader) = readers
                    && waiting.changes.is_empty()
                    && name.len() <= STAGED_NAME_MAX
                    && let Some(route) = routes.of(reader)
                {
                    let write = |bytes: &mut Vec<u8>| write_key(name, bytes);
                    return held.stage(usize::from(route.worker), [route.to], Form::Resp3, write);
                }
                waiting.add(name, Some(readers), if by_client { writer } else { NO_WRITER });
            });
        if !is_taken {
            self.take_all_invalidations(ks, reply);
        }
        if self.invalidations.waiting.changes.len() + self.held.staged() >= WAITING_MAX {
            self.send_invalidations();
        }
        if self.invalidations.broadcast_keys >= BROADCASTS_MAX {
            self.send_broadcasts();
        }
    }

    /// Like [`Self::take_invalidations`], for a connection that may get some of them itself, or for
    /// changes of another kind.
    #[cold]
    fn take_all_invalidations(&mut self, ks: &mut Handle, reply: Option<&mut dyn Reply>) {
        let mut taken = ks.take_invalidations();
        self.leave_to_primaries(&mut taken);
        let me = &self.client;
        let writer = self.writer.unwrap_or(me.id);
        let mut gets_some = taken.everything;
        if me.has(Flag::Tracking) || me.has(Flag::Redirected) {
            let readers = ks.keyspace().readers();
            let mine = |id| readers.listening(id).is_some_and(|reader| is_own(reader, me));
            match reply.filter(|reply| reply.protocol() == Protocol::Resp3) {
                Some(reply) => {
                    let keys = taken.keys();
                    keys.filter(|key| key.readers.as_slice().iter().any(|&id| mine(id)))
                        .for_each(|key| tell_before_reply(key.key, reply));
                    self.invalidations.take_in(&mut taken, writer, |id| !mine(id));
                }
                None => {
                    // Its own invalidations follow the reply. This connection may differ from the
                    // one being served.
                    let tells_me = |&id: &ReaderId| {
                        readers.listening(id).is_some_and(|r| Tracker::of(r).tells(me.id))
                    };
                    gets_some |=
                        taken.keys().any(|key| key.readers.as_slice().iter().any(tells_me));
                }
            }
        }
        self.invalidations.take_in(&mut taken, writer, |_| true);
        ks.recycle_invalidations(taken);
        if gets_some {
            self.note_push();
        }
    }

    /// Takes what time or a limit has changed, and no connection.
    pub fn take_upkeep_invalidations(&mut self, ks: &mut Handle) {
        self.take_invalidations_by(NO_WRITER, ks);
    }

    /// Takes what another member's command has changed for a client here, by its number.
    pub(crate) fn take_invalidations_by(&mut self, writer: u64, ks: &mut Handle) {
        if ks.has_invalidations() {
            let mut taken = ks.take_invalidations();
            self.leave_to_primaries(&mut taken);
            self.invalidations.take_in(&mut taken, writer, |_| true);
        }
    }

    /// Drops broadcasts of keys of other members: these tell of their changes. Copies come and go
    /// here though the key does not change.
    fn leave_to_primaries(&self, taken: &mut BatchInvalidations) {
        if !taken.broadcasts.is_empty()
            && let Some(own) = self.server.cluster.get()
        {
            taken.broadcasts.retain(|broadcast| !own.hears_elsewhere(&broadcast.key));
        }
    }

    /// Broadcasts a changed key of another member.
    pub(crate) fn broadcast_changed(&mut self, writer: Option<u64>, db: u16, key: &[u8]) {
        for prefix in self.server.trackers.prefixes_of(key) {
            self.invalidations.add_broadcast(prefix, (key.into(), db), writer.unwrap_or(NO_WRITER));
        }
    }

    /// Tells all tracking connections that any key may have changed.
    pub(crate) fn invalidate_everything(&mut self) {
        self.invalidations.waiting.add(b"", None, NO_WRITER);
    }

    /// Sends invalidations to connections that have read a key, once the command that changed it is
    /// over.
    pub(crate) fn send_invalidations(&mut self) {
        if !self.invalidations.waiting.changes.is_empty() {
            self.send_waiting();
        }
        self.post_stale();
    }

    fn send_waiting(&mut self) {
        let mut waiting = mem::take(&mut self.invalidations.waiting);
        self.invalidations.routes.refresh(&self.server.trackers);
        let server = self.server.clone();
        let readers = server.keyspace.readers();
        let mut begin = 0;
        for Change { writer, end, readers: ids } in &waiting.changes {
            let (writer, key) = (*writer, &waiting.names[begin..*end]);
            begin = *end;
            let Some(ids) = ids else {
                let all = self.server.trackers.all();
                self.tell(all.iter(), NO_WRITER, &News::Everything);
                continue;
            };
            let listening = ids.as_slice().iter().filter_map(|&id| readers.listening(id));
            if let Readers::One(_) = ids {
                listening.clone().for_each(|reader| self.invalidations.routes.learn(reader));
            }
            self.tell(listening, writer, &News::Keys(&[key]));
        }
        drop(readers);
        waiting.clear();
        self.invalidations.waiting = waiting;
    }

    /// Whether invalidations are to be sent before the turn ends.
    #[inline]
    pub(crate) fn has_changed_keys(&self) -> bool {
        !self.invalidations.waiting.changes.is_empty() || self.held.staged() > 0
    }

    /// Sends the invalidations of a batch to readers at other workers, at its end. Those for this
    /// worker's connections are left encoded.
    #[inline]
    pub(crate) fn end_batch(&mut self) {
        if self.has_changed_keys() {
            if !self.invalidations.waiting.changes.is_empty() {
                self.send_waiting();
            }
            self.post_stale_to_others();
        }
    }

    /// Sends invalidations of what `writer` has changed.
    pub(super) fn tell<'r>(
        &mut self,
        readers: impl Iterator<Item = &'r Arc<Reader>>,
        writer: u64,
        news: &News<'_>,
    ) {
        let mut first = None;
        let mut more = Vec::new();
        for reader in readers {
            let tracker = Tracker::of(reader);
            if let Some(node) = tracker.member() {
                self.tell_member(node, writer, news);
                continue;
            }
            let Some(destination) = self.destination(tracker, writer) else { continue };
            if destination.to.id() == self.client.id {
                // A connection that several redirect to gets one for each.
                self.push_own(news.push(destination.form));
            } else if first.is_none() {
                first = Some(destination);
            } else {
                more.push(destination);
            }
        }
        let Some(first) = first else { return };
        if more.is_empty() {
            return self.send_to(&[first], news);
        }
        more.push(first);
        more.sort_unstable_by_key(|to| (to.form as u8, to.worker));
        more.chunk_by(|a, b| (a.form, a.worker) == (b.form, b.worker))
            .for_each(|group| self.send_to(group, news));
    }

    /// Tells another member that keys changed which its clients have read.
    #[cold]
    fn tell_member(&self, node: u16, writer: u64, news: &News<'_>) {
        let (Some(own), News::Keys(keys)) = (self.server.cluster.get(), news) else { return };
        for key in *keys {
            own.tell_changed((node, false), number_at(node, writer), 0, key);
        }
    }

    /// The connection that gets a tracking connection's invalidations of what `writer` has changed:
    /// itself, the one it redirects to, or none.
    #[inline]
    fn destination(&mut self, tracker: &Tracker, writer: u64) -> Option<Destination> {
        let client = &tracker.client;
        if client.id == writer && !tracker.loops() {
            return None;
        }
        let Some(target) = tracker.target() else {
            // Nothing can be sent to a connection of RESP2 that does not expect it.
            return client.has(Flag::Resp3).then(|| Destination::of(client, Form::Resp3));
        };
        if is_gone(&target) {
            self.report_broken(client, target.id);
            return None;
        }
        match target.has(Flag::Resp3) {
            true => Some(Destination::of(&target, Form::Resp3)),
            false => target.has(Flag::PubSub).then(|| Destination::of(&target, Form::Push)),
        }
    }

    /// Sends invalidations to connections of one worker that get them in the same form.
    #[inline]
    fn send_to(&mut self, group: &[Destination], news: &News<'_>) {
        let (worker, form) = (usize::from(group[0].worker), group[0].form);
        if news.is_short() {
            let to = group.iter().map(|destination| destination.to);
            return self.held.stage(worker, to, form, |bytes| news.write(form, bytes));
        }
        let push = news.push(form);
        self.deliver(
            worker,
            match group {
                [one] => Delivery::Client(one.to, push),
                all => {
                    Delivery::Clients(all.iter().map(|destination| destination.to).collect(), push)
                }
            },
        );
    }

    /// Tells a connection that the one it redirects to is gone.
    fn report_broken(&mut self, client: &Client, target: u64) {
        client.set(Flag::BrokenRedirect, true);
        if client.has(Flag::Resp3) {
            let push = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{target}\r\n");
            self.push(client, Push::of_resp3(push.into()));
        }
    }
}

/// Whether a connection can be sent nothing any more.
fn is_gone(client: &Client) -> bool {
    [Flag::Gone, Flag::Closing, Flag::Killed].into_iter().any(|flag| client.has(flag))
}

/// Whether a reader is the connection of the running command, and does not redirect.
fn is_own(reader: &Reader, me: &Client) -> bool {
    let tracker = Tracker::of(reader);
    tracker.client.id == me.id && tracker.target().is_none()
}

/// Writes that a key has changed.
fn tell_before_reply(key: &[u8], reply: &mut dyn Reply) {
    reply.push(2);
    reply.bulk(b"invalidate");
    reply.array(1);
    reply.bulk(key);
}
