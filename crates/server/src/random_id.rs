//! Identifiers of runs and of replication histories.

use std::hash::{BuildHasher, Hasher, RandomState};

/// 40 hexadecimal digits that no other run has.
pub(crate) fn random_id() -> String {
    (0..3)
        .map(|_| format!("{:016x}", RandomState::new().build_hasher().finish()))
        .collect::<String>()[..40]
        .to_string()
}
