//! What a client speaks to: a server, one that sentinels name, or a cluster.

use petrel_client::{
    Address, ChannelKind, Client, Cluster, ClusterNearCache, ClusterOptions, ClusterSubscriber,
    Command, Dedicated, ErrorKind, Message, NearCache, NearCacheOptions,
    NearCacheStatistics, Options, Pipeline, Replies, Result, Sentinel, SentinelOptions, Subscriber,
    Value,
};

/// Where a client finds its server or servers.
pub(crate) enum Source {
    Server(Options),
    /// The primary of a service, or a replica of it.
    Sentinel(SentinelOptions, Role),
    Cluster(ClusterOptions),
}

/// Which of the servers that sentinels watch over.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Role {
    Primary,
    Replica,
}

impl Source {
    /// The options of a server that plain threads can connect to by themselves.
    pub(crate) fn of_threads(&self) -> Option<&Options> {
        match self {
            Self::Server(options) if !matches!(options.address, Address::Tls { .. }) => {
                Some(options)
            }
            _ => None,
        }
    }

    pub(crate) async fn connect(&self) -> Result<Remote> {
        Ok(match self {
            Self::Server(options) => Remote::Server(Client::with_options(options.clone()).await?),
            Self::Sentinel(options, role) => {
                let found = Sentinel::connect(options.clone()).await?;
                Remote::Server(match role {
                    Role::Primary => found.primary().await?,
                    Role::Replica => found.replica().await?,
                })
            }
            Self::Cluster(options) => {
                Remote::Cluster(Cluster::with_options(options.clone()).await?)
            }
        })
    }
}

/// A connected client of a server or of a cluster.
#[derive(Clone)]
pub(crate) enum Remote {
    Server(Client),
    Cluster(Cluster),
}

impl Remote {
    pub(crate) async fn call(&self, command: Command) -> Result<Value> {
        match self {
            Self::Server(client) => command.to(client).await,
            Self::Cluster(cluster) => command.to(cluster).await,
        }
    }

    pub(crate) async fn run(&self, pipeline: Pipeline) -> Result<Replies> {
        match self {
            Self::Server(client) => client.run(pipeline).await,
            Self::Cluster(cluster) => cluster.run(pipeline).await,
        }
    }

    /// A connection of one's own; of a cluster to the node that serves a key.
    pub(crate) async fn dedicated(&self, key: Option<&[u8]>) -> Result<Dedicated> {
        match (self, key) {
            (Self::Server(client), _) => client.dedicated().await,
            (Self::Cluster(cluster), Some(key)) => cluster.dedicated(key).await,
            (Self::Cluster(_), None) => Err(ErrorKind::Configuration(
                "a connection to a cluster is to the node of a key, which is missing".into(),
            )
            .into()),
        }
    }

    pub(crate) async fn subscriber(&self) -> Result<Listener> {
        Ok(match self {
            Self::Server(client) => Listener::Server(client.subscriber().await?),
            Self::Cluster(cluster) => Listener::Cluster(cluster.subscriber()),
        })
    }

    pub(crate) async fn near_cache(&self, options: NearCacheOptions) -> Result<Near> {
        Ok(match self {
            Self::Server(client) => Near::Server(client.near_cache(options).await?),
            Self::Cluster(cluster) => Near::Cluster(cluster.near_cache(options).await?),
        })
    }

    /// The client of one server.
    pub(crate) fn server(&self) -> Result<&Client> {
        match self {
            Self::Server(client) => Ok(client),
            Self::Cluster(_) => {
                Err(ErrorKind::Configuration("a cluster has no such locks".into()).into())
            }
        }
    }

    /// A client of each primary of a cluster.
    pub(crate) async fn primaries(&self) -> Result<Vec<Client>> {
        match self {
            Self::Server(client) => Ok(vec![client.clone()]),
            Self::Cluster(cluster) => cluster.primaries().await,
        }
    }
}

/// Subscriptions.
pub(crate) enum Listener {
    Server(Subscriber),
    Cluster(ClusterSubscriber),
}

impl Listener {
    pub(crate) async fn change(
        &mut self,
        kind: ChannelKind,
        is_wanted: bool,
        channels: Vec<Vec<u8>>,
    ) -> Result<()> {
        macro_rules! change {
            ($subscriber:expr) => {
                match (is_wanted, kind) {
                    (false, kind) => $subscriber.unsubscribe(kind, channels).await,
                    (true, ChannelKind::Channel) => $subscriber.subscribe(channels).await,
                    (true, ChannelKind::Pattern) => $subscriber.psubscribe(channels).await,
                    (true, ChannelKind::Shard) => $subscriber.ssubscribe(channels).await,
                }
            };
        }
        match self {
            Self::Server(subscriber) => change!(subscriber),
            Self::Cluster(subscriber) => change!(subscriber),
        }
    }

    pub(crate) async fn next(&mut self) -> Option<Message> {
        match self {
            Self::Server(subscriber) => subscriber.next().await,
            Self::Cluster(subscriber) => subscriber.next().await,
        }
    }

    pub(crate) fn interruptions(&self) -> u64 {
        match self {
            Self::Server(subscriber) => subscriber.interruptions(),
            Self::Cluster(subscriber) => subscriber.interruptions(),
        }
    }
}

/// A cache in the process.
#[derive(Clone)]
pub(crate) enum Near {
    Server(NearCache),
    Cluster(ClusterNearCache),
}

impl Near {
    pub(crate) async fn call(&self, command: Command) -> Result<Value> {
        match self {
            Self::Server(cache) => command.to(cache).await,
            Self::Cluster(cache) => command.to(cache).await,
        }
    }

    pub(crate) fn cached(&self, command: &Command) -> Option<Value> {
        match self {
            Self::Server(cache) => cache.cached(command),
            Self::Cluster(cache) => cache.cached(command),
        }
    }

    pub(crate) fn statistics(&self) -> NearCacheStatistics {
        match self {
            Self::Server(cache) => cache.statistics(),
            Self::Cluster(cache) => cache.statistics(),
        }
    }

    pub(crate) fn forget(&self, key: &[u8]) {
        match self {
            Self::Server(cache) => cache.forget(key),
            Self::Cluster(cache) => cache.forget(key),
        }
    }

    pub(crate) fn clear(&self) {
        match self {
            Self::Server(cache) => cache.clear(),
            Self::Cluster(cache) => cache.clear(),
        }
    }
}
