//! A command as a method of Python.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use petrel_table::{Arg, ArgFlags, ArgKind, Syntax};

use crate::{Entry, RedisPy, Replies};

/// The type of a parameter in the stubs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Bytes, text or a number.
    Argument,
    /// Several of these.
    Many,
    Int,
    Float,
    Mapping,
    Flag,
    /// One of these words.
    Words(Vec<&'static str>),
    /// One or several values of an option.
    Values,
}

/// A parameter.
pub struct Parameter {
    pub name: String,
    pub kind: Kind,
    /// `name=None` or `name=False`.
    pub is_optional: bool,
    /// `*name`.
    pub is_rest: bool,
    /// Behind `*`.
    pub is_keyword: bool,
}

/// A method.
pub struct Method {
    pub name: String,
    command: String,
    syntax: String,
    pub summary: &'static str,
    pub parameters: Vec<Parameter>,
    /// What gathers the arguments: an expression if it is a single one, else statements.
    parts: Vec<Part>,
    pub shape: String,
    /// Options that change the shape.
    pub shapes: Vec<(String, String)>,
    /// Lists that were `*names`: the names that they have, and had.
    lists: Vec<(String, String)>,
}

enum Part {
    /// An argument, or `*arguments`.
    Expression(String),
    /// Statements that append to `call`.
    Statement(String),
}

/// What the methods are called in Rust and in Python.
fn method_names(command: &str) -> (String, String) {
    let snake = snake(command);
    let rust = match snake.as_str() {
        "type" | "move" => format!("{snake}_"),
        _ => snake.clone(),
    };
    let python = match snake.as_str() {
        "del" => "delete".to_owned(),
        _ => snake,
    };
    (rust, python)
}

fn snake(name: &str) -> String {
    let lower = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    name.chars().map(lower).collect()
}

/// A name for a parameter: none of Python's words.
fn identifier(name: &str) -> String {
    let name = snake(name);
    match name.as_str() {
        "and" | "as" | "async" | "class" | "del" | "for" | "from" | "global" | "if" | "import"
        | "in" | "is" | "lambda" | "not" | "or" | "pass" | "return" | "self" | "call"
        | "command" | "with" => name + "_",
        _ if name.starts_with(|c: char| c.is_ascii_digit()) => format!("_{name}"),
        _ => name,
    }
}

fn has(arg: &Arg, flag: ArgFlags) -> bool {
    arg.flags.contains(flag)
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn word_of(arg: &Arg) -> &'static str {
    if is_word(arg.token) { arg.token } else { arg.name }
}

fn is_choice_of_words(arg: &Arg) -> bool {
    arg.kind == ArgKind::OneOf && arg.nested.iter().all(|one| one.kind == ArgKind::PureToken)
}

/// Whether a choice is one argument whatever is chosen: `* | id`.
fn is_one_argument(arg: &Arg) -> bool {
    arg.kind == ArgKind::OneOf
        && arg.nested.iter().all(|one| match one.kind {
            ArgKind::PureToken => true,
            ArgKind::OneOf | ArgKind::Block => false,
            _ => one.token.is_empty() && !has(one, ArgFlags::MULTIPLE),
        })
}

/// Whether it is a parameter that has to be given.
fn is_required(arg: &Arg) -> bool {
    !has(arg, ArgFlags::OPTIONAL) && arg.kind != ArgKind::OneOf && arg.kind != ArgKind::PureToken
}

fn is_count(arg: &Arg, next: Option<&Arg>) -> bool {
    let counts = |next: &Arg| has(next, ArgFlags::MULTIPLE) && next.token.is_empty();
    arg.name.starts_with("num") && next.is_some_and(counts)
}

impl Method {
    pub fn new(entry: &Entry, replies: &Replies, redis_py: &RedisPy) -> Self {
        let (rust, python) = method_names(&entry.name);
        let arguments = entry.meta.arguments;
        let mut method = Self {
            name: python,
            command: entry.name.clone(),
            syntax: format!("{} {}", entry.name, Syntax(arguments)).trim().to_owned(),
            summary: entry.meta.summary,
            parameters: Vec::new(),
            parts: Vec::new(),
            shape: replies.of(&rust).to_owned(),
            shapes: Vec::new(),
            lists: Vec::new(),
        };
        method.sequence(arguments, true);
        let known: BTreeSet<_> = method.parameters.iter().map(|one| one.name.clone()).collect();
        let changed = replies.options(&rust).map(|(option, kind)| (identifier(option), kind));
        method.shapes = changed
            .filter(|(option, _)| known.contains(option))
            .map(|(option, kind)| (option, kind.to_owned()))
            .collect();
        if let Some(names) = redis_py.of(&method.name) {
            method.rename(names);
        }
        method
    }

