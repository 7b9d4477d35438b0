//! [`Sentinel`]: clients of a server that Redis Sentinel watches over, wherever it is.

use std::collections::HashMap;
use std::future::IntoFuture;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use petrel_resp::Value;
use tokio::sync::watch;

use crate::client::{Client, connect_error};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Address, Options};
use crate::pubsub::Message;
use crate::reply::FromReply;
use crate::request::RawCommand;
use crate::transport::{Connector, Discover, Finding, Moved, Role, Terms, Tls};

/// Timeout of a sentinel's reply; then the next one is asked.
const ASK_MAX: Duration = Duration::from_secs(2);

/// Sentinels that are remembered at most.
const SENTINELS_MAX: usize = 64;

/// The service, and the sentinels to ask for it.
#[derive(Clone, Debug)]
pub struct SentinelOptions {
    /// The name by which sentinels know the primary.
    pub service: String,
    /// Sentinels: where they are, and with which credentials. One that answers is enough, since it
    /// names the others.
    pub sentinels: Vec<Options>,
    /// Options of connections to the primary and its replicas. The address only decides whether TLS
    /// is used; the sentinels know the addresses.
    pub node: Options,
}

/// A primary and its replicas, found by asking sentinels. Its clients follow failovers: when the
/// sentinels promote another server, connections to the old one are closed and made to the new one,
/// as after a loss.
///
/// A server must report its role itself (`ROLE`), so that no write goes to an old primary that a
/// sentinel still names.
#[derive(Clone)]
pub struct Sentinel {
    service: Arc<Service>,
}

struct Service {
    options: SentinelOptions,
    /// Known sentinels, the one that answered last in front.
    sentinels: Mutex<Vec<Options>>,
    /// Last known address of the primary.
    primary: watch::Sender<Option<Address>>,
    next_replica: AtomicUsize,
    watching: Mutex<Option<tokio::task::AbortHandle>>,
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(watching) = self.watching.lock().take() {
            watching.abort();
        }
    }
}

impl std::fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Sentinel");
        debug.field("service", &self.service.options.service);
        debug.field("primary", &*self.service.primary.borrow()).finish_non_exhaustive()
    }
}

impl Sentinel {
    /// Asks the sentinels where the primary is, and listens from now on to their messages.
    ///
    /// # Errors
    /// If none answers, or none knows the service.
    pub async fn connect(options: SentinelOptions) -> Result<Self> {
        let configuration = |text: &str| Error::new(ErrorKind::Configuration(text.to_owned()));
        if options.sentinels.is_empty() {
            return Err(configuration("there should be one sentinel or more"));
        }
        if matches!(options.node.address, Address::Unix(_)) {
            return Err(configuration("sentinels name servers by host and port, not Unix sockets"));
        }
        let service = Arc::new(Service {
            sentinels: Mutex::new(options.sentinels.clone()),
            options,
            primary: watch::Sender::new(None),
            next_replica: AtomicUsize::new(0),
            watching: Mutex::new(None),
        });
        service.ask_for_primary().await?;
        let watching = tokio::spawn(watch_over(Arc::downgrade(&service)));
        *service.watching.lock() = Some(watching.abort_handle());
        Ok(Self { service })
    }

    /// Last known address of the primary.
    pub fn primary_address(&self) -> Option<Address> {
        self.service.primary.borrow().clone()
    }

    /// A client of the primary.
    pub async fn primary(&self) -> Result<Client> {
        self.client(Role::Primary).await
    }

    /// A client that reads from a replica, with possibly older data; each client, and each new
    /// connection, takes the next replica. Without replicas it reads from the primary.
    pub async fn replica(&self) -> Result<Client> {
        self.client(Role::Replica).await
    }

    async fn client(&self, role: Role) -> Result<Client> {
        let options = self.service.options.node.clone();
        let tls = Tls::of(&options).map_err(connect_error)?;
        let found: Arc<dyn Discover> = Arc::new(Found { service: self.service.clone(), role });
        Client::open(options, Connector::Discovered(found, tls), true, None).await
    }
}

/// A sentinel's description of another sentinel, or of a replica.
struct Facts(HashMap<String, String>);

impl Facts {
    fn list(reply: Value) -> Result<Vec<Self>> {
        let items = Vec::<Value>::from_reply(reply)?;
        items.into_iter().map(|item| HashMap::from_reply(item).map(Self)).collect()
    }

    fn place(&self) -> Option<(String, u16)> {
        let (host, port) = self.0.get("ip").zip(self.0.get("port"))?;
        Some((host.clone(), port.parse().ok()?))
    }
}

/// The primary, or one of its replicas.
struct Found {
    service: Arc<Service>,
    role: Role,
}

impl Discover for Found {
    fn find(&self) -> Finding<'_> {
        Box::pin(async move {
            let (address, role) = match self.role {
                Role::Replica => self.service.ask_for_replica().await,
                role => self.service.ask_for_primary().await.map(|address| (address, role)),
            }
            .map_err(io::Error::other)?;
            let known = match role {
                Role::Replica => self.service.primary.borrow().clone(),
                _ => Some(address.clone()),
            };
            Ok((address, Terms { role, moved: Some(self.service.moved_from(known)) }))
        })
    }
}

impl Service {
    fn address(&self, host: String, port: u16) -> Address {
        match self.options.node.address {
            Address::Tls { .. } => Address::Tls { host, port },
            _ => Address::Tcp { host, port },
        }
    }

