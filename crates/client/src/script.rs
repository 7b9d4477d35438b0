//! [`Script`]: a Lua script that is sent by its digest.

use std::future::IntoFuture;

use petrel_resp::Value;

use crate::argument::{ArgWriter, ToArg};
use crate::client::Client;
use crate::error::Result;
use crate::reply::FromReply;
use crate::request::{Command, Request, Target};

/// A Lua script. It is sent by its SHA-1 digest, and in full only if the server does not have it.
#[derive(Clone, Debug)]
pub struct Script {
    source: String,
    digest: String,
    is_readonly: bool,
}

impl Script {
    /// A script that may write.
    pub fn new(source: impl Into<String>) -> Self {
        let source = source.into();
        let digest = sha1_smol::Sha1::from(&source).digest().to_string();
        Self { source, digest, is_readonly: false }
    }

    /// A script that only reads (`EVAL_RO`, since Redis 7): it is sent again when the connection is
    /// lost.
    pub fn readonly(source: impl Into<String>) -> Self {
        Self { is_readonly: true, ..Self::new(source) }
    }

    /// The SHA-1 digest in hexadecimal, by which servers know the script.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Runs the script with keys and arguments.
    pub async fn run<R: FromReply>(
        &self,
        client: &Client,
        keys: &[impl ToArg],
        arguments: &[impl ToArg],
    ) -> Result<R> {
        let (by_digest, in_full) = match self.is_readonly {
            true => ("EVALSHA_RO", "EVAL_RO"),
            false => ("EVALSHA", "EVAL"),
        };
        let call = self.call(client, by_digest, &self.digest, keys, arguments);
        match call.into_future().await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                self.call(client, in_full, &self.source, keys, arguments).reply::<R>().await
            }
            Err(error) => Err(error),
            Ok(value) => R::from_reply(value).map_err(|error| error.of_command(by_digest)),
        }
    }

    fn call<'a>(
        &self,
        client: &'a Client,
        name: &str,
        script: &str,
        keys: &[impl ToArg],
        arguments: &[impl ToArg],
    ) -> Request<&'a Client, crate::request::Raw, Value>
    where
        &'a Client: Target,
    {
        let mut command = Command::raw(name);
        let mut to = ArgWriter(&mut command.buffer);
        script.write_arg(&mut to);
        keys.len().write_arg(&mut to);
        keys.iter().for_each(|key| key.write_arg(&mut to));
        arguments.iter().for_each(|argument| argument.write_arg(&mut to));
        Request::new(client, command)
    }
}
