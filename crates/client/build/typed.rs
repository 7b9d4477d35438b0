//! Typed commands as Rust: a method for each command, with its required arguments, and a method for
//! each option of it.
//!
//! | in the table | becomes |
//! |---|---|
//! | a required argument | a parameter |
//! | a required choice of tokens | a parameter of an enumeration |
//! | repeated arguments | an iterator; a count before them is written by itself |
//! | an option, an alternative with arguments | a method of the request |
//! | within an option, what is optional and has something behind it | a parameter of type `Option` |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use petrel_table::{Arg, ArgFlags, ArgKind, Syntax, UNANSWERED};

use crate::Entry;

/// Marks a place for options: see `CommandBuffer::mark_gap`.
const GAPS_MAX: usize = 4;

/// What `Request` has already.
const TAKEN: [&str; 4] = ["option", "reply", "retry", "within"];

/// The types of replies: by the method's name, or by method and option.
pub struct Replies(BTreeMap<String, String>);

impl Replies {
    /// Reads `method type` and `method.option type`, one a line.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pairs = lines.map(|line| line.split_once(' ').expect("a name and a type"));
        Self(pairs.map(|(name, kind)| (name.to_owned(), kind.trim().to_owned())).collect())
    }

    fn of(&self, method: &str) -> &str {
        self.0.get(method).map_or("Value", |kind| kind)
    }
}

/// The module of typed commands.
pub fn module(entries: &[Entry], replies: &Replies) -> String {
    let names = enum_names(entries);
    let mut maker = Maker::new(replies, names);
    for (index, entry) in entries.iter().enumerate() {
        if is_made(entry) {
            maker.command(index, entry);
        }
    }
    maker.finish()
}

/// A macro that gives a handle of a near cache a method for each read of one key that has no other
/// argument: a hit by it builds no command.
pub fn key_reads(entries: &[Entry], replies: &Replies) -> String {
    let mut methods = String::new();
    for (index, entry) in entries.iter().enumerate() {
        let [key] = entry.meta.arguments else { continue };
        let is_key_alone =
            key.kind == ArgKind::Key && key.flags == ArgFlags::NONE && key.token.is_empty();
        if !is_key_alone || !is_made(entry) || crate::cached_key(entry) != Some(1) {
            continue;
        }
        let (method, name, summary) = (snake(&entry.name), &entry.name, entry.meta.summary);
        let reply = replies.of(&method);
        writeln!(
            methods,
            "/// `{name} key`\n///\n/// {summary} It hides the method of \
             [`Commands`](crate::Commands), which does\n/// the same: a hit by this one builds no \
             command.\n#[inline]\n\
             pub fn {method}<K: crate::ToArg>(&self, key: K) -> crate::NearRead<'_, K, {reply}> {{\n\
             crate::NearRead::new(self.source(), &crate::table::TABLE[{index}], key)\n}}"
        )
        .expect("a string takes everything");
    }
    format!(
        "macro_rules! key_reads {{\n($handle:ident) => {{ const _: () = {{\n\
         use std::collections::{{HashMap, HashSet}};\nuse bytes::Bytes;\n\
         impl $handle {{\n{methods}}}\n}}; }};\n}}\n"
    )
}

fn is_made(entry: &Entry) -> bool {
    let is_bare = entry.meta.arguments.is_empty() && entry.meta.arity < -1;
    // What COMMAND replies is not of one type.
    let is_left_out = entry.name == "COMMAND" || UNANSWERED.contains(&entry.name.as_str());
    !is_left_out && !is_bare && !entry.is_container
}

/// `client_setname`.
fn snake(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .collect();
    let name = name.replace("__", "_");
    match name.as_str() {
        "async" | "const" | "in" | "match" | "move" | "ref" | "return" | "type" | "where"
        | "yield" | "use" | "loop" | "static" | "mod" | "self" | "final" | "dyn" | "as" | "do"
        | "if" | "for" | "override" => name + "_",
        _ if name.starts_with(|c: char| c.is_ascii_digit()) => format!("_{name}"),
        _ => name,
    }
}

/// `ClientSetname`.
fn camel(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase()).collect()
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// A token's name: its letters, or the argument's name for `=`, `~` and the like.
fn word_of(arg: &Arg) -> &str {
    if is_word(arg.token) { arg.token } else { arg.name }
}