    /// Gives parameters the names and the order of redis-py.
    fn rename(&mut self, names: &[String]) {
        let mut left: Vec<Parameter> = std::mem::take(&mut self.parameters);
        let mut renamed = BTreeMap::new();
        let mut ordered: Vec<Parameter> = Vec::new();
        for name in names {
            if let Some(rest) = name.strip_prefix('*') {
                let list = ordered.last().expect("a list before what follows it").name.clone();
                renamed.retain(|_, new: &mut String| *new != list);
                let (old, both) = (self.list_name(&list), format!("({list}, *{rest})"));
                renamed.insert(old, both);
                let name = rest.to_owned();
                let kind = Kind::Many;
                let (is_optional, is_rest, is_keyword) = (false, true, false);
                ordered.push(Parameter { name, kind, is_optional, is_rest, is_keyword });
                continue;
            }
            let (theirs, ours) = name.split_once('=').unwrap_or((name, name));
            let at = left.iter().position(|one| !one.is_optional);
            let at = at.or_else(|| left.iter().position(|one| one.name == ours));
            let at = at.unwrap_or_else(|| panic!("{}: no parameter for {name}", self.name));
            let old = left.remove(at);
            self.lists.extend(old.is_rest.then(|| (theirs.to_owned(), old.name.clone())));
            renamed.insert(old.name, theirs.to_owned());
            let name = theirs.to_owned();
            ordered.push(Parameter { name, is_rest: false, is_keyword: false, ..old });
        }
        // What may be left out follows `*names` by keyword.
        let has_rest = left.iter().any(|one| one.is_rest);
        ordered.iter_mut().for_each(|one| one.is_keyword = has_rest && one.is_optional);
        ordered.extend(left);
        self.parameters = ordered;
        for part in &mut self.parts {
            let (Part::Expression(text) | Part::Statement(text)) = part;
            *text = with_names(text, &renamed);
        }
        for (option, _) in &mut self.shapes {
            *option = renamed.get(option).unwrap_or(option).clone();
        }
    }

    /// The name that a list had before it was renamed.
    fn list_name(&self, list: &str) -> String {
        let (_, old) = self.lists.iter().find(|(new, _)| new == list).expect("a list");
        old.clone()
    }

    fn sequence(&mut self, arguments: &'static [Arg], is_whole: bool) {
        let mut at = 0;
        while at < arguments.len() {
            let arg = &arguments[at];
            let next = arguments.get(at + 1);
            at += 1;
            if is_count(arg, next) && !has(arg, ArgFlags::OPTIONAL) {
                let items = &arguments[at];
                at += 1;
                self.counted(items, is_whole && !arguments[at..].iter().any(is_required));
                continue;
            }
            let is_choice = arg.kind == ArgKind::OneOf;
            let has_variants = is_choice && !is_choice_of_words(arg) && !is_one_argument(arg);
            let is_bare = arg.token.is_empty() && arg.kind != ArgKind::Block && !has_variants;
            let is_end = is_whole && at == arguments.len();
            if has(arg, ArgFlags::OPTIONAL) && has(arg, ArgFlags::MULTIPLE) && is_bare && is_end {
                self.required(arg, true);
                continue;
            }
            if has(arg, ArgFlags::OPTIONAL) || has_variants {
                self.option(arg, &[]);
                continue;
            }
            self.required(arg, is_whole && !arguments[at..].iter().any(is_required));
        }
    }

