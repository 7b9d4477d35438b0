//! Sink of the keyspace's threads: encodes effects as a frame or as commands, and appends them to
//! the backlog at each commit.

use crate::server::Server;
use crate::state::outgoing::stream::Stream;
use petrel_commands::aux_state::write_commands;
use petrel_keyspace::{Effect, EffectHead, EffectSink, Encoded, Published, SinkSource};
use petrel_replication::{Encoder, FrameWriter};
use std::sync::{Arc, Weak};

/// The name that the stream's sinks go by.
pub(super) const NAME: &str = "replication";

/// Creates the source of the threads' sinks.
pub(super) fn source(stream: &Arc<Stream>, server: Weak<Server>) -> Arc<dyn SinkSource> {
    Arc::new(StreamSource { stream: Arc::downgrade(stream), server })
}

struct StreamSource {
    stream: Weak<Stream>,
    server: Weak<Server>,
}

impl SinkSource for StreamSource {
    fn sink(&self) -> Box<dyn EffectSink> {
        let stream = self.stream.upgrade();
        match stream.and_then(|stream| Some((self.server.upgrade()?, stream))) {
            Some((server, stream)) => {
                let encoder =
                    Encoder::new(stream.understood, stream.mark.as_bytes(), write_commands);
                Box::new(Recorder {
                    server,
                    stream,
                    encoder,
                    frame: FrameWriter::default(),
                    passes_on: None,
                    has_appended: false,
                })
            }
            // The stream has ended: another source, or none, takes this one's place.
            None => Box::new(|_: u16, _: &Effect<'_>| ()),
        }
    }
}

/// Records what one thread changes.
struct Recorder {
    server: Arc<Server>,
    stream: Arc<Stream>,
    encoder: Encoder,
    frame: FrameWriter,
    /// Whether the commit is sent to replicas: not if it came from the primary, since its bytes are
    /// relayed. `None` before its first effect. A commit is sent as a whole or not at all.
    passes_on: Option<bool>,
    has_appended: bool,
}

impl Recorder {
    #[inline]
    fn passes_on(&mut self) -> bool {
        let replication = &self.server.replication;
        *self.passes_on.get_or_insert_with(|| !replication.is_replica())
    }
}

impl EffectSink for Recorder {
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        self.record_encoded(head, effect, None);
    }

    #[inline]
    fn record_encoded<'s>(
        &'s mut self,
        head: EffectHead,
        effect: &Effect<'_>,
        encoded: Option<Encoded<'s>>,
    ) -> Option<Encoded<'s>> {
        if !self.passes_on() {
            if !self.server.commands.is_loading() {
                self.server.replication.replica_expires.note(head.db, effect);
            }
            return encoded;
        }
        if let Effect::Aux { name, .. } = effect
            && !self.stream.is_newest_aux(name, head.order.0)
        {
            // A thread was faster that has put a later form into the stream.
            return encoded;
        }
        // Everything is held when that changes, so that a commit is written in one way.
        if self.stream.encoding.has_frames() {
            return Some(self.frame.add(head.db, effect, encoded));
        }
        self.encoder.add(head.db, effect);
        encoded
    }

    fn message(&mut self, message: &Published<'_>) -> bool {
        // A message that is not taken is no part of a commit, so it must not set the decision.
        if self.passes_on.unwrap_or_else(|| !self.server.replication.is_replica()) {
            self.passes_on = Some(true);
            self.encoder.message(message);
            return true;
        }
        false
    }

    #[inline]
    fn committed(&mut self, _: u64, _: bool) {
        self.passes_on = None;
        let backlog = &self.stream.backlog;
        self.has_appended |= self.frame.end(|lane, effects| {
            backlog.append_frame(lane, effects);
        });
        if let Some(commands) = self.encoder.finish() {
            self.stream.backlog.append(commands);
            self.has_appended = true;
        }
        self.encoder.clear();
    }

    fn hand_over(&mut self) {
        if std::mem::take(&mut self.has_appended) {
            self.stream.owners.call(&self.server.workers);
        }
    }
}