fn is_choice_of_tokens(arg: &Arg) -> bool {
    arg.kind == ArgKind::OneOf && arg.nested.iter().all(|one| one.kind == ArgKind::PureToken)
}

/// Whether a choice is one word whatever is chosen: `* | id`.
fn is_one_word(arg: &Arg) -> bool {
    arg.kind == ArgKind::OneOf
        && arg.nested.iter().all(|one| match one.kind {
            ArgKind::PureToken => true,
            ArgKind::OneOf | ArgKind::Block => false,
            _ => one.token.is_empty() && !has(one, ArgFlags::MULTIPLE),
        })
}

fn has(arg: &Arg, flag: ArgFlags) -> bool {
    arg.flags.contains(flag)
}

fn tokens(arg: &Arg) -> Vec<(&'static str, String)> {
    arg.nested.iter().map(|one| (one.token, camel(word_of(one)))).collect()
}

/// Names of enumerations: that of the argument, with the command's before it where two commands
/// mean different tokens by it.
fn enum_names(entries: &[Entry]) -> BTreeMap<&'static str, bool> {
    fn walk(args: &'static [Arg], seen: &mut BTreeMap<&'static str, BTreeSet<Vec<&'static str>>>) {
        for arg in args {
            if is_choice_of_tokens(arg) {
                let tokens = arg.nested.iter().map(|one| one.token).collect();
                seen.entry(arg.name).or_default().insert(tokens);
            }
            walk(arg.nested, seen);
        }
    }
    let mut seen = BTreeMap::new();
    entries.iter().for_each(|entry| walk(entry.meta.arguments, &mut seen));
    seen.into_iter().map(|(name, sets)| (name, sets.len() == 1)).collect()
}

/// Parameters of a method, and the code that writes them to `to`.
#[derive(Default)]
struct Signature {
    parameters: Vec<(String, String)>,
    code: String,
    /// Places for options so far.
    gaps: usize,
}

impl Signature {
    fn parameter(&mut self, name: &str, kind: &str) -> String {
        let mut unique = snake(name);
        while matches!(unique.as_str(), "built" | "to")
            || self.parameters.iter().any(|(known, _)| *known == unique)
        {
            unique.push('2');
        }
        self.parameters.push((unique.clone(), kind.to_owned()));
        unique
    }

    fn line(&mut self, line: &str) {
        self.code.push_str(line);
        self.code.push('\n');
    }

    fn token(&mut self, token: &str) {
        self.line(&format!("to.push_argument(b{token:?});"));
    }

    fn list(&self) -> String {
        self.parameters.iter().map(|(name, kind)| format!(", {name}: {kind}")).collect()
    }
}

struct Maker<'r> {
    replies: &'r Replies,
    names: BTreeMap<&'static str, bool>,
    enums: BTreeMap<String, String>,
    shared: String,
    dedicated: String,
    shapes: String,
    options: String,
}

impl<'r> Maker<'r> {
    fn new(replies: &'r Replies, names: BTreeMap<&'static str, bool>) -> Self {
        Self {
            replies,
            names,
            enums: BTreeMap::new(),
            shared: String::new(),
            dedicated: String::new(),
            shapes: String::new(),
            options: String::new(),
        }
    }

    fn finish(self) -> String {
        let Self { enums, shared, dedicated, shapes, options, .. } = self;
        let enums: String = enums.into_values().collect();
        format!(
            "/// Commands that any number of callers may send over one connection.\n\
             pub trait Commands: Target {{\n{shared}}}\n\
             impl<T: Target> Commands for T {{}}\n\
             /// Commands that wait on the server, or change how their connection behaves.\n\
             pub trait DedicatedCommands: DedicatedTarget {{\n{dedicated}}}\n\
             impl<T: DedicatedTarget> DedicatedCommands for T {{}}\n\
             /// Words that are arguments of commands.\n\
             pub mod words {{\nuse crate::argument::{{ArgWriter, ToArg}};\n{enums}}}\n\
             /// Marks of requests, which say what options they have.\n\
             pub mod shape {{\n{shapes}}}\n{options}"
        )
    }

