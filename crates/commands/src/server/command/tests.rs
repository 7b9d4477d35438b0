//! Tests that the table's description of every command is well formed.

use petrel_resp::Dialect;
use std::collections::HashSet;

use petrel_resp::{DecodeLimits, Protocol, RespWriter, Value, decode};

use super::{docs, info};
use crate::FAMILIES;
use crate::spec::{Arg, ArgFlags, ArgKind, Command, KeyFlags, KeyShape, Registry};
use petrel_table::{Syntax, commands};

/// Runs `write` and reads back the one reply that it must have written.
fn written(protocol: Protocol, write: impl FnOnce(&mut RespWriter<'_>)) -> Value {
    let (mut bytes, mut shared) = (Vec::new(), Vec::new());
    write(&mut RespWriter::new(&mut bytes, &mut shared, protocol));
    let (value, len) = decode(&bytes, &DecodeLimits::default()).unwrap().expect("a whole reply");
    assert_eq!(len, bytes.len(), "more than one reply");
    value
}

#[test]
fn every_description_is_one_reply() {
    let registry = Registry::new(FAMILIES);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        for command in registry.all() {
            let info = written(protocol, |reply| {
                info::describe(&registry, Dialect::Redis, command, reply)
            });
            assert!(matches!(info, Value::Array(fields) if fields.len() == 10));

            let docs = written(protocol, |reply| {
                petrel_resp::Reply::map(reply, 1);
                docs::describe(&registry, command, reply);
            });
            match docs {
                Value::Map(pairs) => assert_eq!(pairs.len(), 1),
                Value::Array(flat) => assert_eq!(flat.len(), 2),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn every_command_is_described_soundly() {
    let registry = Registry::new(FAMILIES);
    for Command { spec, index } in registry.all() {
        let (meta, name) = (spec.meta, registry.full_name(index));
        assert!(!meta.summary.is_empty() && meta.summary.ends_with('.'), "{name}: summary");
        assert_ne!(meta.arity, 0, "{name}: arity");
        for key in meta.keys {
            let uses = [KeyFlags::RO, KeyFlags::RW, KeyFlags::OW, KeyFlags::RM];
            let uses = uses.iter().filter(|flag| key.flags.contains(**flag)).count();
            let is_key = !key.flags.contains(KeyFlags::NOT_KEY);
            assert_eq!(uses, usize::from(is_key), "{name}: a key has one of RO, RW, OW, RM");
            assert_eq!(
                key.narrow.is_some(),
                key.flags.contains(KeyFlags::VARIABLE_FLAGS),
                "{name}"
            );
        }
        siblings_differ(name, meta.arguments);
        key_specs_exist(name, meta.arguments, meta.keys.len());
    }
}

fn siblings_differ(name: &str, arguments: &[Arg]) {
    let names: HashSet<&str> = arguments.iter().map(|arg| arg.name).collect();
    assert_eq!(names.len(), arguments.len(), "{name}: two arguments of one name");
    for arg in arguments {
        siblings_differ(name, arg.nested);
    }
}

fn key_specs_exist(name: &str, arguments: &[Arg], specs: usize) {
    for arg in arguments {
        let exists = arg.kind != ArgKind::Key || usize::from(arg.key_spec) < specs;
        assert!(exists, "{name}: {} is of no key spec", arg.name);
        let nests = matches!(arg.kind, ArgKind::OneOf | ArgKind::Block);
        assert_eq!(nests, !arg.nested.is_empty(), "{name}: {}", arg.name);
        let repeated = arg.flags.contains(ArgFlags::MULTIPLE_TOKEN);
        assert!(!repeated || !arg.token.is_empty(), "{name}: {} repeats no token", arg.name);
        key_specs_exist(name, arg.nested, specs);
    }
}

#[test]
fn syntax_reads_as_on_a_command_page() {
    let syntax = |meta: &crate::spec::Meta| Syntax(meta.arguments).to_string();
    assert_eq!(syntax(&commands::GET), "key");
    assert_eq!(syntax(&commands::MSET), "key value [key value ...]");
    assert_eq!(
        syntax(&commands::GETEX),
        "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
         PXAT unix-time-milliseconds | PERSIST]"
    );
    assert_eq!(syntax(&commands::CLIENT_REPLY), "<ON | OFF | SKIP>");
    assert_eq!(
        syntax(&commands::COMMAND_LIST),
        "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]"
    );
    assert_eq!(
        syntax(&commands::CLIENT_TRACKING),
        "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] \
         [OPTOUT] [NOLOOP]"
    );
}

#[test]
fn legacy_key_ranges_and_shapes_follow_from_the_key_specs() {
    let facts = |meta: &crate::spec::Meta| {
        let range = meta.key_range();
        (range.first, range.last, range.step, KeyShape::of(meta.keys))
    };
    assert_eq!(facts(&commands::GET), (1, 1, 1, KeyShape::First));
    assert_eq!(facts(&commands::MSET), (1, -1, 2, KeyShape::Specs));
    assert_eq!(facts(&commands::MSETEX), (0, 0, 0, KeyShape::Specs));
    assert_eq!(facts(&commands::RENAME), (1, 2, 1, KeyShape::Specs));
    assert_eq!(facts(&commands::OBJECT_FREQ), (2, 2, 1, KeyShape::Specs));
    assert_eq!(facts(&commands::PING), (0, 0, 0, KeyShape::None));
}
