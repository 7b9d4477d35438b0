//! Completions of the command line for bash, zsh and fish, generated from the tables of subcommands
//! and parameters.

use std::fmt::Write;

use super::subcommand::{Subcommand, takes_value};
use super::table::{Group, Param};
use super::value::Rule;

/// Completion for bash.
pub fn bash() -> String {
    let subcommands = Subcommand::ALL.map(Subcommand::name).join(" ");
    let names: Vec<_> = params().map(|param| format!("--{}", param.name)).collect();
    let own_options: String = Subcommand::ALL
        .iter()
        .map(|subcommand| {
            let mut options: Vec<_> = subcommand.options().iter().map(|(name, _)| *name).collect();
            options.push("--help");
            format!("            {}) words='{}' ;;\n", subcommand.name(), options.join(" "))
        })
        .collect();
    let mut values = String::new();
    for param in params() {
        let action = match choices(param) {
            Choices::Words(words) => format!("words='{}'", words.join(" ")),
            Choices::Files => "files=-f".into(),
            Choices::Directories => "files=-d".into(),
            Choices::Open => continue,
        };
        let _ = writeln!(values, "        --{}) {action} ;;", param.name);
    }
    format!(
        "# Completion of petrel for bash.\n\
         # Generated from crates/server/src/config; do not edit.\n\n\
         _petrel() {{\n\
         \u{20}   local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}\n\
         \u{20}   local words='' files=''\n\
         \u{20}   COMPREPLY=()\n\
         \u{20}   if ((COMP_CWORD > 1)); then\n\
         \u{20}       case ${{COMP_WORDS[1]}} in\n\
         {own_options}\
         \u{20}       esac\n\
         \u{20}       if [[ -n $words ]]; then\n\
         \u{20}           case ${{COMP_WORDS[1]}} in\n\
         \u{20}               check | cli | ping) files=-f ;;\n\
         \u{20}               help) words+=' {subcommands} {parameters}' ;;\n\
         \u{20}           esac\n\
         \u{20}           _petrel_reply\n\
         \u{20}           return\n\
         \u{20}       fi\n\
         \u{20}   fi\n\
         \u{20}   case $prev in\n\
         {values}\
         \u{20}   esac\n\
         \u{20}   if [[ -z $words$files ]]; then\n\
         \u{20}       words='{options}'\n\
         \u{20}       ((COMP_CWORD == 1)) && words+=' {subcommands}' files=-f\n\
         \u{20}   fi\n\
         \u{20}   _petrel_reply\n\
         }}\n\n\
         # Sets COMPREPLY to those of $words, and to files if $files says so, that begin with $cur.\n\
         _petrel_reply() {{\n\
         \u{20}   local word\n\
         \u{20}   while IFS= read -r word; do\n\
         \u{20}       COMPREPLY+=(\"$word\")\n\
         \u{20}   done < <(compgen -W \"$words\" -- \"$cur\"; [[ -n $files ]] && compgen $files -- \"$cur\")\n\
         \u{20}   [[ -z $files ]] || compopt -o filenames 2>/dev/null\n\
         }}\n\n\
         complete -F _petrel petrel\n",
        options = format_args!("{} --version --help", names.join(" ")),
        parameters = params().map(|param| param.name).collect::<Vec<_>>().join(" "),
    )
}

