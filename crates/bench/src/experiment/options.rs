//! Options of an experiment: declared in its file, read by clap, stored with its results.
//!
//! ```text
//! option keys N = 100000      name, placeholder, default
//!   type integer 1..=1000     flag, text, sizes, work, choice A B, integer, float, positive, time
//!   list                      several values, separated by commas
//!   choice a Its help.        a choice with its help
//!   quick 1000                default with --quick
//!   if preset small 10        default with --preset small
//!   unsaved                   not a part of the settings in result files
//!   | Help.
//! ```

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::builder::{ArgPredicate, PossibleValue, PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::description::Description;
use crate::load::ValueSizes;
use crate::text::Entry;

/// Declaration of an option.
#[derive(Debug)]
pub struct OptionDescription {
    /// Name behind `--`.
    pub name: &'static str,
    placeholder: &'static str,
    default: Option<&'static str>,
    kind: Kind,
    is_list: bool,
    is_saved: bool,
    /// Option, value, and the default with that.
    conditions: Vec<[&'static str; 3]>,
    help: String,
}

#[derive(Debug)]
enum Kind {
    Flag,
    Text,
    Sizes,
    /// Names of works.
    Work,
    Choice(Vec<(&'static str, &'static str)>),
    /// From, and to at most.
    Integer(u64, u64),
    /// From, and to at most, and the range in words.
    Number(f64, f64, &'static str),
}

/// A time that may be asked for, at most, seconds.
const TIME_MAX_S: f64 = 86_400.0;

impl OptionDescription {
    /// Reads `option NAME PLACEHOLDER = DEFAULT` and its attributes.
    pub fn read(entry: &Entry) -> OptionDescription {
        let (words, default) = match entry.rest.split_once(" = ") {
            Some((words, default)) => (words, Some(default)),
            None => (entry.rest, None),
        };
        let (name, placeholder) = words.split_once(' ').unwrap_or((words, ""));
        let kind = entry.words("type");
        let choices = entry.all("choice").map(|text| text.split_once(' ').unwrap_or((text, "")));
        let kind = match *kind.as_slice() {
            ["flag"] => Kind::Flag,
            ["text"] => Kind::Text,
            ["sizes"] => Kind::Sizes,
            ["work"] => Kind::Work,
            ["choice", ref names @ ..] => {
                Kind::Choice(names.iter().map(|name| (*name, "")).chain(choices).collect())
            }
            ["float"] => Kind::Number(0.0, TIME_MAX_S, "up to 86400"),
            ["positive"] => Kind::Number(f64::MIN_POSITIVE, f64::MAX, "above zero"),
            ["time"] => {
                Kind::Number(f64::MIN_POSITIVE, TIME_MAX_S, "above zero, up to a day in seconds")
            }
            [] | ["integer"] => Kind::Integer(0, u64::MAX),
            ["integer", range] => {
                let (from, to) = range.split_once("..").expect("a range");
                let to = to.trim_start_matches('=');
                Kind::Integer(from.parse().unwrap_or(0), to.parse().unwrap_or(u64::MAX))
            }
            _ => panic!("option {name} has type {kind:?}"),
        };
        let quick = entry.all("quick").map(|value| ["quick", "true", value]);
        let conditions = entry.all("if").map(|text| {
            let mut words = text.splitn(3, ' ');
            std::array::from_fn(|_| words.next().expect("if OPTION VALUE DEFAULT"))
        });
        OptionDescription {
            name,
            placeholder,
            default,
            kind,
            is_list: entry.get("list").is_some(),
            is_saved: entry.get("unsaved").is_none(),
            conditions: conditions.chain(quick).collect(),
            help: entry.text.clone(),
        }
    }

    fn argument(&'static self, of: &'static Description) -> Arg {
        let arg = Arg::new(self.name).long(self.name).help(summary(&self.help));
        let arg = if self.help.contains('\n') { arg.long_help(&*self.help) } else { arg };
        if matches!(self.kind, Kind::Flag) {
            return arg.action(ArgAction::SetTrue);
        }
        let parser = match &self.kind {
            Kind::Choice(choices) => {
                let choice = |(name, help): &(&'static str, &'static str)| {
                    let value = PossibleValue::new(*name);
                    if help.is_empty() { value } else { value.help(*help) }
                };
                PossibleValuesParser::new(choices.iter().map(choice)).into()
            }
            _ => ValueParser::new(move |text: &str| self.checked(text, of)),
        };
        let mut arg = arg.value_name(self.placeholder).value_parser(parser);
        if self.is_list {
            arg = arg.value_delimiter(',').action(ArgAction::Append);
        }
        arg = match self.default {
            // Long lists are shown with spaces, at which lines break.
            Some(default) if self.is_list && default.len() > 80 => {
                arg.default_values(default.split(','))
            }
            default => arg.default_value(default),
        };
        let conditions = self.conditions.iter();
        arg.default_value_ifs(
            conditions.map(|[name, value, then]| (*name, ArgPredicate::from(*value), *then)),
        )
    }

    /// Returns the value as the experiment reads it, or an error.
    fn checked(&self, text: &str, of: &Description) -> Result<String, String> {
        let own = || text.to_owned();
        match self.kind {
            Kind::Flag | Kind::Text | Kind::Choice(_) => Ok(own()),
            Kind::Sizes => text.parse::<ValueSizes>().map(|_| own()),
            Kind::Work => {
                let found = of.work_names().find(|name| name.eq_ignore_ascii_case(text));
                let joined = || of.work_names().collect::<Vec<_>>().join(", ");
                found.map(str::to_owned).ok_or_else(|| format!("there are {}", joined()))
            }
            Kind::Integer(from, to) => {
                let value = text.parse::<u64>().ok().filter(|value| (from..=to).contains(value));
                let range = || match to {
                    u64::MAX => format!("a number from {from} on"),
                    to => format!("a number from {from} to {to}"),
                };
                value.map(|_| own()).ok_or_else(range)
            }
            Kind::Number(from, to, range) => {
                let value = text.parse::<f64>().ok().filter(|value| (from..=to).contains(value));
                value.map(|_| own()).ok_or_else(|| format!("a number {range}"))
            }
        }
    }

    /// Converts a value to the form of result files.
    fn json(&self, value: &str) -> serde_json::Value {
        match self.kind {
            Kind::Integer(..) => json!(value.parse::<u64>().ok()),
            Kind::Number(..) => json!(value.parse::<f64>().ok()),
            Kind::Sizes => json!(value.parse::<ValueSizes>().ok()),
            _ => json!(value),
        }
    }
}

/// First paragraph without its full stop, as clap shows it in lists.
fn summary(help: &str) -> String {
    let first = help.split("\n\n").next().unwrap_or_default();
    first.strip_suffix('.').unwrap_or(first).to_owned()
}

/// Adds help and options of an experiment to its subcommand.
pub fn with_options(command: Command, of: &'static Description) -> Command {
    let command = command.about(summary(&of.help));
    let has_more = of.help.contains('\n');
    let command = if has_more { command.long_about(&*of.help) } else { command };
    command.args(of.options.iter().map(|option| option.argument(of)))
}

/// Options of a run as they were given, defaults included.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Options(BTreeMap<String, Vec<String>>);

impl Options {
    /// Takes an experiment's own options from what clap has read.
    pub fn read(of: &'static Description, matches: &ArgMatches) -> Options {
        let value = |option: &OptionDescription| match option.kind {
            Kind::Flag => matches.get_flag(option.name).then(|| vec!["true".to_owned()]),
            _ => matches.get_many::<String>(option.name).map(|values| values.cloned().collect()),
        };
        let named = |option: &'static OptionDescription| {
            (option.name.to_owned(), value(option).unwrap_or_default())
        };
        Options(of.options.iter().map(named).collect())
    }

    /// Options given by the program itself.
    pub fn new<const N: usize>(values: [(&str, Vec<String>); N]) -> Options {
        Options(values.into_iter().map(|(name, values)| (name.to_owned(), values)).collect())
    }

    /// Values of an option; none if it was not given and has no default.
    pub fn texts(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Values of a list.
    ///
    /// # Panics
    ///
    /// If a value is of another type: values are checked when they are read.
    pub fn all<T: FromStr>(&self, name: &str) -> Vec<T> {
        let parse = |text: &String| {
            text.parse().unwrap_or_else(|_| panic!("--{name} {text} was checked when it was read"))
        };
        self.texts(name).iter().map(parse).collect()
    }

    /// Value of an option, if it was given or has a default.
    pub fn some<T: FromStr>(&self, name: &str) -> Option<T> {
        self.all(name).into_iter().next()
    }

    /// Value of an option with a default.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn get<T: FromStr>(&self, name: &str) -> T {
        self.some(name).unwrap_or_else(|| panic!("--{name} has a default"))
    }

    /// Whether a flag was given.
    pub fn has(&self, name: &str) -> bool {
        !self.texts(name).is_empty()
    }

    /// Whether a value was given.
    pub fn has_value(&self, name: &str, value: &str) -> bool {
        self.texts(name).iter().any(|text| text == value)
    }

    /// Whether a list names a value, or nothing at all.
    pub fn wants(&self, name: &str, value: &str) -> bool {
        !self.has(name) || self.has_value(name, value)
    }

    /// The form in result files: names with underscores, numbers as numbers.
    pub fn settings(&self, of: &Description) -> serde_json::Value {
        let saved = of.options.iter().filter(|option| option.is_saved);
        let pair = |option: &OptionDescription| {
            let mut values = self.texts(option.name).iter().map(|text| option.json(text));
            let value = match option.kind {
                Kind::Flag => json!(self.has(option.name)),
                _ if option.is_list => values.collect(),
                _ => values.next().unwrap_or_default(),
            };
            (option.name.replace('-', "_"), value)
        };
        serde_json::Value::Object(saved.map(pair).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::description::all;
    use super::*;

    fn read(words: &[&str]) -> Result<Options, String> {
        let of = Description::named("matrix");
        let quick = Arg::new("quick").long("quick").action(ArgAction::SetTrue);
        let command = with_options(Command::new("matrix"), of).arg(quick);
        let words = ["matrix"].iter().chain(words);
        let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
        Ok(Options::read(of, &matches))
    }

    #[test]
    fn defaults_depend_on_other_options() {
        assert_eq!(read(&[]).unwrap().get::<u64>("keys"), 1_000_000);
        assert_eq!(read(&["--quick"]).unwrap().get::<u64>("keys"), 100_000);
        let big = read(&["--preset", "big-values", "--quick"]).unwrap();
        assert_eq!((big.get::<u64>("keys"), big.all::<usize>("pipelines")), (10_000, vec![1, 5]));
        let given = read(&["--keys", "7", "--pipelines", "2,3"]).unwrap();
        assert_eq!((given.get::<u64>("keys"), given.all("pipelines")), (7, vec![2, 3]));
    }

    #[test]
    fn values_are_checked_and_stored_in_their_types() {
        for words in [["--keys", "x"], ["--seconds", "0"], ["--values", "9-3"], ["--preset", "x"]] {
            assert!(read(&words).is_err(), "{words:?}");
        }
        let settings = read(&["--rate", "5"]).unwrap().settings(Description::named("matrix"));
        assert_eq!(settings["keys"], 1_000_000);
        assert_eq!(settings["rate"], 5.0);
        assert_eq!((&settings["fresh"], &settings["ops"]), (&json!(false), &json!(null)));
        assert_eq!(settings["key_order"], "random");
        assert_eq!(settings["values"], json!([{"min": 1, "max": 1024}]));
    }

    #[test]
    fn every_default_is_a_value_of_its_option() {
        for of in all() {
            for option in &of.options {
                let conditions = option.conditions.iter().map(|[.., then]| *then);
                for default in option.default.into_iter().chain(conditions) {
                    let mut parts = default.split(if option.is_list { ',' } else { '\n' });
                    let is_good = parts.all(|part| option.checked(part, of).is_ok());
                    assert!(is_good, "{} --{} {default}", of.name, option.name);
                }
            }
        }
    }
}
