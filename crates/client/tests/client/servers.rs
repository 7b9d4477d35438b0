//! Starts servers for tests: Petrel, and Redis where it is installed.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What nothing here should take longer than, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that tests are run against.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Petrel,
    Redis,
}

/// A running server on a port of its own; killed when dropped.
pub struct Server {
    child: Child,
    kind: Kind,
    arguments: Vec<String>,
    pub port: u16,
    directory: PathBuf,
}

impl Server {
    /// Starts a server, or says why the test is skipped.
    pub fn start(kind: Kind, arguments: &[&str]) -> Option<Self> {
        let Some(program) = program(kind) else {
            println!("skipped: there is no program for {kind:?}");
            return None;
        };
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("petrel-client-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let arguments: Vec<String> = arguments.iter().map(|text| text.to_string()).collect();
        // Another process may take the port in between.
        for _ in 0..5 {
            let port = free_port();
            let child = spawn(&program, port, &directory, &arguments);
            let (arguments, directory) = (arguments.clone(), directory.clone());
            let mut server = Server { child, kind, arguments, port, directory };
            if server.wait() {
                return Some(server);
            }
        }
        panic!("{kind:?} does not start");
    }

    /// Kills it and starts it anew on the same port.
    pub fn restart(&mut self) {
        self.stop();
        self.resume();
    }

    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it after [`Self::stop`].
    pub fn resume(&mut self) {
        let program = program(self.kind).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.child = spawn(&program, self.port, &self.directory, &self.arguments);
            if self.wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{:?} does not start again", self.kind);
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn socket_url(&self) -> String {
        format!("unix://{}", self.directory.join("s").display())
    }

    fn wait(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return self.child.try_wait().unwrap().is_none();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn spawn(program: &PathBuf, port: u16, directory: &PathBuf, arguments: &[String]) -> Child {
    let log = std::fs::File::create(directory.join("log")).unwrap();
    Command::new(program)
        .args(["--port", &port.to_string(), "--unixsocket", "s", "--save", ""])
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Petrel's binary lies where this test's does, if the workspace was built.
fn program(kind: Kind) -> Option<PathBuf> {
    match kind {
        Kind::Petrel => {
            let test = std::env::current_exe().ok()?;
            let built = test.parent()?.parent()?.join("petrel");
            built.exists().then_some(built)
        }
        Kind::Redis => {
            let path = std::env::var_os("PATH")?;
            std::env::split_paths(&path).map(|dir| dir.join("redis-server")).find(|at| at.exists())
        }
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Makes each async function that takes a kind of server a test per kind.
macro_rules! with_each_server {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn petrel() {
                super::$name(crate::servers::Kind::Petrel).await;
            }

            #[tokio::test]
            async fn redis() {
                super::$name(crate::servers::Kind::Redis).await;
            }
        }
    )* };
}
pub(crate) use with_each_server;
