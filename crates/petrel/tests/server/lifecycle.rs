//! Starting, failing to start, and stopping.

use crate::harness::*;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::Child;

with_each_backend!(
    the_log_is_lines_of_text_or_json,
    signals_stop_the_server_cleanly,
    shutdown_stops_the_server_cleanly,
    a_stop_is_refused_or_taken_back,
    the_second_interrupt_leaves_no_part_of_a_snapshot,
    a_killed_server_leaves_its_address_at_once,
    sigusr2_shows_what_every_worker_does,
);

fn signals_stop_the_server_cleanly(backend: &str) {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut server = Server::start(backend, &["--pidfile", "pid"]);
        let mut client = server.connect();
        assert_eq!(client.text(&["PING"]), "PONG");
        let pid = server.scratch.path("pid");
        eventually("a pid file", || exists(&pid));
        server.signal(signal);
        assert_eq!(server.exit_code(), Some(0), "{}", server.output());
        assert_eq!(client.receive(), None);
        assert!(!exists(&pid) && !exists(&server.socket()), "files are left");
    }
}

fn shutdown_stops_the_server_cleanly(backend: &str) {
    let mut server = Server::start(backend, &[]);
    let mut client = server.connect();
    assert_eq!(client.text(&["SHUTDOWN", "ABORT"]), "ERR No shutdown in progress.");
    client.send_bytes(
        &[encode(&[b"PING"]), encode(&[b"SHUTDOWN", b"NOSAVE"]), encode(&[b"PING"])].concat(),
    );
    assert_eq!(client.read_to_end(), "+PONG\r\n");
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    assert!(!exists(&server.socket()));
}

fn a_stop_is_refused_or_taken_back(backend: &str) {
    let args = ["--save", "900 1", "--enable-debug-command", "yes"];
    let mut server = Server::start(backend, &args);
    let mut client = server.connect();
    assert_eq!(client.text(&["SET", "k", "v"]), "OK");
    // The file that replaces the snapshot cannot be renamed.
    std::fs::create_dir(server.scratch.path("dump.rdb")).unwrap();
    server.signal(libc::SIGTERM);
    eventually("the log says why not", || server.output().contains("can't exit"));
    let refused = client.text(&["SHUTDOWN"]);
    assert_eq!(refused, "ERR Errors trying to SHUTDOWN. Check logs.");
    std::fs::remove_dir(server.scratch.path("dump.rdb")).unwrap();
    assert_eq!(client.text(&["DEBUG", "PAUSE-CRON", "1"]), "OK");
    server.signal(libc::SIGTERM);
    eventually("it is taken back", || client.text(&["SHUTDOWN", "ABORT"]) == "OK");
    assert_eq!(client.text(&["DEBUG", "PAUSE-CRON", "0"]), "OK");
    assert_eq!(client.text(&["GET", "k"]), "v");
    client.send(&["SHUTDOWN"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    assert!(exists(&server.scratch.path("dump.rdb")));
}

fn the_second_interrupt_leaves_no_part_of_a_snapshot(backend: &str) {
    let args = ["--save", "900 1", "--rdb-key-save-delay", "10000000"];
    let mut server = Server::start(backend, &args);
    assert_eq!(server.connect().text(&["SET", "k", "v"]), "OK");
    let part = server.scratch.path(&format!("temp-{}.rdb", server.pid()));
    server.signal(libc::SIGINT);
    eventually("it is being saved", || exists(&part));
    server.signal(libc::SIGINT);
    assert_eq!(server.exit_code(), Some(1), "{}", server.output());
    assert!(!exists(&part));
}

/// Starts a server that cannot start; returns its one line.
fn failure(scratch: &Scratch, args: &[&str]) -> String {
    let output = run_to_end(scratch, args);
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("petrel: "), "{line}");
    line
}

#[test]
fn a_port_in_use_is_said() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let line = failure(&Scratch::new(), &["--port", &port, "--bind", "127.0.0.1"]);
    assert!(line.contains(&port) && line.contains("in use"), "{line}");
}

