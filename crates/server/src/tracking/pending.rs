//! Invalidations on their way from the commands that changed keys to those who cache them.

use super::tracker::Tracker;
use crate::client::{Client, Flag};
use crate::host::ServerHost;
use crate::push::Push;
use bytes::{BufMut, Bytes, BytesMut};
use petrel_keyspace::{Broadcast, Handle, Invalidation, Reader, Told};
use petrel_resp::{Protocol, Reply};
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

/// Keys of broadcasts that are collected before they are sent, if the turn is not over before.
const BROADCASTS_MAX: usize = 4096;

/// The channel of the messages that connections of RESP2 get.
const CHANNEL: &[u8] = b"__redis__:invalidate";

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
    invalidate: Option<Push>,
    message: Option<Push>,
}

impl<'a> Message<'a> {
    fn new(news: News<'a>) -> Self {
        Message { news, invalidate: None, message: None }
    }

    /// For RESP3.
    fn invalidate(&mut self) -> &Push {
        let news = &self.news;
        self.invalidate.get_or_insert_with(|| {
            let encoded = encode(b">2\r\n$10\r\ninvalidate\r\n", news, b"_\r\n");
            Push::of_resp3(encoded)
        })
    }

    /// For RESP2: a message of a channel.
    fn message(&mut self) -> &Push {
        let news = &self.news;
        self.message.get_or_insert_with(|| {
            let head = [b">3\r\n$7\r\nmessage\r\n$20\r\n", CHANNEL, b"\r\n"].concat();
            Push::of_parts(encode(&head, news, b"$-1\r\n"), Bytes::new())
        })
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
        self.invalidations.take_in(told, me.id);
        self.note_push();
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
        for (change, writer) in mem::take(&mut self.invalidations.waiting) {
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
        if !resp3.is_empty() {
            self.send_to(resp3, message.invalidate());
        }
        if !resp2.is_empty() {
            self.send_to(resp2, message.message());
        }
    }

    fn send_to(&mut self, recipients: Recipients, push: &Push) {
        match recipients {
            Recipients::Few(Some(client)) => self.push(&client, push.clone()),
            Recipients::Few(None) => {}
            // A connection that several redirect to is told once for each.
            Recipients::Many(clients) => {
                self.push_all(clients.iter().map(|client| &**client), push)
            }
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
