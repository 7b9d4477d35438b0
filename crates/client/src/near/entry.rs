//! [`Entry`]: the replies that are kept of one key. A short key, and a short string that is the
//! reply, lie in the entry itself, so that a hit follows no pointer beyond it.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use petrel_resp::Value;

use super::clock;
use super::store::Take;
use crate::request::{Command, CommandInfo};

/// Bytes of a key, and of a reply, that lie in the entry; both sizes fill their enumerations.
const KEY_INLINE: usize = 38;
const VALUE_INLINE: usize = 70;

/// Bytes of a key in the map and in the order of eviction, besides its name and its replies.
const KEY_BYTES: usize = 2 * size_of::<Key>() + size_of::<Entry>() + 64;

/// A key of the map.
pub(super) enum Key {
    Inline { len: u8, bytes: [u8; KEY_INLINE] },
    Heap(Box<[u8]>),
}

impl Key {
    pub(super) fn new(key: &[u8]) -> Self {
        if key.len() > KEY_INLINE {
            return Self::Heap(key.into());
        }
        let mut bytes = [0; KEY_INLINE];
        bytes[..key.len()].copy_from_slice(key);
        Self::Inline { len: key.len() as u8, bytes }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Self::Heap(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

/// Identifies a reply of a key: the command, and its arguments unless the key is the only one.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    info: &'static CommandInfo,
    arguments: &'a [u8],
}

impl<'a> Question<'a> {
    /// The command with the key alone.
    pub(crate) fn of_key(info: &'static CommandInfo) -> Self {
        Self { info, arguments: &[] }
    }

    /// A command with its key at a known position.
    pub(crate) fn of(command: &'a Command) -> Self {
        let is_key_alone = command.buffer.count() == 2;
        let arguments = if is_key_alone { &[] } else { command.buffer.body() };
        Self { info: command.info, arguments }
    }

    /// A word that no other question has, if the key is the only argument; not 0.
    #[inline]
    pub(super) fn word(self) -> Option<u64> {
        self.arguments.is_empty().then(|| std::ptr::from_ref(self.info).addr() as u64)
    }
}

/// A [`Question`] that is kept.
#[derive(Clone)]
pub(crate) struct OwnedQuestion {
    info: &'static CommandInfo,
    arguments: Box<[u8]>,
}

impl From<Question<'_>> for OwnedQuestion {
    fn from(question: Question<'_>) -> Self {
        Self { info: question.info, arguments: question.arguments.into() }
    }
}

impl OwnedQuestion {
    #[inline]
    pub(super) fn is(&self, other: Question<'_>) -> bool {
        std::ptr::eq(self.info, other.info) && *self.arguments == *other.arguments
    }

    fn borrowed(&self) -> Question<'_> {
        Question { info: self.info, arguments: &self.arguments }
    }
}

/// A cached reply.
#[derive(Clone)]
pub(super) struct Cached {
    command: OwnedQuestion,
    /// By [`clock`].
    expires: u64,
    content: Content,
    /// The connection by which the server announces the key's changes.
    owner: u64,
}

#[derive(Clone)]
enum Content {
    Inline { len: u8, bytes: [u8; VALUE_INLINE] },
    Value(Value),
}

impl Cached {
    pub(super) fn new(command: OwnedQuestion, owner: u64, expires: u64, value: Value) -> Self {
        let content = match &value {
            Value::Bulk(text) if text.len() <= VALUE_INLINE => {
                let mut bytes = [0; VALUE_INLINE];
                bytes[..text.len()].copy_from_slice(text);
                Content::Inline { len: text.len() as u8, bytes }
            }
            _ => Content::Value(value),
        };
        Self { command, expires, content, owner }
    }

    /// Applies `take` to the reply, unless it has expired. A short string is copied, since every
    /// reader would write to its reference count.
    #[inline]
    pub(super) fn take<T: Take>(&self, take: T) -> Option<T::Output> {
        if self.has_expired() {
            return None;
        }
        Some(match &self.content {
            Content::Inline { len, bytes } => take.text(&bytes[..usize::from(*len)]),
            Content::Value(value) => take.value(value),
        })
    }

    /// A reply that is a short string, and until when it is kept.
    pub(super) fn short(&self) -> Option<(&[u8], u64)> {
        match &self.content {
            Content::Inline { len, bytes } => Some((&bytes[..usize::from(*len)], self.expires)),
            Content::Value(_) => None,
        }
    }

    #[inline]
    fn has_expired(&self) -> bool {
        self.expires != clock::NEVER && self.expires <= clock::now()
    }

    fn bytes(&self) -> usize {
        let own = size_of::<Self>() + self.command.arguments.len();
        own + match &self.content {
            Content::Inline { .. } => 0,
            Content::Value(value) => size_of_value(value),
        }
    }
}

/// The replies of a key; never changed, but replaced as a whole.
pub(super) struct Entry {
    /// The one that was filled last...
    first: Cached,
    /// ...and those of other commands.
    others: Box<[Cached]>,
    /// Tells this entry of a key from those before an invalidation.
    pub(super) id: u64,
    /// Whether it was read since eviction last came by.
    is_used: AtomicBool,
}

impl Entry {
    pub(super) fn new(id: u64, first: Cached) -> Self {
        Self { first, others: Box::default(), id, is_used: AtomicBool::new(false) }
    }

    /// This entry with another reply, which replaces one to the same command, and expired ones.
    pub(super) fn with(&self, cached: Cached) -> Self {
        let is_kept =
            |other: &&Cached| !other.has_expired() && !other.command.is(cached.command.borrowed());
        let others = self.all().filter(is_kept).cloned().collect();
        let is_used = AtomicBool::new(self.is_used.load(Relaxed));
        Self { first: cached, others, id: self.id, is_used }
    }

    #[inline]
    pub(super) fn find(&self, command: Question<'_>) -> Option<&Cached> {
        match self.first.command.is(command) {
            true => Some(&self.first),
            false => self.others.iter().find(|cached| cached.command.is(command)),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Cached> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The connections that its replies depend on.
    pub(super) fn owners(&self) -> impl Iterator<Item = u64> {
        self.all().map(|cached| cached.owner)
    }

    #[inline]
    pub(super) fn mark_used(&self) {
        if !self.is_used.load(Relaxed) {
            self.is_used.store(true, Relaxed);
        }
    }

    pub(super) fn take_used(&self) -> bool {
        self.is_used.swap(false, Relaxed)
    }

    /// Bytes that the key and its replies take, about.
    pub(super) fn bytes(&self, key: &[u8]) -> usize {
        KEY_BYTES + 2 * key.len() + self.all().map(Cached::bytes).sum::<usize>()
    }
}

/// Bytes that a reply takes, about.
fn size_of_value(value: &Value) -> usize {
    let own = size_of::<Value>();
    own + match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.iter().map(size_of_value).sum()
        }
        Value::Map(pairs) => {
            pairs.iter().map(|(key, value)| size_of_value(key) + size_of_value(value)).sum()
        }
        other => other.as_bytes().map_or(0, <[u8]>::len),
    }
}
