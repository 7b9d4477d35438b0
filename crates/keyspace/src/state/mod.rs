//! Shared and per-thread state: tables of keys and of observers, counters, policies. Independent of
//! [`crate::Handle`].

pub(crate) mod aux_state;
pub(crate) mod call;
pub(crate) mod cleared;
pub(crate) mod compaction;
pub(crate) mod counters;
pub(crate) mod deferred;
pub(crate) mod documents;
pub(crate) mod effect;
pub(crate) mod event;
pub(crate) mod evictor;
pub(crate) mod garbage;
pub(crate) mod ghost;
pub(crate) mod image;
pub(crate) mod interest;
pub(crate) mod invalidation;
pub(crate) mod keyspace;
pub(crate) mod locks;
pub(crate) mod observers;
pub(crate) mod order;
pub(crate) mod ownership;
pub(crate) mod policy;
pub(crate) mod portions;
pub(crate) mod stripe;
pub(crate) mod thread_stats;
pub(crate) mod tracking;
pub(crate) mod upkeep;
pub(crate) mod usage;
pub(crate) mod waiting;
pub(crate) mod wall_clock;
pub(crate) mod watch;