/// Starts a server that has to wait for its port.
fn started_at_a_taken_port(scratch: &Scratch, port: u16) -> Child {
    let log = std::fs::File::create(scratch.path("stdout")).unwrap();
    let errors = log.try_clone().unwrap();
    let port = port.to_string();
    let args = ["--port", &port, "--bind", "127.0.0.1", "--threads", "1", "--save", ""];
    let child = petrel(scratch).args(args).stdout(log).stderr(errors).spawn().unwrap();
    eventually("the wait", || {
        let log = std::fs::read_to_string(scratch.path("stdout")).unwrap();
        log.contains("in use (os error 98); waiting 3 seconds at most for it to become free")
    });
    child
}

#[test]
fn a_port_that_becomes_free_is_waited_for() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let scratch = Scratch::new();
    let mut child = started_at_a_taken_port(&scratch, port);
    drop(taken);
    eventually("the server", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_eq!(Client::tcp(port).text(&["PING"]), "PONG");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_signal_ends_the_wait_for_a_port() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let scratch = Scratch::new();
    let mut child = started_at_a_taken_port(&scratch, taken.local_addr().unwrap().port());
    // SAFETY: a signal to a child that has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let log = std::fs::read_to_string(scratch.path("stdout")).unwrap();
    assert!(log.contains("a signal ended the wait for it"), "{log}");
}

/// A process that was killed has left its address by the time its parent knows of it.
fn a_killed_server_leaves_its_address_at_once(backend: &str) {
    for _ in 0..5 {
        let port = free_port();
        let args = ["--port", &port.to_string(), "--bind", "127.0.0.1"];
        let mut server = Server::start(backend, &args);
        let mut clients: Vec<Client> = (0..20).map(|_| Client::tcp(port)).collect();
        clients.iter_mut().for_each(|client| client.send(&["BLPOP", "nothing", "0"]));
        assert_eq!(server.connect().text(&["PING"]), "PONG");
        server.signal(libc::SIGKILL);
        server.exit_code();
        drop(TcpListener::bind(("127.0.0.1", port)).unwrap());
        assert!(UnixStream::connect(server.socket()).is_err());
    }
}

#[test]
fn a_socket_path_that_cannot_be_used_is_said() {
    let scratch = Scratch::new();
    let line = failure(&scratch, &["--port", "0", "--unixsocket", "missing/s"]);
    assert!(line.contains("missing/s"), "{line}");
    std::fs::write(scratch.path("file"), "precious").unwrap();
    let line = failure(&scratch, &["--port", "0", "--unixsocket", "file"]);
    assert!(line.contains("a file is in the way"), "{line}");
    assert_eq!(std::fs::read_to_string(scratch.path("file")).unwrap(), "precious");
    let line = failure(&scratch, &["--port", "0"]);
    assert!(line.contains("nothing to listen on"), "{line}");
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let first = Server::start("epoll", &[]);
    let socket = first.socket().display().to_string();
    let line = failure(&Scratch::new(), &["--port", "0", "--unixsocket", &socket]);
    assert!(line.contains("another server listens on it"), "{line}");
    assert_eq!(first.connect().text(&["PING"]), "PONG");

    let scratch = Scratch::new();
    drop(std::os::unix::net::UnixListener::bind(scratch.path("s")).unwrap());
    assert!(exists(&scratch.path("s")));
    let server = Server::start_in(scratch, "epoll", &[]);
    assert_eq!(server.connect().text(&["PING"]), "PONG");
}

