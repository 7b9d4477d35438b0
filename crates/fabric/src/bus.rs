//! State shared by all parts of a node, and handshakes with other nodes.

use crate::discovery::Discovery;
use crate::events::{Events, Level};
use crate::log_throttle::LogThrottle;
use crate::raft::{AppliedState, Origin};
use crate::settings::{Settings, Timing};
use crate::state::restart::Reported;
use crate::state::{Admission, MemberInfo};
use crate::trust::{Credentials, Trust, TrustError, key_of};
use crate::wire::{
    Attached, HELLO_MAX, Hello, Kind, PROTOCOL_NEWEST, PROTOCOL_OLDEST, Refusal, Welcome, dated,
    decode_dated, encode, read_frame, write_frame,
};
use parking_lot::Mutex;
use petrel_cluster::{Identity, Node};
use rustls::pki_types::ServerName;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Minimum clock difference that is logged.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(2);

/// Plaintext bytes exchanged with a node over all connections.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// Consensus status, as of this node's last check.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConsensusStatus {
    pub leader: Option<Identity>,
    pub voters: usize,
    /// Voters that there should be beside these.
    pub missing_voters: usize,
}

/// State shared by all parts of a node.
pub(crate) struct Bus {
    pub settings: Settings,
    pub timing: Timing,
    pub trust: Trust,
    credentials: Mutex<Arc<Credentials>>,
    pub origin: Mutex<Origin>,
    /// Address of this node's bus, as announced to others.
    pub announced: Mutex<String>,
    /// This node's present membership, from the admission on.
    pub own: Mutex<Option<Admission>>,
    pub agreed: Arc<AppliedState>,
    /// Members of the view last reported to the host.
    pub reported: Mutex<Arc<[MemberInfo]>>,
    /// Epoch of that view; 0 if there is none.
    pub epoch: AtomicU64,
    /// Version of the host's auxiliary state.
    pub aux_version: AtomicU64,
    pub consensus: Mutex<ConsensusStatus>,
    pub events: Mutex<Box<dyn Events>>,
    pub traffic: Mutex<BTreeMap<u128, Traffic>>,
    /// Whether the host keeps data on disk.
    pub keeps_data: AtomicBool,
    /// Extents of the host's data.
    pub extents: Mutex<Reported>,
    /// Address of a member of the cluster that continues this node's, once one was found.
    pub superseded: Mutex<Option<String>>,
    /// State with which this node founds its cluster again.
    pub generation: Mutex<Option<Vec<u8>>>,
    /// Number of attempts to connect to a member through another one.
    pub relayed: AtomicUsize,
    /// Addresses of nodes that have moved.
    pub discovery: Discovery,
    log_throttle: LogThrottle,
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

/// Reason that a connection failed.
#[derive(Debug)]
pub(crate) enum ConnectError {
    Io(io::Error),
    /// The name has no address.
    Unresolved(io::Error),
    /// Certificates were made with different passphrases.
    Untrusted(rustls::Error),
    Refused(Refusal),
    /// The other side has rejected this node.
    RefusedBy(Refusal),
    /// The address is this node's own.
    OwnAddress,
    /// Another node than expected.
    Another,
    /// Not a Petrel bus.
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
                    "passphrase or name of the cluster differ there, check \
                     cluster-passphrase-file and cluster-name ({error})"
                )
            }
            ConnectError::Refused(refusal) | ConnectError::RefusedBy(refusal) => {
                write!(f, "{refusal}")
            }
            ConnectError::OwnAddress => f.write_str("the address is this node's own"),
            ConnectError::Another => f.write_str("another node answers there"),
            ConnectError::Foreign => f.write_str("the answer is not from a cluster bus"),
            ConnectError::TooLong => f.write_str("no answer in time"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Protocol { oldest, newest } => {
                write!(
                    f,
                    "the nodes have no version of the bus protocol in common (one supports {oldest} \
                     to {newest}): upgrade the node with the older program"
                )
            }
            Refusal::OtherCluster => f.write_str(
                "the directory of the connecting node belongs to another cluster: start it with \
                 another dir, or remove `cluster` and the data from this one",
            ),
            Refusal::OtherKey => f.write_str(
                "the node's uuid is registered with another key: its node.key and raft.redb are from \
                 different nodes",
            ),
            Refusal::Twice { bus } => {
                write!(
                    f,
                    "the same node is alive at {bus}, so its directory was copied: remove \
                     `cluster` from the copy"
                )
            }
            Refusal::Full => f.write_str("the cluster has its maximum number of members"),
            Refusal::NotAMember => f.write_str("the node is not a member"),
            Refusal::Superseded => f.write_str(
                "the operator has continued the node's cluster without its majority; it joins that \
                 one",
            ),
        }
    }
}

