//! A command as `COMMAND INFO` describes it: <https://redis.io/docs/latest/commands/command/>.

use petrel_resp::{Dialect, Reply};

use crate::spec::{BeginSearch, Command, FindKeys, KeySpec, Registry};

/// Writes the ten elements that describe a command, its subcommands in the last.
pub(super) fn describe(
    registry: &Registry,
    dialect: Dialect,
    command: Command,
    reply: &mut dyn Reply,
) {
    let meta = command.spec.meta;
    let keys = meta.key_range();
    reply.array(10);
    reply.bulk(registry.full_name(command.index).as_bytes());
    reply.integer(meta.arity.into());
    names(reply, meta.flags.names());
    reply.integer(keys.first.into());
    reply.integer(keys.last.into());
    reply.integer(keys.step.into());

    let categories = meta.categories().names();
    reply.set(categories.clone().count());
    for category in categories {
        reply.simple(&format!("@{category}"));
    }
    reply.set(meta.tips.len());
    for tip in meta.tips {
        reply.bulk(tip.as_bytes());
    }
    reply.set(meta.keys.len());
    for spec in meta.keys {
        key_spec(spec, reply);
    }
    match command.spec.subcommands.len() {
        0 if dialect == Dialect::Redis => reply.set(0),
        count => reply.array(count),
    }
    for subcommand in registry.subcommands(command) {
        describe(registry, dialect, subcommand, reply);
    }
}

/// Writes a set of words.
pub(super) fn names(reply: &mut dyn Reply, names: impl Iterator<Item = &'static str> + Clone) {
    reply.set(names.clone().count());
    for name in names {
        reply.simple(name);
    }
}

fn key_spec(spec: &KeySpec, reply: &mut dyn Reply) {
    reply.map(if spec.notes.is_empty() { 3 } else { 4 });
    if !spec.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(spec.notes.as_bytes());
    }
    reply.bulk(b"flags");
    names(reply, spec.flags.names());

    reply.bulk(b"begin_search");
    match spec.begin {
        BeginSearch::Unknown => typed(reply, "unknown", 0),
        BeginSearch::Index(index) => {
            typed(reply, "index", 1);
            number(reply, "index", index.into());
        }
        BeginSearch::Keyword { keyword, start } => {
            typed(reply, "keyword", 2);
            reply.bulk(b"keyword");
            reply.bulk(keyword.as_bytes());
            number(reply, "startfrom", start.into());
        }
    }

    reply.bulk(b"find_keys");
    match spec.find {
        FindKeys::Unknown => typed(reply, "unknown", 0),
        FindKeys::Range { last, step, limit } => {
            typed(reply, "range", 3);
            number(reply, "lastkey", last.into());
            number(reply, "keystep", step.into());
            number(reply, "limit", limit.into());
        }
        FindKeys::KeyNum { count, first, step } => {
            typed(reply, "keynum", 3);
            number(reply, "keynumidx", count.into());
            number(reply, "firstkey", first.into());
            number(reply, "keystep", step.into());
        }
    }
}

/// The head of half a key spec; `fields` pairs follow.
fn typed(reply: &mut dyn Reply, name: &str, fields: usize) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(name.as_bytes());
    reply.bulk(b"spec");
    reply.map(fields);
}

fn number(reply: &mut dyn Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(value);
}
