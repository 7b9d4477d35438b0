//! Cache of a worker with the receivers of invalidations, so that an invalidation reads no memory
//! that other workers write.

use super::tracker::{Tracker, Trackers};
use crate::client::Flag;
use crate::state::outbox::Recipient;
use petrel_keyspace::{Reader, ReaderId};

/// Receiver of a reader's invalidations, without redirection and with RESP3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    reader: ReaderId,
    /// The connection and its worker.
    pub to: Recipient,
    pub worker: u16,
}

impl Route {
    /// The way to a reader, if it is as simple as that. It stays so until the trackers' version
    /// changes, or the connection speaks another protocol: its worker looks at that once
    /// more.
    fn to(reader: &Reader) -> Option<Route> {
        let tracker = Tracker::of(reader);
        let client = &tracker.client;
        let is_direct =
            tracker.member().is_none() && tracker.target().is_none() && client.has(Flag::Resp3);
        is_direct.then(|| Route {
            reader: reader.id(),
            to: Recipient::of(client),
            worker: client.worker,
        })
    }
}

/// The ways to readers, by their places.
#[derive(Default)]
pub(crate) struct Routes {
    version: u64,
    places: Vec<Option<Route>>,
}

impl Routes {
    /// Forgets what may hold no longer.
    #[inline]
    pub fn refresh(&mut self, trackers: &Trackers) {
        let version = trackers.version();
        if version != self.version {
            self.places.clear();
            self.version = version;
        }
    }

    /// The way to a reader, if it is known.
    #[inline]
    pub fn of(&self, reader: ReaderId) -> Option<Route> {
        let route = (*self.places.get(reader.place())?)?;
        (route.reader == reader).then_some(route)
    }

    /// Caches the route to a reader. The cache must have been [refreshed](Self::refresh) before the
    /// reader was read.
    pub fn learn(&mut self, reader: &Reader) {
        let place = reader.id().place();
        if place >= self.places.len() {
            self.places.resize(place + 1, None);
        }
        self.places[place] = Route::to(reader);
    }
}
