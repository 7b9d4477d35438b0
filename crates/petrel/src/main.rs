//! `petrel [petrel.conf] [--parameter value ...]`: a Redis-compatible in-memory data server that uses every core.

use petrel_server::config::{Config, Invocation, LogLevel, SharedConfig, help};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let line = match Invocation::parse(std::env::args_os().skip(1)) {
        Ok(Invocation::Help) => return print(&help()),
        Ok(Invocation::Version) => return print(&version()),
        Ok(Invocation::Start(line)) => line,
        Err(error) => return fail(&error),
    };
    let config = match line.load() {
        Ok(config) => Arc::new(config),
        Err(error) => return fail(&error),
    };
    match serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn serve(config: Arc<SharedConfig>) -> std::io::Result<()> {
    let snapshot = config.snapshot();
    start_log(&snapshot)?;
    let signals = signals::block();
    let running = petrel_server::start(config, Box::new(petrel_server::process::Indifferent))?;
    if let Some(path) = &snapshot.pidfile {
        writeln!(std::fs::File::create(path)?, "{}", std::process::id())?;
    }
    announce(&snapshot);
    let server = running.server.clone();
    signals::wait(signals);
    tracing::info!("stopping");
    server.stop();
    let result = running.wait();
    if let Some(path) = &snapshot.pidfile {
        // A pid file that is gone already is as it should be.
        let _ = std::fs::remove_file(path);
    }
    result
}

fn announce(config: &Config) {
    if config.port != 0 {
        let addresses: Vec<_> = config.bind.iter().map(|bind| bind.address.as_str()).collect();
        tracing::info!("listening on {}, port {}", addresses.join(" and "), config.port);
    }
    if let Some(path) = &config.unixsocket {
        tracing::info!("listening on {}", path.display());
    }
    tracing::info!("ready to accept connections");
}

fn start_log(config: &Config) -> std::io::Result<()> {
    let level = match config.loglevel {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Verbose | LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Nothing => LevelFilter::OFF,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_target(false);
    match &config.logfile {
        Some(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(
                |error| {
                    std::io::Error::new(
                        error.kind(),
                        format!("cannot open the log file {}: {error}", path.display()),
                    )
                },
            )?;
            log.with_ansi(false).with_writer(std::sync::Mutex::new(file)).init();
        }
        None => log.with_ansi(std::io::stdout().is_terminal()).init(),
    }
    Ok(())
}

fn version() -> String {
    format!("Petrel server v={} bits=64\n", env!("CARGO_PKG_VERSION"))
}

fn print(text: &str) -> ExitCode {
    // Whoever closed the pipe has read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("petrel: {error}");
    ExitCode::FAILURE
}

/// SIGTERM and SIGINT, taken by the main thread only.
mod signals {
    use std::mem::MaybeUninit;

    /// Blocks the signals in this thread and all that it will start.
    pub fn block() -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initialises the set that the other calls use.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            set.assume_init()
        }
    }

    /// Waits for one of them.
    pub fn wait(set: libc::sigset_t) {
        let mut signal = 0;
        // SAFETY: both arguments are valid; an interrupted wait is repeated.
        while unsafe { libc::sigwait(&set, &mut signal) } != 0 {}
    }
}
