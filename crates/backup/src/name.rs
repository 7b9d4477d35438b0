//! Names of backups: the time of what is in them.

use chrono::{DateTime, NaiveDateTime};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of a backup, in milliseconds since 1970. Its text, `20261121T200301.123Z`, sorts as the time does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name(i64);

const FORMAT: &str = "%Y%m%dT%H%M%S%.3fZ";
/// The end of the year 9999: later times would not sort by their text.
const MAX_MS: i64 = 253_402_300_799_999;

impl Name {
    /// The name for a time; what lies outside of the years 1970 to 9999 is moved to their ends.
    pub fn at(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Name(i64::try_from(since.as_millis()).unwrap_or(MAX_MS).min(MAX_MS))
    }

    /// Reads what `Display` writes; nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let time = NaiveDateTime::parse_from_str(text, FORMAT).ok()?;
        let name = Name(time.and_utc().timestamp_millis());
        ((0..=MAX_MS).contains(&name.0) && name.to_string() == text).then_some(name)
    }

    /// The time.
    pub fn time(self) -> SystemTime {
        // It is not negative: `at` and `parse` see to that.
        UNIX_EPOCH + Duration::from_millis(self.0.unsigned_abs())
    }

    /// The time in Unix seconds.
    pub fn unix_seconds(self) -> i64 {
        self.0 / 1000
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Within its range, so there is a date.
        let time = DateTime::from_timestamp_millis(self.0).unwrap_or_default();
        write!(f, "{}", time.format(FORMAT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_their_times_do_and_are_read_back() {
        let times = [0, 1, 999, 1000, 1_795_291_381_123, MAX_MS];
        let names = times.map(|ms| Name::at(UNIX_EPOCH + Duration::from_millis(ms as u64)));
        for pair in names.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].to_string() < pair[1].to_string());
        }
        for name in names {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
            assert_eq!(Name::at(name.time()), name);
        }
        assert_eq!(names[0].to_string(), "19700101T000000.000Z");
    }

    #[test]
    fn other_texts_are_no_names() {
        for text in
            ["", "latest", "20261121T200301Z", "20261121T200301.1234Z", "20261321T200301.123Z"]
        {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}
