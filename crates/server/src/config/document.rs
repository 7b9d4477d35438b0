//! Texts generated from the table of parameters: `--help`, `docs/configuration.md` and the default
//! `petrel.conf`.

use std::fmt::Write;

use super::line;
use super::subcommand::{Subcommand, Topic};
use super::table::{Group, Mutability, Param};
use super::value::Rule;

/// The help on a topic: `petrel --help`, `petrel check --help`, `petrel help maxmemory`.
pub fn help(topic: Topic) -> String {
    match topic {
        Topic::All => help_on_all(),
        Topic::Subcommand(subcommand) => help_on_subcommand(subcommand),
        Topic::Parameter(name) => Param::find(name.as_bytes()).map_or_else(String::new, help_on),
    }
}

fn help_on_all() -> String {
    let mut text = String::from(
        "Petrel, a multi-threaded in-memory data server that speaks Redis's protocol.\n\n\
         Usage:  petrel [FILE] [--NAME VALUE ...] [-]\n\
         \u{20}       petrel SUBCOMMAND [ARGUMENT ...]\n\n\
         \u{20} FILE            configuration file, one \"name value\" per line\n\
         \u{20} -               read configuration from standard input\n\
         \u{20} --NAME VALUE    any parameter below; overrides the file\n\
         \u{20} -v, --version   print the version\n\
         \u{20} -h, --help      print this help\n\n\
         Subcommands, each with --help:\n",
    );
    for subcommand in Subcommand::ALL {
        let _ = writeln!(text, "  {:<15} {}", subcommand.name(), subcommand.summary());
    }
    text.push_str(
        "\nExamples:\n\
         \u{20} petrel\n\
         \u{20} petrel /etc/petrel.conf --port 7000 --maxmemory 4gb\n\
         \u{20} petrel --port 0 --unixsocket /run/petrel.sock --threads 4\n\
         \u{20} echo 'maxmemory 128mb' | petrel -\n\n",
    );
    for line in wrap(PATHS, HELP_WIDTH) {
        let _ = writeln!(text, "{line}");
    }
    text.push_str(
        "\nSizes take the units kb, mb, gb (1,024) and k, m, g (1,000). Each parameter\n\
         stands with its default; * marks what CONFIG SET can change while the server runs. Those of\n\
         Redis and Valkey that decide nothing here are accepted too; docs/configuration.md lists them.\n",
    );
    for (group, title) in Group::TITLES.into_iter().filter(|(group, _)| !group.is_foreign()) {
        let _ = write!(text, "\n{title}\n");
        for param in group.params() {
            help_entry(&mut text, param);
        }
    }
    text
}

fn help_on_subcommand(subcommand: Subcommand) -> String {
    let usage = format!("Usage:  petrel {} {}", subcommand.name(), subcommand.arguments());
    let mut text = format!("{}\n", usage.trim_end());
    for paragraph in subcommand.description() {
        let _ = write!(text, "\n{}\n", wrap(paragraph, HELP_WIDTH).join("\n"));
    }
    text.push_str("\nOptions:\n");
    for (option, about) in subcommand.options().iter().chain(&[("-h, --help", "print this help")]) {
        let _ = writeln!(text, "  {option:<15} {about}");
    }
    text
}

fn help_on(param: &'static Param) -> String {
    let runtime = match param.mutability.is_fixed() {
        true => "can be set at start only",
        false => "can be changed by CONFIG SET",
    };
    let lines = wrap(&format!("{}.", described(param)), HELP_WIDTH).join("\n");
    let mut text = format!("{} {}\n\n{lines}\n\n", param.name, shown_default(param));
    let _ = writeln!(text, "Values: {}. It {runtime}.", param.rule.describe());
    if !param.aliases.is_empty() {
        let _ = writeln!(text, "Also called: {}.", param.aliases.join(", "));
    }
    text
}