impl Bus {
    /// Creates the shared state of a node.
    ///
    /// # Errors
    /// If certificates cannot be made.
    pub fn new(
        settings: Settings,
        trust: Trust,
        origin: Origin,
        announced: String,
        events: Box<dyn Events>,
    ) -> Result<Self, TrustError> {
        let extents = match settings.reports_extents {
            true => Reported::Loading,
            false => Reported::Unreported,
        };
        Ok(Bus {
            timing: Timing::of(settings.node_timeout),
            settings,
            credentials: Mutex::new(Arc::new(trust.mint(SystemTime::now())?)),
            trust,
            origin: Mutex::new(origin),
            announced: Mutex::new(announced),
            own: Mutex::default(),
            agreed: Arc::default(),
            reported: Mutex::new(Arc::from([])),
            epoch: AtomicU64::new(0),
            aux_version: AtomicU64::new(0),
            consensus: Mutex::default(),
            events: Mutex::new(events),
            traffic: Mutex::default(),
            keeps_data: AtomicBool::new(false),
            extents: Mutex::new(extents),
            superseded: Mutex::default(),
            generation: Mutex::default(),
            relayed: AtomicUsize::new(0),
            discovery: Discovery::default(),
            log_throttle: LogThrottle::default(),
        })
    }

    /// Makes new certificates, long before the old ones expire.
    pub fn renew_credentials(&self) {
        match self.trust.mint(SystemTime::now()) {
            Ok(credentials) => *self.credentials.lock() = Arc::new(credentials),
            Err(error) => self.log(Level::Warning, format!("cluster: {error}")),
        }
    }

    pub fn log(&self, level: Level, line: String) {
        self.events.lock().log(level, line);
    }

    /// Logs a line at most once per interval; the next one tells how often it was suppressed.
    pub fn log_once(&self, level: Level, line: String) {
        if let Some(line) = self.log_throttle.admit(line, Instant::now()) {
            self.log(level, line);
        }
    }

    pub fn uuid(&self) -> u128 {
        self.origin.lock().uuid
    }

    /// A member of the view last reported to the host.
    pub fn reported_member(&self, identity: Identity) -> Option<MemberInfo> {
        let reported = self.reported.lock().clone();
        reported.iter().find(|member| member.identity() == identity).cloned()
    }

    /// Like [`Bus::reported_member`], by uuid.
    pub fn reported_by_uuid(&self, uuid: u128) -> Option<MemberInfo> {
        let reported = self.reported.lock().clone();
        reported.iter().find(|member| member.uuid == uuid).cloned()
    }

    /// Records the address that a node has announced, or at which it was found. A member does not
    /// do that: there, the members agree on the address, unless it is of a copied directory.
    pub fn record_address(&self, uuid: u128, address: &str) {
        if self.own.lock().is_some() {
            return;
        }
        let state = self.agreed.state.lock();
        if let Some(node) = state.nodes.get(&uuid).filter(|_| uuid != self.uuid()) {
            self.discovery.record(&node.info, address);
        }
    }

    /// Counts traffic.
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

