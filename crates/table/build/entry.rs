//! Entries: a syntax line, and indented lines below it.

use crate::syntax::{self, Arg, Types};

/// An entry of a command in the text files.
#[derive(Default)]
pub struct Entry {
    /// The container's name in upper case, or empty.
    pub container: String,
    /// The name in upper case, without the container's.
    pub name: String,
    pub is_container: bool,
    pub arity: i16,
    pub summary: String,
    pub since: String,
    pub group: String,
    pub flags: Vec<String>,
    pub gate: Vec<String>,
    pub categories: Vec<String>,
    /// Key specs, as they stand.
    pub keys: Vec<String>,
    pub channels: Option<String>,
    pub complexity: Option<String>,
    pub tips: Vec<String>,
    pub history: Vec<(String, String)>,
    pub deprecated: Option<(String, String)>,
    pub system: bool,
    pub arguments: Vec<Arg>,
    pub help: Vec<(String, String)>,
    /// Valkey's text, where it differs.
    pub help_valkey: Vec<(String, String)>,
    /// The enum of its options, where it shares one.
    pub options: Option<String>,
    /// Options that `COMMAND DOCS` leaves out.
    pub undocumented: Vec<Arg>,
}

/// Parses the entries of a family; an error gives the line and the fault.
pub fn parse(text: &str, types: &Types) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let failed = |why: String| format!("{}: {why}", number + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with(' ') {
            let entry = entries.last_mut().ok_or_else(|| failed("of which command?".into()))?;
            property(entry, line, types).map_err(failed)?;
        } else {
            let entry = headed_by(line, &entries, types).map_err(failed)?;
            entries.push(entry);
        }
    }
    Ok(entries)
}

fn headed_by(line: &str, before: &[Entry], types: &Types) -> Result<Entry, String> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let is_sub = before.iter().any(|entry| entry.is_container && entry.name == name);
    let (container, name, rest) = if is_sub {
        let (sub, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        (name, sub, rest)
    } else {
        ("", name, rest)
    };
    let arguments = syntax::parse(rest, types)?;
    let arity = syntax::arity(if is_sub { 2 } else { 1 }, &arguments);
    Ok(Entry {
        container: container.into(),
        name: name.into(),
        arity,
        arguments,
        ..Entry::default()
    })
}

/// Parses an indented line.
fn property(entry: &mut Entry, line: &str, types: &Types) -> Result<(), String> {
    if let Some(text) = line.strip_prefix("    ") {
        let last = entry.help_valkey.last_mut().or(entry.help.last_mut());
        let (_, help) = last.ok_or("text of no `help:`")?;
        if !help.is_empty() {
            help.push('\n');
        }
        help.push_str(text);
        return Ok(());
    }
    let line = line.trim();
    let pair = |text: &str| {
        let (first, rest) = text.split_once(' ').ok_or("a release and a text")?;
        Ok::<_, String>((first.to_owned(), rest.to_owned()))
    };
    match line.split_once(": ").unwrap_or((line, "")) {
        ("container", "") => entry.is_container = true,
        ("system", "") => entry.system = true,
        ("arity", arity) => entry.arity = arity.parse().map_err(|_| "no number")?,
        ("keys", spec) => entry.keys.push(spec.into()),
        ("channels", which) => entry.channels = Some(which.into()),
        ("complexity", "-") => entry.complexity = Some(String::new()),
        ("complexity", text) => entry.complexity = Some(text.into()),
        ("undocumented", line) => entry.undocumented = syntax::parse(line, types)?,
        ("options", name) => entry.options = Some(name.into()),
        ("gate", flags) => entry.gate = flags.split(' ').map(Into::into).collect(),
        ("tips", tips) => entry.tips = tips.split(' ').map(Into::into).collect(),
        ("changed", text) => entry.history.push(pair(text)?),
        ("deprecated", text) => entry.deprecated = Some(pair(text)?),
        ("help in Valkey", syntax) => entry.help_valkey.push((syntax.into(), String::new())),
        ("help", syntax) => entry.help.push((syntax.into(), String::new())),
        _ if entry.since.is_empty() && line.contains(" since ") && is_release(line) => {
            release(entry, line)?;
        }
        _ if entry.summary.is_empty() => entry.summary = line.into(),
        _ => return Err(format!("`{line}` is not known")),
    }
    Ok(())
}

/// Whether a line is `group since 1.0.0: flags`, and no summary in which these words occur.
fn is_release(line: &str) -> bool {
    line.split_once(" since ").is_some_and(|(group, rest)| {
        !group.contains(' ') && rest.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// `group since 1.0.0: flags and @categories`.
fn release(entry: &mut Entry, line: &str) -> Result<(), String> {
    let (facts, flags) = line.split_once(':').ok_or("`group since release: flags`")?;
    let (group, since) = facts.split_once(" since ").ok_or("`group since release: flags`")?;
    (entry.group, entry.since) = (group.into(), since.into());
    for word in flags.split_whitespace() {
        match word.strip_prefix('@') {
            Some(category) => entry.categories.push(category.into()),
            None => entry.flags.push(word.into()),
        }
    }
    Ok(())
}
