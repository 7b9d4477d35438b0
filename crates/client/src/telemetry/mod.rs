//! Telemetry: a span and a duration for each command, by the conventions of OpenTelemetry.
//!
//! With the feature `opentelemetry` they go to the providers that the program has set; without it
//! the types are empty, and so are their methods.

#[cfg(feature = "opentelemetry")]
mod recording;
#[cfg(not(feature = "opentelemetry"))]
mod silent;

#[cfg(feature = "opentelemetry")]
pub(crate) use recording::{Connected, Operation, Telemetry};
#[cfg(not(feature = "opentelemetry"))]
pub(crate) use silent::{Connected, Operation, Telemetry};

/// Counters and size of a near cache.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "opentelemetry"), allow(dead_code, reason = "nothing reads them"))]
pub(crate) struct NearFigures {
    /// Reads that were answered from memory, and all others.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Keys dropped to make room, and keys that the server invalidated.
    pub(crate) evictions: u64,
    pub(crate) invalidations: u64,
    /// Keys now, and bytes.
    pub(crate) keys: usize,
    pub(crate) bytes: usize,
}
