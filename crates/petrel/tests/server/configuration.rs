//! Configuration files, CONFIG, and what changes at run time.

use crate::harness::*;

#[test]
fn a_file_is_read_rewritten_and_read_again() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("petrel.conf"), "# mine\nmaxmemory 10mb\nslowlog-max-len 5\n")
        .unwrap();
    let mut server = Server::start_in(scratch, "epoll", &["petrel.conf", "--hz", "20"]);
    let mut client = server.connect();
    assert_eq!(client.text(&["CONFIG", "GET", "maxmemory", "hz"]), "[hz 20 maxmemory 10485760]");
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory", "20mb", "timeout", "7"]), "OK");
    assert_eq!(client.text(&["CONFIG", "REWRITE"]), "OK");
    let text = std::fs::read_to_string(server.scratch.path("petrel.conf")).unwrap();
    assert!(text.starts_with("# mine\nmaxmemory 20mb\nslowlog-max-len 5\n"), "{text}");
    assert!(text.contains("\ntimeout 7\n") && text.contains("\nhz 20\n"), "{text}");
    client.send(&["SHUTDOWN"]);
    assert_eq!(server.exit_code(), Some(0));

    let scratch = Scratch::new();
    std::fs::write(scratch.path("petrel.conf"), text).unwrap();
    let server = Server::start_in(scratch, "epoll", &["petrel.conf"]);
    let shown = server.connect().text(&["CONFIG", "GET", "timeout", "maxmemory"]);
    assert_eq!(shown, "[maxmemory 20971520 timeout 7]");
}

#[test]
fn get_answers_a_map_in_resp3() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    client.call(&["HELLO", "3"]);
    assert_eq!(client.text(&["CONFIG", "GET", "maxclients", "nosuch"]), "{maxclients:10000}");
    assert_eq!(client.text(&["CONFIG", "GET", "nosuch"]), "{}");
}

#[test]
fn set_changes_all_or_nothing() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    let refused = client.text(&["CONFIG", "SET", "timeout", "9", "databases", "1"]);
    assert!(refused.contains("can't set immutable config"), "{refused}");
    assert!(client.text(&["CONFIG", "SET", "dir", "/"]).contains("can't set protected config"));
    assert_eq!(client.text(&["CONFIG", "SET", "timeout", "9", "hz"]), "ERR syntax error");
    assert_eq!(client.text(&["CONFIG", "GET", "timeout"]), "[timeout 0]");
    let refused = client.text(&["CONFIG", "SET", "timeout", "9", "maxclients", "4000000000"]);
    assert!(refused.contains("The operating system is not able"), "{refused}");
    assert_eq!(
        client.text(&["CONFIG", "GET", "timeout", "maxclients"]),
        "[maxclients 10000 timeout 0]"
    );
    assert_eq!(
        client.text(&["CONFIG", "REWRITE"]),
        "ERR The server is running without a config file"
    );
    // Sentinel asks for it at each failover.
    assert!(!server.output().contains("was not rewritten"), "{}", server.output());
}

#[test]
fn addresses_and_port_change_at_run_time() {
    let backends = if has_io_uring() { &["epoll", "io_uring"][..] } else { &["epoll"] };
    for backend in backends {
        let server = Server::start(backend, &[]);
        let mut client = server.connect();
        let (first, second) = (free_port().to_string(), free_port().to_string());
        let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let taken = taken.local_addr().unwrap().port().to_string();
        let connects = |port: &str| {
            let address = ("127.0.0.1", port.parse::<u16>().unwrap());
            std::net::TcpStream::connect(address).is_ok()
        };
        assert_eq!(client.text(&["CONFIG", "SET", "port", &first]), "OK");
        eventually("the port is open", || connects(&first));
        let refused = client.text(&["CONFIG", "SET", "port", &taken]);
        assert!(refused.contains("(possibly related to argument 'port') - Unable to"), "{refused}");
        assert_eq!(client.text(&["CONFIG", "SET", "bind", "0.0.0.0"]), "OK");
        eventually("all addresses are open", || connects(&first));
        let refused = client.text(&["CONFIG", "SET", "bind", "127.0.0.1 192.0.2.77"]);
        assert!(refused.contains("Failed to bind to specified addresses."), "{refused}");
        eventually("all addresses are open again", || connects(&first));
        assert_eq!(client.text(&["CONFIG", "GET", "bind"]), "[bind 0.0.0.0]");
        let set = ["CONFIG", "SET", "bind", "127.0.0.1", "port", &second];
        assert_eq!(client.text(&set), "OK");
        eventually("the new port is open", || connects(&second));
        eventually("the old port is closed", || !connects(&first));
        let port = second.parse::<u16>().unwrap();
        assert_eq!(Client::tcp(port).text(&["PING"]), "PONG");
        assert_eq!(client.text(&["CONFIG", "SET", "port", "0"]), "OK");
        eventually("TCP is off", || !connects(&second));
    }
}

