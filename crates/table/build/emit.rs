//! The constants as Rust.

use crate::entry::Entry;
use crate::syntax::Arg;
use std::fmt::Write;

/// A module with a constant for each entry, the list of each container's subcommands and the list
/// of all commands.
pub fn module(entries: &[Entry]) -> String {
    let mut out = String::new();
    for entry in entries {
        constant(&mut out, entry);
    }
    for container in entries.iter().filter(|entry| entry.is_container) {
        let subs = entries.iter().filter(|entry| entry.container == container.name);
        let subs: Vec<String> = subs.map(ident).collect();
        let name = ident(container);
        let (count, subs) = (subs.len(), subs.join(", "));
        writeln!(
            out,
            "/// The subcommands of `{}`.\npub static {name}_SUBCOMMANDS: [Meta; {count}] = [{subs}];",
            container.name
        )
        .unwrap_or_default();
    }
    out.push_str("/// Every command that is no subcommand, with its subcommands.\n");
    out.push_str("pub static ALL: &[(Meta, &[Meta])] = &[\n");
    for entry in entries.iter().filter(|entry| entry.container.is_empty()) {
        let name = ident(entry);
        let subs = match entry.is_container {
            true => format!("&{name}_SUBCOMMANDS"),
            false => "&[]".into(),
        };
        writeln!(out, "    ({name}, {subs}),").unwrap_or_default();
    }
    out.push_str("];\n");
    out
}

/// `CLIENT_SETNAME`.
fn ident(entry: &Entry) -> String {
    let full = match entry.container.as_str() {
        "" => entry.name.clone(),
        container => format!("{container}_{}", entry.name),
    };
    full.replace(['-', '.'], "_")
}

fn constant(out: &mut String, entry: &Entry) {
    let mut fields = vec![
        format!("flags: {}", set("Flags", &entry.flags)),
        format!("gate: {}", set("GateFlags", &entry.gate)),
        format!("stated_categories: {}", set("Categories", &entry.categories)),
        format!("summary: {:?}", entry.summary),
        format!("keys: &[{}]", list(&entry.keys, |spec| key_spec(spec))),
        format!("arguments: &[{}]", list(&entry.arguments, argument)),
        format!("tips: &{:?}", entry.tips),
        format!("history: &{:?}", entry.history),
        format!("deprecated: {:?}", entry.deprecated),
        format!("system: {}", entry.system),
        format!("help: &{:?}", entry.help),
        format!("help_valkey: &{:?}", entry.help_valkey),
    ];
    fields
        .extend(entry.channels.iter().map(|which| format!("channels: Channels::{}", camel(which))));
    fields.extend(entry.complexity.iter().map(|text| format!("complexity: {text:?}")));
    let full = [entry.container.as_str(), &entry.name].join(" ");
    writeln!(
        out,
        "/// `{}`.\npub const {}: Meta = Meta {{ {}, ..Meta::new({:?}, {}, Group::{}, {:?}) }};",
        full.trim(),
        ident(entry),
        fields.join(", "),
        entry.name.to_ascii_lowercase(),
        entry.arity,
        group(&entry.group),
        entry.since
    )
    .unwrap_or_default();
}

fn list<T>(items: &[T], one: impl Fn(&T) -> String) -> String {
    items.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The variant's name: `sorted-set` is `SortedSet`.
fn camel(name: &str) -> String {
    name.split('-').map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect()
}

/// The variant of `Group`, two of which are written unlike their names.
fn group(name: &str) -> String {
    match name {
        "hyperloglog" => "HyperLogLog".into(),
        "pubsub" => "PubSub".into(),
        name => camel(name),
    }
}

/// A constant set of its members.
fn set(name: &str, members: &[String]) -> String {
    let members = members.iter().map(|member| member.to_ascii_uppercase().replace('-', "_"));
    members.fold(format!("{name}::NONE"), |set, member| format!("{set}.with({name}::{member})"))
}

/// `1..-1/2 RW access by function; remark`.
fn key_spec(text: &str) -> String {
    let (facts, notes) = text.split_once("; ").unwrap_or((text, ""));
    let (facts, locate) = split_at(facts, " found by ");
    let (facts, narrow) = split_at(facts, " by ");
    let mut words = facts.split(' ');
    let place = words.next().unwrap_or_default();
    let flags: Vec<String> = words.map(Into::into).collect();
    let at = place.find(['.', '#', '/', '%']).unwrap_or(place.len());
    let (begin, find) = place.split_at(at);
    let begin = match begin.split_once('@') {
        Some((keyword, start)) => {
            format!("BeginSearch::Keyword {{ keyword: {keyword:?}, start: {start} }}")
        }
        None if begin == "?" => "BeginSearch::Unknown".into(),
        None => format!("BeginSearch::Index({begin})"),
    };
    let (find, limit) = split_at(find, "%");
    let (find, step) = split_at(find, "/");
    let (step, limit) = (step.unwrap_or("1"), limit.unwrap_or("0"));
    let find = match find {
        _ if begin == "BeginSearch::Unknown" => "FindKeys::Unknown".into(),
        "#" => format!("FindKeys::KeyNum {{ count: 0, first: 1, step: {step} }}"),
        _ => {
            let last = find.strip_prefix("..").unwrap_or("0");
            format!("FindKeys::Range {{ last: {last}, step: {step}, limit: {limit} }}")
        }
    };
    let mut spec = format!("KeySpec::new({begin}, {find}, {})", set("KeyFlags", &flags));
    for (method, function) in [("narrowed_by", narrow), ("located_by", locate)] {
        if let Some(function) = function {
            write!(spec, ".{method}(keys::{function})").unwrap_or_default();
        }
    }
    if !notes.is_empty() {
        write!(spec, ".notes({notes:?})").unwrap_or_default();
    }
    spec
}

/// Splits `text` at a mark: the part before it, and the part after it if the mark occurs.
fn split_at<'a>(text: &'a str, mark: &str) -> (&'a str, Option<&'a str>) {
    text.split_once(mark).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

fn argument(arg: &Arg) -> String {
    let nested = list(&arg.nested, argument);
    let make = match arg.kind.as_str() {
        "oneof" => format!("one_of({:?}, &[{nested}])", arg.name),
        "block" => format!("block({:?}, &[{nested}])", arg.name),
        "pure-token" => format!("word({:?}, {:?})", arg.name, arg.token),
        kind => format!("{}({:?})", kind.replace('-', "_"), arg.name),
    };
    let mut made = format!("Arg::{make}");
    let mut call = |method: &str, argument: &dyn std::fmt::Debug| {
        write!(made, ".{method}({argument:?})").unwrap_or_default();
    };
    if arg.display != arg.name {
        call("shown", &arg.display);
    }
    if !arg.token.is_empty() && arg.kind != "pure-token" {
        call("token", &arg.token);
    }
    if !arg.since.is_empty() {
        call("since", &arg.since);
    }
    if !arg.deprecated.is_empty() {
        call("deprecated", &arg.deprecated);
    }
    if arg.key_spec > 0 {
        call("of_spec", &arg.key_spec);
    }
    let flags = [
        (arg.optional, "OPTIONAL"),
        (arg.multiple, "MULTIPLE"),
        (arg.multiple_token, "MULTIPLE_TOKEN"),
    ];
    for (_, flag) in flags.into_iter().filter(|(is_set, _)| *is_set) {
        write!(made, ".with(ArgFlags::{flag})").unwrap_or_default();
    }
    made
}