    fn command(&mut self, index: usize, entry: &Entry) {
        let (method, shape) = (snake(&entry.name), camel(&entry.name));
        let mut signature = Signature::default();
        let mut options = Vec::new();
        self.sequence(&mut signature, entry.meta.arguments, &shape, &mut options);
        let reply = self.replies.of(&method);
        let syntax = Syntax(entry.meta.arguments).to_string();
        let (name, summary, since) = (&entry.name, entry.meta.summary, entry.meta.since);
        let deprecated = match entry.meta.deprecated {
            Some((release, "")) => {
                format!("\n///\n/// Deprecated since {release}.")
            }
            Some((release, instead)) => {
                format!("\n///\n/// Deprecated since {release}: use {instead}.")
            }
            None => String::new(),
        };
        let to = match entry.is_of_session || entry.is_always_blocking {
            true => &mut self.dedicated,
            false => &mut self.shared,
        };
        writeln!(
            to,
            "/// `{}`\n///\n/// {summary} Since {since}.{deprecated}\n\
             fn {method}(self{}) -> Request<Self, shape::{shape}, {reply}> {{\n\
             #[allow(unused_mut)] let mut built = Command::new(&TABLE[{index}]);\n\
             #[allow(unused_variables)] let to = &mut built.buffer;\n\
             {}Request::new(self, built)\n}}",
            format!("{name} {syntax}").trim(),
            signature.list(),
            signature.code
        )
        .expect("a string takes everything");
        writeln!(self.shapes, "/// `{name}`.\n#[derive(Debug)] pub enum {shape} {{}}")
            .expect("a string takes everything");
        let mut used: BTreeSet<String> = TAKEN.iter().map(|name| name.to_string()).collect();
        for (gap, arg, context) in options {
            self.option(entry, gap, arg, &context, &mut used);
        }
    }

    /// Required arguments into the signature, options to be made into methods aside.
    fn sequence(
        &mut self,
        signature: &mut Signature,
        args: &'static [Arg],
        shape: &str,
        options: &mut Vec<(usize, &'static Arg, Vec<&'static str>)>,
    ) {
        let mut in_gap = false;
        let mut position = 0;
        while position < args.len() {
            let arg = &args[position];
            let counted = args.get(position + 1).filter(|next| {
                arg.name.starts_with("num") && has(next, ArgFlags::MULTIPLE) && arg.token.is_empty()
            });
            position += 1;
            if let Some(items) = counted {
                in_gap = false;
                self.counted(signature, items);
                position += 1;
                continue;
            }
            let becomes_methods = has(arg, ArgFlags::OPTIONAL)
                || (arg.kind == ArgKind::OneOf && !is_choice_of_tokens(arg) && !is_one_word(arg));
            if becomes_methods {
                if !in_gap {
                    assert!(signature.gaps < GAPS_MAX, "{shape}: more gaps than a command has");
                    signature.line(&format!("to.mark_gap({});", signature.gaps));
                    signature.gaps += 1;
                    in_gap = true;
                }
                options.push((signature.gaps - 1, arg, Vec::new()));
                continue;
            }
            in_gap = false;
            self.required(signature, arg, shape, options);
        }
    }

    /// A count, and what it counts.
    fn counted(&mut self, signature: &mut Signature, items: &'static Arg) {
        let (kind, write) = item_of(items);
        let name = signature.parameter(items.name, &format!("impl IntoIterator<Item = {kind}>"));
        signature.line(&format!(
            "to.push_counted(|to| {{ let mut count = 0; for item in {name} {{ {write} count += 1; }} count }});"
        ));
    }

    fn required(
        &mut self,
        signature: &mut Signature,
        arg: &'static Arg,
        shape: &str,
        options: &mut Vec<(usize, &'static Arg, Vec<&'static str>)>,
    ) {
        if arg.kind == ArgKind::PureToken {
            return signature.token(arg.token);
        }
        if !arg.token.is_empty() {
            signature.token(arg.token);
        }
        if has(arg, ArgFlags::MULTIPLE) {
            let (kind, write) = item_of(arg);
            let kind = format!("impl IntoIterator<Item = {kind}>");
            let name = signature.parameter(arg.name, &kind);
            return signature.line(&format!("for item in {name} {{ {write} }}"));
        }
        match arg.kind {
            ArgKind::Block => match arg.nested {
                // Two lists of the same length: all of the first, then all of the second.
                [first, second]
                    if has(first, ArgFlags::MULTIPLE) && has(second, ArgFlags::MULTIPLE) =>
                {
                    let name = signature
                        .parameter(arg.name, "impl IntoIterator<Item = (impl ToArg, impl ToArg)>");
                    signature.line(&format!("pairs_apart(to, {name});"));
                }
                nested => self.sequence(signature, nested, shape, options),
            },
            _ => {
                let kind = self.kind_of(arg, shape);
                let name = signature.parameter(arg.name, &kind);
                signature.line(&format!("write(to, &{name});"));
            }
        }
    }

