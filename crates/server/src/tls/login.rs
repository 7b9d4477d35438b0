//! `tls-auth-clients-user`: a client with a certificate may be the user that it names.

use super::Certificate;
use crate::client::Flag;
use crate::config::IdentityField;
use crate::event_loop::worker::Worker;
use petrel_commands::acl::{Context, DEFAULT_USER, LogEntry, User};
use petrel_net::{Driver, Slot};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl<D: Driver> Worker<D> {
    /// Authenticates connections with a completed handshake by their certificates, before any of
    /// their input is executed.
    pub(crate) fn finish_handshakes(&mut self) {
        let established = self.driver.take_established();
        let field = self.engine.host.config.tls.tls_auth_clients_user;
        if field != IdentityField::Off {
            established.into_iter().for_each(|slot| self.log_in(slot, field));
        }
    }

    fn log_in(&mut self, slot: Slot, field: IdentityField) {
        let session = self.driver.session(slot);
        let Some(der) = session.and_then(|session| session.peer_certificate()) else { return };
        let certificate = Certificate::read(der);
        let names = match (certificate, field) {
            (Some(certificate), IdentityField::Uri) => certificate.uris,
            (Some(certificate), _) => certificate.common_name.into_iter().collect(),
            (None, _) => Vec::new(),
        };
        let server = self.engine.host.server.clone();
        let enabled = |name: &String| {
            let user = server.commands.users.find(name.as_bytes());
            user.filter(|user| user.permissions().are_enabled())
        };
        let Some(user) = names.iter().find_map(enabled) else {
            return self.note_stranger(slot, names.into_iter().next().unwrap_or_default());
        };
        if let Some(mut conn) = self.take(slot) {
            tracing::debug!(
                "TLS: client {} is {}",
                conn.client.id,
                String::from_utf8_lossy(user.name())
            );
            let user: Option<Arc<User>> = Some(user).filter(|user| user.name() != DEFAULT_USER);
            conn.client.set(Flag::Authenticated, true);
            conn.client.show_user(user.clone());
            conn.session.become_user(user);
            self.put(conn);
        }
    }

    /// Counts and logs a certificate that names no user. The connection goes on as if it had shown
    /// none.
    fn note_stranger(&mut self, slot: Slot, name: String) {
        let server = self.engine.host.server.clone();
        server.figures.strange_certificates.fetch_add(1, Relaxed);
        let socket = self.engine.host.socket_path();
        let address = self.conn(slot).map(|conn| conn.client.address(&socket)).unwrap_or_default();
        let entry = LogEntry {
            count: 1,
            reason: "tls-cert",
            context: Context::TopLevel,
            object: name.clone().into_bytes(),
            user: name.into_bytes(),
            client: format!("addr={address}").into_bytes(),
            id: 0,
            created_ms: 0,
            updated_ms: 0,
        };
        server.commands.users.log.add(entry, self.engine.exec.ks.now_ms());
    }
}
