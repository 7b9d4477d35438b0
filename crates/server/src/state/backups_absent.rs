//! Errors of a build without object stores.

use crate::config::Config;
use crate::state::log::Durability;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Ships nothing.
#[derive(Default)]
pub struct Backups(());

const ABSENT: &str =
    "this build of Petrel has no support for object stores; build it with the feature object-store";

/// Lists the backups in a store.
///
/// # Errors
/// In this build, always.
pub fn list(_: &str) -> io::Result<String> {
    Err(io::Error::other(ABSENT))
}

pub(crate) fn fetch(_: &Config, _: &Path) -> io::Result<()> {
    Err(io::Error::other(ABSENT))
}

impl Backups {
    pub(crate) fn start(&self, _: &Config) -> io::Result<()> {
        Err(io::Error::other(format!("backup-store: {ABSENT}")))
    }

    pub(crate) fn is_on(&self) -> bool {
        false
    }

    pub(crate) fn ship(&self, _: File) {}

    pub(crate) fn ship_if_newer(&self, _: File) {}

    pub(crate) fn ship_rest(&self, _: &Durability, _: &Config) {}

    pub(crate) fn stop(&self, _: Duration) {}

    pub(crate) fn configure(&self, _: &Config) {}

    /// Whether a backup is sent: never.
    pub(crate) fn is_sending(&self) -> bool {
        false
    }

    pub(crate) fn describe(&self, mut field: impl FnMut(&str, i64)) {
        field("backup_enabled", 0);
    }
}
