//! Byte streams to servers: TCP, Unix sockets, TLS, and streams that the caller makes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

use crate::options::{Address, Options};

/// A stream of bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn ByteStream>>> + Send>>;

/// Makes streams to a server.
#[derive(Clone)]
pub(crate) enum Connector {
    /// To the address of the options.
    Address(Tls),
    /// To an address that is asked for each time.
    Discovered(Arc<dyn Discover>, Tls),
    /// By a function of the caller's.
    Custom(Arc<dyn Fn() -> Connecting + Send + Sync>),
}

/// Role that a server must report before a connection to it is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    Any,
    Primary,
    Replica,
}

/// Knows where a server is that may move.
pub(crate) trait Discover: Send + Sync {
    /// Finds the current address.
    fn find(&self) -> Finding<'_>;
}

/// Ends with an address, and on which terms a connection to it is used.
pub(crate) type Finding<'a> =
    Pin<Box<dyn Future<Output = io::Result<(Address, Terms)>> + Send + 'a>>;

/// On which terms a connection is used.
pub(crate) struct Terms {
    /// Role that the server must report.
    pub(crate) role: Role,
    /// Resolves when the connection is to be closed, since the server no longer has the role.
    pub(crate) moved: Option<Moved>,
}

impl Terms {
    const NONE: Self = Self { role: Role::Any, moved: None };
}

/// Ends when a server has moved.
pub(crate) type Moved = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Connector {
    /// A connector for the address of some options; reads certificates if it needs any.
    pub(crate) fn of(options: &Options) -> io::Result<Self> {
        Ok(Self::Address(Tls::of(options)?))
    }

    pub(crate) fn custom<S, F, C>(connect: C) -> Self
    where
        S: ByteStream + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
        C: Fn() -> F + Send + Sync + 'static,
    {
        Self::Custom(Arc::new(move || {
            let stream = connect();
            Box::pin(async move { Ok(Box::new(stream.await?) as Box<dyn ByteStream>) })
        }))
    }

    /// A stream in two halves, and on which terms.
    pub(crate) async fn connect(&self, options: &Options) -> io::Result<(Reader, Writer, Terms)> {
        let ((reader, writer), terms) = match self {
            Self::Custom(connect) => (split(connect().await?), Terms::NONE),
            Self::Address(tls) => (connect_to(&options.address, tls).await?, Terms::NONE),
            Self::Discovered(discover, tls) => {
                let (address, terms) = discover.find().await?;
                (connect_to(&address, tls).await?, terms)
            }
        };
        Ok((reader, writer, terms))
    }
}

async fn connect_to(address: &Address, tls: &Tls) -> io::Result<(Reader, Writer)> {
    match address {
        Address::Tcp { host, port } => {
            let (reader, writer) = tcp(host, *port).await?.into_split();
            Ok((Reader::Tcp(reader), Writer::Direct(Direct::Tcp(Arc::new(writer)))))
        }
        Address::Unix(path) => {
            let (reader, writer) = UnixStream::connect(path).await?.into_split();
            Ok((Reader::Unix(reader), Writer::Direct(Direct::Unix(Arc::new(writer)))))
        }
        Address::Tls { host, port } => Ok(split(tls.connect(host, tcp(host, *port).await?).await?)),
    }
}

/// A TCP connection that sends at once and notices a peer that is gone.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10));
    socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

fn split(stream: Box<dyn ByteStream>) -> (Reader, Writer) {
    let (reader, writer) = tokio::io::split(stream);
    (Reader::Boxed(reader), Writer::Boxed(writer))
}

/// Reading half of a driver's connection.
pub(crate) enum Reader {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
    Boxed(ReadHalf<Box<dyn ByteStream>>),
}

