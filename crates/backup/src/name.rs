//! Names of backups: a time, and what kind of backup it is.

use chrono::{DateTime, NaiveDateTime};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A backup's name. Its text, `20261121T200301.123Z` or `20261121T200301.123Z-log`, sorts as the
/// time does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name {
    /// Milliseconds since 1970: the time of a snapshot's data, or of a log's base.
    ms: i64,
    /// Kind of the backup.
    pub kind: BackupKind,
}

/// Kinds of backups.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum BackupKind {
    /// A file with the state at one time.
    Snapshot,
    /// A base and the files of a log that follow on it; it grows.
    Log,
}

const FORMAT: &str = "%Y%m%dT%H%M%S%.3fZ";
const LOG: &str = "-log";
/// The end of the year 9999: later times would not sort by their text.
const MAX_MS: i64 = 253_402_300_799_999;

impl Name {
    /// The name for a time; what lies outside of the years 1970 to 9999 is moved to their ends.
    pub fn at(time: SystemTime, kind: BackupKind) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = i64::try_from(since.as_millis()).unwrap_or(MAX_MS).min(MAX_MS);
        Name { ms, kind }
    }

    /// Reads what `Display` writes; nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let (time, kind) = match text.strip_suffix(LOG) {
            Some(time) => (time, BackupKind::Log),
            None => (text, BackupKind::Snapshot),
        };
        let time = NaiveDateTime::parse_from_str(time, FORMAT).ok()?;
        let name = Name { ms: time.and_utc().timestamp_millis(), kind };
        ((0..=MAX_MS).contains(&name.ms) && name.to_string() == text).then_some(name)
    }

    /// The time.
    pub fn time(self) -> SystemTime {
        // It is not negative: `at` and `parse` see to that.
        UNIX_EPOCH + Duration::from_millis(self.ms.unsigned_abs())
    }

    /// The time in Unix seconds.
    pub fn unix_seconds(self) -> i64 {
        self.ms / 1000
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Within its range, so there is a date.
        let time = DateTime::from_timestamp_millis(self.ms).unwrap_or_default();
        let kind = if self.kind == BackupKind::Log { LOG } else { "" };
        write!(f, "{}{kind}", time.format(FORMAT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_their_times_do_and_are_read_back() {
        let times = [0, 1, 999, 1000, 1_795_291_381_123, MAX_MS as u64];
        let kinds = [BackupKind::Snapshot, BackupKind::Log];
        let names: Vec<_> = times
            .iter()
            .flat_map(|&ms| {
                kinds.map(|kind| Name::at(UNIX_EPOCH + Duration::from_millis(ms), kind))
            })
            .collect();
        for pair in names.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].to_string() < pair[1].to_string());
        }
        for name in &names {
            assert_eq!(Name::parse(&name.to_string()), Some(*name));
            assert_eq!(Name::at(name.time(), name.kind), *name);
        }
        assert_eq!(names[1].to_string(), "19700101T000000.000Z-log");
    }

    #[test]
    fn other_texts_are_no_names() {
        for text in [
            "",
            "latest",
            "20261121T200301Z",
            "20261121T200301.1234Z",
            "20261321T200301.123Z",
            "20261121T200301.123Z-dump",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}
