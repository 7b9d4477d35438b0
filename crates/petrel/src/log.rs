//! The log: one line per event, in the forms of Redis, logfmt or JSON, to standard output or to a
//! file that is opened for every message, so that it may be moved away at any time; and to syslog.

use crate::{local_time, syslog};
use petrel_server::config::{Config, LogFormat, LogLevel, LogTimestamp};
use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, reload};

/// Changes the level and style of the log at runtime.
pub struct Control {
    level: reload::Handle<LevelFilter, Registry>,
    style: Arc<RwLock<Style>>,
}

/// Style of log lines.
#[derive(Clone, Copy)]
struct Style {
    format: LogFormat,
    timestamp: LogTimestamp,
}

impl Style {
    fn of(config: &Config) -> Self {
        Style { format: config.log_format, timestamp: config.log_timestamp_format }
    }
}

impl Control {
    /// Goes by the configuration from now on.
    pub fn configure(&self, config: &Config) {
        // It fails only once the log is gone, with the process.
        let _ = self.level.reload(filter(config.loglevel));
        if let Ok(mut style) = self.style.write() {
            *style = Style::of(config);
        }
    }
}

/// Starts the log.
///
/// # Errors
/// If the file cannot be opened.
pub fn start(config: &Config) -> io::Result<Control> {
    let (filter, level) = reload::Layer::new(filter(config.loglevel));
    let style = Arc::new(RwLock::new(Style::of(config)));
    let file = match &config.logfile {
        None => None,
        Some(path) => {
            // Absolute, since the working directory may change.
            let path = std::path::absolute(path)?;
            open(&path).map_err(|error| {
                let path = path.display();
                io::Error::new(error.kind(), format!("cannot open the log file {path}: {error}"))
            })?;
            Some(path)
        }
    };
    let syslog = config.syslog_enabled.then(|| {
        let facility = config.syslog_facility.name();
        syslog::Syslog::open(&config.syslog_ident.lossy(), facility)
    });
    let lines = Lines { file, style: style.clone(), syslog };
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(Control { level, style })
}

/// Maps a `loglevel` to the filter of tracing.
fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Nothing => LevelFilter::OFF,
    }
}

/// Writes a line for each event.
struct Lines {
    file: Option<PathBuf>,
    style: Arc<RwLock<Style>>,
    syslog: Option<syslog::Syslog>,
}

/// Whether an event is for operators: those of libraries are if they warn; what consensus has to
/// say, the cluster says in its own words.
fn is_meant(metadata: &Metadata<'_>) -> bool {
    let is_own = metadata.target().starts_with("petrel");
    let is_warning = *metadata.level() <= Level::WARN;
    is_own || is_warning && !metadata.target().starts_with("openraft")
}

impl<S: tracing::Subscriber> Layer<S> for Lines {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_meant(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        is_meant(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        let level = *event.metadata().level();
        if let Some(syslog) = &self.syslog {
            syslog.write(level, &message.0);
        }
        let style =
            self.style.read().map_or_else(|poisoned| *poisoned.into_inner(), |style| *style);
        let line = line(style, level, now_ms(), &message.0);
        // There is nowhere to say that nothing can be said.
        let _ = match &self.file {
            Some(path) => open(path).and_then(|mut file| file.write_all(line.as_bytes())),
            None => io::stdout().write_all(line.as_bytes()),
        };
    }
}

/// The text of an event, and what else it tells, as ` name=value`.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A line, its end included.
fn line(style: Style, level: Level, now_ms: u64, message: &str) -> String {
    let pid = std::process::id();
    let timestamp = match style.timestamp {
        // Programs that read JSON need the zone.
        LogTimestamp::Legacy if style.format == LogFormat::Json => local_time::at(now_ms).iso8601(),
        LogTimestamp::Legacy => local_time::at(now_ms).in_words(),
        LogTimestamp::Iso8601 => local_time::at(now_ms).iso8601(),
        LogTimestamp::Milliseconds => now_ms.to_string(),
    };
    let (mark, word) = match level {
        Level::ERROR | Level::WARN => ('#', "warning"),
        Level::INFO => ('*', "notice"),
        Level::DEBUG => ('-', "info"),
        Level::TRACE => ('.', "debug"),
    };
    match style.format {
        LogFormat::Legacy => format!("{pid}:M {timestamp} {mark} {}\n", one_line(message)),
        LogFormat::Logfmt => format!(
            "pid={pid} role=primary timestamp=\"{timestamp}\" level={word} message=\"{}\"\n",
            one_line(message).replace('"', "'")
        ),
        LogFormat::Json => format!(
            "{{\"pid\":{pid},\"role\":\"primary\",\"timestamp\":\"{timestamp}\",\"level\":\"{word}\",\"message\":\"{}\"}}\n",
            escaped(message)
        ),
    }
}

/// A message without line ends and whatever else may lead a terminal astray.
fn one_line(message: &str) -> String {
    message.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
}

/// A message as it stands in a string of JSON.
fn escaped(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for c in message.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if u32::from(c) < 0x20 => {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text
}

fn open(path: &Path) -> io::Result<std::fs::File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: LogFormat, message: &str) -> String {
        let style = Style { format, timestamp: LogTimestamp::Milliseconds };
        let line = line(style, Level::INFO, 1_795_283_573_583, message);
        line.replacen(&std::process::id().to_string(), "PID", 1)
    }

    #[test]
    fn every_format_is_one_line() {
        let message = "a \"quoted\"\tline\nand \\ another\u{1}";
        let legacy = "PID:M 1795283573583 * a \"quoted\"\tline and \\ another \n";
        assert_eq!(written(LogFormat::Legacy, message), legacy);
        let logfmt = written(LogFormat::Logfmt, message);
        assert!(logfmt.ends_with("level=notice message=\"a 'quoted'\tline and \\ another \"\n"));
        let json = written(LogFormat::Json, message).replace("PID", "1");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["message"], message);
        assert_eq!((value["level"].as_str(), value["pid"].as_i64()), (Some("notice"), Some(1)));
    }

    #[test]
    fn timestamps_in_json_have_a_zone() {
        for timestamp in [LogTimestamp::Legacy, LogTimestamp::Iso8601] {
            let style = Style { format: LogFormat::Json, timestamp };
            let line = line(style, Level::INFO, 1_795_283_573_583, "text");
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            let text = value["timestamp"].as_str().unwrap();
            // RFC 3339: date, T, time with a fraction, offset.
            assert_eq!(text.len(), "2026-11-21T17:52:53.583+00:00".len(), "{text}");
            assert!(text.contains(".583") && matches!(text.as_bytes()[23], b'+' | b'-'), "{text}");
        }
    }
}