impl Reader {
    /// Reads once into `room`; 0 at the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(room);
        ready!(match self {
            Self::Tcp(half) => Pin::new(half).poll_read(cx, &mut buf),
            Self::Unix(half) => Pin::new(half).poll_read(cx, &mut buf),
            Self::Boxed(half) => Pin::new(half).poll_read(cx, &mut buf),
        })?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

/// A socket that any thread can write to.
#[derive(Clone)]
pub(crate) enum Direct {
    Tcp(Arc<tcp::OwnedWriteHalf>),
    Unix(Arc<unix::OwnedWriteHalf>),
}

impl Direct {
    /// Writes without waiting.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(half) => half.try_write(bytes),
            Self::Unix(half) => half.try_write(bytes),
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(match self {
                Self::Tcp(half) => {
                    let stream: &TcpStream = (**half).as_ref();
                    stream.poll_write_ready(cx)
                }
                Self::Unix(half) => {
                    let stream: &UnixStream = (**half).as_ref();
                    stream.poll_write_ready(cx)
                }
            })?;
            match self.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

/// Writing half of a driver's connection.
pub(crate) enum Writer {
    Direct(Direct),
    Boxed(WriteHalf<Box<dyn ByteStream>>),
}

impl Writer {
    /// The socket, if any thread can write to it.
    pub(crate) fn direct(&self) -> Option<Direct> {
        match self {
            Self::Direct(direct) => Some(direct.clone()),
            Self::Boxed(_) => None,
        }
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Direct(direct) => direct.poll_write(cx, bytes),
            Self::Boxed(half) => Pin::new(half).poll_write(cx, bytes),
        }
    }

    /// Passes on bytes that a layer such as TLS has buffered.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Direct(_) => Poll::Ready(Ok(())),
            Self::Boxed(half) => Pin::new(half).poll_flush(cx),
        }
    }
}

#[cfg(feature = "tls")]
pub(crate) use with_tls::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use without_tls::Tls;

#[cfg(feature = "tls")]
mod with_tls {
    use super::{Address, ByteStream, Options, TcpStream};
    use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::io;
    use std::sync::Arc;

    /// TLS configuration of connections, if the address asks for TLS.
    #[derive(Clone)]
    pub(crate) struct Tls(Option<Arc<ClientConfig>>);

    impl Tls {
        pub(crate) fn of(options: &Options) -> io::Result<Self> {
            if !matches!(options.address, Address::Tls { .. }) {
                return Ok(Self(None));
            }
            let mut roots = RootCertStore::empty();
            match &options.tls_roots_pem {
                Some(pem) => {
                    for certificate in CertificateDer::pem_slice_iter(pem) {
                        let certificate = certificate.map_err(io::Error::other)?;
                        roots.add(certificate).map_err(io::Error::other)?;
                    }
                }
                None => {
                    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                }
            }
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(io::Error::other)?
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(Self(Some(Arc::new(config))))
        }

        pub(crate) async fn connect(
            &self,
            host: &str,
            stream: TcpStream,
        ) -> io::Result<Box<dyn ByteStream>> {
            let config = self.0.clone().ok_or_else(|| io::Error::other("no TLS configuration"))?;
            let name = name_of(host)?;
            let stream = tokio_rustls::TlsConnector::from(config).connect(name, stream).await?;
            Ok(Box::new(stream))
        }

        /// A session for a stream that blocks.
        pub(crate) fn session(&self, host: &str) -> io::Result<ClientConnection> {
            let config = self.0.clone().ok_or_else(|| io::Error::other("no TLS configuration"))?;
            ClientConnection::new(config, name_of(host)?).map_err(io::Error::other)
        }
    }

    fn name_of(host: &str) -> io::Result<ServerName<'static>> {
        ServerName::try_from(host.to_owned()).map_err(io::Error::other)
    }
}

#[cfg(not(feature = "tls"))]
mod without_tls {
    use super::{Address, ByteStream, Options, TcpStream};
    use std::io;

    /// Refuses TLS, which is left out of this build.
    #[derive(Clone)]
    pub(crate) struct Tls;

    impl Tls {
        pub(crate) fn of(options: &Options) -> io::Result<Self> {
            match options.address {
                Address::Tls { .. } => Err(Self::absent()),
                _ => Ok(Self),
            }
        }

        pub(crate) async fn connect(
            &self,
            _host: &str,
            _stream: TcpStream,
        ) -> io::Result<Box<dyn ByteStream>> {
            Err(Self::absent())
        }

        fn absent() -> io::Error {
            io::Error::other("built without the feature `tls`")
        }
    }
}
