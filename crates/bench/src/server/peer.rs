//! Servers that can be compared, and the command that starts each. Ready-made ones are described in
//! `assets/servers.txt`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::{env, io};

use super::setting::{Setting, Transport};
use crate::sys;
use crate::text::{Entry, entries};
use crate::wire::Protocol;

/// Subcommand that measures within a process.
pub const IN_PROCESS: &str = "in-process";

/// Subcommand that starts a cluster.
pub const CLUSTER: &str = "start-cluster";

/// Kind of a server's program.
#[derive(Clone, Debug)]
enum Kind {
    /// An entry of `assets/servers.txt`.
    Known(&'static Entry),
    /// A command given by the user.
    Custom(String),
    /// Measured within a process of this program; its version.
    InProcess(String),
    /// A library that a script of ours drives: the script, and the version.
    Library(PathBuf, String),
}

/// Largest number of connections that a bare loop holds as plain descriptors.
const DESCRIPTORS_PLAIN: usize = 15_000;

/// Largest file table asked of one ring: the kernel bounds it by the limit on open files, which is
/// often 20,000.
const DIRECT_DESCRIPTORS_MAX: usize = 19_000;

/// The port of a server that is reached over TLS; the certificate is made for each start.
const TLS_PORT: &str = "--port 0 --tls-port {port} --tls-cert-file {dir}/server.crt \
     --tls-key-file {dir}/server.key --tls-ca-cert-file {dir}/server.crt --tls-auth-clients no";

/// Ready-made servers.
fn ready_made() -> &'static [Entry] {
    static ALL: OnceLock<Vec<Entry>> = OnceLock::new();
    ALL.get_or_init(|| entries(include_str!("../../assets/servers.txt")))
}

/// A server to be measured.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Name in the tables.
    pub name: String,
    kind: Kind,
    program: PathBuf,
    /// Number of threads in place of the setting's.
    threads: Option<usize>,
}

/// The options that choose servers, the same in every subcommand.
#[derive(Clone, Debug, clap::Args)]
pub struct PeerArgs {
    /// A server of your own: NAME='command with {sock} {port} {threads}'. Also replaced:
    /// {connections} (how many it must accept) and {dir} (an empty directory). It must speak RESP.
    /// Repeatable. `full` also fills in {memory} (megabytes) and {policy}.
    #[arg(long = "peer", value_name = "NAME=COMMAND")]
    custom: Vec<Peer>,

    /// The program of a ready-made server: NAME=/path/to/program. NAME may be new if the program
    /// is called as the original, as in redis-7.0=/usr/bin/redis-server. Repeatable.
    #[arg(long = "peer-path", value_name = "NAME=PATH", value_parser = parse_path)]
    paths: Vec<Peer>,

    /// Take only these, in this order. Ready-made: petrel, redis, valkey, pogocache, memcached,
    /// dragonfly, moon, crucible, swytch (where found beside this program or on PATH), by `cluster`
    /// petrel-cluster and swytch-cluster, and only when named redis-cluster (by `trace`),
    /// floor-uring, floor-epoll, floor-memory.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    servers: Vec<String>,
}

/// The servers of a run.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// Measured servers.
    pub peers: Vec<Peer>,
    /// Names of ready-made ones that are not on this machine.
    pub absent: Vec<String>,
}

impl PeerArgs {
    /// The path that was given for a server.
    pub fn path_of(&self, name: &str) -> Option<&Path> {
        self.paths.iter().find(|peer| peer.name == name).map(|peer| peer.program.as_path())
    }

