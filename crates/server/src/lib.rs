//! See the package description.

pub mod config;
