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
