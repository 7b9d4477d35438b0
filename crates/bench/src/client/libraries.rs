//! Our own client, used as its documentation shows.

use bytes::Bytes;
use petrel_client::{Client, Commands, NearCache, NearCacheOptions};

use super::measure::Library;
use crate::sys::text;

/// Bytes of a near cache: a million keys fit.
const NEAR_BYTES_MAX: usize = 1 << 30;

/// Reads in flight while a near cache is filled.
const FILLING: usize = 256;

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

/// Near cache of `petrel-client`.
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

/// Near cache with values read in place.
#[derive(Clone)]
pub struct PetrelLent(PetrelNear);

impl Library for PetrelLent {
    async fn connect(address: &str, keys: &[String]) -> Result<Self, String> {
        PetrelNear::connect(address, keys).await.map(Self)
    }

    async fn set(&mut self, key: &str, value: &Bytes) -> Result<(), String> {
        self.0.set(key, value).await
    }

    async fn get(&mut self, key: &str) -> Result<usize, String> {
        let PetrelNear(near) = &self.0;
        Ok(near.get(key).read_with(<[u8]>::len).await.map_err(text)?.unwrap_or(0))
    }
}