    fn required(&mut self, arg: &'static Arg, is_last: bool) {
        if arg.kind == ArgKind::PureToken {
            return self.literal(arg.token);
        }
        if !arg.token.is_empty() {
            self.literal(arg.token);
        }
        if has(arg, ArgFlags::MULTIPLE) {
            if arg.kind == ArgKind::Block && arg.nested.len() == 2 {
                let name = self.add("mapping", Kind::Mapping, false);
                return self.expression(format!("*_pairs({name})"));
            }
            let name = self.add(&plural(arg), Kind::Many, false);
            if is_last {
                self.parameters.iter_mut().for_each(|one| one.is_rest |= one.name == name);
            }
            return self.expression(format!("*_spread({name})"));
        }
        match arg.kind {
            ArgKind::Block => match arg.nested {
                // Two lists of the same length: all of the first, then all of the second.
                [first, second]
                    if has(first, ArgFlags::MULTIPLE) && has(second, ArgFlags::MULTIPLE) =>
                {
                    let name = self.add(arg.name, Kind::Mapping, false);
                    self.expression(format!("*_apart({name})"));
                }
                nested => self.sequence(nested, is_last),
            },
            _ => {
                let name = self.add(arg.name, kind_of(arg), false);
                self.expression(name);
            }
        }
    }

