//! Data structures: they know bytes, not the keyspace. A value is packed into its key's entry while
//! it is small ([`packed`]), and a [`large::Large`] beyond; both are read through one reference per
//! type (`SetRef`, `HashRef`, ...). The conversion from one to the other is decided by speed and
//! memory, independently of `OBJECT ENCODING`, which follows Redis's thresholds
//! ([`crate::TypeLimits`]) and never changes back, so a packed collection may be *beyond* them.

pub(crate) mod array;
pub(crate) mod block;
pub(crate) mod bloom;
pub(crate) mod bucket;
pub(crate) mod count_min;
pub(crate) mod cuckoo;
pub mod custom;
pub(crate) mod dict;
pub(crate) mod element;
pub(crate) mod entry;
pub(crate) mod form;
pub(crate) mod hash;
pub mod hash_slot;
pub(crate) mod image;
pub mod intset;
pub(crate) mod json;
pub(crate) mod key_hash;
pub(crate) mod large;
pub(crate) mod limits;
pub mod list;
pub mod packed;
pub(crate) mod random;
pub(crate) mod rank_tree;
pub(crate) mod set;
pub(crate) mod sizes;
pub mod sorted_set;
pub(crate) mod stamp;
pub mod stream;
pub(crate) mod suggestions;
pub(crate) mod t_digest;
pub(crate) mod table;
pub(crate) mod top_k;
pub(crate) mod value;
pub(crate) mod vectors;
pub(crate) mod view;
pub(crate) mod walk;
