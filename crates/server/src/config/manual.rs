//! Manual pages petrel(1) and petrel.conf(5), generated from the tables of subcommands and
//! parameters.

use std::fmt::Write;

use super::document::{PATHS, described, shown_default};
use super::subcommand::Subcommand;
use super::table::{Group, Mutability, Param};

/// The manual page petrel(1).
pub fn program() -> String {
    let mut text = header("PETREL", "1", "User Commands");
    text.push_str(
        ".SH NAME\n\
         petrel \\- in\\-memory data server that speaks Redis's protocol\n\
         .SH SYNOPSIS\n\
         .B petrel\n\
         .RI [ FILE ]\n\
         .RI [ \\-\\-NAME\\~VALUE ...]\n\
         .RB [ \\- ]\n",
    );
    for subcommand in Subcommand::ALL {
        let arguments = escaped(subcommand.arguments());
        let line = format!("\\fBpetrel {}\\fR {arguments}", subcommand.name());
        let _ = write!(text, ".br\n{}\n", line.trim_end());
    }
    text.push_str(".SH DESCRIPTION\n");
    paragraph(
        &mut text,
        "Petrel is a server for Redis's protocol, with the commands, parameters, files and clients of \
         Redis and Valkey, and a worker thread for each processor. It reads parameters from FILE, from \
         standard input (-) and from the command line, in this order; the last one wins. \
         petrel.conf(5) lists them, as does petrel --help.",
    );
    paragraph(&mut text, PATHS);
    text.push_str(".SH OPTIONS\n");
    for (option, about) in OPTIONS {
        item(&mut text, option, about);
    }
    text.push_str(".SH SUBCOMMANDS\n");
    paragraph(
        &mut text,
        "A subcommand's name is never a configuration file; a file of this name is given as ./check. \
         Each has --help.",
    );
    for subcommand in Subcommand::ALL {
        let title = format!("{} {}", subcommand.name(), subcommand.arguments());
        let _ = writeln!(text, ".SS {}", escaped(title.trim_end()));
        subcommand.description().iter().for_each(|about| paragraph(&mut text, about));
        for (option, about) in subcommand.options() {
            item(&mut text, option, &sentence(about));
        }
    }
    for (title, entries) in SECTIONS {
        let _ = writeln!(text, ".SH {title}");
        for (name, about) in *entries {
            item(&mut text, name, about);
        }
    }
    text.push_str(EXAMPLES);
    text
}

/// The manual page petrel.conf(5).
pub fn parameters() -> String {
    let mut text = header("PETREL.CONF", "5", "File Formats");
    text.push_str(".SH NAME\npetrel.conf \\- configuration file of petrel(1)\n.SH DESCRIPTION\n");
    for about in SYNTAX {
        paragraph(&mut text, about);
    }
    paragraph(&mut text, &PATHS.replace("FILE", "the configuration file"));
    text.push_str(".SH PARAMETERS\nEach stands with its default.\n");
    for (group, title) in Group::TITLES.into_iter().filter(|(group, _)| !group.is_foreign()) {
        let _ = writeln!(text, ".SS {}", escaped(title));
        for param in group.params() {
            parameter(&mut text, param);
        }
    }
    text.push_str(".SH SEE ALSO\n.BR petrel (1),\n.BR redis\\-cli (1)\n");
    text
}

fn header(name: &str, section: &str, manual: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".\\\" Generated from crates/server/src/config; do not edit.\n\
         .TH {name} {section} \"\" \"Petrel {version}\" \"{manual}\"\n"
    )
}

fn paragraph(text: &mut String, about: &str) {
    let _ = write!(text, ".PP\n{}\n", escaped(about));
}

fn item(text: &mut String, name: &str, about: &str) {
    let _ = write!(text, ".TP\n.B {}\n{}\n", escaped(name), escaped(about));
}

fn parameter(text: &mut String, param: &Param) {
    let title = format!("{} {}", param.name, shown_default(param));
    let runtime = match param.mutability {
        Mutability::AtStart | Mutability::Kept => "At start only",
        Mutability::Runtime | Mutability::Reloads => "Changed by CONFIG SET",
        Mutability::Protected => "Changed by CONFIG SET with enable-protected-configs",
    };
    let mut about = format!("{}. Values: {}. {runtime}.", described(param), param.rule.describe());
    for alias in param.aliases {
        let _ = write!(about, " Also {alias}.");
    }
    item(text, &title, &about);
}

