//! A client of Petrel, Redis and Valkey.
//!
//! ```no_run
//! # async fn example() -> petrel_client::Result<()> {
//! use petrel_client::{Client, Commands, RawCommand};
//!
//! let client = Client::connect("redis://localhost").await?;
//! client.set("name", "petrel").ex(60).await?;
//! let name: Option<String> = client.get("name").reply().await?;
//! // Any command at all, with arguments as they come.
//! client.command("SET").arg("name").arg("petrel").await?;
//! # Ok(())
//! # }
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `client` | [`Client`], the handle that tasks share |
//! | `dedicated` | [`Dedicated`], a connection that one caller has to itself |
//! | `cluster` | [`Cluster`], a client of Redis Cluster |
//! | `sentinel` | [`Sentinel`], clients of a primary that sentinels watch over, and of its replicas |
//! | `pubsub` | [`Subscriber`], messages of channels |
//! | [`blocking`] | the client for plain threads |
//! | `near` | [`NearCache`], replies kept in the process |
//! | `lock`, `limiter` | locks and limits that programs share |
//! | `aside` | [`CacheAside`], values that one program computes for all |
//! | `pipeline`, `script`, `scan` | several commands as one, Lua scripts, walks over keys |
//! | `typed` | a method for every command, made by the build script from the command table |
//! | `lane` | one connection: its queue of requests, and the task that drives it |
//! | `request`, `argument`, `buffer` | a command being put together |
//! | `reply`, `error` | what comes of it |
//! | `mock` | `MockServer`, a server in a test's hands (feature `mock`) |
//! | `telemetry` | spans and metrics of commands (feature `opentelemetry`) |
//! | `options`, `transport` | where a server is, and streams to it |

mod argument;
mod aside;
pub mod blocking;
mod buffer;
mod client;
mod cluster;
mod dedicated;
mod error;
mod lane;
mod limiter;
mod lock;
#[cfg(feature = "mock")]
mod mock;
mod near;
mod options;
mod pipeline;
mod pubsub;
mod reply;
mod request;
mod scan;
mod script;
mod sentinel;
mod table;
mod telemetry;
mod transport;
#[allow(clippy::type_complexity, reason = "a reply has the type that its command answers with")]
mod typed;

pub use argument::{ArgWriter, ToArg};
pub use aside::CacheAside;
pub use buffer::Arguments;
pub use client::{Call, Client};
pub use cluster::{Cluster, ClusterCall, ClusterOptions, ReadFrom};
pub use dedicated::Dedicated;
pub use error::{Error, ErrorKind, Result};
pub use limiter::{Permission, RateLimiter};
pub use lock::{Lock, LockOptions};
#[cfg(feature = "mock")]
pub use mock::{Expectation, MockServer};
pub use near::{
    ClusterNearCache, NearCache, NearCacheOptions, NearCacheStatistics, NearCall, NearRead,
    NearReadWith,
};
pub use options::{Address, Backoff, Options, Secret};
pub use petrel_resp::Value;
pub use pipeline::{Pipeline, Queued, Replies};
pub use pubsub::{ChannelKind, ClusterSubscriber, Message, Subscriber};
pub use reply::FromReply;
pub use request::{
    Command, CommandInfo, DedicatedTarget, LocalTarget, Raw, RawCommand, Request, Target,
};
pub use scan::{Scan, ScanOptions};
pub use script::Script;
pub use sentinel::{Sentinel, SentinelOptions};
pub use transport::ByteStream;
pub use typed::{Commands, DedicatedCommands, StreamEntry, shape, words};
