//! TLS session of a connection: records in, plaintext out, and back. It owns no buffer while
//! nothing is incomplete.

use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CertificateError, Error, ServerConfig};
use std::sync::Arc;

/// Bytes of plaintext in a full record.
pub const RECORD_BYTES: usize = 16 * 1024;

/// More than a record takes beside its plaintext, in any version.
const RECORD_OVERHEAD: usize = 64;

/// Received bytes that may wait for the rest of their record; in a handshake for the rest of their
/// message, which rustls bounds at 64 KiB.
const UNFINISHED_BYTES_MAX: usize = 96 * 1024;

/// The type of the record that every handshake begins with.
const HANDSHAKE: u8 = 22;

/// The state of a connection.
pub struct Session {
    tls: UnbufferedServerConnection,
    /// Beginning of a record that has not arrived completely.
    unfinished: Vec<u8>,
    established: bool,
    begun: bool,
    peer_closed: bool,
}

/// Reason that a session failed.
#[derive(Debug)]
pub enum Failure {
    /// The peer does not speak TLS at all: it gets no answer.
    NotTls,
    /// The peer makes the server buffer too much.
    TooMuch,
    /// Error reported by rustls.
    Tls(Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotTls => f.write_str("the peer sent no TLS handshake"),
            Self::TooMuch => f.write_str("a handshake message is too long"),
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// Whether the peer's certificate was refused because it is below version 3 of X.509.
    pub fn is_of_old_certificate(&self) -> bool {
        match self {
            Self::Tls(Error::InvalidCertificate(CertificateError::Other(error))) => {
                error.to_string().contains("UnsupportedCertVersion")
            }
            _ => false,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Tls(error)
    }
}

impl Session {
    /// Creates a session before its handshake.
    ///
    /// # Errors
    /// The fault in the settings.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Session {
            tls: UnbufferedServerConnection::new(config)?,
            unfinished: Vec::new(),
            established: false,
            begun: false,
            peer_closed: false,
        })
    }

    /// Whether the handshake is over.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Whether the peer has said that it sends no more.
    pub fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// The certificate that the peer has shown.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.peer_certificates()?.first()
    }

    /// Processes received bytes: appends their plaintext to `plain`, and replies of the handshake
    /// to `records`, including the alert if it fails. `joined` is scratch space.
    ///
    /// # Errors
    /// Why the connection must be closed, once `records` are sent.
    pub fn absorb(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        records: &mut Vec<u8>,
        joined: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if !self.begun {
            self.begun = true;
            if bytes.first() != Some(&HANDSHAKE) {
                return Err(Failure::NotTls);
            }
        }
        joined.clear();
        joined.append(&mut self.unfinished);
        joined.extend_from_slice(bytes);
        let done = self.advance(joined, plain, records)?;
        let rest = &joined[done..];
        if rest.len() > UNFINISHED_BYTES_MAX {
            return Err(Failure::TooMuch);
        }
        // `append` left the capacity behind, which an idle connection shall not keep.
        self.unfinished = rest.to_vec();
        Ok(())
    }

    /// Processes buffered records; returns the number of consumed bytes.
    fn advance(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        records: &mut Vec<u8>,
    ) -> Result<usize, Failure> {
        let mut done = 0;
        loop {
            let status = self.tls.process_tls_records(&mut incoming[done..]);
            let UnbufferedStatus { mut discard, state } = status;
            let state = match state {
                Ok(state) => state,
                Err(error) => {
                    self.alert(&mut incoming[done + discard..], records);
                    return Err(error.into());
                }
            };
            let goes_on = match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(&mut data, records);
                    true
                }
                ConnectionState::TransmitTlsData(sent) => {
                    sent.done();
                    true
                }
                ConnectionState::PeerClosed => {
                    self.peer_closed = true;
                    true
                }
                ConnectionState::WriteTraffic(_) => {
                    self.established = true;
                    false
                }
                // Early data is not offered, so none comes.
                ConnectionState::BlockedHandshake | ConnectionState::Closed | _ => false,
            };
            done += discard;
            if !goes_on {
                return Ok(done);
            }
        }
    }

    /// Appends the alert that describes the error to the peer, if there is one. rustls may refer to
    /// received bytes that it has not consumed, so they are passed again.
    fn alert(&mut self, incoming: &mut [u8], records: &mut Vec<u8>) {
        while self.tls.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(mut data)) =
                self.tls.process_tls_records(incoming).state
        {
            encode(&mut data, records);
        }
    }

    /// Appends records that hold `plain`; the handshake is over.
    ///
    /// # Errors
    /// If the connection cannot send any more.
    pub fn seal(&mut self, plain: &[u8], records: &mut Vec<u8>) -> Result<(), Failure> {
        let count = plain.len().div_ceil(RECORD_BYTES);
        let room = plain.len() + count * RECORD_OVERHEAD;
        self.write(records, room, |traffic, place| traffic.encrypt(plain, place))
    }

    /// Appends the word that nothing more will be sent.
    ///
    /// # Errors
    /// If the connection cannot send any more.
    pub fn close(&mut self, records: &mut Vec<u8>) -> Result<(), Failure> {
        self.write(records, RECORD_OVERHEAD, |traffic, place| traffic.queue_close_notify(place))
    }

    fn write(
        &mut self,
        records: &mut Vec<u8>,
        mut room: usize,
        mut encrypt: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), Failure> {
        loop {
            // Pass the incomplete record, since rustls keeps a reference to a handshake message in
            // it.
            match self.tls.process_tls_records(&mut self.unfinished).state? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let start = records.len();
                    records.resize(start + room, 0);
                    let written = encrypt(&mut traffic, &mut records[start..]);
                    records.truncate(start + *written.as_ref().unwrap_or(&0));
                    match written {
                        Ok(_) => return Ok(()),
                        Err(EncryptError::InsufficientSize(size)) if size.required_size > room => {
                            room = size.required_size;
                        }
                        Err(_) => return Err(Error::EncryptError.into()),
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, records),
                ConnectionState::TransmitTlsData(sent) => sent.done(),
                ConnectionState::PeerClosed => self.peer_closed = true,
                _ => return Err(Error::HandshakeNotComplete.into()),
            }
        }
    }
}

type Traffic<'c> = WriteTraffic<'c, rustls::server::ServerConnectionData>;

fn encode(
    data: &mut EncodeTlsData<'_, rustls::server::ServerConnectionData>,
    records: &mut Vec<u8>,
) {
    let start = records.len();
    let mut room = 0;
    loop {
        records.resize(start + room, 0);
        match data.encode(&mut records[start..]) {
            Ok(written) => return records.truncate(start + written),
            Err(EncodeError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size;
            }
            Err(_) => return records.truncate(start),
        }
    }
}
