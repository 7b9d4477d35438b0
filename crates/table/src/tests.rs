//! What must hold of every entry, and what the forms of a syntax line come to.

use crate::argument::{Arg, ArgFlags, ArgKind, Syntax};
use crate::commands::{self, ALL};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::meta::{Flags, GateFlags, Meta};
use crate::options::{READERS, Reader, Unread, ZaddOption};
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
    use crate::Place::{Here, Primary, Read};
    let places = [
        (commands::GET, Read),
        (commands::TTL, Read),
        (commands::MGET, Read),
        (commands::ZRANGE, Read),
        (commands::SINTER, Read),
        (commands::SET, Primary),
        (commands::MSET, Primary),
        (commands::SPOP, Primary),
        (commands::GETEX, Primary),
        // Its count is kept in the string.
        (commands::PFCOUNT, Primary),
        // It waits for what is applied here, and takes nothing away.
        (commands::XREAD, Read),
        (commands::XREADGROUP, Primary),
        (commands::BLPOP, Primary),
        // A channel is no key.
        (commands::SPUBLISH, Here),
        (commands::EVAL_RO, Primary),
        (commands::FLUSHALL, Primary),
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

/// The tokens of a syntax line that are no operands and no positions.
fn options_of(args: &'static [Arg], found: &mut Vec<&'static str>) {
    for arg in args {
        if arg.token.starts_with(|c: char| c.is_ascii_alphabetic()) {
            found.push(arg.token);
        }
        let is_word = |arg: &Arg| arg.kind == ArgKind::PureToken;
        let is_optional = arg.flags.contains(ArgFlags::OPTIONAL) && arg.token.is_empty();
        if arg.kind != ArgKind::OneOf || is_optional || !arg.nested.iter().all(is_word) {
            options_of(arg.nested, found);
        }
    }
}

#[test]
fn every_token_is_read_as_its_variant() {
    let mut count = 0;
    for (name, meta) in every() {
        let mut tokens = Vec::new();
        options_of(meta.arguments, &mut tokens);
        for token in tokens {
            let (_, read) = READERS.iter().find(|(of, _)| *of == name).expect(&name);
            let lower = token.to_ascii_lowercase();
            for spelled in [token, &lower] {
                let mut words = vec![spelled.as_bytes()];
                let least = loop {
                    match read(&words) {
                        Err(Unread::Incomplete(_)) => words.push(b"operand"),
                        other => break other,
                    }
                };
                let (shown, left) = least.expect(&name);
                let variant = shown.split('(').next().unwrap_or_default();
                assert!(
                    variant.eq_ignore_ascii_case(&token.replace(['-', '_'], "")),
                    "{name} {token}"
                );
                assert_eq!((left, words.len() < 8), (0, true), "{name} {token}");
                words.push(b"next");
                assert_eq!(read(&words), Ok((shown, 1)), "{name} {token}");
            }
            let near = token.replace(|c: char| c.is_ascii_alphabetic(), "@");
            for wrong in [format!("{token}\0"), format!("{token} of many letters"), near] {
                let unread = Err(Unread::Unknown(wrong.as_bytes()));
                assert_eq!(read(&[wrong.as_bytes()]), unread, "{name} {wrong:?}");
            }
            count += 1;
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn only_small_letters_are_changed() {
    for byte in 0..=u8::MAX {
        for beside in [0, b'`', b'{', 0xff] {
            for at in 0..8 {
                let mut bytes = [beside; 8];
                bytes[at] = byte;
                let word = crate::options::upper(u64::from_le_bytes(bytes));
                assert_eq!(word.to_le_bytes(), bytes.map(|byte| byte.to_ascii_uppercase()));
            }
        }
    }
}

/// How many operands a token of a command has; none if it is no option.
fn operands(command: &str, token: &str) -> Option<usize> {
    let (_, read) = READERS.iter().find(|(of, _)| *of == command)?;
    let words = [token.as_bytes(); 6];
    let found = (1..=6).find(|&n| !matches!(read(&words[..n]), Err(Unread::Incomplete(_))))?;
    read(&words[..found]).ok().map(|_| found - 1)
}

#[test]
fn options_hold_what_always_stands_behind_their_tokens() {
    assert_eq!(operands("set", "EX"), Some(1));
    assert_eq!(operands("set", "PERSIST"), None);
    assert_eq!(operands("zunion", "WEIGHTS"), Some(0));
    assert_eq!(operands("zunion", "AGGREGATE"), Some(1));
    assert_eq!(operands("zunion", "SUM"), None);
    assert_eq!(operands("bitfield", "SET"), Some(3));
    assert_eq!(operands("bitfield", "OVERFLOW"), Some(1));
    // The unit belongs to the radius, but is no option of its own.
    assert_eq!(operands("geosearch", "BYRADIUS"), Some(2));
    assert_eq!(operands("geosearch", "KM"), None);
    assert_eq!(operands("geosearch", "BYPOLYGON"), Some(1));
    assert_eq!(operands("geosearch", "ANY"), Some(0));
    // `STOREDIST key` of GEORADIUS, `STOREDIST` of GEOSEARCHSTORE, in one enum.
    assert_eq!(operands("georadius", "STOREDIST"), Some(0));
    assert_eq!(operands("hexpire", "FIELDS"), Some(1));
    assert_eq!(operands("vadd", "VALUES"), Some(1));
    // No syntax line has it.
    assert_eq!(operands("json.get", "NOESCAPE"), Some(0));
}

#[test]
fn options_before_other_words() {
    let words: [&[u8]; 5] = [b"nx", b"CH", b"1", b"nx", b"2"];
    let mut options = Reader::<ZaddOption>::new(&words);
    assert_eq!(options.leading(), Some(ZaddOption::Nx));
    assert_eq!(options.leading(), Some(ZaddOption::Ch));
    assert_eq!(options.leading(), None);
    assert_eq!(options.rest(), &words[2..]);
    assert_eq!(options.words(1), Some(&words[2..3]));
    assert_eq!((options.words(3), options.left()), (None, 2));
    assert_eq!(options.next(), Some(Ok(ZaddOption::Nx)));
    assert_eq!((options.next(), options.next()), (Some(Err(Unread::Unknown(b"2"))), None));
}
