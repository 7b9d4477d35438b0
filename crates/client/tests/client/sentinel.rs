//! Clients of a primary that moves: with sentinels and servers of the test's own, and with Redis
//! Sentinel where it is installed.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use petrel_client::{
    Address, Client, Commands, ErrorKind, Options, RawCommand, Sentinel, SentinelOptions,
};
use petrel_resp::{DecodeLimits, Decoder, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

use crate::servers::{Kind, Server, free_port};

const PATIENCE: Duration = Duration::from_secs(60);

fn options(port: u16) -> Options {
    Options::new(Address::Tcp { host: "127.0.0.1".into(), port })
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// What servers of the test's own say: of RESP2 only.
struct Scene {
    /// The port of the primary, as sentinels have it.
    primary: Mutex<u16>,
    replicas: Mutex<Vec<(u16, &'static str)>>,
    told: broadcast::Sender<String>,
}

impl Scene {
    fn new(primary: u16) -> Arc<Self> {
        let (primary, told) = (Mutex::new(primary), broadcast::Sender::new(16));
        Arc::new(Self { primary, replicas: Mutex::default(), told })
    }

    fn sentinel(&self, words: &[String]) -> String {
        match (words[0].as_str(), words.get(1).map(String::as_str)) {
            ("SENTINEL", Some("GET-MASTER-ADDR-BY-NAME")) if words[2] == "main" => {
                let port = self.primary.lock().to_string();
                format!("*2\r\n{}{}", bulk("127.0.0.1"), bulk(&port))
            }
            ("SENTINEL", Some("GET-MASTER-ADDR-BY-NAME")) => "*-1\r\n".into(),
            ("SENTINEL", Some("REPLICAS")) => {
                let replicas = self.replicas.lock();
                let all = replicas.iter().map(|(port, flags)| {
                    let facts = ["ip", "127.0.0.1", "port", &port.to_string(), "flags", flags];
                    format!("*6\r\n{}", facts.map(bulk).concat())
                });
                format!("*{}\r\n{}", replicas.len(), all.collect::<String>())
            }
            ("SENTINEL", Some("SENTINELS")) => "*0\r\n".into(),
            _ => common(words),
        }
    }

    /// Tells that the primary is at another port.
    fn switch(&self, port: u16) {
        let old = std::mem::replace(&mut *self.primary.lock(), port);
        let text = format!("main 127.0.0.1 {old} 127.0.0.1 {port}");
        let parts = [bulk("message"), bulk("+switch-master"), bulk(&text)];
        let _ = self.told.send(format!("*3\r\n{}", parts.concat()));
    }
}

fn common(words: &[String]) -> String {
    match words[0].as_str() {
        "PING" => "+PONG\r\n".into(),
        "CLIENT" => "+OK\r\n".into(),
        "SUBSCRIBE" => format!("*3\r\n{}{}:1\r\n", bulk("subscribe"), bulk(&words[1])),
        _ => format!("-ERR unknown command '{}'\r\n", words[0]),
    }
}

type Answers = Arc<dyn Fn(&[String]) -> String + Send + Sync>;

/// Listens on a port, and answers each command by a function; what is told goes to subscribers.
async fn listen(answers: Answers, told: Option<broadcast::Sender<String>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answers.clone(), told.clone()));
        }
    });
    port
}

