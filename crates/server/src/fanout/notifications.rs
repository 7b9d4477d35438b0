//! Events of keys as messages:
//! <https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/>.

use crate::host::ServerHost;
use crate::state::pubsub::ChannelKind;
use petrel_keyspace::Event;
use std::io::Write;

impl ServerHost {
    /// Publishes an event in the channels that the configuration chooses.
    pub fn publish_event(&mut self, event: &Event) {
        if self.server.channels.is_silent(ChannelKind::Channel) {
            return;
        }
        let chosen = self.config.notify_keyspace_events;
        let (db, name, key) = (event.db, event.name.as_bytes(), &event.key[..]);
        let channel = |kind: &str, rest: &[&[u8]]| {
            let mut channel = format!("__{kind}@{db}__:").into_bytes();
            rest.iter().for_each(|part| channel.extend_from_slice(part));
            channel
        };
        if chosen.keyspace() {
            self.publish_in(&channel("keyspace", &[key]), name);
        }
        if chosen.keyevent() {
            self.publish_in(&channel("keyevent", &[name]), key);
        }
        if event.fields.is_empty() {
            return;
        }
        let fields = counted(event.fields.iter().map(|field| &field[..]));
        if chosen.subkeyspace() {
            self.publish_in(&channel("subkeyspace", &[key]), &[name, b"|", &fields].concat());
        }
        if chosen.subkeyevent() {
            let key = counted([key].into_iter());
            self.publish_in(&channel("subkeyevent", &[name]), &[&key[..], b"|", &fields].concat());
        }
        // A key with a line end could be taken for another key and its field.
        if chosen.subkeyspace_item() && !key.contains(&b'\n') {
            for field in &event.fields {
                self.publish_in(&channel("subkeyspaceitem", &[key, b"\n", field]), name);
            }
        }
        if chosen.subkeyspace_event() {
            self.publish_in(&channel("subkeyspaceevent", &[name, b"|", key]), &fields);
        }
    }

    fn publish_in(&mut self, channel: &[u8], payload: &[u8]) {
        self.publish_message(ChannelKind::Channel, channel, payload);
    }
}

/// Strings, each behind its length: `2:f1,2:f2`.
fn counted<'a>(strings: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut text = Vec::new();
    for (i, string) in strings.enumerate() {
        let comma = if i > 0 { "," } else { "" };
        // Writing to a vector cannot fail.
        let _ = write!(text, "{comma}{}:", string.len());
        text.extend_from_slice(string);
    }
    text
}
