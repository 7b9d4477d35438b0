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

/// Values whose records are longer are made under several holds of the key's stripe.
pub(super) const WHOLE_MAX: usize = 64 * 1024;

/// Elements that are made before the clock is looked at.
const ELEMENTS_AT_ONCE: u32 = 16;

/// Passes on what a thread's changes mean to clients: those that cache
/// ([`Handle::take_invalidations`]) and those that wait ([`Handle::next_ready`]). It runs on each
/// loading thread, which is in no batch, after each of its batches.
pub type Settle<'s> = dyn Fn(&mut Handle) + Sync + 's;

/// How a file is loaded into a keyspace that goes on serving: [`load_from`].
#[derive(Clone, Copy)]
pub struct LoadFrom<'f> {
    /// Where the keys come from: what all changes carry to the sinks.
    pub origin: Origin,
    /// Threads, the calling one included; at least 1.
    pub threads: usize,
    /// What is not to be checked.
    pub leniency: Leniency,
    /// What follows each batch.
    pub settle: &'f Settle<'f>,
}

/// Loads a file of `len` bytes, or [`super::UNKNOWN_LEN`], as [`super::load`] does, but into a
/// keyspace that has other keys and goes on serving them. Nothing else makes keys of the names that
/// are in the file meanwhile, or removes them.
///
/// Keys and fields whose time has passed are loaded as well. Every change is recorded, as that of a
/// command is, and carries the origin: a log has the keys once the epoch is durable that
/// [`petrel_keyspace::Epochs::now`] says after the load. A value is one effect, or if it is large
/// one of each element: a process that ends amid the load may leave a part of it.
///
/// No stripe is held for long, unless it takes long to read on; the file is a local one. While a
/// large value is being loaded its key is seen with a part of it.
///
/// The load ends early where `progress` says so, and then is not [`Loaded::is_whole`].
///
/// # Errors
/// Those of [`super::load`]; a key that is there already is left as it is. What was loaded until
/// then stays.
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
    // A thread may have passed over what was read.
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

    /// The same between two keys, if they are due. The thread is in a batch and holds nothing.
    pub fn take_turns(&mut self, handle: &mut Handle) {
        if self.is_due(handle) {
            handle.exit();
            self.give_way(handle);
            handle.enter();
        }
    }
}

/// The stripe of a key whose value is being made, held when something is changed and let go of now
/// and then.
pub(super) struct Holds<'b, 'l, 'k> {
    beside: &'b mut Beside<'l>,
    db: u16,
    key: Key<'k>,
    is_held: bool,
    /// What there was of the value when the stripe was let go of.
    left: Option<Shape>,
    /// Elements that were made since the clock was looked at.
    made: u32,
    /// Whether another thread has changed the key meanwhile, or it was there before.
    is_anothers: bool,
    has_begun: bool,
}

impl<'b, 'l, 'k> Holds<'b, 'l, 'k> {
    /// Of a thread that is in no batch.
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

    /// Completes the key with its expiry, or removes what was made of it if there was an error. The
    /// thread is in a batch afterwards, and holds nothing. Whether the key was there before.
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
