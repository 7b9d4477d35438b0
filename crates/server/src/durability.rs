//! Saving, logging, backups and loading of the data.

pub mod aof_import;
pub mod backup;
pub mod log;
pub(crate) mod online_backup;
pub(crate) mod present;
pub(crate) mod progress;
pub(crate) mod replace;
pub(crate) mod save_points;
pub mod snapshot;
