//! Invalidations on their way from the commands that changed keys to those who cache them.

use super::tracker::Tracker;
use crate::client::{Client, Flag};
use crate::host::ServerHost;
use crate::push::{Form, Push, Recipient};
use bytes::{BufMut, Bytes, BytesMut};
use petrel_keyspace::{Broadcast, Handle, Invalidation, Reader, Told};
use petrel_resp::{Protocol, Reply};
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

/// Keys of broadcasts that are collected before they are sent, if the turn is not over before.
const BROADCASTS_MAX: usize = 4096;

/// Changes that wait for the end of a batch, or of a long script.
const WAITING_MAX: usize = 64;

/// A longer message is no longer copied for each that gets it.
const STAGED_LEN_MAX: usize = 4096;

/// How the push of RESP3 begins, and the message of a channel that connections of RESP2 get.
const INVALIDATE: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";
const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n";

/// Nobody: connections are numbered from 1 on.
const NOBODY: u64 = 0;

/// What a worker's commands have changed and nobody has been told of.
#[derive(Default)]
pub struct Invalidations {
    /// In order of the changes, with the number of the connection that made each.
    waiting: Vec<(Change, u64)>,
    /// By prefix and key: who changed it last.
    broadcasts: BTreeMap<Arc<[u8]>, LastWriters>,
    broadcast_keys: usize,
}

/// Keys, and the number of the connection that changed each last.
type LastWriters = BTreeMap<Arc<[u8]>, u64>;

enum Change {
    Key(Invalidation),
    Everything,
}

impl Invalidations {
    /// Whether there is something to be told before the turn ends.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether there is something to be told when the turn ends.
    pub fn is_broadcasting(&self) -> bool {
        !self.broadcasts.is_empty()
    }

    fn take_in(&mut self, told: Told, client: u64) {
        let writer = |by_client| if by_client { client } else { NOBODY };
        if told.everything {
            self.waiting.push((Change::Everything, client));
        }
        for invalidation in told.keys {
            let writer = writer(invalidation.by_client);
            self.waiting.push((Change::Key(invalidation), writer));
        }
        for Broadcast { prefix, key, by_client } in told.broadcasts {
            let keys = self.broadcasts.entry(prefix).or_default();
            self.broadcast_keys += usize::from(keys.insert(key, writer(by_client)).is_none());
        }
    }
}

/// What a connection is told.
enum News<'a> {
    /// These keys have changed.
    Keys(&'a [&'a [u8]]),
    /// All keys may have.
    Everything,
}

/// One piece of news in the forms that connections get it in, each encoded when the first asks for it.
struct Message<'a> {
    news: News<'a>,
    invalidate: Option<Bytes>,
    message: Option<Bytes>,
}

impl<'a> Message<'a> {
    fn new(news: News<'a>) -> Self {
        Message { news, invalidate: None, message: None }
    }

    fn of_form(&mut self, form: Form) -> Bytes {
        let news = &self.news;
        let encoded = match form {
            Form::Resp3 => {
                self.invalidate.get_or_insert_with(|| encode(INVALIDATE, news, b"_\r\n"))
            }
            // For RESP2: a message of a channel.
            _ => self.message.get_or_insert_with(|| encode(MESSAGE, news, b"$-1\r\n")),
        };
        encoded.clone()
    }
}

fn encode(head: &[u8], news: &News<'_>, null: &[u8]) -> Bytes {
    let News::Keys(keys) = news else { return [head, null].concat().into() };
    let bytes: usize = keys.iter().map(|key| key.len() + 24).sum();
    let mut encoded = BytesMut::with_capacity(head.len() + 24 + bytes);
    encoded.put_slice(head);
    put_header(&mut encoded, b'*', keys.len());
    for key in *keys {
        put_header(&mut encoded, b'$', key.len());
        encoded.put_slice(key);
        encoded.put_slice(b"\r\n");
    }
    encoded.freeze()
}

fn put_header(encoded: &mut BytesMut, kind: u8, len: usize) {
    encoded.put_u8(kind);
    encoded.put_slice(itoa::Buffer::new().format(len).as_bytes());
    encoded.put_slice(b"\r\n");
}

