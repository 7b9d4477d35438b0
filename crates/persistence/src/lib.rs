//! Values as bytes that outlive the process. Nothing here knows sockets.
//!
//! [`rdb`] reads and writes the serialisation of Redis and Valkey: the payloads of `DUMP` and `RESTORE`, and what RDB
//! files hold of a value. [`value`] is what joins it to a keyspace.

pub mod rdb;
pub mod value;
