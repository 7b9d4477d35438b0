//! Syntax lines: `key [EX seconds | PERSIST]{expiration}` becomes a tree of arguments.

use std::collections::HashMap;

/// The types of arguments, by their names.
pub struct Types(HashMap<String, String>);

/// Types of arguments, besides those of groups and tokens.
const TYPES: [&str; 6] = ["key", "string", "integer", "double", "pattern", "unix-time"];

impl Types {
    /// Reads `type: name name ...`, one type a line.
    pub fn parse(text: &str) -> Self {
        let mut types = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (kind, names) = line.split_once(':').expect("`type: names`");
            types.extend(names.split_whitespace().map(|name| (name.into(), kind.into())));
        }
        Types(types)
    }

    fn of(&self, name: &str) -> String {
        self.0.get(name).map_or("string", |kind| kind).into()
    }
}

/// An argument, as `petrel_table::Arg` has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arg {
    pub name: String,
    /// Type of the argument in `COMMAND DOCS`.
    pub kind: String,
    pub display: String,
    pub token: String,
    pub since: String,
    pub deprecated: String,
    pub key_spec: u8,
    pub optional: bool,
    pub multiple: bool,
    pub multiple_token: bool,
    pub nested: Vec<Arg>,
}

impl Arg {
    /// The fewest words that it takes in a call, and whether it never takes more.
    fn words(&self) -> (i16, bool) {
        let own = i16::from(!self.token.is_empty() && self.kind != "pure-token");
        let (least, exact) = match self.kind.as_str() {
            "oneof" => {
                let all: Vec<_> = self.nested.iter().map(Arg::words).collect();
                let least = all.iter().map(|words| words.0).min().unwrap_or(0);
                (least, all.iter().all(|&words| words == (least, true)))
            }
            "block" => words(&self.nested),
            _ => (1, true),
        };
        if self.optional { (0, false) } else { (least + own, exact && !self.multiple) }
    }
}

fn words(args: &[Arg]) -> (i16, bool) {
    let all = args.iter().map(Arg::words);
    all.fold((0, true), |sum, words| (sum.0 + words.0, sum.1 && words.1))
}

/// Arity of a command with `name_words` words in its name.
pub fn arity(name_words: i16, args: &[Arg]) -> i16 {
    let (least, exact) = words(args);
    if exact { name_words + least } else { -(name_words + least) }
}

/// Reads a syntax line, the command's name taken off.
pub fn parse(line: &str, types: &Types) -> Result<Vec<Arg>, String> {
    let mut parser = Parser { left: lex(line)?, types };
    parser.left.reverse();
    let args = parser.sequence()?;
    match parser.left.pop() {
        None => Ok(args),
        Some(left) => Err(format!("`{left}` closes nothing")),
    }
}

/// Splits a line into words, brackets, bars, `...`, and braces with their contents.
fn lex(line: &str) -> Result<Vec<String>, String> {
    let mut lexemes = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '[' | ']' | '<' | '>' | '|' => 1,
            '{' => rest.find('}').ok_or("a brace is not closed")? + 1,
            _ if rest.starts_with("...") => 3,
            _ => {
                let ends = |c: char| c.is_whitespace() || "[]<>|{".contains(c);
                let end = rest.find(ends).unwrap_or(rest.len());
                rest[..end].find("...").unwrap_or(end)
            }
        };
        lexemes.push(rest[..len].to_owned());
        rest = rest[len..].trim_start();
    }
    Ok(lexemes)
}

struct Parser<'t> {
    /// Unread lexemes, in reverse order.
    left: Vec<String>,
    types: &'t Types,
}

