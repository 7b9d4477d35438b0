//! Petrel in the process: the typed commands of `petrel-client` on a keyspace of one's own.
//!
//! ```
//! # fn main() -> petrel_client::Result<()> {
//! use petrel_client::Commands;
//! use petrel_embedded::{Engine, EngineOptions};
//!
//! let engine = Engine::new(EngineOptions::default());
//! let client = engine.client();
//! client.set("name", "petrel").ex(60).run()?;
//! let name: Option<String> = client.get("name").reply().run()?;
//! assert_eq!(name.as_deref(), Some("petrel"));
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! client.get(key).run() ─ the calling thread's executor ─ Executor::execute ─ Value
//!                         made when the thread first comes   the gate of the server: ACL, memory
//!                                                            limit, locks, statistics, slow log
//! ```
//!
//! A command is executed by the thread that calls it, and is done when the call returns. There is
//! no socket; a reply is built as the value that it is. Data lives as long as the engine: nothing
//! is written to disk.
//!
//! | file | holds |
//! |---|---|
//! | `engine` | [`Engine`], a keyspace with its users and limits |
//! | `client` | [`Embedded`], the handle that takes commands |
//! | `thread` | what each thread has of an engine: an executor, and a session |
//! | `reply` | replies as values |
//! | `upkeep` | expiry, compaction and freeing in the background |

mod client;
mod engine;
mod reply;
mod thread;
mod upkeep;

pub use client::Embedded;
pub use engine::{CommandStatistics, Engine, EngineOptions};
pub use petrel_keyspace::Policy;