#[test]
fn the_log_level_changes_at_run_time() {
    let server = Server::start_unready(
        Scratch::new(),
        "epoll",
        &["--logfile", "log", "--enable-debug-command", "local"],
    );
    let mut client = server.connect();
    let log = || std::fs::read_to_string(server.scratch.path("log")).unwrap_or_default();
    assert_eq!(client.text(&["DEBUG", "LOG", "first"]), "OK");
    assert_eq!(client.text(&["CONFIG", "SET", "loglevel", "nothing"]), "OK");
    assert_eq!(client.text(&["DEBUG", "LOG", "second"]), "OK");
    assert_eq!(client.text(&["CONFIG", "SET", "loglevel", "notice"]), "OK");
    // After its file was renamed, the log continues in a new one.
    std::fs::rename(server.scratch.path("log"), server.scratch.path("old")).unwrap();
    assert_eq!(client.text(&["DEBUG", "LOG", "third"]), "OK");
    let old = std::fs::read_to_string(server.scratch.path("old")).unwrap();
    assert!(old.contains("first") && !old.contains("second"), "{old}");
    assert!(log().contains("third"), "{}", log());
}

#[test]
fn a_new_password_holds_for_new_connections() {
    let server = Server::start("epoll", &[]);
    let mut old = server.connect();
    old.send_bytes(
        &[encode(&[b"CONFIG", b"SET", b"requirepass", b"pw"]), encode(&[b"AUTH", b"x"])].concat(),
    );
    assert_eq!(show(&old.receive().unwrap()), "OK");
    assert!(show(&old.receive().unwrap()).starts_with("WRONGPASS"));
    assert_eq!(old.text(&["PING"]), "PONG");
    let mut new = server.connect();
    eventually("the other worker knows", || {
        new = server.connect();
        new.text(&["PING"]).starts_with("NOAUTH")
    });
    assert_eq!(old.text(&["CONFIG", "SET", "requirepass", ""]), "OK");
    eventually("the password is gone", || new.text(&["PING"]) == "PONG");
}

#[test]
fn statistics_are_reset() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    client.text(&["GET", "nosuch"]);
    client.text(&["NOSUCH"]);
    assert!(server.info("keyspace_misses") == 1 && server.info("total_error_replies") == 1);
    assert!(server.info("total_net_input_bytes") > 20);
    assert_eq!(client.text(&["CONFIG", "RESETSTAT"]), "OK");
    for field in ["keyspace_misses", "total_error_replies", "rejected_connections"] {
        assert_eq!(server.info(field), 0, "{field}");
    }
    assert!(server.info("total_commands_processed") < 6);
    assert!(!client.text(&["INFO", "commandstats"]).contains("cmdstat_get"));
}

#[test]
fn modules_are_refused_whatever_is_configured() {
    let server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    for call in [&["MODULE", "LOAD", "/m.so"][..], &["MODULE", "UNLOAD", "m"]] {
        assert!(client.text(call).starts_with("ERR MODULE command not allowed."), "{call:?}");
    }
}

/// Directives of the configuration files that releases of Redis and Valkey come with, each behind
/// the releases that have it.
const RELEASES: &str = include_str!("releases.txt");

