//! The choices of the log.

use super::types::{choice, not_among};
use super::value::{Invalid, Rule, Value, single};

choice! {
    /// The least severe message that is logged.
    LogLevel {
        /// Everything.
        Debug = "debug",
        /// Much, without the details of each request.
        Verbose = "verbose",
        /// Events that an operator should see.
        Notice = "notice",
        /// Only what needs attention.
        Warning = "warning",
        /// Nothing.
        Nothing = "nothing",
    }
}

choice! {
    /// Format of log lines.
    LogFormat {
        /// Process, role, time, a mark for the level, message.
        Legacy = "legacy",
        /// `name=value` pairs.
        Logfmt = "logfmt",
        /// An object of JSON.
        Json = "json",
    }
}

choice! {
    /// Format of timestamps in the log.
    LogTimestamp {
        /// Day, month, year, time.
        Legacy = "legacy",
        /// ISO 8601 with the zone.
        Iso8601 = "iso8601",
        /// Milliseconds of Unix time.
        Milliseconds = "milliseconds",
    }
}

choice! {
    /// Syslog facility.
    SyslogFacility {
        /// User programs.
        User = "user",
        /// For local use.
        Local0 = "local0",
        /// For local use.
        Local1 = "local1",
        /// For local use.
        Local2 = "local2",
        /// For local use.
        Local3 = "local3",
        /// For local use.
        Local4 = "local4",
        /// For local use.
        Local5 = "local5",
        /// For local use.
        Local6 = "local6",
        /// For local use.
        Local7 = "local7",
    }
}