    /// Connects to the bus of a node, `host:port`.
    pub async fn dial(&self, kind: Kind, address: &str) -> Result<(Secure, Peer), ConnectError> {
        let dial = self.dial_unbounded(kind, address);
        let dialed = tokio::time::timeout(self.timing.handshake, dial).await;
        dialed.unwrap_or(Err(ConnectError::TooLong))
    }

    async fn dial_unbounded(
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
        let stream = connected.ok_or(failed)?;
        self.prepare(&stream)?;
        self.identify(kind, stream, address).await
    }

    /// Handshake with a node at the other end of a connection that this one has opened.
    pub async fn identify(
        &self,
        kind: Kind,
        mut stream: TcpStream,
        address: &str,
    ) -> Result<(Secure, Peer), ConnectError> {
        stream.write_all(&[kind.preamble()]).await?;
        let connector = TlsConnector::from(self.credentials.lock().client.clone());
        let name = ServerName::try_from("petrel.cluster").map_err(io::Error::other)?;
        let stream = connector.connect(name, stream).await?;
        let mut stream = TlsStream::from(stream);
        let asked = SystemTime::now();
        write_frame(&mut stream, &self.attach(dated(&self.hello())?)?).await?;
        stream.flush().await?;
        let welcome = read_frame(&mut stream, HELLO_MAX).await?;
        let (welcome, attached) = decode_dated(&welcome)?;
        self.check_clock(address, attached.clock, asked);
        let hello = match welcome {
            Welcome::Hello(hello) => hello,
            Welcome::Refused(refusal) => {
                if refusal == Refusal::Superseded && self.is_continued_by(&attached) {
                    *self.superseded.lock() = Some(address.into());
                }
                return Err(ConnectError::RefusedBy(refusal));
            }
        };
        let peer = self.know(kind, &stream, &hello).map_err(ConnectError::Refused)?;
        if peer.uuid == self.uuid() { Err(ConnectError::OwnAddress) } else { Ok((stream, peer)) }
    }

    /// Handshake with a node that has connected to this one.
    pub async fn accept(&self, stream: TcpStream) -> Result<(Kind, Secure, Peer), ConnectError> {
        let accept = self.accept_unbounded(stream);
        let accepted = tokio::time::timeout(self.timing.handshake, accept).await;
        accepted.unwrap_or(Err(ConnectError::TooLong))
    }

    async fn accept_unbounded(
        &self,
        mut stream: TcpStream,
    ) -> Result<(Kind, Secure, Peer), ConnectError> {
        self.prepare(&stream)?;
        let (began, from) = (SystemTime::now(), stream.peer_addr()?);
        let preamble = stream.read_u8().await?;
        let kind = Kind::of(preamble).ok_or(ConnectError::Foreign)?;
        let acceptor = TlsAcceptor::from(self.credentials.lock().server.clone());
        let mut stream = TlsStream::from(acceptor.accept(stream).await?);
        let (hello, attached): (Hello, _) =
            decode_dated(&read_frame(&mut stream, HELLO_MAX).await?)?;
        self.check_clock(&from.ip().to_string(), attached.clock, began);
        if self.is_continued_by(&attached) {
            let state = self.agreed.state.lock();
            let known = state.nodes.get(&hello.uuid).map(|node| node.info.bus.clone());
            *self.superseded.lock() = known;
        }
        let known = self.know(kind, &stream, &hello);
        let welcome = match &known {
            Ok(_) => Welcome::Hello(self.hello()),
            // This node is about to join the other's cluster.
            Err(Refusal::OtherCluster) if self.is_continued_by(&attached) => {
                Welcome::Refused(Refusal::Superseded)
            }
            Err(refusal) => Welcome::Refused(refusal.clone()),
        };
        write_frame(&mut stream, &self.attach(dated(&welcome)?)?).await?;
        stream.flush().await?;
        match known {
            Ok(peer) => Ok((kind, stream, peer)),
            Err(refusal) => {
                // The other side can read the reason before the connection ends.
                drop(stream.shutdown().await);
                Err(ConnectError::Refused(refusal))
            }
        }
    }

