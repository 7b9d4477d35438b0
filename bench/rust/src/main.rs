//! Drives a client library of Rust for `petrel-bench client`: reads an order as its only argument
//! and prints what it measured, both as JSON.
//!
//! It is a program of its own, so that what these libraries depend on is no dependency of Petrel's.
//! Each library is used as its documentation shows.

#[path = "../../../crates/bench/src/allocations.rs"]
mod allocations;
#[path = "../../../crates/bench/src/client/measure.rs"]
mod measure;
#[path = "../../../crates/bench/src/random.rs"]
mod random;

use std::process::ExitCode;

use bytes::Bytes;
use fred::interfaces::{ClientLike, KeysInterface};
use redis::AsyncCommands;

use measure::{Answer, Library, Operation, Order, asynchronous};

fn main() -> ExitCode {
    match std::env::args().nth(1).ok_or_else(|| "no order".to_owned()).and_then(drive) {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures what the order says.
fn drive(order: String) -> Result<String, String> {
    let order: Order = serde_json::from_str(&order).map_err(text)?;
    let answer: Answer = match (order.client.as_str(), order.operation) {
        ("redis-rs", Operation::Set | Operation::Get) => asynchronous::<RedisRs>(&order),
        ("fred", Operation::Set | Operation::Get) => asynchronous::<Fred>(&order),
        (name, operation) => Err(format!("{name} has no {operation} here")),
    }?;
    serde_json::to_string(&answer).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
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
