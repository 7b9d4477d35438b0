//! Parameters of RDB files and `DUMP` payloads.

use super::params::Config;
use super::types::VersionCheck;
use petrel_persistence::rdb::{Dialect, FileOptions};

impl Config {
    /// The dialect in which values are written.
    pub fn form(&self) -> Dialect {
        self.dump_dialect.resolve(self.spoken()).choose(Dialect::Redis, Dialect::Valkey)
    }

    /// The newest version of RDB that a snapshot may have.
    pub(crate) fn rdb_version_max(&self) -> u16 {
        // All words but `auto` are numbers.
        self.rdb_version.word().parse().unwrap_or(FileOptions::ANY_VERSION)
    }

    /// Whether RDB files and payloads of versions that are not known are tried.
    pub fn accepts_any_rdb_version(&self) -> bool {
        self.rdb_version_check == VersionCheck::Relaxed
    }
}