    /// Appends the clusters that this node's cluster continues.
    fn attach(&self, mut message: Vec<u8>) -> io::Result<Vec<u8>> {
        message.extend(encode(&self.agreed.state.lock().ancestors())?);
        Ok(message)
    }

    /// Whether the other side's cluster continues this node's.
    fn is_continued_by(&self, attached: &Attached) -> bool {
        let cluster = self.origin.lock().cluster;
        cluster.is_some_and(|cluster| attached.ancestors.contains(&cluster))
    }

    /// Logs a warning if the other side's clock, read after `began`, differs from the one here.
    fn check_clock(&self, whose: &str, theirs: Option<SystemTime>, began: SystemTime) {
        let Some(theirs) = theirs else { return };
        let by = |ahead: Result<Duration, _>| {
            ahead.ok().filter(|by| *by >= CLOCK_DIFFERENCE).map(|by| by.as_secs_f64().round())
        };
        let ahead = by(theirs.duration_since(SystemTime::now())).map(|by| (by, "ahead of"));
        let behind = by(began.duration_since(theirs)).map(|by| (by, "behind"));
        if let Some((by, where_to)) = ahead.or(behind) {
            let line = format!(
                "cluster: the clock of {whose} is {by} s {where_to} this one's: synchronise them; \
                 keys expire by the clock of their primary, and seem to expire too early or too \
                 late elsewhere"
            );
            self.log_once(Level::Warning, line);
        }
    }

    /// Checks the other side's identity.
    fn know(&self, kind: Kind, stream: &Secure, hello: &Hello) -> Result<Peer, Refusal> {
        if hello.oldest > PROTOCOL_NEWEST || hello.newest < PROTOCOL_OLDEST {
            return Err(Refusal::Protocol { oldest: PROTOCOL_OLDEST, newest: PROTOCOL_NEWEST });
        }
        let cluster = self.origin.lock().cluster;
        if let (Some(own), Some(theirs)) = (cluster, hello.cluster)
            && own != theirs
        {
            let is_ancestor = self.agreed.state.lock().continues(theirs);
            return Err(if is_ancestor { Refusal::Superseded } else { Refusal::OtherCluster });
        }
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let key = certificates.first().and_then(key_of).ok_or(Refusal::OtherKey)?;
        let registered = self.agreed.state.lock().nodes.get(&hello.uuid).map(|node| node.key);
        if registered.is_some_and(|registered| registered != key) {
            return Err(Refusal::OtherKey);
        }
        let member =
            hello.member.map(|(number, incarnation)| Identity { node: Node(number), incarnation });
        if kind != Kind::Control {
            let reported = member.and_then(|member| self.reported_member(member));
            reported.filter(|reported| reported.uuid == hello.uuid).ok_or(Refusal::NotAMember)?;
        }
        Ok(Peer { uuid: hello.uuid, key, member })
    }

    /// Sets the options of a connection between nodes.
    pub fn prepare(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let socket = socket2::SockRef::from(stream);
        // Detects a peer host that has disappeared.
        let keepalive = socket2::TcpKeepalive::new()
            .with_time(self.timing.lease)
            .with_interval(self.timing.lease);
        socket.set_tcp_keepalive(&keepalive)?;
        // Unacknowledged data: the network is cut, or the peer does not read.
        socket.set_tcp_user_timeout(Some(self.timing.silence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Copies, Role, Start};
    use std::future::Future;
    use tokio::net::TcpListener;

    struct IgnoredEvents;

    impl Events for IgnoredEvents {
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
            reports_extents: false,
            acknowledge: 2,
        };
        let origin = Origin { uuid: 7, name: "c".into(), cluster: None, id: None };
        Bus::new(settings, trust, origin, String::new(), Box::new(IgnoredEvents))
            .expect("certificates")
    }

    /// The answer to a node that speaks these versions, and the error if it is rejected.
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
                assert!(error.contains("upgrade the node with the older program"), "{error}");
            }
        });
    }
}
