//! A command as `COMMAND DOCS` describes it: <https://redis.io/docs/latest/commands/command-docs/>.

use petrel_resp::Reply;

use super::info::names;
use crate::spec::{Arg, ArgKind, Command, Meta, Registry};

/// Writes a pair: the full name of a command, and the map that documents it.
pub(super) fn describe(registry: &Registry, command: Command, reply: &mut dyn Reply) {
    let meta = command.spec.meta;
    let subcommands = command.spec.subcommands.len();
    reply.bulk(registry.full_name(command.index).as_bytes());
    reply.map(fields(meta) + usize::from(subcommands > 0));
    text(reply, "summary", meta.summary);
    text(reply, "since", meta.since);
    text(reply, "group", meta.group.name());
    text(reply, "complexity", meta.complexity);
    if meta.system || meta.deprecated.is_some() {
        let deprecated = meta.deprecated.is_some().then_some("deprecated");
        let system = meta.system.then_some("syscmd");
        reply.bulk(b"doc_flags");
        names(reply, deprecated.into_iter().chain(system));
    }
    if let Some((since, instead)) = meta.deprecated {
        text(reply, "deprecated_since", since);
        text(reply, "replaced_by", instead);
    }
    if !meta.history.is_empty() {
        reply.bulk(b"history");
        reply.set(meta.history.len());
        for (version, change) in meta.history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
    }
    if !meta.arguments.is_empty() {
        arguments(meta.arguments, reply);
    }
    if subcommands > 0 {
        reply.bulk(b"subcommands");
        reply.map(subcommands);
        for subcommand in registry.subcommands(command) {
            describe(registry, subcommand, reply);
        }
    }
}

/// Number of pairs that [`describe`] writes, subcommands apart.
fn fields(meta: &Meta) -> usize {
    let texts = [meta.summary, meta.since, meta.group.name(), meta.complexity];
    texts.iter().filter(|text| !text.is_empty()).count()
        + usize::from(meta.system || meta.deprecated.is_some())
        + 2 * usize::from(meta.deprecated.is_some())
        + usize::from(!meta.history.is_empty())
        + usize::from(!meta.arguments.is_empty())
}

/// A pair of texts, unless the second is empty.
fn text(reply: &mut dyn Reply, name: &str, value: &str) {
    if !value.is_empty() {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

fn arguments(arguments: &[Arg], reply: &mut dyn Reply) {
    reply.bulk(b"arguments");
    reply.array(arguments.len());
    for arg in arguments {
        argument(arg, reply);
    }
}

fn argument(arg: &Arg, reply: &mut dyn Reply) {
    let nesting = matches!(arg.kind, ArgKind::OneOf | ArgKind::Block);
    let display = if nesting { "" } else { arg.display };
    // A pattern may make keys that a key spec speaks of.
    let is_key = arg.kind == ArgKind::Key || arg.key_spec > 0;
    let texts = [display, arg.token, arg.since, arg.deprecated_since];
    let pairs = 2
        + texts.iter().filter(|text| !text.is_empty()).count()
        + usize::from(is_key)
        + usize::from(!arg.flags.is_empty())
        + usize::from(nesting);

    reply.map(pairs);
    text(reply, "name", arg.name);
    text(reply, "type", arg.kind.name());
    text(reply, "display_text", display);
    if is_key {
        reply.bulk(b"key_spec_index");
        reply.integer(arg.key_spec.into());
    }
    text(reply, "token", arg.token);
    text(reply, "since", arg.since);
    text(reply, "deprecated_since", arg.deprecated_since);
    if !arg.flags.is_empty() {
        reply.bulk(b"flags");
        names(reply, arg.flags.names());
    }
    if nesting {
        self::arguments(arg.nested, reply);
    }
}
