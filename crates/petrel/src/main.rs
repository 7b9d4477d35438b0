//! `petrel [petrel.conf] [--parameter value ...]`: a Redis-compatible in-memory data server that
//! uses every core; and its subcommands.
//!
//! ```console
//! $ petrel --port 7000 --dir data --daemonize yes
//! $ petrel ping 127.0.0.1:7000
//! $ petrel check data/dump.rdb
//! ```

mod allocator;
mod background;
mod check;
mod local_time;
mod log;
mod mend;
mod pid_file;
mod ping;
mod process;
mod signals;
mod supervisor;
mod syslog;
mod title;

use petrel_server::config::{Config, Invocation, SharedConfig, Subcommand, Topic};
use petrel_server::config::{help, note_program, version};
use petrel_server::durability::snapshot::remove_parts;
use petrel_server::server::Server;
use signals::{SIGINT, SIGUSR2};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The commit that this program was built from, or why there is none.
const COMMIT: &str = env!("PETREL_COMMIT");

#[global_allocator]
static ALLOCATOR: allocator::Counted = allocator::Counted;

fn main() -> ExitCode {
    let (name, invocation) = Invocation::of_program(std::env::args_os());
    note_program(&name);
    let line = match invocation {
        Ok(Invocation::Help(Topic::Subcommand(Subcommand::Cli))) => return print(petrel_cli::HELP),
        Ok(Invocation::Help(topic)) => return print(&help(topic)),
        Ok(Invocation::Version) => return print(&version(COMMIT)),
        Ok(Invocation::Check(line)) => return check::check_all(&line),
        Ok(Invocation::Backups(url)) => return backups(&url),
        Ok(Invocation::Ping(line)) => {
            return ping::ping(&line).map_or_else(|error| fail(&error), |()| ExitCode::SUCCESS);
        }
        Ok(Invocation::Cli(args)) => return petrel_cli::run(args, version(COMMIT).trim_end()),
        Ok(Invocation::Start(line)) => line,
        Err(error) => return fail(&error),
    };
    let config = match line.load(petrel_server::commands::check_renames) {
        Ok(config) => Arc::new(config),
        Err(error) => return fail(&error),
    };
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn run(config: Arc<SharedConfig>) -> std::io::Result<()> {
    let snapshot = config.snapshot();
    let parent = if snapshot.daemonize { background::fork()? } else { background::Parent::None };
    let result = serve(config, &snapshot, parent);
    // `main` prints it on standard error: it is not in the log as well if that is shown beside.
    let is_log_apart = snapshot.logfile.is_some() || snapshot.syslog_enabled;
    if let (Err(error), true) = (&result, is_log_apart) {
        tracing::error!("{error}");
    }
    result
}

fn serve(
    config: Arc<SharedConfig>,
    snapshot: &Config,
    parent: background::Parent,
) -> std::io::Result<()> {
    // Every relative path from here on starts there.
    std::env::set_current_dir(&snapshot.dir).map_err(|error| {
        let dir = snapshot.dir.display();
        std::io::Error::new(error.kind(), format!("cannot enter the directory {dir}: {error}"))
    })?;
    let log = log::start(snapshot)?;
    let signals = signals::block();
    let supervisor = supervisor::Supervisor::find(snapshot.supervised);
    let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
    tracing::info!("Petrel {version} ({COMMIT}) starting, PID: {pid}");
    if let Some(line) = config.ignored() {
        tracing::warn!("{line}");
    }
    let process = process::Binary::new(log, &config, supervisor, signals);
    let running = petrel_server::start(config.clone(), Box::new(process))?;
    let pid_file = snapshot.pidfile.as_deref().and_then(pid_file::PidFile::write);
    tracing::info!("Server initialized");
    if running.server.commands.users.are_open() {
        warn_of_openness(snapshot);
    }
    let started_with = config.snapshot();
    running.server.when_loaded(move || {
        announce(&started_with);
        supervisor.ready();
    });
    parent.release()?;
    await_stop(&running.server, &signals)?;
    supervisor.stopping();
    // The data is left to the system, which takes it back at once: to free some ten million keys
    // one by one takes a second and more.
    std::mem::forget(running.server.clone());
    let result = running.wait();
    drop(pid_file);
    if result.is_ok() {
        tracing::info!("stopped: Petrel is now ready to exit, bye bye");
    }
    result
}

/// Waits until the server has been stopped, by a signal or otherwise.
fn await_stop(server: &Arc<Server>, signals: &libc::sigset_t) -> std::io::Result<()> {
    let mut saver: Option<JoinHandle<()>> = None;
    loop {
        let signal = signals::wait(signals);
        if server.is_stopping() {
            return Ok(());
        }
        if signal == SIGUSR2 {
            server.log_state();
            continue;
        }
        if saver.as_ref().is_some_and(|saver| !saver.is_finished()) {
            if signal == SIGINT {
                tracing::warn!("stopping at once: {signal} while the data is saved");
                remove_parts();
                return Err(std::io::Error::other("the data was not saved"));
            }
            continue;
        }
        server.closing.request();
        tracing::info!("stopping: {signal}");
        let config = server.config.snapshot();
        let flags = match signal {
            SIGINT => config.shutdown_on_sigint.clone(),
            _ => config.shutdown_on_sigterm.clone(),
        };
        let server = server.clone();
        let work = move || server.shut_down(&flags);
        match std::thread::Builder::new().name("petrel-closer".into()).spawn(work) {
            Ok(thread) => saver = Some(thread),
            Err(error) => tracing::error!("not stopping: no thread to save the data: {error}"),
        }
    }
}

/// Says where commands that need the data are accepted, in the words for which tools that start
/// Redis wait.
fn announce(config: &Config) {
    let ready = "Ready to accept connections";
    if config.port != 0 {
        let addresses: Vec<_> = config.bind.iter().map(|bind| bind.address.as_str()).collect();
        tracing::info!("{ready} tcp: {}, port {}", addresses.join(" and "), config.port);
    }
    if config.tls.tls_port != 0 {
        tracing::info!("{ready} tls: port {}", config.tls.tls_port);
    }
    if let Some(path) = &config.unixsocket {
        tracing::info!("{ready} unix: {}", path.display());
    }
}

/// Warns of a server without a password, naming the addresses from which it can be used.
fn warn_of_openness(config: &Config) {
    if config.port == 0 {
        return;
    }
    let everywhere = ["*", "::*", "0.0.0.0", "::"];
    let is_everywhere = config.bind.iter().any(|bind| everywhere.contains(&&*bind.address));
    let reach = match (config.protected_mode, is_everywhere) {
        (true, _) => ": any local client may read and change everything",
        (false, true) => {
            " and is not protected by network restrictions: any client that reaches this host may read and change everything"
        }
        (false, false) => {
            ": any client that reaches a configured network interface may read and change everything"
        }
    };
    tracing::warn!("WARNING: Petrel does not require authentication{reach}; see requirepass");
}

/// Lists the backups in a store.
fn backups(url: &str) -> ExitCode {
    match petrel_server::durability::backup::list(url) {
        Ok(text) => {
            if text.is_empty() {
                eprintln!("petrel: there are no backups in {url}");
            }
            print(&text)
        }
        Err(error) => fail(&error),
    }
}

fn print(text: &str) -> ExitCode {
    // The reader that closed the pipe has read enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("petrel: {error}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_page_and_the_help_list_the_same_options_of_cli() {
        let options = Subcommand::Cli.options().iter().map(|(name, _)| *name);
        let words = petrel_cli::HELP.split(|c: char| c.is_whitespace() || ",;:".contains(c));
        let mut shown: Vec<_> = words.filter(|word| word.starts_with("--")).collect();
        shown.sort_unstable();
        shown.dedup();
        shown.retain(|word| *word != "--help");
        assert_eq!(options.collect::<Vec<_>>(), shown);
    }
}
