//! TLS over a connected socket.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A connected socket after its handshake.
pub struct TlsStream {
    /// The socket.
    pub socket: TcpStream,
    session: ClientConnection,
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}

impl TlsStream {
    /// Shakes hands with a server that shows the certificate of this file, for `localhost`.
    pub fn connect(mut socket: TcpStream, certificate: &Path) -> io::Result<TlsStream> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(certificate).map_err(io::Error::other)?;
        roots.add(certificate).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let mut session =
            ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(TlsStream { socket, session })
    }
}

impl Read for TlsStream {
    /// Reads until there is plaintext or the socket is empty. Returns all plaintext that fits: no
    /// event would report the rest.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut count = 0;
            while count < buffer.len() {
                match self.session.reader().read(&mut buffer[count..]) {
                    Ok(0) => break,
                    Ok(more) => count += more,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            if count > 0 {
                return Ok(count);
            }
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

impl Write for TlsStream {
    /// Accepts nothing while the socket has not accepted the bytes encrypted before.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let count = self.session.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}
