//! Petrel's keyspace: databases of keys shared by all threads, without sockets or wire formats.
//!
//! Memory is shared and divided into stripes, each with a lock of its own. A thread locks the
//! stripe of a key, works and unlocks it. Every change goes through a mutator that records one
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

mod embed;
mod handle;
mod mutators;
mod observers;
mod state;
mod structures;
mod upkeep;

/// Names of events, and the classes by which they are subscribed to.
pub mod event {
    pub use crate::state::event::{Event, Naming, class};
}

/// Packed items of small collections.
pub use structures::hash_slot;
pub use structures::packed;

/// Auxiliary state: names, and the form of function libraries.
pub mod aux_state {
    pub use crate::state::aux_state::*;
}

/// Value types: what a type of value beside strings and collections consists of.
pub mod custom {
    pub use crate::mutators::custom::KeySlot;
    pub use crate::structures::custom::types::{
        add_type, all_types, type_of_module, type_of_number, type_of_type_byte,
    };
    pub use crate::structures::custom::*;

    /// Bytes of a packed value at most.
    pub const PACKED_MAX: usize = crate::structures::sizes::PACKED_MAX - 1;
}

/// Arrays.
pub mod array {
    pub use crate::structures::array::ArrayValue;
    pub use crate::structures::array::change::{
        insert, remove, remove_ranges, ring, seek, set, set_pairs,
    };
    pub use crate::structures::array::rdb::TYPE;
    pub use petrel_array::{Array, Element, INDEX_MAX, SliceFigures};
}

/// Bloom filters.
pub mod bloom {
    pub use crate::structures::bloom::Filter;
    pub use crate::structures::bloom::change::{
        Reserve, add, add_one, add_some, load_head, load_piece, reserve,
    };
    pub use crate::structures::bloom::rdb::TYPE;
    pub use petrel_sketch::bloom::{AddError, Bloom, ChunkError, Facts, Part};
}

/// Count-min sketches.
pub mod count_min {
    pub use crate::structures::count_min::Sketch;
    pub use crate::structures::count_min::change::{increment, make};
    pub use crate::structures::count_min::rdb::TYPE;
    pub use petrel_sketch::count_min::{CountMin, Overflow};
}

/// Cuckoo filters.
pub mod cuckoo {
    pub use crate::structures::cuckoo::CuckooFilter;
    pub use crate::structures::cuckoo::change::{
        Adding, Reserve, add, add_one, add_some, compact, delete, load_head, load_piece, reserve,
    };
    pub use crate::structures::cuckoo::rdb::TYPE;
    pub use petrel_sketch::cuckoo::{
        AddError, Cuckoo, HEAD_LEN, LoadChunkError, Part, Print, Shape,
    };
}

/// Top-k lists.
pub mod top_k {
    pub use crate::structures::top_k::TopKList;
    pub use crate::structures::top_k::change::{add, make};
    pub use crate::structures::top_k::rdb::TYPE;
    pub use petrel_sketch::top_k::{INCREMENT_MAX, Shape, TopK};
}

/// t-digests.
pub mod t_digest {
    pub use crate::structures::t_digest::change::{add, make, reset};
    pub use crate::structures::t_digest::rdb::TYPE;
    pub use crate::structures::t_digest::{DigestRef, loaded};
    pub use petrel_sketch::t_digest::{COMPRESSION_MAX, Overflow, TDigest};
}

/// Suggestions.
pub mod suggestions {
    pub use crate::structures::suggestions::change::{put, remove};
    pub use crate::structures::suggestions::rdb::TYPE;
    pub use crate::structures::suggestions::search::Wanted;
    pub use crate::structures::suggestions::{Suggestion, Suggestions, valid_term};
}

/// Collections, by type.
pub mod types {
    pub use crate::structures::form::{Type, WrongType};
    pub use crate::structures::intset;

    /// Lists.
    pub mod list {
        pub use crate::mutators::lists::ListMut;
        pub use crate::structures::list::*;
    }

    /// Sorted sets.
    pub use crate::structures::sorted_set;

    /// Streams.
    pub mod stream {
        pub use crate::mutators::streams::StreamMut;
        pub use crate::structures::stream::*;
    }
}

pub use embed::{OutOfMemory, Update};
pub use handle::Handle;
pub use handle::peek::Peeker;
pub use handle::transient::Transient;
pub use mutators::apply::Misfit;
pub use mutators::compact_hashes::{LoadedSharing, SchemaId};
pub use mutators::hashes::FieldExpiry;
pub use mutators::scan::Cursor;
pub use mutators::set_algebra::{CombineError, GoOn, SetOperation};
pub use mutators::strings::AddError;
pub use observers::watch::WatchedKey;
pub use petrel_heap::{Breather, prefetch_to_write};
pub use petrel_lock::{Others, Signal};
pub use state::call::Call;
pub use state::cleared::Cleared;
pub use state::compaction::CompactionStats;
pub use state::counters::{DbStats, Stats};
pub use state::effect::{Effect, EffectHead, EffectSink, Encoded, Published, Removal};
pub use state::event::{Event, Naming};
pub use state::image::{ImageKey, ImageSink, TakeKey};
pub use state::invalidation::{BatchInvalidations, Broadcast, Invalidation};
pub use state::keyspace::{Keyspace, Options};
pub use state::order::{Epochs, Order, Origin, SinkSource};
pub use state::ownership::Ownership;
pub use state::policy::Policy;
pub use state::portions::Portions;
pub use state::tracking::{Reader, ReaderId, Readers, ReadersView};
pub use state::usage::{Usage, Usages};
pub use state::waiting::{Awaited, ReadyKey, WaitedKeys, Waiter};

/// The processor's time-stamp counter.
pub mod time_stamp {
    pub use crate::state::wall_clock::{counter, counter_is_steady};
}
pub use structures::entry::Kind;
pub use structures::form::{Type, WrongType};
pub use structures::hash::schema::{FieldNames, SchemaCounts};
pub use structures::hash::{Field, HashRef};
pub use structures::image::{ImageElement, TakeElement};
pub use structures::json::change::{JsonChange, JsonError};
pub use structures::key_hash::{Key, KeyHash, KeyHasher};
pub use structures::limits::TypeLimits;
pub use structures::set::SetRef;
pub use structures::sizes::{BLOB_MIN, blob_bytes};
pub use structures::value::{StrRef, Value, parse_int};
pub use structures::vectors::change::{VectorChange, VectorError};
pub use structures::view::View;
pub use upkeep::compact::Compacted;
pub use upkeep::image::ImagePlace;
pub use upkeep::sweep::Swept;
pub use upkeep::tick::{Pace, Ticked};
