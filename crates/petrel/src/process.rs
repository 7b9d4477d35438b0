//! This process as the server sees it.

use crate::supervisor::Supervisor;
use crate::{allocator, log, signals, title};
use petrel_server::config::{Config, SharedConfig};
use petrel_server::lifecycle::process::{AllocatorUse, Process};
use std::time::Duration;

/// The process of this binary.
pub struct Binary {
    log: log::Control,
    /// As it was called.
    name: String,
    title: Option<title::Title>,
    config_file: String,
    supervisor: Supervisor,
    /// Blocked signals that request a shutdown.
    signals: libc::sigset_t,
}

impl Binary {
    /// The process with its log started; shows its title. The calling thread is the only one.
    pub fn new(
        log: log::Control,
        config: &SharedConfig,
        supervisor: Supervisor,
        signals: libc::sigset_t,
    ) -> Self {
        allocator::configure();
        // Where the arguments are now the title will be.
        let name = std::env::args().next().unwrap_or_else(|| "petrel".into());
        let config_file = config.file().map(|path| path.display().to_string());
        let config = config.snapshot();
        let binary = Binary {
            log,
            name,
            title: if config.set_proc_title { title::Title::claim() } else { None },
            config_file: config_file.unwrap_or_default(),
            supervisor,
            signals,
        };
        binary.set_title(&config);
        binary
    }

    fn variable(&self, name: &str, config: &Config) -> String {
        let socket = config.unixsocket.as_ref().map(|path| path.display().to_string());
        match name {
            "title" => self.name.clone(),
            "listen-addr" => match config.port.max(config.tls.tls_port) {
                0 => socket.unwrap_or_default(),
                _ => {
                    let first = config.bind.iter().next();
                    let address = first.map_or("*", |bind| bind.address.as_str());
                    let own = if config.port == 0 { config.tls.tls_port } else { config.port };
                    format!("{address}:{own}")
                }
            },
            "port" => config.port.to_string(),
            "tls-port" => config.tls.tls_port.to_string(),
            "unixsocket" => socket.unwrap_or_default(),
            "config-file" => self.config_file.clone(),
            // There are no clusters: the rest of the variables say nothing.
            _ => String::new(),
        }
    }
}

impl Process for Binary {
    fn configure_log(&self, config: &Config) {
        self.log.configure(config);
    }

    fn set_title(&self, config: &Config) {
        if let Some(title) = &self.title {
            title.show(&config.proc_title_template.render(|name| self.variable(name, config)));
        }
    }

    fn pause(&self, time: Duration) -> bool {
        !signals::arrives_within(&self.signals, time)
    }

    fn leave(&self) {
        signals::send();
    }

    fn allocator(&self) -> &'static str {
        allocator::name()
    }

    fn allocator_report(&self) -> String {
        allocator::report()
    }

    fn allocator_use(&self) -> Option<AllocatorUse> {
        Some(AllocatorUse { allocated: allocator::allocated(), active: allocator::active() })
    }

    fn purge_allocator(&self) {
        allocator::purge();
    }

    fn collect_thread(&self) {
        allocator::collect_thread();
    }

    fn supervisor(&self) -> &'static str {
        self.supervisor.name()
    }
}