    /// The chosen servers; clusters only if they are named or `with_clusters`. An error names a
    /// server that cannot be found.
    pub fn resolve(&self, with_clusters: bool) -> Result<Chosen, String> {
        let given: Vec<&Peer> = self.paths.iter().chain(&self.custom).collect();
        let mut known: Vec<Peer> = Vec::new();
        for entry in ready_made() {
            let program = entry.get("program").map_or_else(|| env::current_exe().ok(), find);
            let found = program.map(|program| Peer::new(entry.rest, Kind::Known(entry), program));
            let own = given.iter().find(|peer| peer.name == entry.rest).copied().cloned();
            known.extend(own.or(found));
        }
        for peer in given {
            if !known.iter().any(|other| other.name == peer.name) {
                known.push(peer.clone());
            }
        }
        let absent = ready_made().iter().map(|entry| entry.rest);
        let absent = absent.filter(|name| !known.iter().any(|peer| peer.name == *name));
        let absent = absent.map(str::to_owned).collect();
        if self.servers.is_empty() {
            known.retain(|peer| !peer.is_floor() && (with_clusters || !peer.is_cluster()));
            return if known.is_empty() {
                Err("no server found: give one with --peer or --peer-path".to_owned())
            } else {
                Ok(Chosen { peers: known, absent })
            };
        }
        let pick = |name: &String| {
            known.iter().find(|peer| peer.name == *name).cloned().ok_or_else(|| {
                format!("server '{name}' is not on PATH; give it with --peer-path {name}=/path")
            })
        };
        Ok(Chosen { peers: self.servers.iter().map(pick).collect::<Result<_, _>>()?, absent })
    }
}

impl Peer {
    fn new(name: &str, kind: Kind, program: PathBuf) -> Peer {
        Peer { name: name.to_owned(), kind, program, threads: None }
    }

    /// Whether it is a ready-made server with a property.
    fn is(&self, property: &str) -> bool {
        matches!(self.kind, Kind::Known(entry) if entry.words("is").contains(&property))
    }

    /// A server that is started as Redis is, by the path of its program or its name on PATH.
    pub fn redis(program: &str) -> Option<Peer> {
        let program = if program.contains('/') { Some(program.into()) } else { find(program) };
        let program = program.filter(|program| program.is_file())?;
        let redis = ready_made().iter().find(|entry| entry.rest == "redis")?;
        Some(Peer::new("reference", Kind::Known(redis), program))
    }

    /// Subject measured within a process of this program ([`crate::in_process`]).
    pub fn in_process(name: &str, version: String) -> io::Result<Peer> {
        Ok(Peer::new(name, Kind::InProcess(version), env::current_exe()?))
    }

    /// A library that a script drives.
    pub fn library(name: &str, version: &str, interpreter: &Path, script: &Path) -> Peer {
        let kind = Kind::Library(script.to_owned(), version.to_owned());
        Peer::new(name, kind, interpreter.to_owned())
    }

    /// Whether it is a library ([`Peer::library`]).
    pub fn is_library(&self) -> bool {
        matches!(self.kind, Kind::Library(..))
    }

    /// Whether it is measured within a process ([`Peer::in_process`]).
    pub fn is_in_process(&self) -> bool {
        matches!(self.kind, Kind::InProcess(_))
    }

