//! What all parts of a node share, and how two nodes come to know each other.

use crate::events::{Events, Level};
use crate::found::FoundNodes;
use crate::lines::Lines;
use crate::raft::{Agreed, Origin};
use crate::settings::{Settings, Timing};
use crate::state::{Admission, MemberInfo};
use crate::trust::{Credentials, Trust, TrustError, key_of};
use crate::wire::{
    HELLO_MAX, Hello, Kind, PROTOCOL_NEWEST, PROTOCOL_OLDEST, Refusal, Welcome, dated,
    decode_dated, read_frame, write_frame,
};
use parking_lot::Mutex;
use petrel_cluster::{Identity, Node};
use rustls::pki_types::ServerName;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// By how much clocks differ before that is said.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(2);

/// A member that takes nothing for so long may only be busy, however short leases are.
const SILENCE_MIN: Duration = Duration::from_secs(2);

/// Bytes, before encryption, that went to a node and came from it, over all its connections.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// How consensus stands, as this node knew when it last looked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConsensusStatus {
    pub leader: Option<Identity>,
    pub voters: usize,
}

/// What all parts of a node share.
pub(crate) struct Bus {
    pub settings: Settings,
    pub timing: Timing,
    pub trust: Trust,
    credentials: Mutex<Arc<Credentials>>,
    pub origin: Mutex<Origin>,
    /// Where others find this node's bus.
    pub announced: Mutex<String>,
    /// The membership that this node has now, or comes to have.
    pub own: Mutex<Option<Admission>>,
    pub agreed: Arc<Agreed>,
    /// The members of the view that was reported to the host last.
    pub told: Mutex<Arc<[MemberInfo]>>,
    /// The epoch of that view; 0 if there is none.
    pub epoch: AtomicU64,
    /// The version of the libraries of functions that the host has.
    pub functions: AtomicU64,
    pub consensus: Mutex<ConsensusStatus>,
    pub events: Mutex<Box<dyn Events>>,
    pub traffic: Mutex<BTreeMap<u128, Traffic>>,
    /// Nodes that are elsewhere than agreed.
    pub found: FoundNodes,
    lines: Lines,
}

/// The other side of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub uuid: u128,
    /// SHA-256 of its public key.
    pub key: [u8; 32],
    pub member: Option<Identity>,
}

pub(crate) type Secure = TlsStream<TcpStream>;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    Io(io::Error),
    /// The name has no address.
    Unresolved(io::Error),
    /// One side's certificate was not made with the other side's passphrase.
    Untrusted(rustls::Error),
    Refused(Refusal),
    /// It refused this node.
    RefusedBy(Refusal),
    /// It is this node itself.
    Oneself,
    /// It is not the node that is meant.
    Another,
    /// It speaks something else.
    Foreign,
    TooLong,
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        use rustls::Error as Tls;
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>());
        match inner {
            Some(tls @ (Tls::InvalidCertificate(_) | Tls::AlertReceived(_))) => {
                ConnectError::Untrusted(tls.clone())
            }
            Some(tls @ Tls::NoCertificatesPresented) => ConnectError::Untrusted(tls.clone()),
            Some(_) => ConnectError::Foreign,
            None => ConnectError::Io(error),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Io(error) => write!(f, "{error}"),
            ConnectError::Unresolved(error) => write!(f, "the name does not resolve: {error}"),
            ConnectError::Untrusted(error) => {
                write!(
                    f,
                    "the passphrase or the name of the cluster is another there, see \
                     cluster-passphrase-file and cluster-name ({error})"
                )
            }
            ConnectError::Refused(refusal) | ConnectError::RefusedBy(refusal) => {
                write!(f, "{refusal}")
            }
            ConnectError::Oneself => f.write_str("that is this node itself"),
            ConnectError::Another => f.write_str("another node answers there"),
            ConnectError::Foreign => f.write_str("what answers is no node's bus"),
            ConnectError::TooLong => f.write_str("it does not answer"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Protocol { oldest, newest } => {
                write!(
                    f,
                    "the two nodes have no version of the bus's protocol in common, one speaks {oldest} to {newest}: \
                     start the older program's node with the newer program"
                )
            }
            Refusal::OtherCluster => f.write_str(
                "the directory of the node that connects is a member's of another cluster: start it with another \
                 dir, or remove `cluster` and the data from this one",
            ),
            Refusal::OtherKey => f.write_str(
                "the node's uuid belongs to another key: node.key and raft.redb are of two nodes",
            ),
            Refusal::Twice { bus } => {
                write!(
                    f,
                    "the same node is alive at {bus}, its directory was copied: remove `cluster` from the copy"
                )
            }
            Refusal::Full => f.write_str("the cluster has as many members as it can have"),
            Refusal::NotAMember => f.write_str("the node is no member"),
        }
    }
}