impl ServerHost {
    /// Takes what the command in hand has changed. With `reply`, what its own connection is told is written there.
    pub(crate) fn take_invalidations(
        &mut self,
        ks: &mut Handle,
        mut reply: Option<&mut dyn Reply>,
    ) {
        let me = self.client.clone();
        let mut told = ks.take_invalidations();
        if let Some(reply) = reply.as_mut().filter(|reply| reply.protocol() == Protocol::Resp3) {
            told.keys.iter().for_each(|key| tell_before_reply(&me, key, *reply));
            let others =
                |key: &Invalidation| key.readers.as_slice().iter().any(|r| !is_own(r, &me));
            told.keys.retain(others);
        }
        // What the connection in hand is told goes behind its reply. It may be another than whose command is served.
        let is_told = |reader: &Arc<Reader>| Tracker::of(reader).tells(me.id);
        if told.everything || told.keys.iter().any(|key| key.readers.as_slice().iter().any(is_told))
        {
            self.note_push();
        }
        self.invalidations.take_in(told, me.id);
        if self.invalidations.waiting.len() >= WAITING_MAX {
            self.send_invalidations();
        }
        if self.invalidations.broadcast_keys >= BROADCASTS_MAX {
            self.send_broadcasts();
        }
    }

    /// Takes what time or a limit has changed, and no connection.
    pub fn take_upkeep_invalidations(&mut self, ks: &mut Handle) {
        if ks.has_invalidations() {
            self.invalidations.take_in(ks.take_invalidations(), NOBODY);
        }
    }

    /// Tells those who have read a key that it has changed: once the command that changed it is over.
    pub(crate) fn send_invalidations(&mut self) {
        let mut waiting = mem::take(&mut self.invalidations.waiting);
        for (change, writer) in waiting.drain(..) {
            match change {
                Change::Key(Invalidation { key, readers, .. }) => {
                    let keys = [&*key];
                    let mut message = Message::new(News::Keys(&keys));
                    let listening = readers.as_slice().iter().filter(|r| r.is_listening());
                    self.tell(listening, writer, &mut message);
                }
                Change::Everything => {
                    let all = self.server.trackers.all();
                    self.tell(all.iter(), NOBODY, &mut Message::new(News::Everything));
                }
            }
        }
        self.invalidations.waiting = waiting;
        self.post_stale();
    }

    /// Tells those who have read a key what a batch has changed: at its end.
    #[inline]
    pub(crate) fn end_batch(&mut self) {
        if self.invalidations.is_waiting() {
            self.send_invalidations();
        }
    }

    /// Tells those who listen to a prefix which of its keys have changed: at the end of the turn.
    pub(crate) fn send_broadcasts(&mut self) {
        self.invalidations.broadcast_keys = 0;
        for (prefix, changed) in mem::take(&mut self.invalidations.broadcasts) {
            let listeners = self.server.trackers.listeners(&prefix);
            let all: Vec<&[u8]> = changed.keys().map(|key| &**key).collect();
            let mut message = Message::new(News::Keys(&all));
            let changed_by = |id| changed.values().any(|&writer| writer == id);
            let (own, others): (Vec<_>, Vec<_>) = listeners.into_iter().partition(|reader| {
                let tracker = Tracker::of(reader);
                !tracker.loops() && changed_by(tracker.client.id)
            });
            self.tell(others.iter(), NOBODY, &mut message);
            for reader in own {
                let id = Tracker::of(&reader).client.id;
                let foreign = changed.iter().filter(|&(_, &writer)| writer != id);
                let keys: Vec<&[u8]> = foreign.map(|(key, _)| &**key).collect();
                if !keys.is_empty() {
                    self.tell([&reader].into_iter(), NOBODY, &mut Message::new(News::Keys(&keys)));
                }
            }
        }
        self.post_stale();
    }

