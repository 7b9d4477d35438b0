//! Events of keys as messages:
//! <https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/>.

use crate::host::ServerHost;
use crate::state::pubsub::ChannelKind;
use petrel_keyspace::event::{Event, class};
use std::io::Write;

impl ServerHost {
    /// Publishes an event in the channels that the configuration chooses, and tells other members
    /// whose clients want it.
    pub fn publish_event(&mut self, event: &Event) {
        let Event { class, name, db, key, fields } = event;
        if let Some(own) = self.server.cluster.get() {
            if class & (class::EXPIRED | class::EVICTED) != 0 && !own.orders(key) {
                // The copy of a key was evicted, not the key.
                return;
            }
            let members = self.server.trackers.member_events();
            let members =
                if members & class == 0 { 0 } else { self.server.trackers.members_for(*class) };
            if members != 0 {
                own.tell_event(members, event);
            }
        }
        if self.config.notify_keyspace_events.wanted() & class != 0 {
            self.publish_named((*db, name.as_bytes(), key), fields.iter().map(|field| &field[..]));
        }
    }

    /// Publishes an event, by its database, name and key, in the channels that the configuration
    /// chooses.
    pub fn publish_named<'f>(
        &mut self,
        (db, name, key): (u16, &[u8], &[u8]),
        fields: impl Iterator<Item = &'f [u8]> + Clone,
    ) {
        if self.server.channels.is_silent(ChannelKind::Channel) {
            return;
        }
        let chosen = self.config.notify_keyspace_events;
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
        if fields.clone().next().is_none() {
            return;
        }
        let counted_fields = counted(fields.clone());
        if chosen.subkeyspace() {
            self.publish_in(
                &channel("subkeyspace", &[key]),
                &[name, b"|", &counted_fields].concat(),
            );
        }
        if chosen.subkeyevent() {
            let key = counted([key].into_iter());
            self.publish_in(
                &channel("subkeyevent", &[name]),
                &[&key[..], b"|", &counted_fields].concat(),
            );
        }
        // A key with a line end could be taken for another key and its field.
        if chosen.subkeyspace_item() && !key.contains(&b'\n') {
            for field in fields {
                self.publish_in(&channel("subkeyspaceitem", &[key, b"\n", field]), name);
            }
        }
        if chosen.subkeyspace_event() {
            self.publish_in(&channel("subkeyspaceevent", &[name, b"|", key]), &counted_fields);
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
