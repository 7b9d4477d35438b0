//! Handshake of a connection: protocol, credentials, name, database.

use std::future::poll_fn;
use std::io;

use petrel_resp::{DecodeLimits, Decoder, Protocol, Value, encode_command};

use super::PushSink;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use crate::transport::{Reader, Role, Writer};

/// The limits on replies.
pub(crate) fn limits(options: &Options) -> DecodeLimits {
    DecodeLimits { bulk_len_max: options.reply_string_max, ..DecodeLimits::default() }
}

/// Introduces the client. Speaks RESP3 if the server does, otherwise RESP2.
pub(crate) async fn introduce(
    options: &Options,
    wire: &mut impl Wire,
    role: Role,
    pushes: Option<&dyn PushSink>,
) -> Result<Protocol> {
    let mut exchange = Exchange { wire, limits: limits(options), received: Vec::new() };
    let protocol = match options.force_resp2 {
        false if exchange.hello(options).await? => Protocol::Resp3,
        _ => {
            exchange.introduce_by_resp2(options).await?;
            Protocol::Resp2
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    let database = options.database.to_string();
    let mut commands: Vec<&[&str]> = Vec::new();
    let select = ["SELECT", &database];
    if options.database != 0 {
        commands.push(&select);
    }
    // Servers before Redis 7.2 refuse these two, which does not matter.
    commands.push(&["CLIENT", "SETINFO", "LIB-NAME", "petrel-client"]);
    let lib_ver = ["CLIENT", "SETINFO", "LIB-VER", version];
    commands.push(&lib_ver);
    let replies = exchange.ask(&commands).await?;
    if options.database != 0
        && let Some(Value::Error(text)) = replies.first()
    {
        return Err(Error::from_reply(text).of_command("SELECT"));
    }
    exchange.check_role(role).await?;
    for command in pushes.map_or_else(|| Ok(Vec::new()), |pushes| pushes.opening(protocol))? {
        let mut bytes = Vec::new();
        command.buffer.write_to(&mut bytes);
        if let Some(Value::Error(text)) = exchange.ask_encoded(&bytes, 1).await?.first() {
            return Err(Error::from_reply(text).of_command(&command.name()));
        }
    }
    Ok(protocol)
}

/// A stream of bytes, as the handshake uses it.
pub(crate) trait Wire: Send {
    /// Sends everything.
    fn send(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
    /// Receives once; 0 at the end of the stream.
    fn receive(&mut self, room: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
}

impl Wire for (&mut Reader, &mut Writer) {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            match poll_fn(|cx| self.1.poll_write(cx, &bytes[at..])).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => at += written,
            }
        }
        poll_fn(|cx| self.1.poll_flush(cx)).await
    }

    async fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.0.poll_read(cx, room)).await
    }
}

struct Exchange<'a, W> {
    wire: &'a mut W,
    limits: DecodeLimits,
    received: Vec<u8>,
}

impl<W: Wire> Exchange<'_, W> {
    /// `HELLO 3`; false if the server does not know it.
    async fn hello(&mut self, options: &Options) -> Result<bool> {
        let mut hello = vec!["HELLO", "3"];
        if let Some(password) = &options.password {
            let username = options.username.as_deref().unwrap_or("default");
            hello.extend(["AUTH", username, password.expose()]);
        }
        if let Some(name) = &options.name {
            hello.extend(["SETNAME", name]);
        }
        match self.ask(&[&hello]).await?.first() {
            Some(Value::Map(_) | Value::Array(_)) => Ok(true),
            Some(Value::Error(text)) => {
                let error = Error::from_reply(text).of_command("HELLO");
                match error.code() {
                    Some("ERR" | "NOPROTO") => Ok(false),
                    _ => Err(error),
                }
            }
            _ => Err(connect_error("the server does not answer HELLO as Redis does")),
        }
    }

    async fn introduce_by_resp2(&mut self, options: &Options) -> Result<()> {
        if let Some(password) = &options.password {
            let mut auth = vec!["AUTH"];
            auth.extend(options.username.as_deref());
            auth.push(password.expose());
            self.must_succeed("AUTH", &auth).await?;
        }
        if let Some(name) = &options.name {
            self.must_succeed("CLIENT SETNAME", &["CLIENT", "SETNAME", name]).await?;
        }
        // A server that wants a password should refuse the connection now, not each command.
        self.must_succeed("PING", &["PING"]).await
    }

    /// Refuses a server that is something else: a primary that has become a replica, for example,
    /// of which a sentinel does not know yet.
    async fn check_role(&mut self, role: Role) -> Result<()> {
        let expected: &[u8] = match role {
            Role::Any => return Ok(()),
            Role::Primary => b"master",
            Role::Replica => b"slave",
        };
        match self.ask(&[&["ROLE"]]).await?.first() {
            Some(Value::Array(items))
                if items.first().and_then(Value::as_bytes) == Some(expected) =>
            {
                Ok(())
            }
            Some(Value::Error(text)) => match Error::from_reply(text).of_command("ROLE") {
                // The user may not ask.
                error if error.code() == Some("NOPERM") => Ok(()),
                error => Err(error),
            },
            _ => {
                let expected = String::from_utf8_lossy(expected);
                Err(connect_error(format_args!("the server is no {expected} any more")))
            }
        }
    }

    async fn must_succeed(&mut self, name: &str, command: &[&str]) -> Result<()> {
        match self.ask(&[command]).await?.first() {
            Some(Value::Error(text)) => Err(Error::from_reply(text).of_command(name)),
            _ => Ok(()),
        }
    }

    /// Sends commands and returns their replies.
    async fn ask(&mut self, commands: &[&[&str]]) -> Result<Vec<Value>> {
        let mut bytes = Vec::new();
        for command in commands {
            let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
            encode_command(&words, &mut bytes);
        }
        self.ask_encoded(&bytes, commands.len()).await
    }

    /// Sends encoded commands and returns `count` replies.
    async fn ask_encoded(&mut self, bytes: &[u8], count: usize) -> Result<Vec<Value>> {
        self.wire.send(bytes).await.map_err(connect_error)?;
        let mut decoder = Decoder::new(self.limits);
        let mut replies = Vec::new();
        while replies.len() < count {
            let (consumed, value) = decoder.decode(&self.received).map_err(connect_error)?;
            self.received.drain(..consumed);
            match value {
                Some(Value::Push(_)) => {}
                Some(value) => replies.push(value),
                None => self.receive().await.map_err(connect_error)?,
            }
        }
        Ok(replies)
    }

    async fn receive(&mut self) -> io::Result<()> {
        let mut room = [0; 4096];
        match self.wire.receive(&mut room).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the server")),
            count => {
                self.received.extend_from_slice(&room[..count]);
                Ok(())
            }
        }
    }
}

fn connect_error(reason: impl ToString) -> Error {
    Error::new(ErrorKind::Connect(reason.to_string()))
}
