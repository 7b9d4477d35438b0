//! Times of the log in the zone of this machine.

/// A moment, as the clocks on the wall show it.
pub struct LocalTime {
    parts: libc::tm,
    millis: u64,
}

/// The moment of a Unix time in milliseconds.
pub fn at(unix_ms: u64) -> LocalTime {
    let seconds = (unix_ms / 1000) as libc::time_t;
    let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid for the call, and all zeroes is a valid tm should it fail.
    // The environment, where it looks for a zone, is changed before other threads start only.
    let parts = unsafe {
        libc::localtime_r(&seconds, parts.as_mut_ptr());
        parts.assume_init()
    };
    LocalTime { parts, millis: unix_ms % 1000 }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl LocalTime {
    /// `21 Nov 2026 17:52:53.595`
    pub fn in_words(&self) -> String {
        let month = MONTHS[self.parts.tm_mon.clamp(0, 11) as usize];
        let year = self.parts.tm_year + 1900;
        format!("{:02} {month} {year} {}", self.parts.tm_mday, self.clock())
    }

    /// `2026-11-21T17:52:53.595+00:00`
    pub fn iso8601(&self) -> String {
        let (year, month) = (self.parts.tm_year + 1900, self.parts.tm_mon + 1);
        let minutes = self.parts.tm_gmtoff / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        let (day, clock) = (self.parts.tm_mday, self.clock());
        format!("{year:04}-{month:02}-{day:02}T{clock}{sign}{hours:02}:{minutes:02}")
    }

    fn clock(&self) -> String {
        let libc::tm { tm_hour, tm_min, tm_sec, .. } = self.parts;
        format!("{tm_hour:02}:{tm_min:02}:{tm_sec:02}.{:03}", self.millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_both_ways() {
        let time = at(1_795_283_573_595);
        assert!(time.in_words().ends_with(".595") && time.in_words().contains("Nov 2026"));
        let iso = time.iso8601();
        assert_eq!(iso.len(), "2026-11-21T17:52:53.595+00:00".len());
        assert!(iso.starts_with("2026-11-2"), "{iso}");
    }
}
