//! Petrel's keyspace: databases of keys shared by all threads, without sockets or wire formats.
//!
//! Memory is shared and divided into stripes, each with a lock of its own; whoever wants a key
//! locks its stripe, works and lets go. Every change goes through a mutator that records one
//! [`Effect`]. The layout of an entry is drawn in `entry.rs`, of a table in `table.rs`, the locks
//! in [`petrel_lock`].
//!
//! ```
//! use petrel_keyspace::{Keyspace, Options, Value};
//!
//! let keyspace = Keyspace::new(&Options::default());
//! let mut handle = keyspace.attach(); // one per thread
//! handle.store(0, b"greeting", Value::Bytes(b"hello"), None)?;
//! assert_eq!(handle.load(0, b"greeting").as_deref(), Some(&b"hello"[..]));
//! assert!(handle.delete(0, b"greeting"));
//! # Ok::<(), petrel_keyspace::OutOfMemory>(())
//! ```

mod access;
mod apply;
mod bucket;
mod build;
mod compact;
mod counters;
mod database;
mod dict;
mod effect;
mod element;
mod embed;
mod entry;
pub mod event;
mod evict;
mod garbage;
mod ghost;
mod handle;
mod hash;
mod image;
mod interest;
mod keyspace;
mod limits;
mod order;
pub mod packed;
mod peek;
mod policy;
mod portions;
mod pour;
mod random;
mod roster;
mod scan;
mod stamp;
mod string;
mod stripe;
mod sweep;
mod table;
mod tick;
mod told;
mod tracking;
mod transaction;
pub mod types;
mod usage;
mod value;
mod waiting;
mod watch;

pub use access::View;
pub use apply::Misfit;
pub use compact::Compacted;
pub use counters::{DbStats, Stats};
pub use database::Cleared;
pub use effect::{Effect, EffectHead, EffectSink, Removal};
pub use embed::{OutOfMemory, Update};
pub use entry::{BLOB_MIN, Kind, blob_bytes};
pub use event::{Event, Naming};
pub use handle::{Handle, Key};
pub use hash::{KeyHash, KeyHasher};
pub use image::{ImageKey, ImagePlace, ImageSink, TakeKey};
pub use keyspace::{Keyspace, Options};
pub use limits::TypeLimits;
pub use order::{Epochs, Order, Origin, SinkSource};
pub use peek::Peeker;
pub use petrel_heap::prefetch_to_write;
pub use policy::Policy;
pub use portions::{ImageElement, Portions, TakeElement};
pub use scan::Cursor;
pub use string::AddError;
pub use sweep::Swept;
pub use tick::{Pace, Ticked};
pub use told::{Broadcast, Invalidation, Told};
pub use tracking::{Reader, ReaderId, Readers, ReadersView};
pub use transaction::WatchedKey;
pub use types::hash::{Field, FieldExpiry, HashRef};
pub use types::set::{SetOperation, SetRef};
pub use types::{Type, WrongType};
pub use usage::{Usage, Usages};
pub use value::{StrRef, Value, parse_int};
pub use waiting::{Awaited, ReadyKey, WaitedKeys, Waiter};
