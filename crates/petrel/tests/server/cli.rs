//! `petrel cli`: what it prints, beside redis-cli where that is installed.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::harness::*;

/// Runs a program with arguments and input; no variable of the environment decides anything.
fn run(program: &str, before: &[&str], args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(program);
    command.args(before).args(args).env_remove("REDISCLI_AUTH").env("PETREL_HISTFILE", "");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that ends early does not read it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

struct Cli {
    server: Server,
    socket: String,
}

impl Cli {
    fn start(args: &[&str]) -> Self {
        let server = Server::start("epoll", args);
        let socket = server.socket().display().to_string();
        Self { server, socket }
    }

    fn ours(&self, args: &[&str], input: &[u8]) -> Output {
        run(env!("CARGO_BIN_EXE_petrel"), &["cli", "-s", &self.socket], args, input)
    }

    /// What is printed, error output behind it.
    fn text(&self, args: &[&str]) -> String {
        shown(&self.ours(args, b""))
    }
}

fn shown(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

fn fill(cli: &Cli) {
    let mut client = cli.server.connect();
    for i in 1..=12 {
        client.call(&["RPUSH", "l", &i.to_string()]);
        client.call(&["HSET", "h", &format!("f{i}"), &i.to_string()]);
        client.call(&["ZADD", "z", &format!("{}.5", i), &format!("m{i}")]);
    }
    client.call(&["XADD", "s", "1-1", "a", "b\n"]);
    client.call(&["SET", "k", "v"]);
}

#[test]
fn replies_in_each_form() {
    let cli = Cli::start(&[]);
    fill(&cli);
    assert_eq!(cli.text(&["--no-raw", "lrange", "l", "0", "1"]), "1) \"1\"\n2) \"2\"\n");
    assert_eq!(cli.text(&["lrange", "l", "0", "1"]), "1\n2\n");
    assert_eq!(cli.text(&["--csv", "lrange", "l", "0", "1"]), "\"1\",\"2\"\n");
    let range = ["--json", "zrange", "z", "0", "1", "withscores"];
    assert_eq!(cli.text(&range), "[[\"m1\",1.5],[\"m2\",2.5]]\n");
    assert_eq!(cli.text(&["-3", "--no-raw", "zscore", "z", "m1"]), "(double) 1.5\n");
    assert_eq!(cli.text(&["-n", "3", "get", "k"]), "\n");
    assert_eq!(cli.text(&["-r", "3", "incr", "n"]), "1\n2\n3\n");
    assert_eq!(shown(&cli.ours(&["-x", "set", "x"], b"a\0b")), "OK\n");
    assert_eq!(cli.text(&["--no-raw", "get", "x"]), "\"a\\x00b\"\n");
    let failed = cli.ours(&["-e", "incr", "l"], b"");
    assert_eq!((failed.status.code(), failed.stdout.len()), (Some(1), 0));
    assert!(shown(&failed).starts_with("WRONGTYPE"));
    assert!(cli.ours(&["incr", "l"], b"").status.success());
}

#[test]
fn lines_of_a_pipe_are_commands() {
    let cli = Cli::start(&[]);
    let lines = b"set a \"b c\"\nget a\nbad \"x\n\n2 incr n\nselect 2\nget a\nquit\nping\n";
    let expected = "OK\nb c\nInvalid argument(s)\n1\n2\nOK\n\n";
    assert_eq!(shown(&cli.ours(&[], lines)), expected);
    let requests = b"SET a b\r\nLPUSH a x\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    let output = cli.ours(&["--pipe"], requests);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.ends_with("errors: 1, replies: 3\n"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("WRONGTYPE"));
}

#[test]
fn a_hundred_thousand_requests_go_through_a_pipe() {
    let cli = Cli::start(&[]);
    let requests: String = (0..100_000).map(|i| format!("SET key:{i} {i}\r\n")).collect();
    let output = cli.ours(&["--pipe"], requests.as_bytes());
    assert!(shown(&output).ends_with("errors: 0, replies: 100000\n"), "{}", shown(&output));
    assert_eq!(cli.text(&["dbsize"]), "100000\n");
    assert_eq!(
        cli.text(&["--scan", "--pattern", "key:7777*", "--count", "1000"]).lines().count(),
        11
    );
}

#[test]
fn keys_are_sized() {
    let cli = Cli::start(&[]);
    fill(&cli);
    cli.server.connect().call(&["JSON.SET", "j", "$", "{}"]);
    let text = cli.text(&["--bigkeys"]);
    assert!(text.contains("Sampled 6 keys in the keyspace!"), "{text}");
    assert!(text.contains("Biggest   hash found '\"h\"' has 12 fields"), "{text}");
    assert!(text.contains("1 lists with 12 items (16.67% of keys, avg size 12.00)"), "{text}");
    assert!(text.contains("ReJSON-RL"), "{text}");
    let text = cli.text(&["--memkeys"]);
    assert!(text.contains("Biggest   zset found '\"z\"' has "), "{text}");
    let text = cli.text(&["--hotkeys"]);
    assert!(text.contains("LFU maxmemory policy is not selected"), "{text}");
}

#[test]
fn the_data_is_fetched_as_a_file() {
    let cli = Cli::start(&[]);
    fill(&cli);
    let file = cli.server.scratch.path("copy.rdb").display().to_string();
    let output = cli.ours(&["--rdb", &file], b"");
    assert!(output.status.success(), "{}", shown(&output));
    let checked = run(env!("CARGO_BIN_EXE_petrel"), &["check"], &[&file], b"");
    assert!(shown(&checked).contains("5 keys"), "{}", shown(&checked));
    let to_stdout = cli.ours(&["--rdb", "-"], b"");
    assert!(to_stdout.stdout.starts_with(b"REDIS"));
    let refused = cli.ours(&["--rdb", "/nonexistent/x.rdb"], b"");
    assert_eq!(shown(&refused), "/nonexistent/x.rdb: No such file or directory\n");
}

#[test]
fn scripts_and_errors() {
    let cli = Cli::start(&["--requirepass", "secret"]);
    assert!(cli.text(&["ping"]).starts_with("NOAUTH"));
    assert_eq!(cli.text(&["--no-auth-warning", "-a", "secret", "ping"]), "PONG\n");
    let wrong = cli.text(&["--no-auth-warning", "-a", "wrong", "ping"]);
    assert!(wrong.contains("AUTH failed: WRONGPASS"), "{wrong}");
    let script = cli.server.scratch.path("s.lua");
    std::fs::write(&script, "return {KEYS[1], ARGV[1]}").unwrap();
    let script = script.display().to_string();
    let args = ["--no-auth-warning", "-a", "secret", "--eval", &script, "a", ",", "b"];
    assert_eq!(cli.text(&args), "a\nb\n");
    let program = env!("CARGO_BIN_EXE_petrel");
    let absent = run(program, &["cli", "-s", "/nonexistent.sock"], &["ping"], b"");
    let expected = "Could not connect to /nonexistent.sock: No such file or directory\n";
    assert_eq!((shown(&absent).as_str(), absent.status.code()), (expected, Some(1)));
    let unknown = shown(&run(program, &["cli", "--frob"], &[], b""));
    assert_eq!(unknown, "unknown option '--frob'; see petrel cli --help\n");
    for args in [&["cli", "--help"][..], &["help", "cli"]] {
        assert!(shown(&run(program, args, &[], b"")).starts_with("Usage: petrel cli [OPTIONS]"));
    }
}

/// Calls whose output redis-cli 7.0 prints alike.
#[test]
fn output_is_that_of_redis_cli() {
    let cli = Cli::start(&[]);
    let theirs = |args: &[&str]| run("redis-cli", &["-s", &cli.socket], args, b"");
    match Command::new("redis-cli").arg("--version").output() {
        Ok(output) if shown(&output).starts_with("redis-cli 7.") => {}
        _ => return println!("skipped: no redis-cli 7 is installed"),
    }
    fill(&cli);
    let forms = ["--no-raw", "--raw", "--csv", "--json", "-3 --no-raw", "-3 --raw", "-3 --csv"];
    let commands = [
        "ping",
        "get nosuch",
        "lrange l 0 -1",
        "hgetall h",
        "zrange z 0 -1 withscores",
        "xrange s - +",
        "xinfo stream s full",
        "config get maxmemory*",
        "nosuch x",
        "smembers none",
        "zscore z m1",
        "object help",
        "incr l",
    ];
    let scripts = [
        "return {1,{},{'a',{2,false}},redis.status_reply('x')}",
        "redis.setresp(3) return {double=1.5}",
        "redis.setresp(3) return {map={a={1,{2}}}}",
        "redis.setresp(3) return {set={a=true}}",
        "redis.setresp(3) return {map={a={map={b=1}}}}",
        "redis.setresp(3) return true",
        "return redis.error_reply('E x')",
    ];
    for form in forms {
        let form: Vec<_> = form.split(' ').collect();
        let commands = commands.iter().map(|line| line.split(' ').collect::<Vec<_>>());
        for command in commands.chain(scripts.iter().map(|script| vec!["eval", script, "0"])) {
            let args = [&form[..], &command].concat();
            let (ours, theirs) = (cli.ours(&args, b""), theirs(&args));
            assert_eq!(shown(&ours), shown(&theirs), "{args:?}");
            assert_eq!(ours.status.code(), theirs.status.code(), "{args:?}");
        }
    }
}

#[test]
fn a_server_that_is_stopped_is_no_error() {
    let mut cli = Cli::start(&[]);
    let output = cli.ours(&["SHUTDOWN", "NOSAVE"], b"");
    assert_eq!((shown(&output), output.status.code()), (String::new(), Some(0)));
    assert_eq!(cli.server.exit_code(), Some(0));
    let output = cli.ours(&["SHUTDOWN"], b"");
    assert!(shown(&output).starts_with("Could not connect"), "{}", shown(&output));
    assert_eq!(output.status.code(), Some(1));
}