    /// Whether it may have the types that came with Redis 8: vector sets and JSON.
    pub fn may_have_types_of_redis_8(&self) -> bool {
        match self.kind {
            Kind::Custom(_) => true,
            Kind::Known(entry) if entry.rest == "redis" => {
                let version = self.version();
                let major = version.split_once("v=").and_then(|(_, rest)| rest.split('.').next());
                major.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 8)
            }
            _ => false,
        }
    }

    /// Whether it stores keys and values that can be read back.
    pub fn has_keys(&self) -> bool {
        self.speaks_resp() && !self.is_floor() && !self.is_library()
    }

    /// Protocol of the server.
    pub fn protocol(&self) -> Protocol {
        if self.is("memcached") { Protocol::Memcached } else { Protocol::Resp }
    }

    /// Whether it speaks RESP.
    pub fn speaks_resp(&self) -> bool {
        self.protocol() == Protocol::Resp
    }

    /// The file of its program; only a name where PATH is searched.
    pub fn program(&self) -> PathBuf {
        match &self.kind {
            Kind::Custom(command) => {
                shlex::split(command).into_iter().flatten().next().unwrap_or_default().into()
            }
            _ => self.program.clone(),
        }
    }

    /// Output of its program for `--version`, in one line.
    pub fn version(&self) -> String {
        if self.is_floor() {
            return "bare loop of this program".to_owned();
        }
        if let Kind::InProcess(version) | Kind::Library(_, version) = &self.kind {
            return version.clone();
        }
        let mut command = Command::new(self.program());
        command.arg("--version").stdin(Stdio::null());
        let said = sys::die_with_parent(&mut command).output();
        let said = said.map_or_else(|_| Vec::new(), |output| output.stdout);
        let said = String::from_utf8_lossy(&said);
        // The first words; the flags of the build follow in Redis.
        let line = said.lines().next().unwrap_or("").split_whitespace().take(3);
        let line = line.collect::<Vec<_>>().join(" ");
        if line.is_empty() { "unknown".to_owned() } else { line }
    }

    /// Whether it is a variant of [`Peer::with_one_thread`].
    pub fn is_variant(&self) -> bool {
        self.threads.is_some()
    }

    /// Whether it listens on a transport.
    pub fn listens_on(&self, transport: Transport) -> bool {
        match transport {
            Transport::Unix => !self.is("tcp"),
            Transport::Tcp => true,
            Transport::Tls => {
                matches!(self.kind, Kind::Custom(_) | Kind::InProcess(_)) || self.is("tls")
            }
        }
    }

    /// Whether it can be started with a limit of memory and an eviction policy; a command of the
    /// user's may have places for both.
    pub fn evicts_by(&self, policy: &str) -> bool {
        match &self.kind {
            Kind::Known(entry) => entry.words("policies").contains(&policy),
            Kind::Custom(line) => line.contains("{memory}"),
            _ => false,
        }
    }

    /// Whether strings are the only type of its values.
    pub fn has_strings_only(&self) -> bool {
        !self.speaks_resp() || self.is("strings")
    }

    /// Whether it is Petrel's server.
    pub fn is_petrel(&self) -> bool {
        matches!(self.kind, Kind::Known(entry) if entry.rest == "petrel")
    }

    /// Whether it is a cluster.
    pub fn is_cluster(&self) -> bool {
        self.is("cluster")
    }

    /// Whether each key has a primary in a cluster of it; else all nodes are alike.
    pub fn has_homes(&self) -> bool {
        self.is("primaries")
    }

    /// Whether its nodes redirect clients by `MOVED`.
    pub fn names_its_nodes(&self) -> bool {
        self.is("redirects")
    }

    /// Whether it is a bare loop, which stores nothing.
    pub fn is_floor(&self) -> bool {
        self.is("floor")
    }

    /// A variant with one thread, for servers that run commands on one thread and may be slower
    /// with more I/O threads: they are to be compared with their best.
    pub fn with_one_thread(&self) -> Option<Peer> {
        self.is("one-thread").then(|| Peer {
            name: format!("{} (1 thread)", self.name),
            threads: Some(1),
            ..self.clone()
        })
    }

    /// The command with its places unfilled and no directory of this machine, for reports.
    pub fn describe(&self, setting: &Setting) -> String {
        let line = self.line(setting);
        let (first, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let program = match self.kind {
            Kind::Custom(_) => Path::new(first),
            _ if self.is_cluster() => Path::new(first),
            _ => &self.program,
        };
        let program = program.file_name().map_or("".into(), |name| name.to_string_lossy());
        let threads = if self.is_variant() { ", {threads} = 1" } else { "" };
        format!("`{program} {rest}`{threads}")
    }

    /// The program and its arguments.
    pub fn command(&self, setting: &Setting) -> Result<(PathBuf, Vec<String>), String> {
        let setting =
            &Setting { threads: self.threads.unwrap_or(setting.threads), ..setting.clone() };
        if !self.listens_on(setting.transport) {
            return Err(format!("{} does not listen on a {}", self.name, setting.transport));
        }
        if self.names_its_nodes() && setting.transport != Transport::Tcp {
            return Err(format!("{} is started over TCP only", self.name));
        }
        let line = self.line(setting);
        let mut words = shlex::split(&line)
            .filter(|words| !words.is_empty())
            .ok_or_else(|| format!("'{line}' is not a command: a quote is left open?"))?;
        for word in &mut words {
            *word = fill(word, setting);
        }
        let first = words.remove(0);
        let program = match self.kind {
            Kind::Custom(_) => PathBuf::from(first),
            _ if self.is_cluster() => {
                let program = self.program.display().to_string();
                words.extend(["--program".to_owned(), program]);
                env::current_exe().map_err(|error| error.to_string())?
            }
            _ => self.program.clone(),
        };
        if let Kind::Library(script, _) = &self.kind {
            words[0] = script.display().to_string();
        }
        Ok((program, words))
    }
}