    /// Keywords for an option, each with the words before it.
    fn option(&mut self, arg: &'static Arg, before: &[&'static str]) {
        let mut before = before.to_vec();
        if arg.kind == ArgKind::OneOf && (arg.token.is_empty() || !is_choice_of_words(arg)) {
            if is_one_argument(arg) && !is_choice_of_words(arg) {
                let name = self.keyword(arg.name, Kind::Argument);
                return self.append(&name, &before, &format!("call.append({name})"));
            }
            before.extend((!arg.token.is_empty()).then_some(arg.token));
            return arg.nested.iter().for_each(|one| self.option(one, &before));
        }
        if arg.kind == ArgKind::PureToken {
            before.push(arg.token);
            let name = self.keyword(word_of(arg), Kind::Flag);
            return self
                .parts
                .push(Part::Statement(format!("if {name}:\n    call += ({},)", quoted(&before))));
        }
        if arg.kind == ArgKind::Block && !has(arg, ArgFlags::MULTIPLE) {
            return self.block(arg, before);
        }
        let name = if is_word(arg.token) { arg.token } else { arg.name };
        if has(arg, ArgFlags::MULTIPLE) {
            let name = self.keyword(name, Kind::Values);
            let append = if has(arg, ArgFlags::MULTIPLE_TOKEN) {
                format!("for one in _values({name}):\n    call += ({:?}, *_values(one))", arg.token)
            } else {
                before.extend((!arg.token.is_empty()).then_some(arg.token));
                format!("call += _values({name})")
            };
            return self.append(&name, &before, &append);
        }
        let is_bare = arg.token.is_empty() && before.is_empty();
        before.extend((!arg.token.is_empty()).then_some(arg.token));
        let name = match is_bare && !self.parameters.iter().any(|one| one.is_rest || one.is_keyword)
        {
            true => self.add(name, kind_of(arg), true),
            false => self.keyword(name, kind_of(arg)),
        };
        self.append(&name, &before, &format!("call.append({name})"));
    }

    /// An option of several arguments; those at its end that may be left out are options too.
    fn block(&mut self, arg: &'static Arg, mut before: Vec<&'static str>) {
        before.extend((!arg.token.is_empty()).then_some(arg.token));
        let nested = arg.nested;
        let optional = |one: &Arg| has(one, ArgFlags::OPTIONAL);
        let end = nested.len() - nested.iter().rev().take_while(|one| optional(one)).count();
        let (needed, later) = nested.split_at(end);
        let first = needed.first();
        let name = match first {
            _ if is_word(arg.token) => arg.token,
            Some(first) if is_word(first.token) => first.token,
            Some(first) if needed.len() == 1 => first.name,
            _ => arg.name,
        };
        let counted = needed.windows(2).any(|pair| is_count(&pair[0], Some(&pair[1])));
        match needed {
            [] => {}
            [one] if is_choice_of_words(one) || one.kind == ArgKind::OneOf => {
                self.option(one, &before);
            }
            [one] if one.kind == ArgKind::PureToken => self.option(one, &before),
            [one] if !has(one, ArgFlags::MULTIPLE) && one.kind != ArgKind::Block => {
                before.extend((!one.token.is_empty()).then_some(one.token));
                let name = self.keyword(name, kind_of(one));
                self.append(&name, &before, &format!("call.append({name})"));
            }
            _ => {
                before
                    .extend(needed.first().map(|one| one.token).filter(|token| !token.is_empty()));
                let name = self.keyword(name, Kind::Values);
                let append = match counted {
                    true => format!("call += _counted({name})"),
                    false => format!("call += _values({name})"),
                };
                self.append(&name, &before, &append);
            }
        }
        later.iter().for_each(|one| self.option(one, &[]));
    }

    fn add(&mut self, name: &str, kind: Kind, is_optional: bool) -> String {
        let is_key = name == "key" && self.parameters.is_empty();
        let mut name = identifier(if is_key { "name" } else { name });
        while self.parameters.iter().any(|one| one.name == name) {
            name.push('2');
        }
        // What follows `*names` is given by keyword, and so is what may be left out before others.
        let is_keyword = self.parameters.iter().any(|one| one.is_rest);
        if !is_optional {
            self.parameters.iter_mut().for_each(|one| one.is_keyword |= one.is_optional);
        }
        let parameter =
            Parameter { name: name.clone(), kind, is_optional, is_rest: false, is_keyword };
        self.parameters.push(parameter);
        name
    }

    fn keyword(&mut self, name: &str, kind: Kind) -> String {
        let name = self.add(name, kind, true);
        self.parameters.iter_mut().for_each(|one| one.is_keyword |= one.name == name);
        name
    }

    fn literal(&mut self, token: &str) {
        self.expression(format!("{token:?}"));
    }

    fn expression(&mut self, text: String) {
        self.parts.push(Part::Expression(text));
    }

    /// What has a count before it.
    fn counted(&mut self, items: &'static Arg, is_last: bool) {
        if items.kind == ArgKind::Block && items.nested.len() == 2 {
            let name = self.add("mapping", Kind::Mapping, false);
            return self.expression(format!("*_counted_pairs({name})"));
        }
        let name = self.add(&plural(items), Kind::Many, false);
        if is_last {
            self.parameters.iter_mut().for_each(|one| one.is_rest |= one.name == name);
        }
        self.expression(format!("*_counted({name})"));
    }

    /// Statements for an option that is not `None`.
    fn append(&mut self, name: &str, before: &[&'static str], append: &str) {
        let mut text = format!("if {name} is not None:\n");
        if !before.is_empty() {
            writeln!(text, "    call += ({},)", quoted(before)).expect("a string");
        }
        append.lines().for_each(|line| writeln!(text, "    {line}").expect("a string"));
        self.parts.push(Part::Statement(text.trim_end().to_owned()));
    }

    /// The name of the constant that is its command with this shape.
    fn constant(&self, option: Option<&str>) -> String {
        let name = format!("_{}", snake(&self.command).to_ascii_uppercase());
        match option {
            Some(option) => format!("{name}_{}", option.trim_end_matches('_').to_ascii_uppercase()),
            None => name,
        }
    }

    /// Parameters as Python declares them, without types.
    fn signature(&self) -> String {
        self.list(|parameter| match (&parameter.kind, parameter.is_optional) {
            (_, false) => parameter.name.clone(),
            (Kind::Flag, true) => format!("{}=False", parameter.name),
            (_, true) => format!("{}=None", parameter.name),
        })
    }

    /// Parameters, each written by `show`, with `*` before keywords; without those for which it
    /// returns nothing.
    pub fn list(&self, show: impl Fn(&Parameter) -> String) -> String {
        self.listed(&show, |one| one.is_keyword)
    }

    /// Like `list`, with other parameters behind `*`.
    pub fn listed(
        &self,
        show: &dyn Fn(&Parameter) -> String,
        is_keyword: impl Fn(&Parameter) -> bool,
    ) -> String {
        let mut list = String::from("self");
        let mut is_open = true;
        let (keywords, others): (Vec<_>, Vec<_>) = self
            .parameters
            .iter()
            .filter(|one| !show(one).is_empty())
            .partition(|one| is_keyword(one) && !one.is_rest);
        for parameter in others {
            is_open &= !parameter.is_rest;
            let star = if parameter.is_rest { "*" } else { "" };
            write!(list, ", {star}{}", show(parameter)).expect("a string");
        }
        if !keywords.is_empty() && is_open {
            list.push_str(", *");
        }
        for parameter in keywords {
            write!(list, ", {}", show(parameter)).expect("a string");
        }
        list
    }

    fn constants(&self) -> String {
        let mut text =
            format!("{} = Command({:?}, {:?})\n", self.constant(None), self.command, self.shape);
        for (option, shape) in &self.shapes {
            let name = self.constant(Some(option));
            writeln!(text, "{name} = Command({:?}, {shape:?})", self.command).expect("a string");
        }
        text
    }

    fn definition(&self) -> String {
        let mut text = format!("    def {}({}):\n", self.name, self.signature());
        let doc = format!("``{}``: {}", self.syntax.replace('\\', "\\\\"), self.summary);
        writeln!(text, "        \"\"\"{doc}\"\"\"").expect("a string");
        let is_simple = self.parts.iter().all(|part| matches!(part, Part::Expression(_)));
        let command = self.constant(None);
        if is_simple {
            let arguments: String = self
                .parts
                .iter()
                .map(|part| match part {
                    Part::Expression(one) => format!(", {one}"),
                    Part::Statement(_) => String::new(),
                })
                .collect();
            writeln!(text, "        return self._run({command}{arguments})\n").expect("a string");
            return text;
        }
        writeln!(text, "        call = []").expect("a string");
        for part in &self.parts {
            match part {
                Part::Expression(one) if one.starts_with('*') => {
                    writeln!(text, "        call += {}", &one[1..]).expect("a string");
                }
                Part::Expression(one) => {
                    writeln!(text, "        call.append({one})").expect("a string");
                }
                Part::Statement(lines) => lines
                    .lines()
                    .for_each(|line| writeln!(text, "        {line}").expect("a string")),
            }
        }
        let mut chosen = command;
        for (option, _) in &self.shapes {
            let flag = self.parameters.iter().find(|one| &one.name == option);
            let test = match flag.map(|one| &one.kind) {
                Some(Kind::Flag) | None => option.clone(),
                _ => format!("{option} is not None"),
            };
            chosen = format!("{} if {test} else {chosen}", self.constant(Some(option)));
        }
        writeln!(text, "        return self._run({chosen}, *call)\n").expect("a string");
        text
    }
}

