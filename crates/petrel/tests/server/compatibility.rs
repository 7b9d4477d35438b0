//! COMPATIBILITY.md lists the commands that the server answers: the list is made here.

use crate::harness::*;
use petrel_resp::Value;
use petrel_table::commands::ALL;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const BEGIN: &str =
    "<!-- commands: written by PETREL_WRITE_PAGES=1 cargo test -p petrel compatibility -->\n";
const END: &str = "<!-- end of commands -->\n";

/// A row per group, in alphabetical order: `NAME`, with the subcommands of a container.
fn table(listed: &BTreeSet<String>) -> String {
    let mut groups: BTreeMap<&str, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (command, subs) in ALL.iter().filter(|(command, _)| listed.contains(command.name)) {
        let full = |sub: &str| format!("{}|{sub}", command.name);
        let subs = subs.iter().filter(|sub| listed.contains(&full(sub.name)));
        let subs = subs.map(|sub| sub.name.to_uppercase()).collect();
        groups.entry(command.group.name()).or_default().insert(command.name.to_uppercase(), subs);
    }
    let mut text = String::from("| group | commands |\n|---|---|\n");
    for (group, commands) in groups {
        let cells = commands.iter().map(|(name, subs)| match subs.len() {
            0 => format!("`{name}`"),
            _ => {
                let subs: Vec<&str> = subs.iter().map(String::as_str).collect();
                format!("`{name}` ({})", subs.join(", "))
            }
        });
        text += &format!("| {group} | {} |\n", cells.collect::<Vec<_>>().join(", "));
    }
    text
}

#[test]
fn the_page_lists_the_commands_that_there_are() {
    let server = Server::start("epoll", &[]);
    let Value::Array(names) = server.connect().call(&["COMMAND", "LIST"]) else {
        panic!("COMMAND LIST")
    };
    let listed: BTreeSet<String> = names.iter().map(show).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../COMPATIBILITY.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the mark before the table");
    let (there, after) = rest.split_once(END).expect("the mark behind the table");
    let wanted = table(&listed);
    if std::env::var_os("PETREL_WRITE_PAGES").is_some() {
        std::fs::write(&path, [before, BEGIN, &wanted, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(there, wanted, "run this test with PETREL_WRITE_PAGES=1");
}