    /// Sends news of what `writer` has changed.
    fn tell<'r>(
        &mut self,
        readers: impl Iterator<Item = &'r Arc<Reader>>,
        writer: u64,
        message: &mut Message<'_>,
    ) {
        let (mut resp3, mut resp2) = (Recipients::default(), Recipients::default());
        for reader in readers {
            let tracker = Tracker::of(reader);
            if tracker.client.id == writer && !tracker.loops() {
                continue;
            }
            match tracker.target() {
                None if tracker.client.has(Flag::Resp3) => resp3.add(tracker.client.clone()),
                // Nothing can be sent to a connection of RESP2 that does not expect it.
                None => {}
                Some(target) if is_gone(&target) => self.report_broken(&tracker.client, target.id),
                Some(target) if target.has(Flag::Resp3) => resp3.add(target),
                Some(target) if target.has(Flag::PubSub) => resp2.add(target),
                Some(_) => {}
            }
        }
        for (recipients, form) in [(resp3, Form::Resp3), (resp2, Form::Push)] {
            if !recipients.is_empty() {
                self.send_to(recipients, form, message.of_form(form));
            }
        }
    }

    fn send_to(&mut self, recipients: Recipients, form: Form, encoded: Bytes) {
        match recipients {
            Recipients::Few(Some(client)) if client.id == self.client.id => {
                self.push_own(Push::of_form(encoded, form));
            }
            Recipients::Few(Some(client)) if encoded.len() <= STAGED_LEN_MAX => {
                let to = Some(Recipient::of(&client));
                self.held.stage(usize::from(client.worker), to, form, &encoded);
            }
            Recipients::Few(Some(client)) => self.push(&client, Push::of_form(encoded, form)),
            Recipients::Few(None) => {}
            // A connection that several redirect to is told once for each.
            Recipients::Many(clients) => self.send_to_many(&clients, form, encoded),
        }
    }

    fn send_to_many(&mut self, clients: &[Arc<Client>], form: Form, encoded: Bytes) {
        let own = self.client.id;
        for _ in clients.iter().filter(|client| client.id == own) {
            self.push_own(Push::of_form(encoded.clone(), form));
        }
        let others = clients.iter().filter(|client| client.id != own);
        if encoded.len() > STAGED_LEN_MAX {
            let others = others.map(|client| &**client);
            return self.push_all(others, &Push::of_form(encoded, form));
        }
        let mut others: Vec<&Arc<Client>> = others.collect();
        others.sort_unstable_by_key(|client| client.worker);
        for group in others.chunk_by(|a, b| a.worker == b.worker) {
            let to = group.iter().map(|client| Recipient::of(client));
            self.held.stage(usize::from(group[0].worker), to, form, &encoded);
        }
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

/// Most keys have one reader: that takes no list.
enum Recipients {
    Few(Option<Arc<Client>>),
    Many(Vec<Arc<Client>>),
}

impl Default for Recipients {
    fn default() -> Self {
        Recipients::Few(None)
    }
}

impl Recipients {
    fn is_empty(&self) -> bool {
        matches!(self, Recipients::Few(None))
    }

    fn add(&mut self, client: Arc<Client>) {
        match self {
            Recipients::Few(None) => *self = Recipients::Few(Some(client)),
            Recipients::Few(first) => {
                *self = Recipients::Many(first.take().into_iter().chain([client]).collect());
            }
            Recipients::Many(all) => all.push(client),
        }
    }
}

/// Whether a connection can be sent nothing any more.
fn is_gone(client: &Client) -> bool {
    [Flag::Gone, Flag::Closing, Flag::Killed].into_iter().any(|flag| client.has(flag))
}

/// Whether a reader is the connection in hand, and is told itself.
fn is_own(reader: &Reader, me: &Client) -> bool {
    let tracker = Tracker::of(reader);
    tracker.client.id == me.id && tracker.target().is_none()
}

/// Writes what the connection in hand is told of a key, if it has read it.
fn tell_before_reply(me: &Client, changed: &Invalidation, reply: &mut dyn Reply) {
    let readers = changed.readers.as_slice().iter();
    if readers.filter(|reader| reader.is_listening()).any(|reader| is_own(reader, me)) {
        reply.push(2);
        reply.bulk(b"invalidate");
        reply.array(1);
        reply.bulk(&changed.key);
    }
}
