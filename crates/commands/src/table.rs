//! What is said of every command, a file per family: see [`crate::spec::Meta`].

pub mod bitmaps;
pub mod client;
pub mod command;
pub mod config;
pub mod connection;
pub mod dump;
pub mod generic;
pub mod geo;
pub mod hashes;
pub mod hyperloglog;
pub mod latency;
pub mod lists;
pub mod memory;
pub mod object;
pub mod server;
pub mod sets;
pub mod slowlog;
pub mod sort;
pub mod sorted_set_algebra;
pub mod sorted_set_ranges;
pub mod sorted_sets;
pub mod streams;
pub mod strings;
pub mod transactions;
