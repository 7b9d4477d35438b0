//! Typed options: the tokens of a syntax line as an enum, with a reader of words for each.

use crate::entry::Entry;
use crate::syntax::Arg;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A token that a call may have, with the operands that stand behind it.
#[derive(Clone, Debug, PartialEq)]
struct Choice {
    token: String,
    operands: Vec<String>,
}

/// Writes an enum for each entry with options, or one for all entries that share it by `options:
/// Name`.
pub fn module(entries: &[Entry]) -> Result<String, String> {
    let mut enums: BTreeMap<String, (Vec<Choice>, Vec<String>)> = BTreeMap::new();
    for entry in entries {
        let mut choices = Vec::new();
        sequence(&entry.arguments, true, &mut choices);
        sequence(&entry.undocumented, true, &mut choices);
        let full = [entry.container.as_str(), &entry.name].join(" ").trim().to_owned();
        let name = match &entry.options {
            Some(name) => name.clone(),
            None if choices.is_empty() => continue,
            None => camel(&full) + "Option",
        };
        let (known, commands) = enums.entry(name).or_default();
        for choice in choices {
            add(known, choice)?;
        }
        commands.push(full);
    }
    let mut out = String::new();
    for (name, (choices, commands)) in &enums {
        options(&mut out, name, choices, commands);
    }
    list(&mut out, &enums);
    Ok(out)
}

/// Adds a token. If it has other operands elsewhere, in the same command or in one that shares the
/// enum, the variant keeps the common operands: the handler reads the rest.
fn add(known: &mut Vec<Choice>, choice: Choice) -> Result<(), String> {
    if choice.token.len() > 16 {
        return Err(format!("`{}` is longer than a token may be", choice.token));
    }
    match known.iter_mut().find(|known| known.token == choice.token) {
        Some(same) => same.operands.truncate(choice.operands.len()),
        None => known.push(choice),
    }
    Ok(())
}

/// The tokens of arguments that stand one behind the other. At the top of a syntax line a choice
/// of words that must be made is a position, not an option.
fn sequence(args: &[Arg], is_top: bool, choices: &mut Vec<Choice>) {
    let mut args = args.iter().peekable();
    while let Some(arg) = args.next() {
        if !is_word(&arg.token) {
            if !(is_top && !arg.optional && is_word_choice(arg)) {
                sequence(&arg.nested, false, choices);
            }
            continue;
        }
        let (mut operands, rest) = operands(arg);
        while rest.is_empty() && !arg.optional && !arg.multiple {
            let Some(next) = args.next_if(|next| is_operand(next)) else { break };
            operands.push(next.name.clone());
        }
        choices.push(Choice { token: arg.token.clone(), operands });
        sequence(rest, false, choices);
    }
}

/// Operands that always follow an argument's token, and the arguments after them.
fn operands(arg: &Arg) -> (Vec<String>, &[Arg]) {
    match arg.kind.as_str() {
        "pure-token" => (Vec::new(), &[]),
        _ if arg.multiple && !arg.multiple_token => (Vec::new(), &arg.nested),
        "block" => {
            let count = arg.nested.iter().take_while(|nested| is_operand(nested)).count();
            let (taken, rest) = arg.nested.split_at(count);
            (taken.iter().map(|taken| taken.name.clone()).collect(), rest)
        }
        "oneof" if !is_word_choice(arg) => (Vec::new(), &arg.nested),
        _ => (vec![arg.name.clone()], &[]),
    }
}

/// Whether an argument is exactly one word.
fn is_operand(arg: &Arg) -> bool {
    let is_value = arg.token.is_empty() && !["block", "oneof"].contains(&arg.kind.as_str());
    !arg.optional && !arg.multiple && (is_value || arg.token.is_empty() && is_word_choice(arg))
}

/// Whether an argument is one of several words.
fn is_word_choice(arg: &Arg) -> bool {
    arg.kind == "oneof" && arg.nested.iter().all(|word| word.kind == "pure-token")
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// `SET` is `Set`, `LIB-NAME` is `LibName`.
fn camel(name: &str) -> String {
    let words = name.split(['-', '.', '_', ' ']);
    words.map(|word| word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase()).collect()
}

fn options(out: &mut String, name: &str, choices: &[Choice], commands: &[String]) {
    let commands = commands.join("`, `");
    let borrowed = choices.iter().any(|choice| !choice.operands.is_empty());
    let of = if borrowed { "<'a>" } else { "" };
    let mut variants = String::new();
    let mut arms: BTreeMap<usize, String> = BTreeMap::new();
    for Choice { token, operands } in choices {
        let (variant, count) = (camel(token), operands.len());
        let syntax = [std::slice::from_ref(token), operands.as_slice()].concat().join(" ");
        let taken: Vec<String> = (0..count).map(|n| format!("o{n}")).collect();
        let (fields, pattern, made) = match taken.join(", ") {
            none if none.is_empty() => (String::new(), String::new(), String::new()),
            some => {
                let fields = vec!["&'a [u8]"; count].join(", ");
                (format!("({fields})"), format!("{some}, "), format!("({some})"))
            }
        };
        write!(variants, "    /// `{syntax}`\n    {variant}{fields},\n").unwrap_or_default();
        let bytes = token.bytes().rev().fold(0, |word, byte| word << 8 | u128::from(byte));
        let otherwise = if count > 0 { " _ => Err(Unread::Incomplete(first))," } else { "" };
        writeln!(
            arms.entry(token.len()).or_default(),
            "{bytes:#x} => match behind {{ \
             [{pattern}..] => Ok((Self::{variant}{made}, {count})),{otherwise} }},"
        )
        .unwrap_or_default();
    }
    let arms: String = arms.iter().fold(String::new(), |all, (len, arms)| {
        let word = if *len > 8 { "long" } else { "short" };
        all + &format!(
            "{len} => match {word}::<{len}>(first) {{\n{arms}_ => Err(Unread::Unknown(first)),\n}},\n"
        )
    });
    write!(
        out,
        "/// An option of `{commands}`.\n#[derive(Clone, Copy, Debug, Eq, PartialEq)]\n\
         pub enum {name}{of} {{\n{variants}}}\n\n\
         impl<'a> Options<'a> for {name}{of} {{\n    \
         #[inline(always)]\n    \
         fn read(first: &'a [u8], behind: &'a [&'a [u8]]) -> Result<(Self, usize), Unread<'a>> {{\n        \
         match first.len() {{\n{arms}            _ => Err(Unread::Unknown(first)),\n        }}\n    }}\n}}\n\n"
    )
    .unwrap_or_default();
}

/// The reader of each command's options with its result made text: for the tests of this crate.
fn list(out: &mut String, enums: &BTreeMap<String, (Vec<Choice>, Vec<String>)>) {
    out.push_str("/// The options of each command.\n#[cfg(test)]\n");
    out.push_str("pub(crate) static READERS: &[(&str, Shown)] = &[\n");
    for (name, (_, commands)) in enums {
        for command in commands {
            let command = command.to_ascii_lowercase().replace(' ', "|");
            writeln!(out, "    ({command:?}, |words| shown(Reader::<{name}>::new(words))),")
                .unwrap_or_default();
        }
    }
    out.push_str("];\n");
}
