//! The interpreter of scripts: Lua 5.1 in a sandbox, with the libraries that scripts find there.
//!
//! ```text
//!  Lua::compile   text ──▶ a function, kept
//!  Lua::run       function, KEYS, ARGV ──▶ protected call ──▶ its result, written to a Reply
//!                    │ redis.call
//!                    ▼
//!                 Server::call ── executes a command; its reply is built as Lua values in place
//! ```
//!
//! The crate knows no commands: the program that runs a script is its [`Server`]. `vm.rs` is the
//! interpreter's C interface made safe and says how; `sandbox.rs` is what scripts may touch.

#[cfg(test)]
mod against_lua;
mod allocator;
mod api;
mod base;
mod bit;
mod bytecode;
mod c_api;
mod cjson;
mod cmsgpack;
mod convert;
mod coroutine;
mod digits;
mod extra;
mod generator;
mod gsub;
mod interpreter;
mod interrupt;
mod key_flow;
mod lists;
mod memory;
mod messages;
mod pace;
mod pattern;
mod protected;
mod random;
mod reply;
mod sandbox;
mod scratch;
mod sha1;
mod sort;
mod state;
mod strings;
mod structs;
mod tables;
mod vm;

pub use extra::{Compiled, Declared, Failure, Library, Purpose, Release, Server};
pub use key_flow::{CallArg, CallShape, CallTail};
pub use reply::ScriptReply;
pub use sha1::{Sha, hex, sha1};
pub use state::Lua;
