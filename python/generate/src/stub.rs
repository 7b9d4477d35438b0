//! The types of methods, in stubs.

use std::fmt::Write;

use crate::method::{Kind, Method, Parameter};

/// A class of commands: its name, its documentation, and what a reply of a type becomes.
const CLASSES: [(&str, &str, &str); 3] = [
    ("Commands", "Commands whose reply is waited for.", "{}"),
    ("AsyncCommands", "Commands whose reply is awaited.", "Call[{}]"),
    ("PipelineCommands", "Commands that are queued.", "Self"),
];

/// A reply's type in Rust as one in Python; `T` is that of strings.
fn type_of(shape: &str) -> String {
    let inner = |prefix: &str| shape.strip_prefix(prefix)?.strip_suffix('>');
    if let Some(item) = inner("Option<") {
        return format!("{} | None", type_of(item));
    }
    if let Some(item) = inner("Vec<") {
        return format!("list[{}]", type_of(item));
    }
    if let Some(item) = inner("HashSet<") {
        return format!("builtins.set[{}]", type_of(item));
    }
    if let Some(pair) = inner("HashMap<") {
        return format!("dict[{}]", list_of(pair));
    }
    match shape {
        "()" => "bool".to_owned(),
        "bool" => "bool".to_owned(),
        "i64" | "u64" => "int".to_owned(),
        "f64" => "float".to_owned(),
        "Bytes" | "String" => "T".to_owned(),
        "StreamEntry" => "tuple[T, dict[T, T]]".to_owned(),
        _ => match shape.strip_prefix('(').and_then(|shape| shape.strip_suffix(')')) {
            Some(items) => format!("tuple[{}]", list_of(items)),
            None => "Any".to_owned(),
        },
    }
}

fn list_of(items: &str) -> String {
    let (mut list, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, character) in items.char_indices() {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ',' if depth == 0 => {
                list.push(type_of(items[begin..at].trim()));
                begin = at + 1;
            }
            _ => {}
        }
    }
    list.push(type_of(items[begin..].trim()));
    list.join(", ")
}

fn parameter(parameter: &Parameter) -> String {
    let kind = match &parameter.kind {
        Kind::Argument => "Argument".to_owned(),
        Kind::Many => "Argument | Iterable[Argument]".to_owned(),
        Kind::Int => "int | bytes | str".to_owned(),
        Kind::Float => "float | bytes | str".to_owned(),
        Kind::Mapping => "Pairs".to_owned(),
        Kind::Flag => "bool".to_owned(),
        Kind::Values => "Any".to_owned(),
        Kind::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            format!("Literal[{}]", words.join(", "))
        }
    };
    match (parameter.is_optional, &parameter.kind) {
        (false, _) => format!("{}: {kind}", parameter.name),
        (true, Kind::Flag) => format!("{}: bool = False", parameter.name),
        (true, _) => format!("{}: {kind} | None = None", parameter.name),
    }
}

/// Parameters with one of the options that change the reply, which must be given then, or with
/// none; and whether each parameter that may be given by position has its place. One that has not,
/// since others that may be left out stand before it, is given by keyword.
fn form(method: &Method, chosen: Option<&str>) -> (String, bool) {
    let changes = |one: &Parameter| method.shapes.iter().any(|(option, _)| *option == one.name);
    let is_chosen = |one: &Parameter| chosen == Some(&*one.name);
    let (mut moved, mut is_shifted, mut has_optional) = (Vec::new(), false, false);
    for one in method.parameters.iter().filter(|one| one.is_optional && !one.is_keyword) {
        if changes(one) && !is_chosen(one) {
            is_shifted = true;
        } else if is_shifted || is_chosen(one) && has_optional {
            moved.push(&one.name);
        } else {
            has_optional |= !is_chosen(one);
        }
    }
    let show = |one: &Parameter| match (changes(one), is_chosen(one)) {
        (false, _) => parameter(one),
        (true, false) => String::new(),
        (true, true) if one.kind == Kind::Flag => format!("{}: Literal[True]", one.name),
        (true, true) => parameter(one).replace(" | None = None", ""),
    };
    let list = method.listed(&show, |one| one.is_keyword || moved.contains(&&one.name));
    (list, moved.is_empty())
}

fn definition(method: &Method, reply: &str) -> String {
    let declared = |parameters: String, kind: &str| {
        let reply = reply.replace("{}", kind);
        format!("    def {}({parameters}) -> {reply}: ...\n", method.name)
    };
    let base = type_of(&method.shape);
    if method.shapes.is_empty() || reply == "Self" {
        return declared(method.list(parameter), &base);
    }
    // One form without the options that change the reply, one with each, one with any of them.
    let (without, _) = form(method, None);
    let mut forms = vec![declared(without, &base)];
    let mut is_complete = method.shapes.len() == 1;
    for (option, shape) in &method.shapes {
        let (with, is_in_place) = form(method, Some(option));
        is_complete &= is_in_place;
        forms.push(declared(with, &type_of(shape)));
    }
    if !is_complete {
        forms.push(declared(method.list(parameter), "Any"));
    }
    forms.iter().map(|form| format!("    @overload\n{form}")).collect()
}

/// Methods that are written by hand, whose replies are marked as `R[type]`.
fn by_hand(text: &str, reply: &str) -> String {
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.rsplit_once("-> R[") {
            Some((before, after)) => {
                let kind = after.strip_suffix("]: ...").expect("`R[type]: ...` ends a line");
                writeln!(out, "    {before}-> {}: ...", reply.replace("{}", kind))
            }
            None => writeln!(out, "    {line}"),
        }
        .expect("a string");
    }
    out
}

/// The stubs.
pub fn module(methods: &[Method], hand: &str) -> String {
    let mut out = String::from(
        "# Written by `generate` from the command table; not to be edited.\n\
         import builtins\n\
         from collections.abc import Callable, Iterable, Mapping, Sequence\n\
         from datetime import datetime, timedelta\n\
         from typing import Any, Generic, Literal, overload\n\n\
         from typing_extensions import Self\n\n\
         from petrel._types import Argument, Call, Pairs, T, Time\n",
    );
    for (name, doc, reply) in CLASSES {
        write!(out, "\nclass {name}(Generic[T]):\n    \"\"\"{doc}\"\"\"\n\n").expect("a string");
        let mut body = by_hand(hand, reply);
        methods.iter().for_each(|method| body.push_str(&definition(method, reply)));
        out.push_str(&body);
    }
    out
}
