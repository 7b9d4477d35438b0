//! [`MockServer`]: a server in the test's hands, without a socket (feature `mock`).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use petrel_resp::{Decoder, Protocol, RespWriter, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::client::Client;
use crate::cluster::{Cluster, ClusterOptions};
use crate::error::Result;
use crate::lane::handshake;
use crate::options::{Address, Options};
use crate::transport::Connector;

/// Bytes that each direction of a connection holds before its writer waits.
const PIPE_LEN: usize = 64 * 1024;

/// A server that answers as a script says, in this process. A client of it reconnects as it does to
/// a real server; the script goes on where it was.
///
/// What clients send when they connect (`HELLO`, `CLIENT SETINFO`, `SELECT`) is answered without
/// being in the script. Any other command must be the next that the script expects; if it is not it
/// is answered with an error, and [`MockServer::finish`] tells of it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> petrel_client::Result<()> {
/// use petrel_client::{Commands, MockServer, Value};
///
/// let server = MockServer::new();
/// server.expect(["GET", "name"]).reply(Value::Bulk("petrel".into()));
/// server.disconnect();
/// server.expect(["GET", "name"]).reply(Value::Null);
///
/// let client = server.client().await?;
/// assert_eq!(client.get("name").await?.as_deref(), Some(&b"petrel"[..]));
/// assert_eq!(client.get("name").await?, None);
/// server.finish();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MockServer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    script: Mutex<Script>,
    /// Notified when steps are added.
    extended: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct Script {
    steps: VecDeque<Step>,
    /// Deviations from the script.
    surprises: Vec<String>,
    connections: u64,
    /// The connection on which the last command of the script came: the steps behind it are for
    /// that one.
    current: Option<u64>,
    is_resp2: bool,
}

#[derive(Debug)]
enum Step {
    /// A command, none if any will do, and the bytes of its reply.
    Command {
        arguments: Option<Vec<Vec<u8>>>,
        reply: Answer,
    },
    Send(Answer),
    Delay(Duration),
    Disconnect,
}

#[derive(Clone, Debug)]
enum Answer {
    Value(Value),
    Bytes(Vec<u8>),
    Nothing,
}

/// An expected command; sets its reply.
#[derive(Debug)]
#[must_use = "says nothing until it is told how to reply"]
pub struct Expectation<'a> {
    server: &'a MockServer,
    arguments: Option<Vec<Vec<u8>>>,
}

impl Expectation<'_> {
    /// Replies with this value; [`Value::Error`] is an error.
    pub fn reply(self, value: Value) {
        self.end(Answer::Value(value));
    }

    /// Replies with these bytes, RESP or not.
    pub fn reply_bytes(self, bytes: impl Into<Vec<u8>>) {
        self.end(Answer::Bytes(bytes.into()));
    }

    /// Sends no reply.
    pub fn no_reply(self) {
        self.end(Answer::Nothing);
    }

    fn end(self, reply: Answer) {
        self.server.add(Step::Command { arguments: self.arguments, reply });
    }
}

impl MockServer {
    /// A server with an empty script, which speaks RESP3.
    pub fn new() -> Self {
        Self::default()
    }

    /// Like [`Self::default`], but rejects `HELLO`, as servers before Redis 6 do.
    pub fn resp2() -> Self {
        let server = Self::default();
        server.shared.script.lock().is_resp2 = true;
        server
    }

