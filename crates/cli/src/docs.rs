//! Help, hints and completion from the command table.

use petrel_table::{Arg, ArgFlags, ArgKind, Group, Meta, Syntax, commands};

/// A command, or a subcommand with its container.
#[derive(Clone)]
pub struct Entry {
    /// Whole name in upper case.
    pub name: String,
    /// Words of the name.
    pub words: usize,
    /// Facts of the table.
    pub meta: &'static Meta,
}

/// The commands in the order of their names. A container is listed where it can be called alone.
pub fn entries() -> Vec<Entry> {
    let mut all = Vec::new();
    for (meta, subcommands) in commands::ALL {
        let name = meta.name.to_ascii_uppercase();
        if subcommands.is_empty() || !meta.arguments.is_empty() || meta.arity.abs() == 1 {
            all.push(Entry { name: name.clone(), words: 1, meta });
        }
        for meta in *subcommands {
            let name = format!("{name} {}", meta.name.to_ascii_uppercase());
            all.push(Entry { name, words: 2, meta });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Groups of commands, for `help @group`.
const GROUPS: [Group; 17] = [
    Group::Bitmap,
    Group::Cluster,
    Group::Connection,
    Group::Generic,
    Group::Geo,
    Group::Hash,
    Group::HyperLogLog,
    Group::List,
    Group::Module,
    Group::PubSub,
    Group::Scripting,
    Group::Server,
    Group::Set,
    Group::SortedSet,
    Group::Stream,
    Group::String,
    Group::Transactions,
];

/// The command that `words` begin with: the longest name.
pub fn find<'e>(entries: &'e [Entry], words: &[&str]) -> Option<&'e Entry> {
    let is = |entry: &&Entry| {
        let mut name = entry.name.split(' ');
        words.len() >= entry.words
            && words.iter().zip(name.by_ref()).all(|(word, part)| word.eq_ignore_ascii_case(part))
    };
    entries.iter().filter(is).max_by_key(|entry| entry.words)
}

/// Text of `help` with these words behind it.
pub fn help(entries: &[Entry], words: &[&str]) -> String {
    let Some(first) = words.first() else { return overview() };
    if let Some(group) = first.strip_prefix('@') {
        return match GROUPS.into_iter().find(|known| known.name().eq_ignore_ascii_case(group)) {
            Some(group) => {
                entries.iter().filter(|entry| entry.meta.group == group).map(page).collect()
            }
            None => format!("\nThere is no group {first}; help lists them.\n\n"),
        };
    }
    let wanted = words.join(" ").to_ascii_uppercase();
    let inner = format!("{wanted} ");
    let found: String = entries
        .iter()
        .filter(|entry| entry.name == wanted || entry.name.starts_with(&inner))
        .map(page)
        .collect();
    if found.is_empty() { format!("\nNo command is named {wanted}.\n\n") } else { found }
}

fn overview() -> String {
    let groups: Vec<_> = GROUPS.iter().map(|group| format!("@{}", group.name())).collect();
    format!(
        "\nhelp COMMAND         syntax and summary of a command\nhelp @GROUP          commands of a \
         group: {}\nhelp TAB             names and groups to choose from\nN COMMAND            the \
         command N times\nconnect HOST PORT    another server\n:set hints           syntax behind \
         the cursor; :set nohints without\nclear                an empty screen\nquit                 \
         the end\n\n",
        groups.join(" ")
    )
}

fn page(entry: &Entry) -> String {
    let Entry { name, meta, .. } = entry;
    let mut text = format!("\n  {name} {}\n", Syntax(meta.arguments));
    text += &format!("  summary: {}\n  since: {}\n", meta.summary, meta.since);
    text += &format!("  group: {}\n", meta.group.name());
    if let Some((since, instead)) = meta.deprecated {
        text += &format!("  deprecated since {since}: use {}\n", instead.replace('`', ""));
    }
    text + "\n"
}

/// The arguments that may follow the ones typed.
pub fn remaining(meta: &'static Meta, typed: &[&str]) -> Vec<&'static Arg> {
    let mut left: Vec<&'static Arg> = meta.arguments.iter().collect();
    let mut words = typed;
    while let Some(word) = words.first() {
        // A token typed is its option; any other word the first argument that takes one.
        let token = left.iter().position(|arg| starts_with_token(arg, word));
        let Some(place) = token.or_else(|| left.iter().position(|arg| takes_word(arg))) else {
            break;
        };
        let arg = left[place];
        let count = if token.is_some() { option_len(arg, word) } else { value_len(arg) };
        words = &words[count.min(words.len())..];
        if !arg.flags.contains(ArgFlags::MULTIPLE) || arg.flags.contains(ArgFlags::OPTIONAL) {
            left.remove(place);
        } else if words.is_empty() {
            // More of it may follow, and what comes behind.
            break;
        } else if left.len() > place + 1 && starts_any(&left[place + 1..], words[0]) {
            left.remove(place);
        }
    }
    left
}

fn starts_any(args: &[&'static Arg], word: &str) -> bool {
    args.iter().any(|arg| starts_with_token(arg, word))
}

/// Whether the argument is an option that begins with this word.
fn starts_with_token(arg: &Arg, word: &str) -> bool {
    if !arg.token.is_empty() {
        return arg.token.eq_ignore_ascii_case(word);
    }
    match arg.kind {
        ArgKind::OneOf => arg.nested.iter().any(|nested| starts_with_token(nested, word)),
        ArgKind::Block => arg.nested.first().is_some_and(|first| starts_with_token(first, word)),
        _ => false,
    }
}

/// Whether the argument takes a word that is no token.
fn takes_word(arg: &Arg) -> bool {
    match arg.kind {
        _ if !arg.token.is_empty() => false,
        ArgKind::PureToken => false,
        ArgKind::OneOf => arg.nested.iter().any(takes_word),
        ArgKind::Block => arg.nested.first().is_some_and(takes_word),
        _ => true,
    }
}

/// Words of an option that begins with `word`.
fn option_len(arg: &Arg, word: &str) -> usize {
    match arg.kind {
        ArgKind::OneOf if arg.token.is_empty() => arg
            .nested
            .iter()
            .find(|nested| starts_with_token(nested, word))
            .map_or(1, |nested| option_len(nested, word)),
        _ => value_len(arg),
    }
}

/// Words of an argument, its token included.
fn value_len(arg: &Arg) -> usize {
    let own = usize::from(!arg.token.is_empty() && arg.kind != ArgKind::PureToken);
    match arg.kind {
        ArgKind::Block => {
            let needed = arg.nested.iter().filter(|n| !n.flags.contains(ArgFlags::OPTIONAL));
            own + needed.map(value_len).sum::<usize>()
        }
        _ => own + 1,
    }
}

/// Syntax to show behind the complete words of a line.
pub fn hint(entries: &[Entry], words: &[&str]) -> Option<String> {
    let entry = find(entries, words)?;
    let left = remaining(entry.meta, &words[entry.words..]);
    let shown: Vec<_> =
        left.into_iter().map(|arg| Syntax(std::slice::from_ref(arg)).to_string()).collect();
    (!shown.is_empty()).then(|| shown.join(" "))
}

/// Words that complete `prefix` behind the words before it, in the case that was typed.
pub fn complete(entries: &[Entry], before: &[&str], prefix: &str) -> Vec<String> {
    let mut found: Vec<String> = match before {
        [help] if help.eq_ignore_ascii_case("help") || *help == "?" => {
            let groups = GROUPS.iter().map(|group| format!("@{}", group.name()));
            groups.chain(first_words(entries)).collect()
        }
        [] => first_words(entries).collect(),
        _ => Vec::new(),
    };
    if let [container] = before {
        let names = entries.iter().filter_map(|entry| {
            let (first, second) = entry.name.split_once(' ')?;
            first.eq_ignore_ascii_case(container).then(|| second.to_owned())
        });
        found.extend(names);
    }
    if let Some(entry) = find(entries, before) {
        for arg in remaining(entry.meta, &before[entry.words..]) {
            tokens(arg, &mut found);
        }
    }
    let upper = prefix.to_ascii_uppercase();
    let is_lower = prefix.chars().any(|c| c.is_ascii_lowercase());
    found.retain(|word| word.to_ascii_uppercase().starts_with(&upper));
    if is_lower {
        found.iter_mut().for_each(|word| word.make_ascii_lowercase());
    }
    found.dedup();
    found
}

fn first_words(entries: &[Entry]) -> impl Iterator<Item = String> {
    let mut words: Vec<_> = entries
        .iter()
        .map(|entry| entry.name.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    words.dedup();
    words.into_iter()
}

/// The words with which an argument may begin.
fn tokens(arg: &'static Arg, out: &mut Vec<String>) {
    match arg.kind {
        _ if !arg.token.is_empty() => out.push(arg.token.to_owned()),
        ArgKind::OneOf => arg.nested.iter().for_each(|nested| tokens(nested, out)),
        ArgKind::Block => {
            if let Some(first) = arg.nested.first() {
                tokens(first, out);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint_of(line: &str) -> String {
        let words: Vec<_> = line.split(' ').collect();
        hint(&entries(), &words).unwrap_or_default()
    }

    #[test]
    fn hints_show_what_is_left() {
        assert!(hint_of("set").starts_with("key value [NX | XX"));
        assert!(hint_of("set k").starts_with("value [NX | XX"));
        assert_eq!(hint_of("set k v nx ex 5"), "[GET]");
        assert_eq!(hint_of("GETEX k PERSIST"), "");
        assert_eq!(hint_of("expire k 5 nx"), "");
        assert_eq!(hint_of("config get"), "parameter [parameter ...]");
        assert_eq!(hint_of("mget a b"), "key [key ...]");
        assert_eq!(hint_of("nosuch"), "");
        assert!(hint_of("xadd s maxlen 5").contains("<* | id>") || !hint_of("xadd s").is_empty());
    }

    #[test]
    fn completion_knows_names_groups_and_tokens() {
        let all = entries();
        assert_eq!(complete(&all, &[], "HGETD"), ["HGETDEL"]);
        assert_eq!(complete(&all, &[], "hgetd"), ["hgetdel"]);
        assert_eq!(complete(&all, &["config"], "re"), ["resetstat", "rewrite"]);
        assert_eq!(complete(&all, &["help"], "@hy"), ["@hyperloglog"]);
        assert_eq!(complete(&all, &["set", "k", "v"], "KEEP"), ["KEEPTTL"]);
        assert!(complete(&all, &["get", "k"], "").is_empty());
    }

    #[test]
    fn help_pages() {
        let all = entries();
        let page = help(&all, &["get"]);
        assert!(page.starts_with("\n  GET key\n  summary: "), "{page}");
        assert!(help(&all, &["config"]).contains("CONFIG RESETSTAT"));
        assert!(help(&all, &["@geo"]).contains("GEOADD"));
        assert!(help(&all, &["nosuch"]).contains("No command"));
        // Each command has a page and a hint that ends.
        for entry in &all {
            assert!(!help(&all, &entry.name.split(' ').collect::<Vec<_>>()).is_empty());
            let typed: Vec<_> = entry.name.split(' ').chain(["a"; 6]).collect();
            hint(&all, &typed);
        }
    }
}