async fn serve(mut stream: TcpStream, answers: Answers, told: Option<broadcast::Sender<String>>) {
    let (mut room, mut received) = ([0; 4096], Vec::new());
    let mut decoder = Decoder::new(DecodeLimits::default());
    let mut news = None;
    loop {
        while let (consumed, Some(request)) = decoder.decode(&received).unwrap() {
            received.drain(..consumed);
            let Value::Array(items) = request else { panic!("{request:?}") };
            let words: Vec<String> = items
                .iter()
                .map(|item| String::from_utf8(item.as_bytes().unwrap().to_vec()).unwrap())
                .collect();
            if words[0] == "SUBSCRIBE" {
                news = told.as_ref().map(broadcast::Sender::subscribe);
            }
            if stream.write_all(answers(&words).as_bytes()).await.is_err() {
                return;
            }
        }
        let hears = async {
            match &mut news {
                Some(news) => news.recv().await.unwrap(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = stream.read(&mut room) => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => received.extend_from_slice(&room[..count]),
            },
            text = hears => stream.write_all(text.as_bytes()).await.unwrap(),
        }
    }
}

/// A server that is `master` or `slave`, as the test has it at the moment, and says who it is.
async fn node(name: &'static str, role: Arc<Mutex<&'static str>>) -> u16 {
    let answers = move |words: &[String]| match words[0].as_str() {
        "ROLE" => format!("*1\r\n{}", bulk(*role.lock())),
        "GET" => bulk(name),
        _ => common(words),
    };
    listen(Arc::new(answers), None).await
}

async fn sentinel(scene: &Arc<Scene>) -> u16 {
    let (told, scene) = (scene.told.clone(), scene.clone());
    listen(Arc::new(move |words: &[String]| scene.sentinel(words)), Some(told)).await
}

fn of_service(service: &str, sentinels: &[u16]) -> SentinelOptions {
    let mut node = options(0);
    node.timeout = Some(Duration::from_secs(30));
    SentinelOptions {
        service: service.to_owned(),
        sentinels: sentinels.iter().map(|port| options(*port)).collect(),
        node,
    }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn who(client: &Client) -> Option<String> {
    client.get("who").reply().await.ok()
}

#[tokio::test]
async fn the_primary_is_found_and_followed() {
    let roles = ["master", "slave", "slave"].map(|role| Arc::new(Mutex::new(role)));
    let first = node("first", roles[0].clone()).await;
    let second = node("second", roles[1].clone()).await;
    let third = node("third", roles[2].clone()).await;
    let scene = Scene::new(first);
    *scene.replicas.lock() = vec![(second, "slave"), (third, "s_down,slave,disconnected")];
    let talks = sentinel(&scene).await;
    // The first sentinel is gone; the second one knows.
    let found = Sentinel::connect(of_service("main", &[free_port(), talks])).await.unwrap();
    let client = found.primary().await.unwrap();
    let replica = found.replica().await.unwrap();
    assert_eq!(who(&client).await.unwrap(), "first");
    for _ in 0..3 {
        // Never the one that is down.
        assert_eq!(who(&found.replica().await.unwrap()).await.unwrap(), "second");
    }
    eventually("the sentinel is listened to", async || scene.told.receiver_count() == 1).await;

    // The connection to the old primary stays open: it is given up because of what is told.
    (*roles[0].lock(), *roles[1].lock()) = ("slave", "master");
    *scene.replicas.lock() = vec![(first, "slave")];
    scene.switch(second);
    eventually("the new primary", async || who(&client).await.as_deref() == Some("second")).await;
    eventually("its replica", async || who(&replica).await.as_deref() == Some("first")).await;
    let address = Address::Tcp { host: "127.0.0.1".into(), port: second };
    assert_eq!(found.primary_address(), Some(address));
    // A service of another name is none of its business.
    let parts = ["message", "+switch-master", "other 127.0.0.1 1 127.0.0.1 2"].map(bulk);
    scene.told.send(format!("*3\r\n{}", parts.concat())).unwrap();
    assert_eq!(who(&client).await.unwrap(), "second");
    // Without replicas the primary is read from.
    scene.replicas.lock().clear();
    assert_eq!(who(&found.replica().await.unwrap()).await.unwrap(), "second");
}

#[tokio::test]
async fn a_primary_that_is_none_any_more_is_not_used() {
    let role = Arc::new(Mutex::new("slave"));
    let scene = Scene::new(node("demoted", role.clone()).await);
    let found = Sentinel::connect(of_service("main", &[sentinel(&scene).await])).await.unwrap();
    let error = found.primary().await.unwrap_err();
    assert!(error.to_string().contains("no master any more"), "{error}");
    *role.lock() = "master";
    assert_eq!(who(&found.primary().await.unwrap()).await.unwrap(), "demoted");
    let error = Sentinel::connect(of_service("nothing", &[sentinel(&scene).await])).await;
    assert!(error.unwrap_err().to_string().contains("do not know the service"));
    let error = Sentinel::connect(of_service("main", &[])).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Configuration(_)), "{error}");
}

/// A process of Redis Sentinel; killed when dropped.
struct RedisSentinel {
    child: Child,
    directory: PathBuf,
}

impl Drop for RedisSentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Starts a sentinel that alone decides that the primary is down, after 300 ms.
fn redis_sentinel(port: u16, primary: u16) -> RedisSentinel {
    let directory = std::env::temp_dir().join(format!("petrel-sentinel-{port}"));
    std::fs::create_dir(&directory).unwrap();
    let configuration = format!(
        "port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {primary} 1\n\
         sentinel down-after-milliseconds main 300\nsentinel failover-timeout main 3000\n"
    );
    std::fs::write(directory.join("sentinel.conf"), configuration).unwrap();
    let child = Command::new("redis-server")
        .args(["sentinel.conf", "--sentinel"])
        .current_dir(&directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    RedisSentinel { child, directory }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_sentinel_fails_over() {
    let Some(mut first) = Server::start(Kind::Redis, &["--repl-diskless-sync-delay", "0"]) else {
        return;
    };
    let port = first.port.to_string();
    let Some(second) = Server::start(Kind::Redis, &["--replicaof", "127.0.0.1", &port]) else {
        return;
    };
    let talks = free_port();
    let _sentinel = redis_sentinel(talks, first.port);
    let mut found = None;
    eventually("the sentinel answers", async || {
        found = Sentinel::connect(of_service("main", &[talks])).await.ok();
        found.is_some()
    })
    .await;
    let found = found.unwrap();
    let client = found.primary().await.unwrap();
    client.set("k", "1").await.unwrap();
    let is_second = |address: Option<Address>| {
        address == Some(Address::Tcp { host: "127.0.0.1".into(), port: second.port })
    };
    eventually("the sentinel knows the replica, which has the key", async || {
        let replica = found.replica().await.unwrap();
        let info: String = replica.command("INFO replication").reply().await.unwrap();
        info.contains("role:slave") && replica.get("k").await.unwrap().is_some()
    })
    .await;
    first.stop();
    eventually("writes go to the new primary", async || client.set("k", "2").await.is_ok()).await;
    assert!(is_second(found.primary_address()), "{found:?}");
    let there = Client::connect(&second.url()).await.unwrap();
    assert_eq!(there.get("k").reply::<i64>().await.unwrap(), 2);
}
