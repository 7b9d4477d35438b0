//! Loading beside others that go on serving: taking turns with them, and keys that are too large
//! for one hold of their stripe.

use super::{LoadOptions, Loaded, Progress, load_with};
use crate::rdb::{Error, FileError, Leniency, Shape};
use crate::turns::Turns;
use crate::value::{self, Hold, NOTHING_EXPIRED};
use petrel_keyspace::{Handle, Key, Keyspace, Origin};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Length of a record above which its value is built in several steps, each with the key's stripe
/// locked.
pub(super) const WHOLE_MAX: usize = 64 * 1024;

/// Elements that are made before the clock is looked at.
const ELEMENTS_AT_ONCE: u32 = 16;

/// Notifies clients of a thread's changes: tracking clients ([`Handle::take_invalidations`]) and
/// blocked clients ([`Handle::next_ready`]). Called on each loading thread after each of its
/// batches, outside of a batch.
pub type Settle<'s> = dyn Fn(&mut Handle) + Sync + 's;

/// Options of an online load: [`load_from`].
#[derive(Clone, Copy)]
pub struct LoadFrom<'f> {
    /// Origin that sinks see with each change.
    pub origin: Origin,
    /// Threads, the calling one included; at least 1.
    pub threads: usize,
    /// Checks to leave out.
    pub leniency: Leniency,
    /// Called after each batch.
    pub settle: &'f Settle<'f>,
}

/// Loads a file of `len` bytes, or [`super::UNKNOWN_LEN`], as [`super::load`] does, but into a
/// keyspace that has other keys and goes on serving them. Nothing else makes keys of the names that
/// are in the file meanwhile, or removes them.
///
/// Expired keys and fields are loaded as well. Every change is recorded like a command's, with the
/// origin: a log has the keys once the epoch is durable that [`petrel_keyspace::Epochs::now`]
/// returns after the load. A value is one effect, or if it is large one per element, so a process
/// that ends during the load may leave part of it.
///
/// No stripe is held for long, unless it takes long to read on; the file is a local one. While a
/// large value is being loaded its key is seen with a part of it.
///
/// The load ends early where `progress` says so, and then is not [`Loaded::is_whole`].
///
/// # Errors
/// Those of [`super::load`]; a key that is present already is left as it is. Keys loaded until then
/// stay.
pub fn load_from<R: Read>(
    file: R,
    len: u64,
    keyspace: &Arc<Keyspace>,
    from: LoadFrom<'_>,
    progress: &Progress,
) -> Result<Loaded, FileError> {
    let LoadFrom { threads, leniency, .. } = from;
    let options = LoadOptions { threads, leniency, keeps_expired: true, merges: false };
    let mut loaded = load_with(file, len, keyspace, (options, Some(from)), progress)?;
    // A thread may have skipped keys that were read.
    loaded.is_whole &= !progress.stop.load(Relaxed);
    Ok(loaded)
}

/// A loading thread's share in that.
pub(super) struct Beside<'l> {
    settle: &'l Settle<'l>,
    turns: Turns,
}

impl<'l> Beside<'l> {
    pub fn new(from: LoadFrom<'l>) -> Self {
        Beside { settle: from.settle, turns: Turns::default() }
    }

    /// To be called after each batch.
    pub fn settle(&self, handle: &mut Handle) {
        (self.settle)(handle);
    }

    /// Whether others are to have the keyspace, or the processor.
    fn is_due(&self, handle: &Handle) -> bool {
        handle.should_yield() || self.turns.is_over()
    }

    /// Lets others have them. The thread is in no batch.
    fn give_way(&mut self, handle: &mut Handle) {
        self.settle(handle);
        self.turns.give_way();
    }

    /// Like `settle`, between two keys, if it is due. The thread is in a batch and holds no lock.
    pub fn take_turns(&mut self, handle: &mut Handle) {
        if self.is_due(handle) {
            handle.exit();
            self.give_way(handle);
            handle.enter();
        }
    }
}

/// Lock of the key for which a value is being built: taken for each change, and released at
/// intervals.
pub(super) struct Holds<'b, 'l, 'k> {
    beside: &'b mut Beside<'l>,
    db: u16,
    key: Key<'k>,
    is_held: bool,
    /// Shape of the value when the stripe was last unlocked.
    left: Option<Shape>,
    /// Elements that were made since the clock was looked at.
    made: u32,
    /// Whether another thread has changed the key meanwhile, or it was there before.
    is_anothers: bool,
    has_begun: bool,
}

impl<'b, 'l, 'k> Holds<'b, 'l, 'k> {
    /// Creates it for a thread outside of a batch.
    pub fn new(beside: &'b mut Beside<'l>, db: u16, key: Key<'k>) -> Self {
        Holds {
            beside,
            db,
            key,
            is_held: false,
            left: None,
            made: 0,
            is_anothers: false,
            has_begun: false,
        }
    }

    fn shape(&self, handle: &Handle) -> Option<Shape> {
        let view = handle.view_stored(self.db, self.key)?;
        // A string is as good as any other shape: nothing that has begun is one.
        Some(value::shape(view, NOTHING_EXPIRED).unwrap_or(Shape::List { len: None }))
    }

    fn let_go(&mut self, handle: &mut Handle) {
        self.left = self.shape(handle);
        handle.unlock();
        handle.exit();
        self.is_held = false;
    }

    /// Completes the key with its expiry, or removes the partial value after an error. The thread
    /// is in a batch afterwards, and holds no lock. Returns whether the key was present before.
    pub fn end(
        mut self,
        handle: &mut Handle,
        is_made: bool,
        complete: impl FnOnce(&mut Handle),
    ) -> bool {
        if !self.is_held {
            // Only after an error.
            let _ = self.hold(handle);
        }
        if is_made {
            complete(handle);
        } else if !self.is_anothers {
            handle.remove(self.db, self.key);
        }
        handle.unlock();
        self.is_anothers && !self.has_begun
    }
}

impl Hold for Holds<'_, '_, '_> {
    fn hold(&mut self, handle: &mut Handle) -> Result<(), Error> {
        if self.is_held {
            return Ok(());
        }
        handle.enter();
        handle.lock(self.key.hash);
        self.is_held = true;
        if self.shape(handle) != self.left {
            self.is_anothers = true;
            return Err(Error::Refused("a key that was changed while its value was loaded"));
        }
        self.has_begun = true;
        Ok(())
    }

    fn made(&mut self, handle: &mut Handle) {
        self.made += 1;
        if self.made >= ELEMENTS_AT_ONCE {
            self.made = 0;
            if self.beside.is_due(handle) {
                self.let_go(handle);
                self.beside.give_way(handle);
            }
        }
    }
}
