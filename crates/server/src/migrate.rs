//! Moving keys to other servers, on a thread of its own: no worker waits for another server.
//!
//! ```text
//! worker        checks the arguments and hands the migration over; the connection waits
//! this thread   for some keys at a time:
//!                 their stripes locked    serialise, and note that the keys are watched
//!                 nothing locked          RESTORE to the target, read its replies
//!                 their stripes locked    removed, if the target has them and they are as they
//!                                         were sent; if they have changed since, they are sent
//!                                         again with REPLACE
//!               the answer goes to the worker
//! ```
//!
//! So a key is removed only after the target has confirmed that it has exactly this value: a client
//! that writes to it meanwhile writes to the key here, and the change is sent too. A key removed
//! here in between is removed there. If anything fails, the key stays here; as in Redis, the target
//! may then have it too.
//!
//! The gate is asked before keys are read or removed: a pause, as of `FAILOVER`, holds a migration
//! back, and on a server that has become a replica it ends with the error of a write there.
//!
//! One migration follows the other, so what waits is bounded by the number of connections.
//! Connections to targets are kept for some seconds (`target.rs`).

mod run;
mod source;
mod target;