    /// Ends when the primary is elsewhere.
    fn moved_from(&self, known: Option<Address>) -> Moved {
        let mut primary = self.primary.subscribe();
        Box::pin(async move {
            if primary.wait_for(|now| *now != known).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    /// Notes where the primary is; connections to another place are given up.
    fn note_primary(&self, address: &Address) {
        self.primary.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(address);
            if is_new {
                *known = Some(address.clone());
            }
            is_new
        });
    }

    /// Address of the primary, from the first sentinel that knows it.
    async fn ask_for_primary(&self) -> Result<Address> {
        let place = self.ask("SENTINEL GET-MASTER-ADDR-BY-NAME").await?;
        let (host, port) = <(String, u16)>::from_reply(place)?;
        let address = self.address(host, port);
        self.note_primary(&address);
        Ok(address)
    }

    /// The next replica that is in order, or the primary if there is none.
    async fn ask_for_replica(&self) -> Result<(Address, Role)> {
        let replicas = Facts::list(self.ask("SENTINEL REPLICAS").await?)?;
        let usable: Vec<Address> = replicas.iter().filter_map(|one| self.usable(one)).collect();
        if usable.is_empty() {
            return Ok((self.ask_for_primary().await?, Role::Primary));
        }
        let turn = self.next_replica.fetch_add(1, Relaxed) % usable.len();
        Ok((usable[turn].clone(), Role::Replica))
    }

    /// Address of a replica, unless sentinels report that it is down or has no primary.
    fn usable(&self, replica: &Facts) -> Option<Address> {
        let flags = replica.0.get("flags").map_or("", String::as_str);
        let is_down = flags
            .split(',')
            .any(|flag| matches!(flag, "s_down" | "o_down" | "disconnected" | "master"));
        let is_linked = replica.0.get("master-link-status").is_none_or(|status| status == "ok");
        let (host, port) = replica.place().filter(|_| !is_down && is_linked)?;
        Some(self.address(host, port))
    }

    /// Asks one sentinel after the other about the service until one knows; it is the first the
    /// next time.
    async fn ask(&self, question: &str) -> Result<Value> {
        let sentinels = self.sentinels.lock().clone();
        let mut last = connect_error("no sentinel answers");
        for options in sentinels {
            let answer = async {
                let connector = Connector::of(&options).map_err(connect_error)?;
                let client = Client::open(options.clone(), connector, false, None).await?;
                client.command(question).arg(&self.options.service).into_future().await
            };
            match tokio::time::timeout(ASK_MAX.min(options.connect_timeout), answer).await {
                Ok(Ok(answer)) if answer.is_null() => {
                    last = connect_error("the sentinels do not know the service");
                }
                Ok(Ok(answer)) => {
                    self.prefer(&options);
                    return Ok(answer);
                }
                Ok(Err(error)) => last = error,
                Err(_) => {
                    let address = &options.address;
                    last = connect_error(format_args!("the sentinel {address} does not answer"));
                }
            }
        }
        Err(last)
    }

    fn prefer(&self, options: &Options) {
        let mut sentinels = self.sentinels.lock();
        if let Some(at) = sentinels.iter().position(|known| known.address == options.address) {
            sentinels[..=at].rotate_right(1);
        }
    }

    /// Adds sentinels that another one knows.
    fn learn(&self, others: &[Facts]) {
        let mut sentinels = self.sentinels.lock();
        for other in others {
            let Some((host, port)) = other.place() else { continue };
            let Some(template) = sentinels.first().cloned() else { return };
            let address = match template.address {
                Address::Tls { .. } => Address::Tls { host, port },
                _ => Address::Tcp { host, port },
            };
            let is_known = sentinels.iter().any(|known| known.address == address);
            if !is_known && sentinels.len() < SENTINELS_MAX {
                sentinels.push(Options { address, ..template });
            }
        }
    }

    /// The message of a sentinel that names a new primary: `name old-host old-port host port`.
    fn hear(&self, message: &Message) {
        let text = String::from_utf8_lossy(&message.payload);
        let words: Vec<&str> = text.split(' ').collect();
        if let [name, _, _, host, port] = words[..]
            && name == self.options.service
            && let Ok(port) = port.parse()
        {
            self.note_primary(&self.address(host.to_owned(), port));
        }
    }
}

/// Listens to one sentinel after the other, for as long as there is a client of the service.
async fn watch_over(service: Weak<Service>) {
    let mut failures = 0;
    loop {
        let Some(first) = service.upgrade().and_then(|all| all.sentinels.lock().first().cloned())
        else {
            return;
        };
        if listen(&service, &first).await.is_err() {
            failures += 1;
        } else {
            failures = 0;
        }
        let Some(service) = service.upgrade() else { return };
        // The next one, if this one is gone.
        service.sentinels.lock().rotate_left(1);
        let delay = service.options.node.backoff.delay(failures.max(1));
        drop(service);
        tokio::time::sleep(delay).await;
    }
}

/// Takes the messages of a sentinel until the connection to it is lost.
async fn listen(service: &Weak<Service>, options: &Options) -> Result<()> {
    let connector = Connector::of(options).map_err(connect_error)?;
    let client = Client::open(options.clone(), connector, false, None).await?;
    let mut subscriber = client.open_subscriber(false).await?;
    subscriber.subscribe(["+switch-master"]).await?;
    if let Some(service) = service.upgrade() {
        let call = client.command("SENTINEL SENTINELS").arg(&service.options.service);
        if let Ok(others) = call.into_future().await.and_then(Facts::list) {
            service.learn(&others);
        }
        // A message from before the subscription.
        let call = client.command("SENTINEL GET-MASTER-ADDR-BY-NAME");
        let place = call.arg(&service.options.service).reply::<Option<(String, u16)>>().await?;
        if let Some((host, port)) = place {
            service.note_primary(&service.address(host, port));
        }
    }
    while let Some(message) = subscriber.next().await {
        match service.upgrade() {
            Some(service) => service.hear(&message),
            None => return Ok(()),
        }
    }
    Ok(())
}