impl Peer {
    /// Command line; the first word of ready-made ones stands for the program.
    fn line(&self, setting: &Setting) -> String {
        match &self.kind {
            Kind::Custom(command) => command.clone(),
            Kind::InProcess(_) => format!("petrel-bench {IN_PROCESS} {{sock}}"),
            // Its directory is filled in at start.
            Kind::Library(script, _) => {
                let file = script.file_name().unwrap_or_default().to_string_lossy();
                format!("python {file} {} {{sock}}", self.name)
            }
            Kind::Known(entry) => {
                let limit = setting.limit.and_then(|_| entry.get("limit")).unwrap_or_default();
                let line = format!("{} {limit}", entry.get("line").unwrap_or_default());
                let line = line.trim_end().to_owned();
                let is_tls = setting.transport == Transport::Tls;
                let line = if is_tls { line.replace("--port {port}", TLS_PORT) } else { line };
                parts(setting).iter().fold(line, |line, (part, text)| line.replace(part, text))
            }
        }
    }
}

/// Parts of ready-made command lines that depend on the setting.
fn parts(setting: &Setting) -> [(&'static str, String); 7] {
    let Setting { nodes, connections, .. } = setting;
    let listen = match setting.transport {
        Transport::Unix => "-s {sock}",
        Transport::Tcp | Transport::Tls => "-l 127.0.0.1 -p {port} -U 0",
    };
    let large = if setting.value_max > 1_000_000 { " -I 600m" } else { "" };
    let cluster = format!(
        "petrel-bench {CLUSTER} --nodes {nodes} --port {{port}} --sock {{sock}} \
         --threads {{threads}} --connections {{connections}} --dir {{dir}}"
    );
    let option = |name: &str, value: Option<u128>| {
        value.map_or_else(String::new, |value| format!(" --{name} {value}"))
    };
    // Many connections need file tables of the rings' own.
    let share = connections.div_ceil(setting.threads.max(1)) + 256;
    let direct = share.min(DIRECT_DESCRIPTORS_MAX) as u128;
    [
        ("{listen}", listen.to_owned()),
        ("{large}", large.to_owned()),
        ("{cluster}", cluster),
        ("{copies}", option("copies", setting.copies.map(u128::from))),
        ("{caches}", option("caches", (setting.caches > 0).then_some(setting.caches.into()))),
        ("{relay}", option("relay", setting.relay.map(|delay| delay.as_micros()))),
        (
            "{direct}",
            option("direct-descriptors", (*connections > DESCRIPTORS_PLAIN).then_some(direct)),
        ),
    ]
}

impl FromStr for Peer {
    type Err = String;

    /// Parses `NAME=COMMAND`.
    fn from_str(text: &str) -> Result<Peer, String> {
        let (name, command) = name_and_rest(text, "NAME='command with {sock} {port} {threads}'")?;
        if shlex::split(command).is_none_or(|words| words.is_empty()) {
            return Err(format!("'{command}' is not a command: a quote is left open?"));
        }
        if !command.contains("{sock}") && !command.contains("{port}") {
            return Err(format!("'{command}' contains neither {{sock}} nor {{port}}"));
        }
        Ok(Peer::new(name, Kind::Custom(command.to_owned()), PathBuf::new()))
    }
}

fn parse_path(text: &str) -> Result<Peer, String> {
    let (name, path) = name_and_rest(text, "NAME=/path/to/program")?;
    let file = Path::new(path).file_name().and_then(|file| file.to_str()).unwrap_or(path);
    let by_program = || ready_made().iter().find(|entry| entry.get("program") == Some(file));
    let entry = ready_made().iter().find(|entry| entry.rest == name).or_else(by_program);
    let entry = entry.ok_or_else(|| {
        format!("neither '{name}' nor '{file}' is a ready-made server; use --peer")
    })?;
    if !Path::new(path).is_file() {
        return Err(format!("there is no file {path}"));
    }
    Ok(Peer::new(name, Kind::Known(entry), PathBuf::from(path)))
}

fn name_and_rest<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once('=')
        .map(|(name, rest)| (name.trim(), rest.trim()))
        .filter(|(name, rest)| !name.is_empty() && !rest.is_empty())
        .ok_or_else(|| format!("'{text}' has not the form {form}"))
}

