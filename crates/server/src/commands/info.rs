//! INFO: sections of `name:value` lines, under the names that Redis gives them.
//!
//! A section is a row of [`SECTIONS`] and a function that writes its fields; the functions are
//! grouped in `info/`. Fields of Redis without a counterpart in this server are left out; counters
//! that can only be zero here are shown as zero.

mod data;
mod fields;
mod key_sizes;
mod machine;
mod statistics;
mod tls;

pub(crate) use fields::fields;

use crate::config::Config;
use crate::host::ServerHost;
use crate::server::Server;
use petrel_commands::{CommandSpec, Ctx, Executor, Outcome};
use petrel_table::commands as meta;
use std::fmt::{Display, Write};
use std::sync::Arc;

/// `INFO`.
pub const INFO: CommandSpec = CommandSpec::new(&meta::INFO, info);

/// A section of the report.
struct Section {
    /// The name by which it is asked for; capitalised, its heading.
    name: &'static str,
    heading: &'static str,
    when: When,
    write: fn(&mut Report<'_>),
}

/// Reports that include a section.
#[derive(Clone, Copy, Eq, PartialEq)]
enum When {
    /// If nothing in particular was asked for.
    Usual,
    /// If all is asked for.
    Extra,
    /// If it is asked for by its name.
    Named,
}

const fn usual(name: &'static str, heading: &'static str, write: fn(&mut Report<'_>)) -> Section {
    Section { name, heading, when: When::Usual, write }
}

const fn extra(name: &'static str, heading: &'static str, write: fn(&mut Report<'_>)) -> Section {
    Section { name, heading, when: When::Extra, write }
}

const fn named(name: &'static str, heading: &'static str, write: fn(&mut Report<'_>)) -> Section {
    Section { name, heading, when: When::Named, write }
}

/// A section that Valkey has and Redis has not.
const SCRIPTING_ENGINES: &str = "scriptingengines";

/// Every section, in the order of the report.
static SECTIONS: &[Section] = &[
    usual("server", "Server", machine::server),
    usual("clients", "Clients", machine::clients),
    usual("memory", "Memory", data::memory),
    usual("persistence", "Persistence", data::persistence),
    usual("threads", "Threads", machine::threads),
    usual("stats", "Stats", statistics::stats),
    usual("replication", "Replication", data::replication),
    usual("cpu", "CPU", machine::cpu),
    usual("hotkeys", "Hotkeys", statistics::hotkeys),
    usual("modules", "Modules", data::modules),
    extra("commandstats", "Commandstats", statistics::commands),
    usual("errorstats", "Errorstats", statistics::errors),
    extra("latencystats", "Latencystats", statistics::latencies),
    extra("tls", "TLS", tls::tls),
    usual("cluster", "Cluster", data::cluster),
    Section {
        name: SCRIPTING_ENGINES,
        heading: "Scripting Engines",
        when: When::Extra,
        write: data::scripting_engines,
    },
    usual("keyspace", "Keyspace", data::keyspace),
    named("keysizes", "Keysizes", key_sizes::key_sizes),
    named("debug", "Debug", statistics::debug),
];

/// `INFO [section [section ...]]`
fn info(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    if !ctx.exec.is_within_script() {
        server.settle_role(&mut ctx.exec.ks);
    }
    let config = server.config.snapshot();
    let wanted = &ctx.args()[1..];
    let asker = ServerHost::of(ctx).client.id;
    let exec = Some(&mut *ctx.exec);
    let mut report = Report { text: String::new(), server: &server, config, exec, asker };
    let is_valkey = server.commands.dialect().is_valkey();
    let is_known = |section: &&Section| is_valkey || section.name != SCRIPTING_ENGINES;
    for section in SECTIONS.iter().filter(|section| is_wanted(section, wanted)).filter(is_known) {
        report.heading(section.heading);
        (section.write)(&mut report);
    }
    let text = report.text;
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// The lines of the sections so called, without what only a thread that executes commands can find
/// out.
pub(crate) fn figures(server: &Server, sections: &[&str]) -> String {
    let config = server.config.snapshot();
    let mut report = Report { text: String::new(), server, config, exec: None, asker: 0 };
    for section in SECTIONS.iter().filter(|section| sections.contains(&section.name)) {
        (section.write)(&mut report);
    }
    report.text
}

fn is_wanted(section: &Section, wanted: &[&[u8]]) -> bool {
    let asks = |word: &&[u8]| {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let is_usual = section.when == When::Usual;
        is(section.name)
            || section.when != When::Named && (is("all") || is("everything"))
            || is_usual && is("default")
    };
    wanted.iter().any(asks) || wanted.is_empty() && section.when == When::Usual
}

/// The text being written, and where its figures come from.
struct Report<'a> {
    text: String,
    server: &'a Server,
    config: Arc<Config>,
    /// The executor of the command's thread.
    exec: Option<&'a mut Executor>,
    /// The number of the connection that asks; 0 if none does.
    asker: u64,
}

impl Report<'_> {
    fn heading(&mut self, heading: &str) {
        let gap = if self.text.is_empty() { "" } else { "\r\n" };
        self.put(format_args!("{gap}# {heading}\r\n"));
    }

    /// A field, in one line whatever its value is.
    fn field(&mut self, name: &str, value: impl Display) {
        let from = self.text.len();
        self.put(format_args!("{name}:{value}"));
        if self.text[from..].contains(['\r', '\n']) {
            let line = self.text.split_off(from).replace(['\r', '\n'], " ");
            self.text.push_str(&line);
        }
        self.text.push_str("\r\n");
    }

    /// A field in bytes, and again in a unit that people read.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        self.human(name, bytes);
    }

    fn human(&mut self, name: &str, bytes: u64) {
        self.put(format_args!("{name}_human:{}\r\n", human(bytes)));
    }

    /// Fields that are always zero here.
    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.field(name, 0));
    }

    fn put(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(line);
    }
}

/// Bytes in the largest unit of which there is one, with two decimals.
pub(super) fn human(bytes: u64) -> String {
    const UNITS: [(u32, char); 4] = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    match UNITS.iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{:.2}{unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(words: &[&[u8]]) -> Vec<&'static str> {
        SECTIONS.iter().filter(|s| is_wanted(s, words)).map(|s| s.name).collect()
    }

    #[test]
    fn sections_are_chosen_by_name_or_by_group() {
        assert_eq!(chosen(&[b"MEMORY", b"server", b"nosuch"]), ["server", "memory"]);
        assert_eq!(chosen(&[]), chosen(&[b"default"]));
        assert!(!chosen(&[]).contains(&"commandstats"));
        let shown = SECTIONS.iter().filter(|section| section.when != When::Named).count();
        assert_eq!(chosen(&[b"all"]).len(), shown);
        assert_eq!(chosen(&[b"everything", b"cpu"]).len(), shown);
        assert_eq!(chosen(&[b"debug"]), ["debug"]);
        assert!(chosen(&[b"default", b"commandstats"]).contains(&"commandstats"));
        assert!(chosen(&[b"nosuch"]).is_empty());
    }

    #[test]
    fn bytes_are_read_by_people() {
        let shown = [0, 1023, 1024, 1536, 1 << 20, (1 << 30) * 5 / 2, 1 << 40].map(human);
        assert_eq!(shown, ["0B", "1023B", "1.00K", "1.50K", "1.00M", "2.50G", "1.00T"]);
    }
}
