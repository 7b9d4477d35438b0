//! The native part of the Python package `petrel-client`.
//!
//! | file | holds |
//! |---|---|
//! | `argument` | Python objects as arguments of commands |
//! | `command` | a command with the shape of its reply |
//! | `shape` | replies as Python objects |
//! | `failure` | errors as Python exceptions |
//! | `runtime` | the thread that drives connections, and threads that wait for it |
//! | `bridge` | asyncio: futures of an event loop that are resolved in batches |
//! | `client` | the client of a server, or of a cluster |
//! | `remote` | what differs between the two |
//! | `dedicated`, `near`, `pubsub`, `lock` | what a client makes |
//!
//! Each class serves threads and asyncio: a method takes the bridge of an event loop, and then
//! returns an awaitable, or `None`, and then waits with the interpreter released.

mod argument;
mod bridge;
mod client;
mod command;
mod dedicated;
mod failure;
mod lock;
mod near;
mod pubsub;
mod remote;
mod runtime;
mod shape;

use pyo3::prelude::*;

/// What the package's Python modules are built on.
#[pymodule]
mod _petrel {
    #[pymodule_export]
    use crate::bridge::{Bridge, Call};
    #[pymodule_export]
    use crate::client::Core;
    #[pymodule_export]
    use crate::command::Command;
    #[pymodule_export]
    use crate::dedicated::Connection;
    #[pymodule_export]
    use crate::lock::Held;
    #[pymodule_export]
    use crate::near::Cache;
    #[pymodule_export]
    use crate::pubsub::Subscription;
    #[pymodule_export]
    use crate::runtime::after_fork;
}