impl Parser<'_> {
    fn next_is(&self, lexeme: &str) -> bool {
        self.left.last().is_some_and(|next| next == lexeme)
    }

    /// Arguments up to what closes or parts them.
    fn sequence(&mut self) -> Result<Vec<Arg>, String> {
        let mut args = Vec::new();
        while let Some(next) = self.left.last() {
            if ["]", ">", "|"].contains(&next.as_str()) {
                break;
            }
            args.push(self.argument()?);
        }
        Ok(args)
    }

    fn argument(&mut self) -> Result<Arg, String> {
        let first = self.left.pop().ok_or("an argument is missing")?;
        let mut arg = match first.as_str() {
            "[" => self.group("]")?,
            "<" => self.group(">")?,
            word if is_token(word) => match self.left.last().map(String::as_str) {
                Some("<") => {
                    self.left.pop();
                    Arg { token: first, ..self.group(">")? }
                }
                Some(next) if is_name(next) => {
                    let name = self.left.pop().unwrap_or_default();
                    Arg { token: first, ..self.value(&name) }
                }
                _ => pure_token(word),
            },
            name if is_name(name) => self.value(name),
            other => return Err(format!("`{other}` is no argument")),
        };
        if self.next_is("...") {
            self.left.pop();
            arg.multiple = true;
        }
        if let Some(attributes) = self.left.pop_if(|next| next.starts_with('{')) {
            for attribute in attributes[1..attributes.len() - 1].split(',') {
                attribute_of(&mut arg, attribute.trim())?;
            }
        }
        if ["oneof", "block"].contains(&arg.kind.as_str()) && arg.name.is_empty() {
            return Err("a group has no name".into());
        }
        Ok(arg)
    }

    fn value(&self, name: &str) -> Arg {
        let kind = self.types.of(name);
        Arg { name: name.into(), display: name.into(), kind, ..Arg::default() }
    }

    /// Parses the contents of brackets up to `close`.
    fn group(&mut self, close: &str) -> Result<Arg, String> {
        let mut choices = vec![self.sequence()?];
        while self.left.pop_if(|next| next == "|").is_some() {
            choices.push(self.sequence()?);
        }
        if self.left.pop().is_none_or(|found| found != close) {
            return Err(format!("`{close}` is missing"));
        }
        let optional = close == "]";
        let group = |kind: &str, nested| Arg { kind: kind.into(), nested, ..Arg::default() };
        let mut arg = match choices.len() {
            1 => match choices.pop().unwrap_or_default() {
                mut one if one.len() == 1 && optional => one.remove(0),
                several => group("block", several),
            },
            _ => {
                let single = |mut choice: Vec<Arg>| match choice.len() {
                    1 => Ok(choice.remove(0)),
                    _ => Err("a choice of several arguments needs `<...>{name}`"),
                };
                group("oneof", choices.into_iter().map(single).collect::<Result<_, _>>()?)
            }
        };
        arg.optional |= optional;
        Ok(arg)
    }
}

fn pure_token(word: &str) -> Arg {
    let token = if word == "\"\"" { "" } else { word };
    let name = token.to_ascii_lowercase();
    Arg {
        display: name.clone(),
        name,
        token: token.into(),
        kind: "pure-token".into(),
        ..Arg::default()
    }
}

fn is_token(word: &str) -> bool {
    !word.starts_with(['{', '[', ']', '<', '>', '|', '.'])
        && !word.contains(|c: char| c.is_ascii_lowercase())
}

fn is_name(word: &str) -> bool {
    !word.starts_with('{') && word.contains(|c: char| c.is_ascii_lowercase())
}

fn attribute_of(arg: &mut Arg, attribute: &str) -> Result<(), String> {
    let is_group = !arg.nested.is_empty() && arg.name.is_empty();
    match attribute.split_once(' ') {
        Some(("name", name)) => {
            arg.name = name.into();
            if arg.kind == "pure-token" {
                arg.display = name.into();
            }
        }
        Some(("since", release)) => arg.since = release.into(),
        Some(("deprecated", release)) => arg.deprecated = release.into(),
        Some(("spec", index)) => {
            arg.key_spec = index.parse().map_err(|_| format!("`{index}` is no index"))?;
        }
        None if attribute.is_empty() => {}
        None if attribute == "repeat-token" => arg.multiple_token = true,
        None if is_group => (arg.name, arg.display) = (attribute.into(), attribute.into()),
        None if TYPES.contains(&attribute) => arg.kind = attribute.into(),
        _ => return Err(format!("`{{{attribute}}}` is not known")),
    }
    Ok(())
}