    /// The next command is this one, the name in any case.
    pub fn expect<A: AsRef<[u8]>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Expectation<'_> {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_vec()).collect();
        Expectation { server: self, arguments: Some(arguments) }
    }

    /// The next command may be any.
    pub fn expect_any(&self) -> Expectation<'_> {
        Expectation { server: self, arguments: None }
    }

    /// Sends a push, such as `invalidate` with a list of keys, without being asked.
    pub fn push(&self, items: Vec<Value>) {
        self.add(Step::Send(Answer::Value(Value::Push(items))));
    }

    /// Lets time pass.
    pub fn delay(&self, time: Duration) {
        self.add(Step::Delay(time));
    }

    /// Closes the connection.
    pub fn disconnect(&self) {
        self.add(Step::Disconnect);
    }

    fn add(&self, step: Step) {
        self.shared.script.lock().steps.push_back(step);
        self.shared.extended.notify_waiters();
    }

    /// Number of connections that clients have made.
    pub fn connections(&self) -> u64 {
        self.shared.script.lock().connections
    }

    /// A client of this server, with few options of its own: no database, no name.
    pub async fn client(&self) -> Result<Client> {
        let address = Address::Tcp { host: "mock".into(), port: 0 };
        self.client_with(Options::new(address)).await
    }

    /// A client with options; the address is not used.
    pub async fn client_with(&self, options: Options) -> Result<Client> {
        Client::open(options, self.connector(), true, None).await
    }

    /// A client of a cluster in which this server is every node. It asks for `CLUSTER SLOTS` at
    /// once, and again when the script moves a slot.
    pub async fn cluster(&self) -> Result<Cluster> {
        let address = Address::Tcp { host: "mock".into(), port: 0 };
        Cluster::open(ClusterOptions::new(Options::new(address)), self.connector()).await
    }

    fn connector(&self) -> Connector {
        let shared = self.shared.clone();
        Connector::custom(move || {
            let shared = shared.clone();
            async move {
                let (theirs, ours) = tokio::io::duplex(PIPE_LEN);
                let number = {
                    let mut script = shared.script.lock();
                    script.connections += 1;
                    script.connections
                };
                tokio::spawn(async move {
                    // A client that goes away is none of the script's business.
                    let _ = serve(&shared, number, ours).await;
                    shared.leave(number);
                });
                io::Result::Ok(theirs)
            }
        })
    }

    /// Steps of the script that are left, and unexpected commands, one per line; empty if
    /// everything matched.
    pub fn surprises(&self) -> Vec<String> {
        let script = self.shared.script.lock();
        let left = script.steps.iter().filter_map(|step| match step {
            Step::Command { arguments, .. } => Some(format!("missing: {}", shown(arguments))),
            _ => None,
        });
        script.surprises.iter().cloned().chain(left).collect()
    }

    /// Ends the test of a script.
    ///
    /// # Panics
    /// If a command did not come that was expected, or one came that was not.
    pub fn finish(&self) {
        let surprises = self.surprises();
        assert!(surprises.is_empty(), "the mock server saw:\n{}", surprises.join("\n"));
    }
}

fn shown(arguments: &Option<Vec<Vec<u8>>>) -> String {
    let Some(arguments) = arguments else { return "any command".to_owned() };
    let words: Vec<String> = arguments.iter().map(|word| word.escape_ascii().to_string()).collect();
    words.join(" ")
}

/// Next step on a connection.
enum Next {
    Read,
    Step(Step),
}

impl Shared {
    /// The next step, if it is no command, and for this connection.
    fn next(&self, connection: u64) -> Next {
        let mut script = self.script.lock();
        let is_for_other = script.current.is_some_and(|current| current != connection);
        match script.steps.front() {
            None | Some(Step::Command { .. }) => Next::Read,
            Some(_) if is_for_other => Next::Read,
            Some(_) => script.steps.pop_front().map_or(Next::Read, Next::Step),
        }
    }

    /// A connection is over.
    fn leave(&self, connection: u64) {
        let mut script = self.script.lock();
        script.current.take_if(|current| *current == connection);
        drop(script);
        self.extended.notify_waiters();
    }

    /// Reply to a command.
    fn answer(&self, connection: u64, arguments: Vec<Vec<u8>>) -> Answer {
        let mut script = self.script.lock();
        if let Some(Step::Command { arguments: expected, .. }) = script.steps.front()
            && expected.as_ref().is_none_or(|expected| is_same(expected, &arguments))
            && let Some(Step::Command { reply, .. }) = script.steps.pop_front()
        {
            script.current = Some(connection);
            return reply;
        }
        if let Some(answer) = introduction(&arguments, script.is_resp2) {
            return answer;
        }
        let expected = match script.steps.front() {
            Some(Step::Command { arguments, .. }) => shown(arguments),
            _ => "nothing".to_owned(),
        };
        let came = shown(&Some(arguments));
        script.surprises.push(format!("came: {came}; expected: {expected}"));
        Answer::Value(Value::Error("ERR the mock server did not expect this command".into()))
    }
}

fn is_same(expected: &[Vec<u8>], arguments: &[Vec<u8>]) -> bool {
    expected.len() == arguments.len()
        && expected.iter().zip(arguments).enumerate().all(|(at, (one, other))| match at {
            0 => one.eq_ignore_ascii_case(other),
            _ => one == other,
        })
}

