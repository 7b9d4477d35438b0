//! TLS, for tasks and for plain threads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use petrel_client::{Client, Commands, Options, RawCommand, blocking};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::servers::{Kind, Server, free_port, with_each_server};

with_each_server!(
    tasks_and_threads,
    large_values_in_tasks,
    threads_without_tls,
    strangers_are_refused,
    the_example,
);

/// An authority, and files of what it has signed for `localhost`.
struct Authority {
    pem: String,
    directory: PathBuf,
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Authority {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("petrel-client-tls-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(directory.join("crt"), certificate.pem()).unwrap();
        std::fs::write(directory.join("key"), key.serialize_pem()).unwrap();
        std::fs::write(directory.join("ca"), &pem).unwrap();
        Self { pem, directory }
    }

    /// A server with this certificate, and the options to reach it.
    fn server(&self, kind: Kind) -> Option<(Server, Options)> {
        let port = free_port();
        let file = |name: &str| self.directory.join(name).display().to_string();
        let (port_text, certificate, key, ca) =
            (port.to_string(), file("crt"), file("key"), file("ca"));
        let arguments = [
            "--tls-port",
            &port_text,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--tls-auth-clients",
            "no",
        ];
        let server = Server::start(kind, &arguments)?;
        let begin = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(30), "no TLS port");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut options = Options::from_url(&format!("rediss://localhost:{port}")).unwrap();
        options.tls_roots_pem = Some(self.pem.clone().into_bytes());
        Some((server, options))
    }
}

async fn the_example(kind: Kind) {
    let authority = Authority::new();
    let Some((_server, options)) = authority.server(kind) else { return };
    let (url, ca) = (format!("rediss://{}", options.address), authority.directory.join("ca"));
    let output = crate::examples::output("tls", &[&url, &ca.display().to_string()]);
    assert!(output.is_none_or(|output| output.contains("over TLS")));
}

async fn tasks_and_threads(kind: Kind) {
    let authority = Authority::new();
    let Some((_server, options)) = authority.server(kind) else { return };
    let client = Client::with_options(options.clone()).await.unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                for call in 0..50 {
                    let (key, value) = (format!("k:{task}"), format!("{task}:{call}"));
                    client.set(&key, &value).await.unwrap();
                    assert_eq!(client.get(&key).await.unwrap().unwrap(), value);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let threads = tokio::task::spawn_blocking(move || threads(options));
    threads.await.unwrap();
}

/// The same as with TLS: what differs is the stream.
async fn threads_without_tls(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    for url in [server.url(), server.socket_url()] {
        let options = Options::from_url(&url).unwrap();
        tokio::task::spawn_blocking(move || threads(options)).await.unwrap();
    }
}

async fn large_values_in_tasks(kind: Kind) {
    let authority = Authority::new();
    let Some((_server, options)) = authority.server(kind) else { return };
    let client = Client::with_options(options).await.unwrap();
    let tasks: Vec<_> = (0..6)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                for call in 0..60 {
                    let len = [10, 20_000, 700_000][call % 3] + task;
                    let (key, value) = (format!("t:{task}"), vec![b'a' + task as u8; len]);
                    client.set(&key, &value).await.unwrap();
                    assert_eq!(client.get(&key).await.unwrap().unwrap(), value);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn threads(options: Options) {
    let client = blocking::Client::with_options(options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let client = client.clone();
            scope.spawn(move || {
                for call in 0..60 {
                    // Of less than a record, of several, and of more than sockets hold.
                    let len = [10, 20_000, 700_000][call % 3] + thread;
                    let (key, value) = (format!("t:{thread}"), vec![b'a' + thread as u8; len]);
                    client.set(&key, &value).run().unwrap();
                    assert_eq!(client.get(&key).run().unwrap().unwrap(), value);
                }
            });
        }
    });
    // A lost connection is made anew.
    let id: i64 = client.command("CLIENT ID").reply().run().unwrap();
    let _ = client
        .command("CLIENT KILL")
        .args(["ID"])
        .arg(id)
        .args(["SKIPME", "no"])
        .reply::<i64>()
        .run();
    let begin = Instant::now();
    loop {
        match client.get("t:0").run() {
            Ok(_) => break,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(30), "{error}"),
        }
    }
    assert_ne!(client.command("CLIENT ID").reply::<i64>().run().unwrap(), id);
}

async fn strangers_are_refused(kind: Kind) {
    let authority = Authority::new();
    let Some((server, options)) = authority.server(kind) else { return };
    let stranger = Authority::new();
    let mut wrong = vec![options.clone(), options.clone()];
    // Signed by another authority, and for another name.
    wrong[0].tls_roots_pem = Some(stranger.pem.clone().into_bytes());
    if let petrel_client::Address::Tls { host, .. } = &mut wrong[1].address {
        *host = "127.0.0.1".into();
    }
    // A port that speaks no TLS.
    let url = format!("rediss://localhost:{}?connect_timeout_ms=2000", server.port);
    wrong
        .push(Options { tls_roots_pem: options.tls_roots_pem, ..Options::from_url(&url).unwrap() });
    for options in wrong {
        let error = Client::with_options(options.clone()).await.unwrap_err();
        assert!(error.is_disconnected(), "{error}");
        let connect = move || blocking::Client::with_options(options).map(drop);
        let error = tokio::task::spawn_blocking(connect).await.unwrap().unwrap_err();
        assert!(error.is_disconnected(), "{error}");
    }
}