#[test]
fn the_configuration_of_every_release_starts_a_server() {
    let lines = RELEASES.lines().map(|line| line.split_once(": ").unwrap());
    let lines: Vec<(Vec<&str>, &str)> =
        lines.map(|(releases, line)| (releases.split(' ').collect(), line)).collect();
    let mut releases: Vec<&str> = lines.iter().flat_map(|(releases, _)| releases.clone()).collect();
    releases.sort_unstable();
    releases.dedup();
    assert!(releases.len() > 10 && releases[0] == "redis-2.6", "{releases:?}");
    for release in releases {
        let own = lines.iter().filter(|(releases, _)| releases.contains(&release));
        let text: Vec<&str> = own.map(|&(_, line)| line).collect();
        assert!(text.len() > 30, "{release}");
        let scratch = Scratch::new();
        std::fs::write(scratch.path("redis.conf"), text.join("\n")).unwrap();
        // What would leave the test's directory, or run beside it.
        let args = ["redis.conf", "--daemonize", "no", "--pidfile", "pid", "--logfile", ""];
        let args = [&args[..], &["--bind", "127.0.0.1", "--dir", "."]].concat();
        let server = Server::start_in(scratch, "epoll", &args);
        assert_eq!(server.connect().text(&["SET", "a", "1"]), "OK", "{release}");
        let says = server.output().matches("configured, but ignored: ").count();
        let is_old = text.iter().any(|line| line.starts_with("list-max-ziplist-value"));
        assert_eq!(says, usize::from(is_old), "{release}: {}", server.output());
    }
}

#[test]
fn io_threads_do_not_set_the_number_of_workers() {
    let scratch = Scratch::new();
    std::fs::write(
        scratch.path("redis.conf"),
        "io-threads 7\nio-threads-do-reads yes\nlua-replicate-commands yes\n",
    )
    .unwrap();
    let server = Server::start_in(scratch, "epoll", &["redis.conf"]);
    let mut client = server.connect();
    assert_eq!(
        client.text(&["CONFIG", "GET", "threads", "io-threads*"]),
        "[io-threads 7 io-threads-do-reads yes threads 2]"
    );
    let output = server.output();
    let lines: Vec<&str> = output.lines().filter(|line| line.contains("ignored")).collect();
    assert_eq!(lines.len(), 1, "{output}");
    assert!(
        lines[0].ends_with(
            "configured, but ignored: io-threads, io-threads-do-reads, lua-replicate-commands; threads sets the \
             number of workers"
        ),
        "{output}"
    );
    assert_eq!(client.text(&["CONFIG", "SET", "io-threads", "3"]), "OK");
    assert_eq!(client.text(&["CONFIG", "GET", "threads"]), "[threads 2]");
    assert!(client.text(&["CONFIG", "SET", "io-threads", "0"]).contains("between 1 and 256"));
    // What nothing has to say about is not mentioned.
    let server = Server::start("epoll", &["--io-threads", "1"]);
    assert!(!server.output().contains("ignored"), "{}", server.output());
}

#[test]
fn dropped_directives_take_one_value_and_are_no_parameters() {
    for name in ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"] {
        let option = format!("--{name}");
        let server = Server::start("epoll", &[&option, "512"]);
        let mut client = server.connect();
        assert_eq!(client.text(&["CONFIG", "GET", name]), "[]");
        assert_eq!(
            client.text(&["CONFIG", "SET", name, "512"]),
            format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
        );
        assert!(server.output().contains(&format!("configured, but ignored: {name}\n")));
        let output = run_to_end(&Scratch::new(), &[&option, "1", "2"]);
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(&format!("--{name}: wrong number of arguments")), "{text}");
    }
    let server = Server::start("epoll", &["--lua-enable-deprecated-api", "no"]);
    let mut client = server.connect();
    let shown = client.text(&["CONFIG", "GET", "lua-enable-deprecated-api"]);
    assert_eq!(shown, "[lua-enable-deprecated-api no]");
    let refused = client.text(&["CONFIG", "SET", "lua-enable-deprecated-api", "no"]);
    assert!(refused.contains("can't set immutable config"), "{refused}");
    let output = run_to_end(&Scratch::new(), &["--lua-enable-deprecated-api", "yes"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("scripts have the functions of Redis 7 and later only"), "{text}");
}