/// The reference for `docs/configuration.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         <!-- Generated from crates/server/src/config/params.rs; do not edit. -->\n\n\
         Petrel takes its parameters from a file, from standard input and from the command line, in\n\
         this order; the last one wins. Names, syntax and meaning are those of Redis.\n\n\
         ```\n\
         petrel /etc/petrel.conf --port 7000 --maxmemory 4gb --save \"\"\n\
         echo 'maxmemory 128mb' | petrel -\n\
         ```\n\n\
         * **File.** One `name value ...` per line, names in any case, `#` starts a comment line.\n\
         \u{20} Values with blanks stand in quotes: `\"...\"` knows `\\n`, `\\r`, `\\t`, `\\a`, `\\b`, `\\xHH`, `\\\"`\n\
         \u{20} and `\\\\`, `'...'` only `\\'`. `include PATH` reads another file in place, or all files that\n\
         \u{20} match a pattern such as `/etc/petrel.d/*.conf`.\n\
         * **Users and names of commands.** `user NAME RULE ...` makes a user as `ACL SETUSER` does, unless\n\
         \u{20} `aclfile` names a file of such lines. `rename-command NAME OTHER` lets a command be called\n\
         \u{20} otherwise, or not at all where the other name is `\"\"`; rules of users go by the first name.\n\
         * **Command line.** `--name value ...` or `--name=value`. An option takes everything up to the\n\
         \u{20} next `--`.\n\
         * **Relative paths** of the configuration file, of `include` and of `dir` start at the directory in\n\
         \u{20} which Petrel was started; those of all other parameters start at `dir`, in files and on the\n\
         \u{20} command line alike.\n\
         * **Sizes** take the units `kb`, `mb`, `gb` (powers of 1,024) and `k`, `m`, `g` (powers of 1,000).\n\
         * **While running.** `CONFIG GET pattern ...` shows parameters; `CONFIG SET name value ...`\n\
         \u{20} changes several at once or none; `CONFIG REWRITE` writes the present values into the file\n\
         \u{20} that the server was started with and keeps its comments and order.\n\n\
         \"Runtime\" says whether `CONFIG SET` can change a parameter; \"protected\" asks for\n\
         `enable-protected-configs` as well.\n",
    );
    let mut any_foreign = false;
    for (group, title) in Group::TITLES {
        if group.is_foreign() && !std::mem::replace(&mut any_foreign, true) {
            text.push_str(FOREIGN);
        }
        let _ = write!(
            text,
            "\n## {title}\n\n| parameter | default | values | runtime | meaning |\n|---|---|---|---|---|\n"
        );
        for param in group.params() {
            markdown_row(&mut text, param);
        }
    }
    text
}

/// The commented `petrel.conf` that holds every default.
pub fn default_file() -> String {
    let mut text = String::from(
        "# Configuration of Petrel. Every parameter stands here with its default, commented out:\n\
         # remove the \"# \" in front of one to change it. See docs/configuration.md.\n\
         #\n\
         #   petrel /path/to/petrel.conf\n\
         #\n\
         # Sizes take the units kb, mb, gb (1,024) and k, m, g (1,000). Other files can be read in place:\n\
         #\n\
         # include /etc/petrel.d/*.conf\n\
         #\n\
         # Users, unless aclfile names a file of such lines, and other names for commands:\n\
         #\n\
         # user alice on >secret ~alice:* +@read +@write\n\
         # rename-command FLUSHALL \"\"\n\
         #\n\
         # The redis.conf and valkey.conf that Redis and Valkey come with can be used as well.\n",
    );
    for (group, title) in Group::TITLES.into_iter().filter(|(group, _)| !group.is_foreign()) {
        let _ = write!(text, "\n{:#<1$}\n\n", format!("## {title} "), 79);
        let entries: Vec<_> = group.params().map(file_entry).collect();
        text.push_str(&entries.join("\n"));
    }
    text
}

/// A line per parameter: its name, a tab and its help.
pub fn descriptions() -> String {
    let line = |param: &Param| format!("{}\t{}\n", param.name, described(param));
    let groups = Group::TITLES.into_iter().filter(|(group, _)| !group.is_foreign());
    groups.flat_map(|(group, _)| group.params()).map(line).collect()
}

fn help_entry(text: &mut String, param: &Param) {
    let mark = if param.mutability.is_fixed() { ' ' } else { '*' };
    let title = format!("{mark} --{} {}", param.name, shown_default(param));
    let mut about = described(param);
    if let [alias] = param.aliases {
        let _ = write!(about, " (also --{alias})");
    }
    let mut lines = wrap(&about, HELP_WIDTH - HELP_INDENT).into_iter();
    let beside = if title.len() + 2 > HELP_INDENT { None } else { lines.next() };
    let _ = match beside {
        Some(first) => writeln!(text, "{title:HELP_INDENT$}{first}"),
        None => writeln!(text, "{title}"),
    };
    for line in lines {
        let _ = writeln!(text, "{:HELP_INDENT$}{line}", "");
    }
}

fn markdown_row(text: &mut String, param: &Param) {
    let runtime = match param.mutability {
        Mutability::AtStart | Mutability::Kept => "no",
        Mutability::Runtime | Mutability::Reloads => "yes",
        Mutability::Protected => "protected",
    };
    let aliases: String = param.aliases.iter().map(|alias| format!(", also `{alias}`")).collect();
    let _ = writeln!(
        text,
        "| `{}`{aliases} | `{}` | {} | {runtime} | {}. |",
        param.name,
        shown_default(param),
        param.rule.describe(),
        param.help,
    );
}

