//! REPLICAOF with other servers as primaries: those on the PATH, and the ones in
//! `PETREL_TEST_PEERS`. Commands of every family are drawn; both ends have the same data in the
//! end, whatever happened to the link.

use crate::harness::*;
use crate::replication_primary::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time within which a primary sends removals of expired keys.
const EXPIRY_PATIENCE: Duration = Duration::from_secs(10);

/// Numbers as they come, the same for the same seed.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

/// Commands with scores that all versions format alike. `K` is a key of a type, `N` a number, `T` a
/// text, `M` a member.
const COMMANDS: &[&str] = &[
    "SET sK T",
    "SET sK T EX 1000",
    "SET sK N",
    "SETEX sK 1 T",
    "PSETEX sK 40 T",
    "APPEND sK T",
    "INCRBY nK N",
    "INCRBYFLOAT nK 0.5",
    "SETRANGE sK 7 T",
    "SETBIT bK N 1",
    "BITOP XOR bK bK bK",
    "BITFIELD bK INCRBY u8 N 3",
    "GETDEL sK",
    "GETEX sK PX 100000",
    "MSET sK T sK T",
    "DEL sK",
    "UNLINK lK",
    "EXPIRE hK 1000",
    "PEXPIRE zK 60",
    "PERSIST sK",
    "RENAME sK sK",
    "COPY lK lK REPLACE",
    "RPUSH lK T M M",
    "LPUSH lK M",
    "LINSERT lK BEFORE M T",
    "LSET lK 0 T",
    "LREM lK 1 M",
    "LTRIM lK 0 30",
    "LPOP lK 2",
    "LMOVE lK lK LEFT RIGHT",
    "RPOPLPUSH lK lK",
    "BLPOP lK 0.01",
    "BLMOVE lK lK RIGHT LEFT 0.01",
    "SADD eK M M N",
    "SREM eK M",
    "SPOP eK",
    "SPOP eK 3",
    "SMOVE eK eK M",
    "SUNIONSTORE eK eK eK",
    "SDIFFSTORE eK eK eK",
    "HSET hK M T M N",
    "HDEL hK M",
    "HINCRBY hK n N",
    "HINCRBYFLOAT hK f 1.25",
    "ZADD zK N M 0.25 T",
    "ZINCRBY zK 1.5 M",
    "ZREM zK M",
    "ZPOPMIN zK",
    "BZPOPMAX zK 0.01",
    "ZUNIONSTORE zK 2 zK zK",
    "ZRANGESTORE zK zK 0 3",
    "ZREMRANGEBYRANK zK 0 0",
    "GEOADD gK 13.36 38.11 M",
    "PFADD pK M T N",
    "PFMERGE pK pK",
    "XADD xK * f T",
    "XADD xK MAXLEN ~ 50 * f T g N",
    "XTRIM xK MAXLEN 40",
    "XGROUP CREATE xK grp 0 MKSTREAM",
    "XREADGROUP GROUP grp c COUNT 3 STREAMS xK >",
    "XAUTOCLAIM xK grp d 0 0 COUNT 2",
    "XGROUP DELCONSUMER xK grp c",
    "XACK xK grp 1-1",
    "XSETID xK 99999999999999-1",
    "SORT lK ALPHA STORE lK",
    "EVAL return{redis.call('incr',KEYS[1]),redis.call('spop',KEYS[2])} 2 nK eK",
    "SWAPDB 1 2",
    "SELECT 1",
    "SELECT 0",
    "MULTI",
    "EXEC",
    "DISCARD",
    "FLUSHDB",
    "SCRIPT FLUSH",
    "PUBLISH T M",
    "RENAME hK hK",
    "COPY hK hK REPLACE",
    "FUNCTION FLUSH",
    // Not known to every one of them.
    "HEXPIRE hK 1000 FIELDS 1 M",
    "HPEXPIRE hK 50 FIELDS 1 M",
    "HPERSIST hK FIELDS 1 M",
    "HGETDEL hK FIELDS 1 M",
    "HSETEX hK PX 40 FIELDS 1 M T",
    "LMPOP 1 lK LEFT COUNT 2",
    "XDELEX xK KEEPREF IDS 1 1-1",
];