impl Bus {
    /// What a node's parts share from its start on.
    ///
    /// # Errors
    /// If there are no certificates.
    pub fn new(
        settings: Settings,
        trust: Trust,
        origin: Origin,
        announced: String,
        events: Box<dyn Events>,
    ) -> Result<Self, TrustError> {
        Ok(Bus {
            timing: Timing::of(settings.node_timeout),
            settings,
            credentials: Mutex::new(Arc::new(trust.mint(SystemTime::now())?)),
            trust,
            origin: Mutex::new(origin),
            announced: Mutex::new(announced),
            own: Mutex::default(),
            agreed: Arc::default(),
            told: Mutex::new(Arc::from([])),
            epoch: AtomicU64::new(0),
            functions: AtomicU64::new(0),
            consensus: Mutex::default(),
            events: Mutex::new(events),
            traffic: Mutex::default(),
            found: FoundNodes::default(),
            lines: Lines::default(),
        })
    }

    /// Makes new certificates, long before the old ones are over.
    pub fn renew_credentials(&self) {
        match self.trust.mint(SystemTime::now()) {
            Ok(credentials) => *self.credentials.lock() = Arc::new(credentials),
            Err(error) => self.log(Level::Warning, format!("cluster: {error}")),
        }
    }

    pub fn log(&self, level: Level, line: String) {
        self.events.lock().log(level, line);
    }

    /// Writes a line that is not written again for a while: the next time it says how often it
    /// would have been.
    pub fn log_once(&self, level: Level, line: String) {
        if let Some(line) = self.lines.note(line, Instant::now()) {
            self.log(level, line);
        }
    }

    pub fn uuid(&self) -> u128 {
        self.origin.lock().uuid
    }

    /// The members of the view that was reported to the host last.
    pub fn told_member(&self, identity: Identity) -> Option<MemberInfo> {
        let told = self.told.lock().clone();
        told.iter().find(|member| member.identity() == identity).cloned()
    }

    /// A node has said that it is at this address, or was found there. Where this one is
    /// let in, members agree on that, unless it is the copy of a node that is alive elsewhere.
    pub fn note_found(&self, uuid: u128, address: &str) {
        if self.own.lock().is_some() {
            return;
        }
        let state = self.agreed.state.lock();
        if let Some(node) = state.nodes.get(&uuid).filter(|_| uuid != self.uuid()) {
            self.found.note(&node.info, address);
        }
    }

    /// Counts bytes.
    pub fn count(&self, uuid: u128, sent: usize, received: usize) {
        let mut traffic = self.traffic.lock();
        let traffic = traffic.entry(uuid).or_default();
        traffic.sent += sent as u64;
        traffic.received += received as u64;
    }

    fn hello(&self) -> Hello {
        let origin = self.origin.lock();
        let own = *self.own.lock();
        Hello {
            oldest: PROTOCOL_OLDEST,
            newest: PROTOCOL_NEWEST,
            uuid: origin.uuid,
            cluster: origin.cluster,
            member: own.map(|own| (own.number, own.incarnation)),
        }
    }

    /// Connects to a node: to its bus, `host:port`.
    pub async fn dial(&self, kind: Kind, address: &str) -> Result<(Secure, Peer), ConnectError> {
        let dial = self.dial_patiently(kind, address);
        let dialed = tokio::time::timeout(self.timing.handshake, dial).await;
        dialed.unwrap_or(Err(ConnectError::TooLong))
    }

