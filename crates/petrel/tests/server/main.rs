//! Black-box tests: the real binary, on sockets of a directory of its own, with each back-end.

mod acl;
mod advisories;
mod advisories_operation;
mod arrays;
#[cfg(feature = "object-store")]
mod backup;
#[cfg(feature = "object-store")]
mod backup_log;
#[cfg(feature = "object-store")]
mod backup_s3;
mod blocking;
mod book;
#[cfg(feature = "object-store")]
mod bucket;
mod check;
mod cli;
mod clients;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
mod cluster_acknowledged;
#[cfg(feature = "cluster")]
mod cluster_failures;
#[cfg(feature = "cluster")]
mod cluster_functions;
#[cfg(feature = "cluster")]
mod cluster_history;
#[cfg(feature = "cluster")]
mod cluster_memory;
#[cfg(feature = "cluster")]
mod cluster_network;
#[cfg(feature = "cluster")]
mod cluster_redis;
#[cfg(feature = "cluster")]
mod cluster_refusals;
#[cfg(feature = "cluster")]
mod cluster_slots;
#[cfg(feature = "cluster")]
mod cluster_takeover;
#[cfg(feature = "cluster")]
mod cluster_tracking;
#[cfg(feature = "cluster")]
mod cluster_transactions;
mod compact_hashes;
mod compatibility;
mod configuration;
mod console;
mod data;
mod dialect;
mod digests;
mod failover;
mod faults;
mod harness;
#[cfg(feature = "cluster")]
mod history;
mod hostile;
mod hotkeys;
mod http;
mod info;
mod json;
mod kill;
mod lifecycle;
mod limits;
mod loading;
mod log;
mod long;
mod memory;
mod mending;
mod migrate;
mod monitor;
mod move_in;
mod notifications;
mod online_backup;
mod protocol;
mod pubsub;
mod replication;
mod replication_effects;
mod replication_kills;
mod replication_out;
mod replication_peers;
mod replication_primary;
mod saving;
mod script_ends;
mod scripts;
mod search;
mod sketches;
mod sketches_peer;
mod snapshot;
mod stress;
mod tls;
mod tls_versions;
mod tracking;
mod tracking_acl;
mod vectors;
