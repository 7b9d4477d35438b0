//! The examples, run as the programs that they are.

use std::path::PathBuf;
use std::process::Command;

use crate::servers::{Kind, Server, with_each_server};

with_each_server!(examples_say_what_they_should);

/// An example that `cargo test` has built beside the tests; none if it was left out, as by
/// `--test`.
pub fn example(name: &str) -> Option<PathBuf> {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: the example {name} is not built");
    None
}

/// Runs an example to its end; what it wrote.
pub fn output(name: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(example(name)?).args(arguments).output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {out}{err}");
    Some(out.into_owned())
}

async fn examples_say_what_they_should(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let address = format!("127.0.0.1:{}", server.port);
    let url = server.url();
    let examples: [(&str, &[&str], &str); 11] = [
        ("aside", &[&url], "hits: "),
        ("counter", &[&url], "counted to 100"),
        ("limiter", &[&url], "six of another user at once: refused"),
        ("lock", &[&url, "4"], "4 programs have added 4"),
        ("mock", &[], "visit 7 of home"),
        ("near", &[&url, "100", "1000"], "the change has come"),
        ("scan", &[&url], "1000 fields, whose values are 499500 together"),
        ("script", &[&url], "2: sold, 1 left\n2: too many, 1 left\n1: sold, 0 left"),
        ("stream", &[&address], "PONG\n"),
        ("threads", &[&url], "counted to Some(800)"),
        ("transfer", &[&url], "[70, 30]"),
    ];
    for (name, arguments, expected) in examples {
        if let Some(output) = output(name, arguments) {
            assert!(output.contains(expected), "{name}: {output}");
        }
    }
}