#[test]
fn mistakes_in_parameters_are_said() {
    let scratch = Scratch::new();
    for (args, expected) in [
        (&["--maxmemmory", "1gb"][..], "did you mean '--maxmemory'?"),
        (&["--maxmemory", "1q"], "argument must be a memory value"),
        (&["--maxclients", "0"], "argument must be between 1 and"),
        (&["--dir", "missing"], "No such file or directory"),
        (&["--replicaof", "host 70000"], "Invalid master port"),
        (&["missing.conf"], "missing.conf"),
        (&["--logfile", "missing/log", "--port", "0"], "cannot open the log file"),
    ] {
        let line = failure(&scratch, args);
        assert!(line.contains(expected), "{line}");
    }
    std::fs::write(scratch.path("bad.conf"), "port 0\n\nmaxmemroy 1\n").unwrap();
    let line = failure(&scratch, &["bad.conf"]);
    assert!(line.contains("bad.conf:3:") && line.contains("'maxmemory'"), "{line}");
}

#[test]
fn help_and_version_are_printed() {
    let scratch = Scratch::new();
    let help = run_to_end(&scratch, &["--help"]);
    assert!(help.status.success());
    assert!(String::from_utf8(help.stdout).unwrap().contains("--maxmemory"));
}

#[test]
fn the_version_names_petrel_first_and_the_server_that_tools_know() {
    let scratch = Scratch::new();
    let own = concat!("Petrel ", env!("CARGO_PKG_VERSION"), " (");
    for (name, lines) in [
        ("petrel", &[own, "Redis server v=8.10.0 sha="][..]),
        // Tools that call these take the first number.
        ("redis-server", &["Redis server v=8.10.0 sha="]),
        ("/usr/bin/valkey-server", &["Valkey server v=9.1.0 sha="]),
    ] {
        for option in ["-v", "--version", "version"] {
            let output = petrel(&scratch).arg0(name).arg(option).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success());
            assert_eq!(text.lines().count(), lines.len(), "{text}");
            assert!(text.lines().zip(lines).all(|(line, begin)| line.starts_with(begin)), "{text}");
            assert!(text.to_lowercase().contains(&own.to_lowercase()), "{text}");
        }
    }
}