/// Completion for zsh.
pub fn zsh() -> String {
    let mut text = String::from(
        "#compdef petrel\n\
         # Completion of petrel for zsh.\n\
         # Generated from crates/server/src/config; do not edit.\n\n\
         _petrel_first() {\n  local -a subcommands=(\n",
    );
    for subcommand in Subcommand::ALL {
        let _ = writeln!(text, "    {}:{}", subcommand.name(), quoted(subcommand.summary()));
    }
    text.push_str(
        "  )\n  _describe -t subcommands subcommand subcommands\n  _files\n}\n\n\
         _petrel_topics() {\n  local -a topics=(\n",
    );
    let names = Subcommand::ALL.map(Subcommand::name).into_iter();
    for name in names.chain(params().map(|param| param.name)) {
        let _ = writeln!(text, "    {name}");
    }
    text.push_str("  )\n  _describe -t topics topic topics\n}\n\n_petrel() {\n");
    text.push_str("  if (( CURRENT > 2 )); then\n    case $words[2] in\n");
    for subcommand in Subcommand::ALL {
        let _ = write!(text, "      {}) _arguments", subcommand.name());
        for (name, about) in subcommand.options().iter().chain(&[("--help", "print help")]) {
            let value = if takes_value(name) { ":value:_files" } else { "" };
            let _ = write!(text, " {}", quoted(&format!("{name}[{}]{value}", bracketed(about))));
        }
        let operands = match subcommand {
            Subcommand::Check => " '*:file:_files'",
            Subcommand::Ping => " ':address:_files'",
            Subcommand::Help => " ':topic:_petrel_topics'",
            Subcommand::Backups => " ':URL: '",
            Subcommand::Cli => " '*:command: '",
            Subcommand::Version => "",
        };
        // The subcommand itself is the first operand.
        let _ = writeln!(text, " '1: : '{operands}; return ;;");
    }
    text.push_str("    esac\n  fi\n  _arguments \\\n");
    for param in params() {
        let value = match choices(param) {
            Choices::Words(words) => format!(":value:({})", words.join(" ")),
            Choices::Files => ":file:_files".into(),
            Choices::Directories => ":directory:_files -/".into(),
            Choices::Open => format!(":{}: ", plain(&param.rule.describe())),
        };
        let spec = format!("--{}[{}]{value}", param.name, bracketed(&short(param)));
        let _ = writeln!(text, "    {} \\", quoted(&spec));
    }
    text.push_str(
        "    '(-v --version)'{-v,--version}'[print the version]' \\\n\
         \u{20}   '(-h --help)'{-h,--help}'[print help]' \\\n\
         \u{20}   '1: :_petrel_first'\n}\n\n_petrel \"$@\"\n",
    );
    text
}

/// Completion for fish.
pub fn fish() -> String {
    let mut text = String::from(
        "# Completion of petrel for fish.\n\
         # Generated from crates/server/src/config; do not edit.\n\n",
    );
    let names = Subcommand::ALL.map(Subcommand::name).join(" ");
    let server = format!("-n 'not __fish_seen_subcommand_from {names}'");
    for subcommand in Subcommand::ALL {
        let (name, summary) = (subcommand.name(), quoted(subcommand.summary()));
        let _ =
            writeln!(text, "complete -c petrel -n __fish_is_first_token -a {name} -d {summary}");
        let seen = format!("-n '__fish_seen_subcommand_from {name}'");
        for (option, about) in subcommand.options().iter().chain(&[("--help", "print help")]) {
            let value = if takes_value(option) { " -r" } else { "" };
            let option = option.trim_start_matches('-');
            let about = quoted(about);
            let _ = writeln!(text, "complete -c petrel {seen} -l {option}{value} -d {about}");
        }
        if subcommand == Subcommand::Help {
            let params: Vec<_> = params().map(|param| param.name).collect();
            let topics = format!("{names} {}", params.join(" "));
            let _ = writeln!(text, "complete -c petrel {seen} -f -a '{topics}'");
        }
    }
    for param in params() {
        let value = match choices(param) {
            Choices::Words(words) => format!("-x -a {}", quoted(&words.join(" "))),
            Choices::Files => "-r -F".into(),
            Choices::Directories => "-x -a '(__fish_complete_directories)'".into(),
            Choices::Open => "-x".into(),
        };
        let about = quoted(&short(param));
        let _ = writeln!(text, "complete -c petrel {server} -l {} {value} -d {about}", param.name);
    }
    let _ = writeln!(text, "complete -c petrel {server} -s v -l version -d 'print the version'");
    let _ = writeln!(text, "complete -c petrel {server} -s h -l help -d 'print help'");
    text
}