fn drawn(draw: &mut Draw) -> Vec<String> {
    let template = COMMANDS[draw.below(COMMANDS.len() as u64) as usize];
    // Rarely, or little is left.
    if template == "FLUSHDB" && draw.below(8) > 0 {
        return vec!["PING".into()];
    }
    let words = template.split(' ').map(|word| match word {
        "N" => draw.below(500).to_string(),
        "T" => "t".repeat(draw.below(90) as usize + 1),
        "M" => format!("member:{}", draw.below(30)),
        word if word.len() == 2 && word.ends_with('K') => {
            format!("{}:{}", &word[..1], draw.below(6))
        }
        word => word.into(),
    });
    words.collect()
}

/// Has a server execute commands that are drawn.
pub fn drive(client: &mut Client, draw: &mut Draw, count: usize) {
    for _ in 0..count {
        let words = drawn(draw);
        client.call(&words.iter().map(|word| &word[..]).collect::<Vec<_>>());
    }
    client.call(&["DISCARD"]);
}

/// Waits until both ends have the same data.
fn assert_same(peer: &Peer, server: &Server) {
    let (mut there, mut here) = (peer.connect(), server.connect());
    let offset = |client: &mut Client| {
        let info = client.text(&["INFO", "replication"]);
        let line = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
        line.unwrap().to_owned()
    };
    eventually("both are at the same offset", || {
        std::thread::sleep(Duration::from_millis(150));
        offset(&mut there) == offset(&mut here)
    });
    // What expires is gone at both ends a moment after it is at one.
    let deadline = Instant::now() + EXPIRY_PATIENCE;
    let digests = loop {
        let digests = [&mut there, &mut here].map(|client| client.text(&["DEBUG", "DIGEST"]));
        if digests[0] == digests[1] || Instant::now() > deadline {
            break digests;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    if digests[0] != digests[1] {
        for db in 0..3 {
            let db = db.to_string();
            for client in [&mut there, &mut here] {
                client.call(&["SELECT", &db]);
            }
            let keys = there.text(&["KEYS", "*"]);
            for key in keys.trim_matches(['[', ']']).split(' ') {
                let values =
                    [&mut there, &mut here].map(|c| c.text(&["DEBUG", "DIGEST-VALUE", key]));
                assert_eq!(values[0], values[1], "{key} of database {db}: {}", server.output());
            }
            assert_eq!(keys.len(), here.text(&["KEYS", "*"]).len(), "{keys}");
        }
        panic!("the digests differ, but no key does");
    }
}

fn follow(server: &Server, port: u16) {
    let mut client = server.connect();
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &port.to_string()]), "OK");
    eventually("the link is up", || {
        client.text(&["INFO", "replication"]).contains("master_link_status:up")
    });
}

#[test]
fn other_servers_are_followed() {
    for program in Peer::programs() {
        let dialect = Release::of(&program).dialect();
        for diskless in ["yes", "no"] {
            let args = ["--repl-diskless-sync-delay", "0", "--repl-diskless-sync", diskless];
            let peer = Peer::start_debugged(&program, &args).expect("it starts");
            let mut client = peer.connect();
            let mut draw = Draw(41 + diskless.len() as u64);
            let library = "#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 7 end, flags={'no-writes'}}";
            client.call(&["FUNCTION", "LOAD", library]);
            drive(&mut client, &mut draw, 2000);
            let loaded = client.text(&["FUNCTION", "LOAD", "REPLACE", library]);
            let own = ["--enable-debug-command", "yes", "--dialect", dialect];
            let server = Server::start("epoll", &own);
            server.connect().call(&["SET", "own", "1"]);
            follow(&server, peer.port);
            assert_same(&peer, &server);
            if loaded == "lib" {
                assert_eq!(server.connect().text(&["FCALL", "f", "0"]), "7");
            }
            drive(&mut client, &mut draw, 4000);
            assert_same(&peer, &server);
            assert_eq!(client.text(&["WAIT", "1", "5000"]), "1");
            // A link that the primary cuts goes on where it was.
            assert_eq!(client.text(&["CLIENT", "KILL", "TYPE", "replica"]), "1");
            drive(&mut client, &mut draw, 500);
            assert_same(&peer, &server);
            assert!(client.text(&["INFO", "stats"]).contains("sync_partial_ok:1"));
            let errors = server.output().lines().filter(|line| line.contains("fails here")).count();
            assert_eq!(errors, 0, "{}", server.output());
        }
    }
}

