//! The time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds.
pub fn unix_ms() -> i64 {
    unix_now().as_millis() as i64
}

/// Time since the beginning of 1970.
pub fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