fn fill(word: &str, setting: &Setting) -> String {
    word.replace("{sock}", &setting.socket.to_string_lossy())
        .replace("{port}", &setting.port.to_string())
        .replace("{threads}", &setting.threads.to_string())
        .replace("{connections}", &setting.connections.to_string())
        .replace("{value}", &setting.reply_size.to_string())
        .replace("{dir}", &setting.directory.to_string_lossy())
        .replace("{memory}", &setting.limit.map_or(0, |(memory, _)| memory).to_string())
        .replace("{policy}", setting.limit.map_or("", |(_, policy)| policy))
}

/// Looks for a program beside this one, then on PATH.
fn find(program: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok().and_then(|path| Some(path.parent()?.join(program)));
    let path = env::var_os("PATH").unwrap_or_default();
    own.into_iter()
        .chain(env::split_paths(&path).map(|directory| directory.join(program)))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        Setting {
            threads: 2,
            transport: Transport::Unix,
            connections: 100,
            value_max: 1024,
            reply_size: 512,
            nodes: 3,
            copies: None,
            caches: 0,
            limit: None,
            relay: None,
            socket: PathBuf::from("/tmp/with space/s"),
            port: 7000,
            directory: PathBuf::from("/tmp/d"),
        }
    }

    #[test]
    fn custom_peer_fills_its_places() {
        let peer: Peer = "mine=/opt/x --sock {sock} -p {port} 'a b' -t{threads}".parse().unwrap();
        assert_eq!(peer.name, "mine");
        let (program, words) = peer.command(&setting()).unwrap();
        assert_eq!(program, Path::new("/opt/x"));
        assert_eq!(words, ["--sock", "/tmp/with space/s", "-p", "7000", "a b", "-t2"]);
    }

    #[test]
    fn peers_that_make_no_sense_are_refused() {
        for text in ["x", "=x {sock}", "x=", "x=server", "x='open {sock}"] {
            assert!(text.parse::<Peer>().is_err(), "{text}");
        }
        assert!(parse_path("new=/bin/sh").unwrap_err().contains("ready-made"));
        assert!(parse_path("redis=/nowhere/redis-server").unwrap_err().contains("no file"));
    }

    #[test]
    fn every_ready_made_server_is_told_where_to_listen() {
        for entry in ready_made() {
            let name = entry.rest;
            let peer = Peer::new(name, Kind::Known(entry), PathBuf::from("/bin/sh"));
            let tcp = Setting { transport: Transport::Tcp, ..setting() };
            let (_, words) = peer.command(&tcp).unwrap();
            assert!(words.iter().any(|word| word.ends_with("7000")), "{name}: {words:?}");
            assert!(words.iter().all(|word| !word.contains('{')), "{name}: {words:?}");
            match peer.command(&setting()) {
                Ok((_, words)) => {
                    assert!(words.contains(&"/tmp/with space/s".to_owned()), "{name}")
                }
                Err(why) => assert!(
                    why.contains("TCP") || why.contains("on a Unix socket"),
                    "{name}: {why}"
                ),
            }
        }
    }

    #[test]
    fn a_limit_of_memory_is_given_with_the_policy() {
        let peer = parse_path("redis=/bin/sh").unwrap();
        assert!(peer.evicts_by("allkeys-lfu") && !peer.evicts_by("allkeys-s3fifo"));
        let limited = Setting { limit: Some((100, "allkeys-lfu")), ..setting() };
        let (_, words) = peer.command(&limited).unwrap();
        assert!(words.windows(2).any(|pair| pair == ["--maxmemory", "100mb"]), "{words:?}");
        assert!(words.ends_with(&["--maxmemory-policy".to_owned(), "allkeys-lfu".to_owned()]));
        assert!(peer.command(&setting()).unwrap().1.iter().all(|word| !word.contains("maxmem")));
    }

    #[test]
    fn redis_turns_persistence_off_and_keeps_one_thread_if_asked() {
        let peer = parse_path("redis=/bin/sh").unwrap();
        let (_, words) = peer.command(&setting()).unwrap();
        assert!(words.windows(2).any(|pair| pair == ["--save", ""]));
        assert!(words.windows(2).any(|pair| pair == ["--io-threads", "2"]));
        let (_, words) = peer.with_one_thread().unwrap().command(&setting()).unwrap();
        assert!(words.windows(2).any(|pair| pair == ["--io-threads", "1"]));
    }
}