fn file_entry(param: &'static Param) -> String {
    let mut entry = String::new();
    for line in wrap(&format!("{}.", described(param)), 77) {
        let _ = writeln!(entry, "# {line}");
    }
    let _ = writeln!(entry, "#\n# {} {}", param.name, shown_default(param));
    entry
}

/// The default as it would be typed.
pub(super) fn shown_default(param: &Param) -> String {
    match param.rule.is_list() && !param.default.is_empty() {
        true => param.default.to_owned(),
        false => String::from_utf8_lossy(&line::quote(param.default.as_bytes())).into_owned(),
    }
}

/// The help in plain text, with the words to choose from.
pub(super) fn described(param: &Param) -> String {
    let help = param.help.replace('`', "'");
    match param.rule {
        Rule::OneOf(words) => format!("{help} ({})", words.join(", ")),
        _ => help,
    }
}

/// Breaks at blanks into lines of at most `width` characters, single long words excepted.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Bases of relative paths.
pub(super) const PATHS: &str = "Relative paths of FILE, of include and of dir start at the directory in \
    which Petrel was started; those of all other parameters start at dir.";

/// Introduction to the parameters without effect.
const FOREIGN: &str = "
# Files of Redis and Valkey

The `redis.conf` of Redis 6.2 to 8.8 and the `valkey.conf` of Valkey 8 and 9 start Petrel as they
are. Their parameters that are not above have no effect here. All are accepted, so that files,
`CONFIG SET` and tools work:

* **Parameters of absent features**: one that enables the feature accepts only the value that does
  not, such as `key-memory-histograms no`. Any other value is an error that names the missing
  feature. One that configures the feature takes any valid value, is shown by `CONFIG GET`, and has
  no effect.
* **Parameters of features that Petrel implements differently** take and show any valid value
  without effect; the table gives the reason.
* `user`, `loadmodule` and `rename-command` are errors.
";

const HELP_WIDTH: usize = 100;
const HELP_INDENT: usize = 40;

#[cfg(test)]
pub(in crate::config) mod tests {
    use super::*;
    use crate::config::{Config, PARAMS};

    /// Compares a generated file with the one in the repository, which has every feature's
    /// parameters. With `PETREL_REGENERATE` set, it
    /// writes the file instead.
    #[cfg(feature = "cluster")]
    pub(in crate::config) fn assert_checked_in(path: &str, generated: &str) {
        let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("PETREL_REGENERATE").is_some() {
            std::fs::write(&path, generated).unwrap();
        }
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            present == generated,
            "{path} is out of date: PETREL_REGENERATE=1 cargo test -p petrel-server config"
        );
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn the_reference_is_up_to_date() {
        assert_checked_in("docs/configuration.md", &markdown());
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn the_default_file_is_up_to_date() {
        assert_checked_in("petrel.conf", &default_file());
    }

    #[test]
    fn the_default_file_holds_every_default_once_uncommented() {
        let text = default_file();
        let directives: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter_map(|line| line::split(line.as_bytes()).ok())
            .filter(|args| PARAMS.iter().any(|p| args[0] == p.name.as_bytes()))
            .collect();
        let own = PARAMS.iter().filter(|param| !param.group.is_foreign());
        assert_eq!(directives.len(), own.count());
        let mut config = Config::default();
        for args in directives {
            Param::find(&args[0]).unwrap().update(&mut config, &args[1..]).unwrap();
        }
        assert!(config == Config::default());
    }

    #[test]
    fn every_subcommand_has_its_own_help() {
        for subcommand in Subcommand::ALL {
            let text = help(Topic::Subcommand(subcommand));
            assert!(text.starts_with(&format!("Usage:  petrel {}", subcommand.name())), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= HELP_WIDTH), "{text}");
            assert!(subcommand.options().iter().all(|(name, _)| text.contains(name)), "{text}");
            assert!(help(Topic::All).contains(&format!("\n  {} ", subcommand.name())));
        }
        let text = help(Topic::Parameter("maxmemory-policy"));
        assert!(text.starts_with("maxmemory-policy noeviction\n"), "{text}");
        assert!(text.contains("allkeys-lru") && text.contains("CONFIG SET"), "{text}");
    }

    #[test]
    fn every_text_lists_every_parameter_and_fits_the_screen() {
        for param in PARAMS {
            let is_own = !param.group.is_foreign();
            assert_eq!(
                help(Topic::All).contains(&format!(" --{} ", param.name)),
                is_own,
                "{}",
                param.name
            );
            assert!(markdown().contains(&format!("| `{}`", param.name)), "{}", param.name);
        }
        assert!(help(Topic::All).lines().all(|line| line.chars().count() <= HELP_WIDTH));
    }
}