/// Passes bytes on, and cuts each connection after some of them.
struct Cutter {
    port: u16,
    stops: Arc<AtomicBool>,
    cuts: Arc<AtomicU16>,
}

impl Cutter {
    fn before(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stops, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU16::new(0)));
        let (stop, cut) = (stops.clone(), cuts.clone());
        std::thread::spawn(move || {
            let mut draw = Draw(7);
            for replica in listener.incoming().flatten() {
                let Ok(primary) = TcpStream::connect(("127.0.0.1", target)) else { return };
                let bytes = if stop.load(Relaxed) { u64::MAX } else { 200 + draw.below(20_000) };
                let (from, to) = (replica.try_clone().unwrap(), primary.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to, u64::MAX));
                let cut = cut.clone();
                std::thread::spawn(move || {
                    pass(primary, replica, bytes);
                    cut.fetch_add(1, Relaxed);
                });
            }
        });
        Cutter { port, stops, cuts }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut left: u64) {
    let mut chunk = [0; 997];
    while left > 0 {
        let Ok(len) = from.read(&mut chunk) else { break };
        let some = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        left -= some as u64;
        if len == 0 || to.write_all(&chunk[..some]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn links_that_are_cut_anywhere_lose_nothing() {
    for program in Peer::programs() {
        let dialect = Release::of(&program).dialect();
        let args = ["--repl-diskless-sync-delay", "0"];
        let peer = Peer::start_debugged(&program, &args).expect("it starts");
        let cutter = Cutter::before(peer.port);
        let server =
            Server::start("epoll", &["--enable-debug-command", "yes", "--dialect", dialect]);
        let port = cutter.port.to_string();
        assert_eq!(server.connect().text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
        let (mut client, mut draw) = (peer.connect(), Draw(5));
        let mut rounds = 0;
        while cutter.cuts.load(Relaxed) < 20 && rounds < 200 {
            drive(&mut client, &mut draw, 200);
            rounds += 1;
        }
        assert!(cutter.cuts.load(Relaxed) >= 5, "few cuts: {}", server.output());
        cutter.stops.store(true, Relaxed);
        assert_same(&peer, &server);
        let info = client.text(&["INFO", "stats"]);
        assert!(!info.contains("sync_partial_ok:0"), "{info}");
    }
}

#[test]
fn a_primary_is_followed_over_tls() {
    for program in Peer::programs() {
        let dialect = Release::of(&program).dialect();
        let scratch = Scratch::new();
        crate::tls::Authority::new(&scratch, "authority");
        let path = |name: &str| scratch.path(name).display().to_string();
        let files = [path("authority.crt"), path("server.crt"), path("server.key")];
        let port = free_port();
        let tls = [
            "--tls-port",
            &port.to_string(),
            "--tls-ca-cert-file",
            &files[0],
            "--tls-cert-file",
            &files[1],
            "--tls-key-file",
            &files[2],
        ];
        let at_once = ["--repl-diskless-sync-delay", "0"];
        let Some(peer) = Peer::start_debugged(&program, &[&tls[..], &at_once].concat()) else {
            println!("skipped: {} has no TLS", program.display());
            continue;
        };
        let (mut client, mut draw) = (peer.connect(), Draw(3));
        drive(&mut client, &mut draw, 500);
        let own =
            [&tls[2..], &["--tls-replication", "yes", "--enable-debug-command", "yes"]].concat();
        let own = [&own[..], &["--dialect", dialect]].concat();
        let server = Server::start("epoll", &own);
        follow(&server, port);
        drive(&mut client, &mut draw, 500);
        assert_same(&peer, &server);
    }
}