/// Parameters that decide something.
fn params() -> impl Iterator<Item = &'static Param> {
    Group::TITLES
        .into_iter()
        .filter(|(group, _)| !group.is_foreign())
        .flat_map(|(group, _)| group.params())
}

/// Values to offer for a parameter.
enum Choices {
    Words(Vec<&'static str>),
    Files,
    Directories,
    /// Any text or number.
    Open,
}

fn choices(param: &Param) -> Choices {
    match param.rule {
        Rule::YesNo => Choices::Words(vec!["yes", "no"]),
        Rule::OneOf(words) => Choices::Words(words.to_vec()),
        Rule::Flags => Choices::Words(vec!["default", "save", "nosave", "now", "force"]),
        Rule::Path | Rule::SocketPath => Choices::Files,
        Rule::Directory => Choices::Directories,
        _ => Choices::Open,
    }
}

/// The first clause of the help.
fn short(param: &Param) -> String {
    let help = param.help.replace('`', "");
    help.split([';', ':']).next().unwrap_or_default().to_owned()
}

/// Single-quoted for a shell. fish reads a backslash before a quote as all do.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Escaped for a description in brackets.
fn bracketed(text: &str) -> String {
    text.replace('[', "\\[").replace(']', "\\]").replace(':', "\\:")
}

/// Without the characters that end a message of zsh.
fn plain(text: &str) -> String {
    text.replace(':', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[cfg(feature = "cluster")]
    #[test]
    fn the_completions_are_up_to_date() {
        use crate::config::document::tests::assert_checked_in;
        assert_checked_in("packaging/completions/petrel.bash", &bash());
        assert_checked_in("packaging/completions/_petrel", &zsh());
        assert_checked_in("packaging/completions/petrel.fish", &fish());
    }

    #[test]
    fn every_parameter_is_in_each() {
        let texts = [bash(), zsh(), fish()];
        for param in params() {
            for text in &texts {
                assert!(text.contains(param.name), "{}", param.name);
            }
        }
    }

    /// The words that bash offers for the last of `line`.
    fn offered(line: &str) -> Option<Vec<String>> {
        let script = format!(
            "{}\nCOMP_WORDS=({line} '')\n[[ $line == *' ' ]] || unset 'COMP_WORDS[-1]'\n\
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_petrel\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
            bash()
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &script])
            .env("line", line)
            .stderr(Stdio::piped())
            .output()
            .ok()?;
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    #[test]
    fn bash_offers_parameters_and_their_values() {
        let Some(found) = offered("petrel --maxmemory-pol") else {
            println!("skipped: there is no bash");
            return;
        };
        assert_eq!(found, ["--maxmemory-policy"]);
        let shown = |line| offered(line).unwrap();
        assert_eq!(shown("petrel x.conf --appendonly "), ["yes", "no"]);
        assert_eq!(shown("petrel x.conf --appendfsync a"), ["always"]);
        assert_eq!(shown("petrel che"), ["check"]);
        assert_eq!(shown("petrel check --f"), ["--fix"]);
        assert_eq!(shown("petrel help maxmemory-p"), ["maxmemory-policy"]);
        assert_eq!(shown("petrel ping --t"), ["--timeout"]);
    }

    /// Syntax as each shell checks it.
    #[test]
    fn the_shells_accept_their_files() {
        let dir = std::env::temp_dir().join(format!("petrel-completions-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (shell, text) in [("bash", bash()), ("zsh", zsh()), ("fish", fish())] {
            let path = dir.join(shell);
            std::fs::write(&path, text).unwrap();
            match Command::new(shell).arg("-n").arg(&path).output() {
                Ok(output) => {
                    let error = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success() && error.is_empty(), "{shell}: {error}");
                }
                Err(_) => println!("skipped: there is no {shell}"),
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