fn sentence(about: &str) -> String {
    let mut letters = about.chars();
    letters
        .next()
        .map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Text as troff takes it: backslashes, hyphens that are to be copied, and lines that would be
/// requests.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq");
    match text.as_bytes().first() {
        Some(b'.' | b'\'') => format!("\\&{text}"),
        _ => text,
    }
}

const OPTIONS: [(&str, &str); 3] = [
    (
        "--NAME VALUE ...",
        "Sets a parameter; --NAME=VALUE does too. An option takes everything up to the next argument \
         that begins with --.",
    ),
    ("-v, --version", "Prints the versions, as petrel version does."),
    ("-h, --help", "Prints the command line and all parameters with their defaults."),
];

/// A titled section of names, each with its meaning.
type Section = (&'static str, &'static [(&'static str, &'static str)]);

const SECTIONS: &[Section] = &[
    (
        "SIGNALS",
        &[
            (
                "SIGTERM, SIGINT",
                "Save as shutdown-on-sigterm and shutdown-on-sigint say, then end.",
            ),
            ("SIGUSR2", "Logs the activity of each worker and thread."),
        ],
    ),
    (
        "EXIT STATUS",
        &[
            (
                "0",
                "The server was stopped and has saved what it was to save; a subcommand succeeded.",
            ),
            (
                "1",
                "An error; one line on standard error, and in the log file if there is one, says what to change.",
            ),
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            (
                "NOTIFY_SOCKET",
                "Socket of the supervisor that is notified when the server is ready, with supervised \
                 systemd or auto.",
            ),
            (
                "AWS_*, GOOGLE_*, AZURE_*",
                "Credentials and addresses of object stores, for backup-store and restore-from.",
            ),
            ("REDISCLI_AUTH, REDISCLI_USER", "Password and user of petrel ping."),
        ],
    ),
    (
        "FILES",
        &[
            ("/etc/petrel/petrel.conf", "Configuration of the service of the packages."),
            ("/var/lib/petrel", "Its working directory: dump.rdb and appendonlydir."),
            ("/run/petrel/petrel.sock", "Its Unix socket."),
        ],
    ),
];

const EXAMPLES: &str = ".SH EXAMPLES\n\
    .nf\n\
    petrel /etc/petrel/petrel.conf \\-\\-port 7000 \\-\\-maxmemory 4gb\n\
    petrel \\-\\-port 0 \\-\\-unixsocket /run/petrel.sock \\-\\-threads 4\n\
    echo 'maxmemory 128mb' | petrel \\-\n\
    petrel check /var/lib/petrel\n\
    petrel ping http://127.0.0.1:9121/ready\n\
    .fi\n\
    .SH SEE ALSO\n\
    .BR petrel.conf (5),\n\
    .BR redis\\-cli (1)\n";

const SYNTAX: [&str; 5] = [
    "A line is the name of a parameter and its values, separated by blanks. Names have any case. A \
     line that begins with # is a comment.",
    "Values with blanks stand in quotes: \"...\" knows \\n, \\r, \\t, \\a, \\b, \\xHH, \\\" and \\\\, \
     '...' knows \\'. Sizes take the units kb, mb, gb (powers of 1,024) and k, m, g (powers of 1,000).",
    "include PATH reads another file in place, or all files that match a pattern such as \
     /etc/petrel/conf.d/*.conf.",
    "user NAME RULE ... makes a user as ACL SETUSER does, unless aclfile names a file of such lines. \
     rename-command NAME OTHER gives a command another name, or none with \"\".",
    "The redis.conf of Redis and the valkey.conf of Valkey are accepted as they are. CONFIG REWRITE \
     writes the present values into the file that the server was started with.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PARAMS;

    #[cfg(feature = "cluster")]
    #[test]
    fn the_manual_pages_are_up_to_date() {
        use crate::config::document::tests::assert_checked_in;
        assert_checked_in("packaging/man/petrel.1", &program());
        assert_checked_in("packaging/man/petrel.conf.5", &parameters());
    }

    #[test]
    fn every_parameter_and_subcommand_has_an_entry() {
        let (program, parameters) = (program(), parameters());
        for param in PARAMS.iter().filter(|param| !param.group.is_foreign()) {
            let entry = format!("\n.B {} ", escaped(param.name));
            assert_eq!(parameters.matches(&entry).count(), 1, "{}", param.name);
        }
        for subcommand in Subcommand::ALL {
            assert!(program.contains(&format!("\n.SS {}", subcommand.name())), "{program}");
        }
    }

    #[test]
    fn a_line_of_text_is_no_request() {
        assert_eq!(escaped(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(escaped("a\\b \"c\" --d"), "a\\eb \\(dqc\\(dq \\-\\-d");
    }
}
