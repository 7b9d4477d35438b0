//! `tls-auto-reload-interval`: a thread of its own looks whether the files have changed.

use super::settings::Stamps;
use crate::server::Server;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Between two looks at the interval, which may change, and whether the server still runs.
const STEP: Duration = Duration::from_millis(200);

/// Starts the thread that looks; once for a server.
pub fn watch(server: Weak<Server>) {
    let look = move || {
        let mut looked = Instant::now();
        loop {
            std::thread::sleep(STEP);
            let Some(server) = server.upgrade().filter(|server| !server.is_stopping()) else {
                return;
            };
            let interval = server.config.snapshot().tls.tls_auto_reload_interval;
            let interval = Duration::from_secs(u64::try_from(interval).unwrap_or(0));
            if interval.is_zero() {
                looked = Instant::now();
            } else if looked.elapsed() >= interval {
                looked = Instant::now();
                look(&server);
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("petrel-tls".into()).spawn(look) {
        tracing::warn!("no thread to look for new certificates: {error}");
    }
}

fn look(server: &Server) {
    let Some(settings) = server.tls.lock().clone() else { return };
    let config = server.config.snapshot();
    if Stamps::of(&config) == settings.stamps {
        return tracing::trace!("TLS materials unchanged");
    }
    match server.configure_tls(&config) {
        Ok(()) => tracing::info!("TLS materials reloaded successfully"),
        Err(trouble) => tracing::warn!("TLS materials have changed and are not used: {trouble}"),
    }
}
