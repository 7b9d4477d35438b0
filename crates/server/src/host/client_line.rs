//! Formats a connection as a line of `CLIENT LIST`:
//! <https://redis.io/docs/latest/commands/client-list/>.

use crate::client::{Client, Flag, NO_COMMAND};
use crate::server::Server;
use petrel_commands::Dialect;
use petrel_commands::acl::{DEFAULT_USER, User};
use petrel_net::Endpoint;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Letters of [`flags`] and their meanings.
static LETTERS: [(Flag, u8); 14] = [
    (Flag::Replica, b'S'),
    (Flag::Monitor, b'O'),
    (Flag::Primary, b'M'),
    (Flag::PubSub, b'P'),
    (Flag::Tracking, b't'),
    (Flag::BrokenRedirect, b'R'),
    (Flag::Broadcast, b'B'),
    (Flag::Closing, b'c'),
    (Flag::Killed, b'A'),
    (Flag::Unix, b'U'),
    (Flag::ReadOnly, b'r'),
    (Flag::NoEvict, b'e'),
    (Flag::NoTouch, b'T'),
    (Flag::Importer, b'I'),
];

/// Every letter that Valkey knows, those of replicas, modules and the cluster too.
pub const KNOWN_FLAGS: &[u8] = b"bcdeirtuxABEIMNOPRSTU";

/// Every letter of a capability.
pub const KNOWN_CAPABILITIES: &[u8] = b"r";

/// Shown in place of a user name if no ACL applies.
const NO_USER: &str = "(superuser)";

/// Appends the line of `client`. Connections own no buffer unless input or output waits, so the
/// sizes of fixed buffers, which Redis has, are zero.
pub fn describe(client: &Client, server: &Server, socket_path: &str, out: &mut Vec<u8>) {
    let labels = client.labels();
    let [channels, shards, patterns] = labels.subscribed.counts;
    let now = server.uptime_seconds();
    let (input, output) = (client.input_bytes.load(Relaxed), client.output_bytes.load(Relaxed));
    let command = match client.last_command.load(Relaxed) {
        NO_COMMAND => "NULL",
        index => server.commands.registry.full_name(index),
    };
    // Valkey shows capabilities within the line. Redis, which has none, also shows parts of the
    // output's size.
    let capabilities = format!(" capa={}", Ascii(capabilities(client)));
    let (amid, behind, omem_parts) = match server.commands.dialect() {
        Dialect::Redis => ("", &capabilities[..], format!(" omem-shared=0 omem-unshared={output}")),
        Dialect::Valkey => (&capabilities[..], "", String::new()),
    };
    let mut put = |line: std::fmt::Arguments<'_>| {
        // Writing to a vector cannot fail.
        let _ = out.write_fmt(line);
    };
    put(format_args!(
        "id={} addr={} laddr={} fd={} name=",
        client.id,
        client.address(socket_path),
        local_address(client, socket_path),
        client.fd
    ));
    put(format_args!("{}", Ascii(&labels.name)));
    put(format_args!(
        " age={} idle={} flags={}{} db={} sub={channels} psub={patterns} ssub={shards} multi={} watch={}",
        now.saturating_sub(client.connected_at),
        idle_seconds(client, server),
        Ascii(&flags(client)),
        amid,
        client.db.load(Relaxed),
        client.queued.load(Relaxed),
        client.watching.load(Relaxed),
    ));
    put(format_args!(
        " qbuf={input} qbuf-free=0 argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll={} omem={output}{omem_parts} tot-mem={}",
        client.queued_bytes.load(Relaxed),
        u8::from(output > 0),
        client.memory(),
    ));
    put(format_args!(
        " events={} cmd={command} user={} redir={} resp={} lib-name={} lib-ver={}",
        events(client, u64::from(output)),
        UserName(labels.user.as_deref(), client.has(Flag::Primary)),
        server.trackers.redirection(client),
        if client.has(Flag::Resp3) { 3 } else { 2 },
        Ascii(&labels.lib_name),
        Ascii(&labels.lib_version),
    ));
    put(format_args!(
        " io-thread={} tot-net-in={} tot-net-out={} tot-cmds={}",
        client.worker,
        client.received.load(Relaxed),
        client.sent.load(Relaxed),
        client.commands.load(Relaxed) + u64::from(client.nested.load(Relaxed)),
    ));
    let batches = client.batches.load(Relaxed);
    put(format_args!(
        " read-events={batches} avg-pipeline-len-sum={} avg-pipeline-len-cnt={batches}{behind}\n",
        client.commands.load(Relaxed),
    ));
}

/// This end's address.
pub fn local_address(client: &Client, socket_path: &str) -> String {
    match client.local() {
        Endpoint::Unix => format!("{socket_path}:0"),
        local => local.to_string(),
    }
}

/// Seconds since the connection last sent something.
pub fn idle_seconds(client: &Client, server: &Server) -> u32 {
    server.uptime_seconds().saturating_sub(client.active_at.load(Relaxed))
}

/// The letters of its flags, in Redis's order; `N` if there are none.
pub fn flags(client: &Client) -> Vec<u8> {
    let mut letters: Vec<u8> = Vec::new();
    let (listens, others) = LETTERS.split_at(3);
    let set = |letters: &'static [(Flag, u8)]| {
        letters.iter().filter(|(flag, _)| client.has(*flag)).map(|(_, letter)| *letter)
    };
    letters.extend(set(listens));
    if client.queued.load(Relaxed) >= 0 {
        letters.push(b'x');
    }
    if client.has(Flag::Blocked) || client.has(Flag::Paused) {
        letters.push(b'b');
    }
    letters.extend(set(others));
    if letters.is_empty() {
        letters.push(b'N');
    }
    letters
}

/// Letters of the client's capabilities.
pub fn capabilities(client: &Client) -> &'static [u8] {
    if client.has(Flag::Redirectable) { b"r" } else { b"" }
}

/// Events that its worker waits for: input, and space for output.
fn events(client: &Client, output: u64) -> &'static str {
    let reads = !client.has(Flag::Paused) && !client.has(Flag::Closing);
    match (reads, output > 0) {
        (true, false) => "r",
        (true, true) => "rw",
        (false, true) => "w",
        (false, false) => "",
    }
}

/// Name of a user, the default user's if there is no other.
struct UserName<'a>(Option<&'a User>, bool);

impl std::fmt::Display for UserName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let UserName(user, is_primary) = self;
        if *is_primary {
            return f.write_str(NO_USER);
        }
        let name = user.map_or(DEFAULT_USER, User::name);
        f.write_str(&String::from_utf8_lossy(name))
    }
}

/// Labels, which were checked to be printable ASCII when they were set.
struct Ascii<'a>(&'a [u8]);

impl std::fmt::Display for Ascii<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::str::from_utf8(self.0).unwrap_or_default())
    }
}