/// Code with other names for parameters; words in quotes stay.
fn with_names(code: &str, names: &BTreeMap<String, String>) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest, mut is_quoted) = (String::new(), code, false);
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let len = if end == 0 { first.len_utf8() } else { end };
        let (word, behind) = rest.split_at(len);
        is_quoted ^= word == "\"";
        match names.get(word).filter(|_| !is_quoted) {
            Some(name) => out.push_str(name),
            None => out.push_str(word),
        }
        rest = behind;
    }
    out
}

fn kind_of(arg: &Arg) -> Kind {
    match arg.kind {
        ArgKind::Integer | ArgKind::UnixTime => Kind::Int,
        ArgKind::Double => Kind::Float,
        ArgKind::OneOf if is_choice_of_words(arg) => {
            Kind::Words(arg.nested.iter().map(|one| one.token).collect())
        }
        _ => Kind::Argument,
    }
}

/// The name for several of an argument.
fn plural(arg: &Arg) -> String {
    match arg.name {
        "key" => "names".to_owned(),
        name if name.ends_with('s') => name.to_owned(),
        name => format!("{name}s"),
    }
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    words.join(", ")
}

/// The module of all methods.
pub fn module(methods: &[Method]) -> String {
    let constants: String = methods.iter().map(Method::constants).collect();
    let definitions: String = methods.iter().map(Method::definition).collect();
    format!(
        "# Written by `generate` from the command table; not to be edited.\n\
         \"\"\"A method for every command that has no form of its own in ``_redis_py``.\"\"\"\n\n\
         from petrel._arguments import apart as _apart\n\
         from petrel._arguments import counted as _counted\n\
         from petrel._arguments import counted_pairs as _counted_pairs\n\
         from petrel._arguments import pairs as _pairs\n\
         from petrel._arguments import spread as _spread\n\
         from petrel._arguments import values as _values\n\
         from petrel._petrel import Command\n\
         from petrel._redis_py import RedisPyCommands\n\n{constants}\n\n\
         class Commands(RedisPyCommands):\n\
         {sp}\"\"\"Commands, as methods that give them to ``_run``.\"\"\"\n\n{definitions}",
        sp = "    "
    )
    .trim_end()
    .to_owned()
        + "\n"
}