#[test]
fn an_error_at_start_is_printed_once() {
    let scratch = Scratch::new();
    let shown = |args: &[&str]| {
        let output = run_to_end(&scratch, args);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let args = ["--port", "0", "--unixsocket", "nosuch/s"];
    let text = shown(&args);
    assert_eq!(text.matches("nosuch/s").count(), 1, "{text}");
    // A log of its own has it too.
    let text = shown(&[&args[..], &["--logfile", "log"]].concat());
    assert_eq!(text.matches("nosuch/s").count(), 1, "{text}");
    let log = std::fs::read_to_string(scratch.path("log")).unwrap();
    assert_eq!(log.matches("nosuch/s").count(), 1, "{log}");
}

/// Relative paths start at the directory of the start for the file, `include` and `dir`, and at
/// `dir` for all else, wherever they are written.
#[test]
fn relative_paths_start_at_one_of_two_places() {
    let scratch = Scratch::new();
    for directory in ["conf", "data"] {
        std::fs::create_dir(scratch.path(directory)).unwrap();
    }
    let file = "include conf/more.conf\naclfile users.acl\n";
    std::fs::write(scratch.path("conf/petrel.conf"), file).unwrap();
    std::fs::write(scratch.path("conf/more.conf"), "dir data\nlogfile log\n").unwrap();
    std::fs::write(scratch.path("data/users.acl"), "user default on nopass ~* +@all\n").unwrap();
    let args = ["conf/petrel.conf", "--unixsocket", "../s", "--pidfile", "pid"];
    let server = Server::start_unready(scratch, "epoll", &args);
    assert!(exists(&server.scratch.path("data/log")));
    eventually("the pid file", || exists(&server.scratch.path("data/pid")));
}

#[test]
fn ping_tells_whether_a_server_answers() {
    let server = Server::start("epoll", &["--requirepass", "secret"]);
    let ping = |address: &str, password: &str| {
        let mut command = petrel(&server.scratch);
        let output = command.args(["ping", address]).env("REDISCLI_AUTH", password).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(ping("./s", ""), (true, String::new()));
    assert_eq!(ping("./s", "secret"), (true, String::new()));
    let (passes, said) = ping("./s", "wrong");
    assert!(!passes && said.starts_with("petrel: ./s: REDISCLI_AUTH: WRONGPASS"), "{said}");
    let (passes, said) = ping("./nosuch", "");
    assert!(!passes && said.starts_with("petrel: cannot connect to ./nosuch: "), "{said}");
    // A listener that says nothing.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let args = ["ping", "--timeout", "0.05", &address];
    let output = run_to_end(&server.scratch, &args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&address) && said.ends_with(": no answer in time\n"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_daemon_is_ready_when_its_parent_ends() {
    let scratch = Scratch::new();
    let args = [
        "--port",
        "0",
        "--unixsocket",
        "s",
        "--daemonize",
        "yes",
        "--pidfile",
        "pid",
        "--logfile",
        "log",
    ];
    assert!(run_to_end(&scratch, &args).status.success());
    let pid: i32 = std::fs::read_to_string(scratch.path("pid")).unwrap().trim().parse().unwrap();
    let output = run_to_end(&scratch, &["--port", "0", "--unixsocket", "s", "--daemonize", "yes"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("another server listens on it"));
    // SAFETY: sends a signal to the server, with the id from the pid file.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    eventually("the pid file goes", || !exists(&scratch.path("pid")));
    eventually("the log tells of the end", || {
        std::fs::read_to_string(scratch.path("log")).unwrap().contains("stopped")
    });
}

#[test]
fn systemd_is_told() {
    let scratch = Scratch::new();
    let notified = UnixDatagram::bind(scratch.path("notify")).unwrap();
    notified.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut child = petrel(&scratch)
        .args(["--port", "0", "--unixsocket", "s", "--supervised", "systemd"])
        .args(["--logfile", "log"])
        .env("NOTIFY_SOCKET", scratch.path("notify"))
        .spawn()
        .unwrap();
    let mut message = [0; 256];
    let mut next = || {
        let len = notified.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    };
    assert!(next().starts_with("READY=1\n"));
    // SAFETY: a signal to a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    assert_eq!(next(), "STOPPING=1\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_title_shows_the_server() {
    let server = Server::start("epoll", &["--proc-title-template", "title of {unixsocket}"]);
    let mut client = server.connect();
    let title = |client: &mut Client| {
        let info = client.text(&["INFO", "server"]);
        let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
        let shown = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        shown.trim_end_matches('\0').to_string()
    };
    assert_eq!(title(&mut client), "title of s");
    assert_eq!(client.text(&["CONFIG", "SET", "proc-title-template", "{title} {tls-port}"]), "OK");
    assert!(title(&mut client).ends_with("/petrel 0"));
    assert!(!title(&mut client).contains("title of"));
}

fn the_log_is_lines_of_text_or_json(backend: &str) {
    let server = Server::start(backend, &["--log-format", "json", "--loglevel", "debug"]);
    let mut client = server.connect();
    assert_eq!(client.text(&["CONFIG", "SET", "log-timestamp-format", "iso8601"]), "OK");
    let refused = client.text(&["CONFIG", "SET", "log-format", "xml"]);
    assert!(refused.ends_with("must be one of the following: legacy, logfmt, json"), "{refused}");
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory-clients", "1"]), "OK");
    eventually("a client is closed, and the log says so", || {
        server.output().contains("all clients together exceed maxmemory-clients")
    });
    for line in server.output().lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let level = event["level"].as_str().unwrap();
        assert!(["debug", "info", "notice", "warning"].contains(&level), "{line}");
        assert!(event["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    let server = Server::start_unready(
        Scratch::new(),
        backend,
        &["--log-format", "logfmt", "--logfile", "log"],
    );
    let text = || std::fs::read_to_string(server.scratch.path("log")).unwrap_or_default();
    let first = || {
        // The file is there before its first line is.
        eventually("a line", || text().contains('\n'));
        text().lines().next().unwrap().to_owned()
    };
    assert!(first().contains(" level=notice message=\""), "{}", first());
    eventually("it is ready", || text().contains("Ready to accept connections"));
    // The file may be moved away: the next line begins another.
    std::fs::rename(server.scratch.path("log"), server.scratch.path("old")).unwrap();
    let mut client = server.connect();
    assert_eq!(client.text(&["CONFIG", "SET", "log-format", "legacy"]), "OK");
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory-clients", "1"]), "OK");
    eventually("there is a file again", || exists(&server.scratch.path("log")));
    assert!(first().contains(":M ") && first().contains(" * client "), "{}", first());
}

#[test]
fn the_socket_belongs_to_the_group_that_is_named() {
    // The group of this process needs no permission. SAFETY: no arguments.
    let own = unsafe { libc::getegid() };
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let name = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(own)).then(|| name.to_owned())
    });
    if let Some(name) = name {
        let args = ["--unixsocketgroup", &name, "--unixsocketperm", "740"];
        let server = Server::start("epoll", &args);
        let socket = std::fs::metadata(server.socket()).unwrap();
        assert_eq!((socket.gid(), socket.mode() & 0o777), (own, 0o740));
        let mut client = server.connect();
        let answer = client.text(&["CONFIG", "GET", "unixsocketgroup"]);
        assert_eq!(answer, format!("[unixsocketgroup {name}]"));
        // Tools write back values that they have read.
        assert_eq!(client.text(&["CONFIG", "SET", "unixsocketgroup", &name]), "OK");
    }
    let scratch = Scratch::new();
    let args = ["--port", "0", "--unixsocket", "s", "--unixsocketgroup", "no such group"];
    let line = failure(&scratch, &args);
    assert!(line.contains("no group 'no such group'"), "{line}");
    assert!(!exists(&scratch.path("s")));
}

#[test]
fn a_server_that_asks_for_no_password_says_who_gets_in() {
    const OPEN: &str = "WARNING: Petrel does not require authentication";
    for (args, who) in [
        (&["--protected-mode", "yes"][..], Some("local client")),
        (&["--protected-mode", "no", "--bind", "127.0.0.1"], Some("configured network interface")),
        (&["--protected-mode", "no", "--bind", "*"], Some("not protected by network restrictions")),
        (&["--requirepass", "secret"], None),
    ] {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let server = Server::start("epoll", &[&["--port", &port.to_string()], args].concat());
        eventually("it is ready", || server.output().contains("Ready to accept connections"));
        match who {
            Some(who) => eventually("the warning", || {
                let output = server.output();
                output.lines().any(|line| line.contains(OPEN) && line.contains(who))
            }),
            None => assert!(!server.output().contains(OPEN), "{}", server.output()),
        }
    }
    let server = Server::start("epoll", &[]);
    eventually("it is ready", || server.output().contains("Ready to accept connections"));
    assert!(!server.output().contains(OPEN), "a socket's file says who gets in");
}

fn sigusr2_shows_what_every_worker_does(backend: &str) {
    let server = Server::start(backend, &["--threads", "2", "--busy-reply-threshold", "20"]);
    let mut slow = server.connect();
    slow.send(&["EVAL", "while true do end", "1", "key"]);
    let mut other = server.connect();
    eventually("it is busy", || other.text(&["GET", "key"]).starts_with("BUSY"));
    server.signal(libc::SIGUSR2);
    let has = |text: &str| server.output().contains(text);
    eventually("both workers are shown", || has("state: worker 0 ") && has("state: worker 1 "));
    assert!(has(" Script, turn "), "{}", server.output());
    assert!(has("slow scripts: Script "), "{}", server.output());
    eventually("threads are shown", || has("state: thread petrel-1 "));
    assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
}
