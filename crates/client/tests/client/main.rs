//! The client against real servers, and against hostile ones.

mod aside;
mod basics;
mod cluster;
mod cluster_caches;
mod cluster_messages;
mod crossing;
mod examples;
mod group;
mod hostile;
mod mock;
mod near;
mod sentinel;
mod servers;
mod shared;
mod threads;
#[cfg(feature = "tls")]
mod tls;
mod together;