    async fn dial_patiently(
        &self,
        kind: Kind,
        address: &str,
    ) -> Result<(Secure, Peer), ConnectError> {
        let resolved = tokio::net::lookup_host(address).await.map_err(ConnectError::Unresolved)?;
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let mut connected = None;
        for address in resolved {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(error) => failed = error,
            }
        }
        let mut stream = connected.ok_or(failed)?;
        self.prepare(&stream)?;
        stream.write_all(&[kind.preamble()]).await?;
        let connector = TlsConnector::from(self.credentials.lock().client.clone());
        let name = ServerName::try_from("petrel.cluster").map_err(io::Error::other)?;
        let stream = connector.connect(name, stream).await?;
        let mut stream = TlsStream::from(stream);
        let asked = SystemTime::now();
        write_frame(&mut stream, &dated(&self.hello())?).await?;
        stream.flush().await?;
        let welcome = read_frame(&mut stream, HELLO_MAX).await?;
        let (welcome, clock) = decode_dated(&welcome)?;
        self.note_clock(address, clock, asked);
        let hello = match welcome {
            Welcome::Hello(hello) => hello,
            Welcome::Refused(refusal) => return Err(ConnectError::RefusedBy(refusal)),
        };
        let peer = self.know(kind, &stream, &hello).map_err(ConnectError::Refused)?;
        if peer.uuid == self.uuid() { Err(ConnectError::Oneself) } else { Ok((stream, peer)) }
    }

    /// Admits a node that has connected to this one.
    pub async fn accept(&self, stream: TcpStream) -> Result<(Kind, Secure, Peer), ConnectError> {
        let accept = self.accept_patiently(stream);
        let accepted = tokio::time::timeout(self.timing.handshake, accept).await;
        accepted.unwrap_or(Err(ConnectError::TooLong))
    }

    async fn accept_patiently(
        &self,
        mut stream: TcpStream,
    ) -> Result<(Kind, Secure, Peer), ConnectError> {
        self.prepare(&stream)?;
        let (began, from) = (SystemTime::now(), stream.peer_addr()?);
        let preamble = stream.read_u8().await?;
        let kind = Kind::of(preamble).ok_or(ConnectError::Foreign)?;
        let acceptor = TlsAcceptor::from(self.credentials.lock().server.clone());
        let mut stream = TlsStream::from(acceptor.accept(stream).await?);
        let (hello, clock): (Hello, _) = decode_dated(&read_frame(&mut stream, HELLO_MAX).await?)?;
        self.note_clock(&from.ip().to_string(), clock, began);
        let known = self.know(kind, &stream, &hello);
        let welcome = match &known {
            Ok(_) => Welcome::Hello(self.hello()),
            Err(refusal) => Welcome::Refused(refusal.clone()),
        };
        write_frame(&mut stream, &dated(&welcome)?).await?;
        stream.flush().await?;
        match known {
            Ok(peer) => Ok((kind, stream, peer)),
            Err(refusal) => {
                // The other side reads why before it notices the end.
                drop(stream.shutdown().await);
                Err(ConnectError::Refused(refusal))
            }
        }
    }

    /// Warns if the other side's clock, read after `began`, differs from the one here.
    fn note_clock(&self, whose: &str, theirs: Option<SystemTime>, began: SystemTime) {
        let Some(theirs) = theirs else { return };
        let by = |ahead: Result<Duration, _>| {
            ahead.ok().filter(|by| *by >= CLOCK_DIFFERENCE).map(|by| by.as_secs_f64().round())
        };
        let ahead = by(theirs.duration_since(SystemTime::now())).map(|by| (by, "ahead of"));
        let behind = by(began.duration_since(theirs)).map(|by| (by, "behind"));
        if let Some((by, where_to)) = ahead.or(behind) {
            let line = format!(
                "cluster: the clock of {whose} is {by} s {where_to} this one's: have both follow the same time; keys \
                 expire by the clock of their home, and elsewhere seem to expire too early or too late"
            );
            self.log_once(Level::Warning, line);
        }
    }

    /// Whether the other side may be what it says.
    fn know(&self, kind: Kind, stream: &Secure, hello: &Hello) -> Result<Peer, Refusal> {
        if hello.oldest > PROTOCOL_NEWEST || hello.newest < PROTOCOL_OLDEST {
            return Err(Refusal::Protocol { oldest: PROTOCOL_OLDEST, newest: PROTOCOL_NEWEST });
        }
        let cluster = self.origin.lock().cluster;
        if cluster.is_some() && hello.cluster.is_some() && cluster != hello.cluster {
            return Err(Refusal::OtherCluster);
        }
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let key = certificates.first().and_then(key_of).ok_or(Refusal::OtherKey)?;
        let registered = self.agreed.state.lock().nodes.get(&hello.uuid).map(|node| node.key);
        if registered.is_some_and(|registered| registered != key) {
            return Err(Refusal::OtherKey);
        }
        let member =
            hello.member.map(|(number, incarnation)| Identity { node: Node(number), incarnation });
        if kind == Kind::Lanes {
            let told = member.and_then(|member| self.told_member(member));
            told.filter(|told| told.uuid == hello.uuid).ok_or(Refusal::NotAMember)?;
        }
        Ok(Peer { uuid: hello.uuid, key, member })
    }

    fn prepare(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let socket = socket2::SockRef::from(stream);
        // A peer whose machine is gone says nothing at all.
        let keepalive = socket2::TcpKeepalive::new()
            .with_time(self.timing.lease)
            .with_interval(self.timing.lease);
        socket.set_tcp_keepalive(&keepalive)?;
        // What it does not acknowledge was lost on the way, or it reads nothing.
        socket.set_tcp_user_timeout(Some(self.timing.lease.max(SILENCE_MIN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Copies, Role, Start};
    use std::future::Future;
    use tokio::net::TcpListener;

    struct Deaf;

    impl Events for Deaf {
        fn admitted(&mut self, _: Identity, _: Arc<petrel_cluster::View>, _: Arc<[MemberInfo]>) {}
        fn view(&mut self, _: Arc<petrel_cluster::View>, _: Arc<[MemberInfo]>) {}
        fn expelled(&mut self) {}
        fn link_up(&mut self, _: crate::connection::Connection) {}
        fn link_down(&mut self, _: crate::connection::Link) {}
        fn log(&mut self, _: Level, _: String) {}
    }

    fn bus() -> Bus {
        let directory = std::env::temp_dir().join(format!("petrel-bus-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let trust = Trust::new("c", 7, &directory, ["secret"]).expect("keys");
        drop(std::fs::remove_dir_all(&directory));
        let settings = Settings {
            name: "c".into(),
            passphrase: String::from("secret").into(),
            previous_passphrase: None,
            start: Start::Create,
            bind: ([127, 0, 0, 1], 0).into(),
            announced: None,
            client_address: String::new(),
            role: Role::Data,
            zone: String::new(),
            copies: Copies::All,
            node_timeout: Duration::from_secs(60),
            directory,
            waits_for_data: false,
        };
        let origin = Origin { uuid: 7, name: "c".into(), cluster: None, id: None };
        Bus::new(settings, trust, origin, String::new(), Box::new(Deaf)).expect("certificates")
    }

    /// What a node that speaks these versions is answered, and why it is not let in.
    async fn says_hello(bus: &Bus, oldest: u16, newest: u16) -> (Welcome, Option<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let accept = async {
            let (stream, _) = listener.accept().await.expect("a connection");
            bus.accept(stream).await.err().map(|error| error.to_string())
        };
        let dial = async {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(&[Kind::Control.preamble()]).await.expect("it takes it");
            let connector = TlsConnector::from(bus.credentials.lock().client.clone());
            let name = ServerName::try_from("petrel.cluster").expect("a name");
            let mut stream = connector.connect(name, stream).await.expect("it is trusted");
            let hello = Hello { oldest, newest, uuid: 8, cluster: None, member: None };
            let hello = crate::wire::encode(&hello).expect("plain data");
            write_frame(&mut stream, &hello).await.expect("it takes it");
            stream.flush().await.expect("it takes it");
            let welcome = read_frame(&mut stream, HELLO_MAX).await.expect("an answer");
            decode_dated(&welcome).expect("a welcome").0
        };
        let (error, welcome) = tokio::join!(accept, dial);
        (welcome, error)
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn a_peer_of_other_versions_is_refused_and_one_that_speaks_newer_ones_too_is_not() {
        run(async {
            let bus = bus();
            let (welcome, error) = says_hello(&bus, PROTOCOL_OLDEST, PROTOCOL_NEWEST + 5).await;
            assert!(matches!(welcome, Welcome::Hello(_)) && error.is_none(), "{error:?}");
            for (oldest, newest) in [(PROTOCOL_NEWEST + 1, PROTOCOL_NEWEST + 2), (0, 0)] {
                let (welcome, error) = says_hello(&bus, oldest, newest).await;
                let spoken = (PROTOCOL_OLDEST, PROTOCOL_NEWEST);
                let refusal = Refusal::Protocol { oldest: spoken.0, newest: spoken.1 };
                assert_eq!(welcome, Welcome::Refused(refusal));
                let error = error.expect("it is refused");
                assert!(error.contains("start the older program's node with the newer"), "{error}");
            }
        });
    }
}
