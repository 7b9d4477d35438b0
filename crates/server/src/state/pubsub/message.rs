//! A published message: encoded once for all receivers.

use super::{ChannelKind, Name};
use crate::state::outbox::Push;
use bytes::Bytes;
use petrel_resp::{Protocol, Reply, RespWriter};
use std::ops::Range;

/// A message to a channel, on its way to the subscribers of one worker.
#[derive(Debug)]
pub struct Message {
    kind: ChannelKind,
    /// `>3 message <channel> <payload>`, the parts that patterns say otherwise included.
    encoded: Bytes,
    channel: Range<usize>,
    /// Start of the part with which all encodings end: channel and payload.
    tail: usize,
    patterns: Box<[Name]>,
}

impl Message {
    /// Encodes a message to a channel, which these patterns match.
    pub fn new(kind: ChannelKind, channel: &[u8], payload: &[u8], patterns: Vec<Name>) -> Self {
        let mut bytes = Vec::with_capacity(channel.len() + payload.len() + 64);
        // Values are copied: a push outlives the command.
        let mut shared = Vec::new();
        let mut reply = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3);
        reply.push(3);
        reply.bulk(if kind == ChannelKind::Shard { b"smessage" } else { b"message" });
        let tail = bytes.len();
        let mut reply = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3);
        reply.bulk(channel);
        let end = bytes.len() - 2;
        RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3).bulk(payload);
        Message {
            kind,
            encoded: bytes.into(),
            channel: end - channel.len()..end,
            tail,
            patterns: patterns.into(),
        }
    }

    /// Kind of the channel: plain or sharded.
    pub fn kind(&self) -> ChannelKind {
        self.kind
    }

    /// The channel.
    pub fn channel(&self) -> &[u8] {
        &self.encoded[self.channel.clone()]
    }

    /// The patterns that match it.
    pub fn patterns(&self) -> &[Name] {
        &self.patterns
    }

    /// As subscribers to the channel get it.
    pub fn plain(&self) -> Push {
        Push::of_parts(self.encoded.clone(), Bytes::new())
    }

    /// As subscribers to a pattern get it.
    pub fn matched(&self, pattern: &[u8]) -> Push {
        let (mut head, mut shared) = (Vec::with_capacity(pattern.len() + 32), Vec::new());
        let mut reply = RespWriter::new(&mut head, &mut shared, Protocol::Resp3);
        reply.push(4);
        reply.bulk(b"pmessage");
        reply.bulk(pattern);
        Push::of_parts(head.into(), self.encoded.slice(self.tail..))
    }

    /// Bytes that it takes.
    pub fn footprint(&self) -> usize {
        self.encoded.len() + size_of::<Message>()
    }

    /// Whether another message goes to exactly the same subscribers.
    pub fn shares_audience(&self, other: &Message) -> bool {
        self.patterns.is_empty()
            && other.patterns.is_empty()
            && self.kind == other.kind
            && self.channel() == other.channel()
    }

    /// Several messages to one audience as one push in each protocol.
    pub fn joined<'m>(messages: impl Iterator<Item = &'m Message> + Clone) -> [Push; 2] {
        let len = messages.clone().map(|message| message.encoded.len()).sum();
        [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut bytes = Vec::with_capacity(len);
            for message in messages.clone() {
                bytes.push(if protocol == Protocol::Resp2 { b'*' } else { b'>' });
                bytes.extend_from_slice(&message.encoded[1..]);
            }
            Push::raw(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: &Push, protocol: Protocol) -> String {
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        push.write(protocol, &mut bytes, &mut shared);
        assert!(shared.is_empty());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn forms_share_channel_and_payload() {
        let message =
            Message::new(ChannelKind::Channel, b"news", b"hi", vec![Name::from(&b"n*"[..])]);
        assert_eq!(message.channel(), b"news");
        let tail = "$4\r\nnews\r\n$2\r\nhi\r\n";
        let plain = text(&message.plain(), Protocol::Resp2);
        assert_eq!(plain, format!("*3\r\n$7\r\nmessage\r\n{tail}"));
        let matched = text(&message.matched(b"n*"), Protocol::Resp3);
        assert_eq!(matched, format!(">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n{tail}"));
        let shard = Message::new(ChannelKind::Shard, b"", b"", Vec::new());
        assert_eq!(
            text(&shard.plain(), Protocol::Resp3),
            ">3\r\n$8\r\nsmessage\r\n$0\r\n\r\n$0\r\n\r\n"
        );
    }

    #[test]
    fn neighbours_to_one_channel_are_joined() {
        let [a, b] = ["1", "2"]
            .map(|text| Message::new(ChannelKind::Channel, b"c", text.as_bytes(), Vec::new()));
        let other = Message::new(ChannelKind::Channel, b"d", b"1", Vec::new());
        let shard = Message::new(ChannelKind::Shard, b"c", b"1", Vec::new());
        assert!(a.shares_audience(&b) && !a.shares_audience(&other) && !a.shares_audience(&shard));
        let [resp2, resp3] = Message::joined([&a, &b].into_iter());
        for (push, protocol) in [(resp2, Protocol::Resp2), (resp3, Protocol::Resp3)] {
            let both = text(&a.plain(), protocol) + &text(&b.plain(), protocol);
            assert_eq!(text(&push, protocol), both);
        }
    }
}
