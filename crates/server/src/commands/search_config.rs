//! `FT.CONFIG`: the names that the query engine's parameters had before Redis 8, for `CONFIG GET`
//! and `CONFIG SET` of `search-*`.

use super::config::set_parameters;
use crate::config::{Config, OnOom, OnTimeout};
use crate::host::ServerHost;
use crate::server::Server;
use petrel_commands::integer;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome, SearchDefaults};
use petrel_resp::Reply;
use petrel_table::commands as meta;

pub const FT_CONFIG: CommandSpec = CommandSpec::new(&meta::FT_CONFIG, config);

/// A parameter: its older name, its source and a description.
struct Parameter {
    name: &'static str,
    source: Source,
    about: &'static str,
}

enum Source {
    /// A number of the configuration, from this one on.
    Number(&'static str, i64),
    /// A number of results; none for no limit.
    Results(&'static str),
    /// A word of the configuration.
    Word(&'static str),
    /// A value that does not change.
    Fixed(Option<&'static str>),
}

const PARAMETERS: &[Parameter] = &[
    row("EXTLOAD", Source::Fixed(None), "Extension module"),
    row("NOGC", Source::Fixed(Some("false")), "Whether nothing is collected"),
    row("MINPREFIX", Source::Fixed(Some("2")), "Shortest prefix that is expanded"),
    row("MINSTEMLEN", Source::Fixed(Some("4")), "Shortest word that is stemmed"),
    row("MAXDOCTABLESIZE", Source::Fixed(Some("1000000")), "Size of the table of documents"),
    row(
        "MAXSEARCHRESULTS",
        Source::Results("search-max-search-results"),
        "Maximum number of results of FT.SEARCH",
    ),
    row(
        "MAXAGGREGATERESULTS",
        Source::Results("search-max-aggregate-results"),
        "Maximum number of results of FT.AGGREGATE",
    ),
    row("MAXEXPANSIONS", Source::Fixed(Some("200")), "Terms that a pattern is expanded to"),
    row("MAXPREFIXEXPANSIONS", Source::Fixed(Some("200")), "Terms that a pattern is expanded to"),
    row("TIMEOUT", Source::Number("search-timeout", 0), "Milliseconds after which a query ends"),
    row("FRISOINI", Source::Fixed(None), "Dictionary of Chinese words"),
    row("ON_TIMEOUT", Source::Word("search-on-timeout"), "What happens then: RETURN or FAIL"),
    row(
        "MIN_PHONETIC_TERM_LEN",
        Source::Fixed(Some("3")),
        "Shortest word that is compared by sound",
    ),
    row("GC_POLICY", Source::Fixed(Some("fork")), "Way of collecting"),
    row(
        "CURSOR_MAX_IDLE",
        Source::Number("search-cursor-max-idle", 1),
        "Milliseconds after which an unread cursor is closed",
    ),
    row(
        "DEFAULT_DIALECT",
        Source::Number("search-default-dialect", 1),
        "Dialect of queries that state none",
    ),
    row("MULTI_TEXT_SLOP", Source::Fixed(Some("100")), "Distance between two values of an array"),
];

const fn row(name: &'static str, source: Source, about: &'static str) -> Parameter {
    Parameter { name, source, about }
}

/// `FT.CONFIG GET option`, `FT.CONFIG SET option value`, `FT.CONFIG HELP option`
fn config(ctx: &mut Ctx<'_>) -> Outcome {
    let [_, action, option, values @ ..] = ctx.args() else { return Err(ctx.wrong_arity()) };
    match action.to_ascii_uppercase().as_slice() {
        b"GET" => {
            let shown = shown(ctx, option);
            write_pairs(ctx, &shown);
            Ok(())
        }
        b"HELP" => {
            let shown = shown(ctx, option);
            write_help(ctx, &shown);
            Ok(())
        }
        b"SET" => set(ctx, option, values),
        _ => {
            ctx.reply.simple("No such configuration action");
            Ok(())
        }
    }
}

type Shown = (&'static Parameter, Option<Vec<u8>>);

/// The parameters of a name, or all of `*`, with their values.
fn shown(ctx: &mut Ctx<'_>, option: &[u8]) -> Vec<Shown> {
    let asked = PARAMETERS
        .iter()
        .filter(|row| option == b"*" || row.name.as_bytes().eq_ignore_ascii_case(option));
    let config = &ServerHost::of(ctx).server.config;
    let value = |name: &str| {
        let found = config.get(&[name.as_bytes()]);
        found.into_iter().next().map(|(_, value)| value.to_vec())
    };
    asked
        .map(|row| {
            let value = match row.source {
                Source::Fixed(value) => value.map(|value| value.as_bytes().to_vec()),
                Source::Number(name, _) | Source::Word(name) => value(name),
                Source::Results(name) => value(name).map(|value| match &value[..] {
                    b"-1" => b"unlimited".to_vec(),
                    _ => value,
                }),
            };
            (row, value)
        })
        .collect()
}

fn write_value(reply: &mut dyn Reply, value: Option<&Vec<u8>>) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

/// Begins a reply of rows by name; true if it is a map.
fn begin_rows(ctx: &mut Ctx<'_>, rows: usize) -> bool {
    let is_map = ctx.reply.protocol() == petrel_resp::Protocol::Resp3;
    match is_map {
        true => ctx.reply.map(rows),
        false => ctx.reply.array(rows),
    }
    is_map
}

fn write_pairs(ctx: &mut Ctx<'_>, shown: &[Shown]) {
    let is_map = begin_rows(ctx, shown.len());
    for (row, value) in shown {
        if !is_map {
            ctx.reply.array(2);
        }
        ctx.reply.bulk(row.name.as_bytes());
        write_value(ctx.reply, value.as_ref());
    }
}

fn write_help(ctx: &mut Ctx<'_>, shown: &[Shown]) {
    let is_map = begin_rows(ctx, shown.len());
    for (row, value) in shown {
        if !is_map {
            ctx.reply.array(5);
        }
        ctx.reply.bulk(row.name.as_bytes());
        if is_map {
            ctx.reply.map(2);
        }
        ctx.reply.bulk(b"Description");
        ctx.reply.bulk(row.about.as_bytes());
        ctx.reply.bulk(b"Value");
        write_value(ctx.reply, value.as_ref());
    }
}

fn set(ctx: &mut Ctx<'_>, option: &[u8], values: &[&[u8]]) -> Outcome {
    let found = PARAMETERS.iter().find(|row| row.name.as_bytes().eq_ignore_ascii_case(option));
    let row = found.ok_or(Fail::fixed("Invalid option"))?;
    if let Source::Fixed(_) = row.source {
        return Err(Fail::fixed("Not modifiable at runtime"));
    }
    let missing = Fail::fixed("Expected an argument, but none provided");
    let value = *values.first().ok_or(missing)?;
    let number = || {
        let bad = Fail::fixed("Could not convert argument to expected type");
        integer(value).map_err(|_| bad)
    };
    let out_of_bounds = Fail::fixed("Value is outside acceptable bounds");
    let (name, text) = match row.source {
        Source::Number(name, least) => match number()? {
            dialect @ 5.. if row.name == "DEFAULT_DIALECT" => {
                let _ = dialect;
                return Err(Fail::fixed("Default dialect version cannot be higher than 4"));
            }
            number if number < least || number > i64::from(i32::MAX) => return Err(out_of_bounds),
            number => (name, number.to_string()),
        },
        Source::Results(name) => {
            let most = if row.name == "MAXSEARCHRESULTS" { 1_000_000 } else { i64::MAX };
            match number()? {
                number if number > most => (name, "-1".to_string()),
                number => (name, number.max(-1).to_string()),
            }
        }
        Source::Word(name) => match value.to_ascii_lowercase().as_slice() {
            b"return" => (name, "return".to_string()),
            b"fail" => (name, "fail".to_string()),
            _ => return Err(Fail::fixed("Invalid ON_TIMEOUT value")),
        },
        Source::Fixed(_) => return Err(out_of_bounds),
    };
    set_parameters(ctx, &[(name.as_bytes(), text.as_bytes())])?;
    match values.len() {
        1 => ctx.reply.simple("OK"),
        _ => ctx.reply.simple("EXCESSARGS"),
    }
    Ok(())
}

impl Server {
    /// Sets the query engine's parameters.
    pub(crate) fn configure_search(&self, config: &Config) {
        let most = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
        self.commands.search.settings.set(SearchDefaults {
            timeout_ms: config.search_timeout,
            fails_on_timeout: config.search_on_timeout == OnTimeout::Fail,
            search_results_max: most(config.search_max_search_results),
            aggregate_results_max: most(config.search_max_aggregate_results),
            dialect: config.search_default_dialect,
            cursor_idle_ms: config.search_cursor_max_idle,
            cursors_max: config.search_index_cursor_limit,
            on_oom: match config.search_on_oom {
                OnOom::Ignore => petrel_commands::OnOom::Ignore,
                OnOom::Return => petrel_commands::OnOom::Return,
                OnOom::Fail => petrel_commands::OnOom::Fail,
            },
        });
    }
}
