//! What must hold of every entry, and what the forms of a syntax line come to.

use crate::argument::{Arg, ArgFlags, ArgKind, Syntax};
use crate::commands::{self, ALL};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::meta::{Flags, GateFlags, Meta};
use std::collections::HashSet;

fn every() -> impl Iterator<Item = (String, &'static Meta)> {
    ALL.iter().flat_map(|(command, subs)| {
        let subs = subs.iter().map(|sub| (format!("{}|{}", command.name, sub.name), sub));
        std::iter::once((command.name.to_owned(), command)).chain(subs)
    })
}

fn walk(args: &'static [Arg], look: &mut dyn FnMut(&'static Arg)) {
    for arg in args {
        look(arg);
        walk(arg.nested, look);
    }
}

#[test]
fn every_command_is_documented_once() {
    let mut names = HashSet::new();
    for (name, meta) in every() {
        assert!(names.insert(name.clone()), "{name} occurs twice");
        assert!(meta.summary.ends_with('.') && !meta.summary.contains('\n'), "{name}");
        let is_release = |text: &str| text.split('.').all(|part| part.parse::<u16>().is_ok());
        assert!(is_release(meta.since), "{name}: {}", meta.since);
        assert!(meta.history.iter().all(|(release, _)| is_release(release)), "{name}");
        assert!(meta.arity != 0, "{name}");
    }
    assert!(names.len() > 400, "{}", names.len());
}

#[test]
fn key_arguments_and_key_specs_belong_together() {
    for (name, meta) in every() {
        let mut named = HashSet::new();
        walk(meta.arguments, &mut |arg| {
            if arg.kind == ArgKind::Key || arg.key_spec > 0 {
                named.insert(usize::from(arg.key_spec));
            }
        });
        let highest = named.iter().max().map_or(0, |highest| highest + 1);
        assert!(highest <= meta.keys.len(), "{name}: an argument is of key spec {highest}");
        let is_key = |spec: &&KeySpec| !spec.flags.contains(KeyFlags::NOT_KEY);
        let has_keys = meta.keys.iter().any(|spec| is_key(&spec));
        assert!(has_keys || named.is_empty(), "{name}");
    }
}

#[test]
fn siblings_have_names_of_their_own() {
    fn check(command: &str, args: &[Arg]) {
        let mut names = HashSet::new();
        for arg in args {
            assert!(names.insert(arg.name), "{command}: {} occurs twice", arg.name);
            check(command, arg.nested);
        }
    }
    every().for_each(|(name, meta)| check(&name, meta.arguments));
}

#[test]
fn the_forms_of_a_syntax_line() {
    let shown = |meta: Meta| Syntax(meta.arguments).to_string();
    assert_eq!(shown(commands::MSET), "key value [key value ...]");
    assert_eq!(shown(commands::CLIENT_REPLY), "<ON | OFF | SKIP>");
    assert_eq!(
        shown(commands::SORT_RO),
        "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]"
    );
    let [_, by, limit, get, order, alpha] = commands::SORT_RO.arguments else { panic!() };
    assert_eq!(
        (by.name, by.token, by.kind, by.key_spec),
        ("by-pattern", "BY", ArgKind::Pattern, 1)
    );
    assert_eq!((limit.kind, limit.token, limit.nested.len()), (ArgKind::Block, "LIMIT", 2));
    assert!(get.flags.contains(ArgFlags::MULTIPLE_TOKEN));
    assert_eq!((order.kind, order.name), (ArgKind::OneOf, "order"));
    assert_eq!((alpha.kind, alpha.name, alpha.token), (ArgKind::PureToken, "sorting", "ALPHA"));
}

#[test]
fn arity_follows_from_the_syntax_or_is_given() {
    assert_eq!((commands::GET.arity, commands::SET.arity), (2, -3));
    assert_eq!((commands::CLIENT.arity, commands::CLIENT_SETNAME.arity), (-2, 3));
    assert_eq!(commands::GEOSEARCH.arity, -7);
}

#[test]
fn the_gate_knows_the_commands_of_transactions() {
    let named = |flag: GateFlags| -> Vec<String> {
        let mut names: Vec<_> =
            every().filter(|(_, meta)| meta.gate.contains(flag)).map(|(name, _)| name).collect();
        names.sort();
        names
    };
    let in_multi = ["discard", "exec", "multi", "quit", "reset", "watch"];
    assert_eq!(named(GateFlags::RUNS_IN_MULTI), in_multi);
    assert_eq!(named(GateFlags::RUNS_QUEUE), ["exec"]);
    // A command that ends watches amid a slow script is looked at closely, so that it has to be one
    // of those that a slow script lets through.
    for (name, meta) in every() {
        let watches = meta.gate.contains(GateFlags::ENDS_WATCHES);
        assert!(!watches || meta.flags.contains(Flags::ALLOW_BUSY), "{name}");
    }
}

#[test]
fn where_a_command_runs_in_a_cluster() {
    use crate::Place::{Here, Home, Read};
    let places = [
        (commands::GET, Read),
        (commands::TTL, Read),
        (commands::MGET, Read),
        (commands::ZRANGE, Read),
        (commands::SINTER, Read),
        (commands::SET, Home),
        (commands::MSET, Home),
        (commands::SPOP, Home),
        (commands::GETEX, Home),
        // Its count is kept in the string.
        (commands::PFCOUNT, Home),
        // It waits for what is applied here, and takes nothing away.
        (commands::XREAD, Read),
        (commands::XREADGROUP, Home),
        (commands::BLPOP, Home),
        // A channel is no key.
        (commands::SPUBLISH, Here),
        (commands::EVAL_RO, Home),
        (commands::FLUSHALL, Home),
        (commands::PING, Here),
        (commands::CONFIG, Here),
    ];
    for (meta, place) in places {
        assert_eq!(meta.place(), place, "{}", meta.name);
    }
    // What runs where its keys are only copies changes nothing.
    for (name, meta) in every().filter(|(_, meta)| meta.place() == Read) {
        assert!(!meta.flags.contains(Flags::WRITE), "{name}");
    }
}