    /// The type of one argument.
    fn kind_of(&mut self, arg: &'static Arg, shape: &str) -> String {
        match arg.kind {
            ArgKind::Integer if arg.name == "cursor" => "u64".into(),
            ArgKind::Integer | ArgKind::UnixTime => "i64".into(),
            ArgKind::OneOf if is_choice_of_tokens(arg) => self.enumeration(arg, shape),
            _ => "impl ToArg".into(),
        }
    }

    fn enumeration(&mut self, arg: &'static Arg, shape: &str) -> String {
        let name = match self.names.get(arg.name) {
            Some(true) => camel(arg.name),
            _ => format!("{shape}{}", camel(arg.name)),
        };
        let tokens = tokens(arg);
        let variants: String =
            tokens.iter().map(|(token, variant)| format!("/// `{token}`.\n{variant},\n")).collect();
        let arms: String = tokens
            .iter()
            .map(|(token, variant)| format!("Self::{variant} => b{token:?},\n"))
            .collect();
        self.enums.entry(name.clone()).or_insert_with(|| {
            let list: Vec<String> = tokens.iter().map(|(token, _)| format!("`{token}`")).collect();
            format!(
                "/// {}.\n#[derive(Clone, Copy, Debug, Eq, PartialEq)]\npub enum {name} {{\n{variants}}}\n\
                 impl ToArg for {name} {{\nfn write_arg(&self, to: &mut ArgWriter<'_>) {{\n\
                 let word: &[u8] = match self {{\n{arms}}};\nto.write(word);\n}}\n}}\n",
                list.join(" or ")
            )
        });
        format!("words::{name}")
    }

