//! The log: to standard output, or to a file that is opened for every message, so that it may be moved away at any time.

use petrel_server::config::{Config, LogLevel};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// Changes the level of the log.
pub type Level = reload::Handle<LevelFilter, Registry>;

/// Starts the log.
///
/// # Errors
/// If the file cannot be opened.
pub fn start(config: &Config) -> io::Result<Level> {
    let (filter, level) = reload::Layer::new(filter(config.loglevel));
    let log = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_target(false);
    match &config.logfile {
        Some(path) => {
            // Absolute, since the working directory may change.
            let path = std::path::absolute(path)?;
            open(&path).map_err(|error| {
                let path = path.display();
                io::Error::new(error.kind(), format!("cannot open the log file {path}: {error}"))
            })?;
            log.with(lines.with_ansi(false).with_writer(LogFile(path))).init();
        }
        None => log.with(lines.with_ansi(io::stdout().is_terminal())).init(),
    }
    Ok(level)
}

/// What is logged at a level.
pub fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Nothing => LevelFilter::OFF,
    }
}

struct LogFile(PathBuf);

impl MakeWriter<'_> for LogFile {
    type Writer = Box<dyn Write>;

    fn make_writer(&self) -> Self::Writer {
        match open(&self.0) {
            Ok(file) => Box::new(file),
            // There is nowhere to say that nothing can be said.
            Err(_) => Box::new(io::sink()),
        }
    }
}

fn open(path: &Path) -> io::Result<std::fs::File> {
    OpenOptions::new().create(true).append(true).open(path)
}
