//! The client libraries of Rust, each used as its documentation shows.

use std::future::Future;

use bytes::Bytes;
use fred::interfaces::{ClientLike, KeysInterface};
use petrel_client::{Client, Commands, NearCache, NearCacheOptions};
use redis::AsyncCommands;

/// Bytes of a near cache: a million keys fit.
const NEAR_BYTES_MAX: usize = 1 << 30;

/// Reads in flight while a near cache is filled.
const FILLING: usize = 256;

/// A library on tokio; clones share what its documentation says they should.
pub trait Library: Clone + Send + 'static {
    /// Connects to `host:port`; what keeps keys in the process reads these.
    fn connect(address: &str, keys: &[String]) -> impl Future<Output = Result<Self, String>>;
    /// `SET`.
    fn set(&mut self, key: &str, value: &Bytes) -> impl Future<Output = Result<(), String>> + Send;
    /// `GET`; the length of the value.
    fn get(&mut self, key: &str) -> impl Future<Output = Result<usize, String>> + Send;
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// `petrel-client`.
#[derive(Clone)]
pub struct Petrel(Client);

impl Library for Petrel {
    async fn connect(address: &str, _: &[String]) -> Result<Self, String> {
        Client::connect(&format!("redis://{address}")).await.map(Self).map_err(text)
    }

    async fn set(&mut self, key: &str, value: &Bytes) -> Result<(), String> {
        self.0.set(key, value).await.map_err(text)
    }

    async fn get(&mut self, key: &str) -> Result<usize, String> {
        Ok(self.0.get(key).await.map_err(text)?.map_or(0, |value| value.len()))
    }
}

/// Its near cache.
#[derive(Clone)]
pub struct PetrelNear(NearCache);

impl Library for PetrelNear {
    async fn connect(address: &str, keys: &[String]) -> Result<Self, String> {
        let client = Client::connect(&format!("redis://{address}")).await.map_err(text)?;
        let options = NearCacheOptions { bytes_max: NEAR_BYTES_MAX, ..NearCacheOptions::default() };
        let near = client.near_cache(options).await.map_err(text)?;
        let share = keys.len().div_ceil(FILLING);
        let fills: Vec<_> = keys
            .chunks(share)
            .map(|keys| {
                let (near, keys) = (near.clone(), keys.to_vec());
                tokio::spawn(async move {
                    for key in keys {
                        near.get(key).await?;
                    }
                    petrel_client::Result::Ok(())
                })
            })
            .collect();
        for fill in fills {
            fill.await.map_err(text)?.map_err(text)?;
        }
        Ok(Self(near))
    }

    async fn set(&mut self, key: &str, value: &Bytes) -> Result<(), String> {
        self.0.set(key, value).await.map_err(text)
    }

    async fn get(&mut self, key: &str) -> Result<usize, String> {
        Ok(self.0.get(key).await.map_err(text)?.map_or(0, |value| value.len()))
    }
}

/// Its client for plain threads.
pub struct PetrelThreads(petrel_client::blocking::Client);

impl PetrelThreads {
    /// Connects to `host:port`.
    pub fn connect(address: &str) -> Result<Self, String> {
        let url = format!("redis://{address}");
        petrel_client::blocking::Client::connect(&url).map(Self).map_err(text)
    }

    /// `SET`.
    pub fn set(&self, key: &str, value: &Bytes) -> Result<(), String> {
        self.0.set(key, value).run().map_err(text)
    }

    /// `GET`; the length of the value.
    pub fn get(&self, key: &str) -> Result<usize, String> {
        Ok(self.0.get(key).run().map_err(text)?.map_or(0, |value| value.len()))
    }
}

/// `redis`, with its multiplexed connection.
#[derive(Clone)]
pub struct RedisRs(redis::aio::MultiplexedConnection);

impl Library for RedisRs {
    async fn connect(address: &str, _: &[String]) -> Result<Self, String> {
        let client = redis::Client::open(format!("redis://{address}")).map_err(text)?;
        client.get_multiplexed_async_connection().await.map(Self).map_err(text)
    }

    async fn set(&mut self, key: &str, value: &Bytes) -> Result<(), String> {
        self.0.set(key, &value[..]).await.map_err(text)
    }

    async fn get(&mut self, key: &str) -> Result<usize, String> {
        let value: Option<Vec<u8>> = self.0.get(key).await.map_err(text)?;
        Ok(value.map_or(0, |value| value.len()))
    }
}

/// `fred`.
#[derive(Clone)]
pub struct Fred(fred::clients::Client);

impl Library for Fred {
    async fn connect(address: &str, _: &[String]) -> Result<Self, String> {
        let config = fred::types::config::Config::from_url(&format!("redis://{address}"));
        let client = fred::types::Builder::from_config(config.map_err(text)?);
        let client = client.build().map_err(text)?;
        client.init().await.map_err(text)?;
        Ok(Self(client))
    }

    async fn set(&mut self, key: &str, value: &Bytes) -> Result<(), String> {
        self.0.set(key, value.clone(), None, None, false).await.map_err(text)
    }

    async fn get(&mut self, key: &str) -> Result<usize, String> {
        let value: Option<Bytes> = self.0.get(key).await.map_err(text)?;
        Ok(value.map_or(0, |value| value.len()))
    }
}