    /// The methods of one option.
    fn option(
        &mut self,
        entry: &Entry,
        gap: usize,
        arg: &'static Arg,
        before: &[&'static str],
        used: &mut BTreeSet<String>,
    ) {
        let mut before = before.to_vec();
        let shape = camel(&entry.name);
        let is_one_parameter = is_choice_of_tokens(arg) && !arg.token.is_empty();
        if arg.kind == ArgKind::OneOf && !is_one_parameter {
            if is_one_word(arg) && !is_choice_of_tokens(arg) {
                let mut signature = Signature::default();
                before.iter().for_each(|token| signature.token(token));
                let name = signature.parameter(arg.name, "impl ToArg");
                signature.line(&format!("write(to, &{name});"));
                return self.method(entry, gap, arg.name, arg.name, signature, used);
            }
            before.extend((!arg.token.is_empty()).then_some(arg.token));
            for one in arg.nested {
                self.option(entry, gap, one, &before, used);
            }
            return;
        }
        let mut signature = Signature::default();
        before.iter().for_each(|token| signature.token(token));
        let name = self.name_of(arg);
        if arg.kind != ArgKind::Block || has(arg, ArgFlags::MULTIPLE) {
            if has(arg, ArgFlags::MULTIPLE_TOKEN) {
                self.once(&mut signature, arg, &shape);
            } else {
                self.required(&mut signature, arg, &shape, &mut Vec::new());
            }
            return self.method(entry, gap, &name, arg.name, signature, used);
        }
        if !arg.token.is_empty() {
            signature.token(arg.token);
        }
        let mut later = Vec::new();
        let mut position = 0;
        let nested = arg.nested;
        while position < nested.len() {
            let one = &nested[position];
            let counted = nested.get(position + 1).filter(|next| {
                one.name.starts_with("num") && has(next, ArgFlags::MULTIPLE) && one.token.is_empty()
            });
            let is_last = nested[position..].iter().all(|one| has(one, ArgFlags::OPTIONAL));
            position += 1;
            if let Some(items) = counted {
                self.counted(&mut signature, items);
                position += 1;
            } else if is_last {
                later.push(one);
            } else if has(one, ArgFlags::OPTIONAL) {
                self.maybe(&mut signature, one, &shape);
            } else if one.kind == ArgKind::OneOf && !is_choice_of_tokens(one) && !is_one_word(one) {
                later.push(one);
            } else {
                self.required(&mut signature, one, &shape, &mut Vec::new());
            }
        }
        if !signature.code.is_empty() {
            self.method(entry, gap, &name, arg.name, signature, used);
        }
        for one in later {
            self.option(entry, gap, one, &[], used);
        }
    }

    /// One repetition of an option that repeats its token.
    fn once(&mut self, signature: &mut Signature, arg: &'static Arg, shape: &str) {
        signature.token(arg.token);
        let nested =
            if arg.kind == ArgKind::Block { arg.nested } else { std::slice::from_ref(arg) };
        for one in nested {
            let kind = self.kind_of(one, shape);
            let name = signature.parameter(one.name, &kind);
            signature.line(&format!("write(to, &{name});"));
        }
    }

    /// An argument that may be left out, with required ones behind it.
    fn maybe(&mut self, signature: &mut Signature, arg: &'static Arg, shape: &str) {
        if arg.kind == ArgKind::PureToken {
            let name = signature.parameter(word_of(arg), "bool");
            return signature.line(&format!("if {name} {{ to.push_argument(b{:?}); }}", arg.token));
        }
        let kind = match arg.kind {
            ArgKind::OneOf if is_choice_of_tokens(arg) => self.enumeration(arg, shape),
            ArgKind::Integer | ArgKind::UnixTime => "i64".into(),
            // `None` alone should have a type.
            _ => "&str".into(),
        };
        let name = signature.parameter(arg.name, &format!("Option<{kind}>"));
        let token = match arg.token {
            "" => String::new(),
            token => format!("to.push_argument(b{token:?});"),
        };
        signature.line(&format!("if let Some(item) = {name} {{ {token} write(to, &item); }}"));
    }

    /// The name of an option's method.
    fn name_of(&self, arg: &'static Arg) -> String {
        let first = arg.nested.first();
        match arg.kind {
            ArgKind::PureToken => word_of(arg).to_owned(),
            _ if is_word(arg.token) => arg.token.to_owned(),
            ArgKind::Block if first.is_some_and(|first| is_word(first.token)) => {
                first.map_or(arg.name, |first| first.token).to_owned()
            }
            // `[count [WITHVALUES]]`: named for the one thing that it must have.
            ArgKind::Block => {
                let mut required = arg.nested.iter().filter(|one| !has(one, ArgFlags::OPTIONAL));
                match (required.next(), required.next()) {
                    (Some(one), None) => one.name.to_owned(),
                    _ => arg.name.to_owned(),
                }
            }
            _ => arg.name.to_owned(),
        }
    }

    fn method(
        &mut self,
        entry: &Entry,
        gap: usize,
        name: &str,
        other_name: &str,
        signature: Signature,
        used: &mut BTreeSet<String>,
    ) {
        let mut method = snake(name);
        if used.contains(&method) {
            method = snake(other_name);
        }
        while !used.insert(method.clone()) {
            method.push_str("_option");
        }
        let command = snake(&entry.name);
        let reply = self.replies.0.get(&format!("{command}.{method}"));
        let reply = reply.map_or("R", |kind| kind);
        // Only XREAD and XREADGROUP have an option that makes them wait.
        let bound = match method.as_str() {
            "block" if !entry.is_always_blocking => "DedicatedTarget",
            _ => "Target",
        };
        let Signature { code, .. } = &signature;
        writeln!(
            self.options,
            "impl<T: {bound}, R> Request<T, shape::{}, R> {{\n\
             /// The option `{}` of `{}`.\n\
             pub fn {method}(self{}) -> Request<T, shape::{0}, {reply}> {{\n\
             self.option({gap}, |to| {{ {code} }}).retyped()\n}}\n}}",
            camel(&entry.name),
            name.to_ascii_uppercase(),
            entry.name,
            signature.list(),
        )
        .expect("a string takes everything");
    }
}

/// The type of a repeated argument, and the code that writes `item`.
fn item_of(arg: &Arg) -> (String, String) {
    if arg.kind != ArgKind::Block {
        return ("impl ToArg".into(), "write(to, &item);".into());
    }
    let kinds: Vec<&str> = arg.nested.iter().map(|_| "impl ToArg").collect();
    let writes: String =
        (0..arg.nested.len()).map(|at| format!("write(to, &item.{at});")).collect();
    (format!("({})", kinds.join(", ")), writes)
}