/// The answer to what clients send when they connect.
fn introduction(arguments: &[Vec<u8>], is_resp2: bool) -> Option<Answer> {
    let word = |at: usize| arguments.get(at).map(|word| word.to_ascii_uppercase());
    let ok = Some(Answer::Value(Value::Simple("OK".into())));
    match (word(0)?.as_slice(), word(1).as_deref()) {
        (b"HELLO", _) if is_resp2 => {
            Some(Answer::Value(Value::Error("ERR unknown command 'HELLO'".into())))
        }
        (b"HELLO", _) => {
            let version = (Value::Bulk("proto".into()), Value::Integer(3));
            Some(Answer::Value(Value::Map(vec![version])))
        }
        (b"PING", None) if is_resp2 => Some(Answer::Value(Value::Simple("PONG".into()))),
        (b"CLIENT", Some(b"SETINFO" | b"SETNAME")) | (b"SELECT" | b"AUTH", _) => ok,
        _ => None,
    }
}

/// Whether a command is the last that every client sends when it connects.
fn ends_introduction(arguments: &[Vec<u8>]) -> bool {
    let last: [&[u8]; 3] = [b"CLIENT", b"SETINFO", b"LIB-VER"];
    arguments.len() == 4 && arguments.iter().zip(last).all(|(word, last)| word == last)
}

/// Follows the script on one connection.
async fn serve(shared: &Shared, connection: u64, mut stream: DuplexStream) -> io::Result<()> {
    let protocol = if shared.script.lock().is_resp2 { Protocol::Resp2 } else { Protocol::Resp3 };
    let address = Address::Tcp { host: String::new(), port: 0 };
    let mut decoder = Decoder::new(handshake::limits(&Options::new(address)));
    let (mut received, mut room) = (Vec::new(), vec![0; 4096]);
    let mut is_introduced = false;
    loop {
        let (consumed, value) = decoder.decode(&received).map_err(io::Error::other)?;
        received.drain(..consumed);
        if let Some(value) = value {
            let Some(arguments) = words(value) else {
                return Err(io::Error::other("a request that is no array of strings"));
            };
            is_introduced |= ends_introduction(&arguments);
            let answer = shared.answer(connection, arguments);
            send(&mut stream, answer, protocol).await?;
            continue;
        }
        // Noted before the script is looked at, so that no step is missed that comes meanwhile.
        let extended = shared.extended.notified();
        // A connection is introduced before anything happens on it.
        if is_introduced {
            match shared.next(connection) {
                Next::Step(Step::Disconnect) => return Ok(()),
                Next::Step(Step::Delay(time)) => {
                    tokio::time::sleep(time).await;
                    continue;
                }
                Next::Step(Step::Send(answer)) => {
                    send(&mut stream, answer, protocol).await?;
                    continue;
                }
                Next::Step(Step::Command { .. }) | Next::Read => {}
            }
        }
        tokio::select! {
            read = stream.read(&mut room) => match read? {
                0 => return Ok(()),
                count => received.extend_from_slice(&room[..count]),
            },
            () = extended => {}
        }
    }
}

/// The arguments of a request.
fn words(request: Value) -> Option<Vec<Vec<u8>>> {
    let Value::Array(items) = request else { return None };
    items.into_iter().map(|item| item.as_bytes().map(<[u8]>::to_vec)).collect()
}

async fn send(stream: &mut DuplexStream, answer: Answer, protocol: Protocol) -> io::Result<()> {
    let bytes = match answer {
        Answer::Nothing => return Ok(()),
        Answer::Bytes(bytes) => bytes,
        Answer::Value(value) => encoded(&value, protocol),
    };
    stream.write_all(&bytes).await
}

/// A value as RESP.
fn encoded(value: &Value, protocol: Protocol) -> Vec<u8> {
    let (mut bytes, mut shared) = (Vec::new(), Vec::new());
    value.write_to(&mut RespWriter::new(&mut bytes, &mut shared, protocol));
    // Large strings lie apart, each with the place where it belongs.
    let mut whole = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for (at, blob) in shared {
        whole.extend_from_slice(&bytes[from..at]);
        whole.extend_from_slice(&blob);
        from = at;
    }
    whole.extend_from_slice(&bytes[from..]);
    whole
}
