//! `all`: every experiment one after the other, and the page of all results.

use std::env;

use crate::experiment::RunArgs;
use crate::text::entries;
use crate::{report, server};

/// Run every experiment one after the other and make the page of all of them.
///
/// Options that all experiments have go to each of them. Failed experiments are named at the end;
/// the others are measured all the same. Ctrl-C keeps the results so far, --resume continues.
#[derive(Clone, Debug, clap::Args)]
pub struct AllArgs {
    #[command(flatten)]
    run: RunArgs,

    /// Only these experiments
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
}

/// Runs: words of the command line, and words added for a quick run.
fn runs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = entries(include_str!("../assets/all.txt")).into_iter();
    all.map(|entry| (entry.rest, entry.get("quick").unwrap_or_default()))
}

/// Runs them by their command lines. An error names the failed ones.
pub fn run(args: &AllArgs, execute: fn(&[String]) -> Result<(), String>) -> Result<(), String> {
    let runs: Vec<_> = runs()
        .filter(|(words, _)| {
            let name = words.split(' ').next().unwrap_or(words);
            args.only.is_empty() || args.only.iter().any(|only| only == name)
        })
        .collect();
    if runs.is_empty() {
        return Err("--only names no experiment".to_owned());
    }
    let mut failures = Vec::new();
    for (number, (words, quick)) in runs.iter().enumerate() {
        eprintln!("[{}/{}] {words}", number + 1, runs.len());
        let mut words = all_words(words, if args.run.quick { quick } else { "" });
        if words[0] == "consistency"
            && let Some(path) = args.run.peers.path_of("redis")
        {
            words.extend(["--reference".to_owned(), path.display().to_string()]);
        }
        let line = command_line(&words, env::args().skip(1));
        report::set_command_line(&line);
        if let Err(why) = execute(&line) {
            if server::is_stopped() {
                return Err(why);
            }
            eprintln!("{}: {why}", words.join(" "));
            failures.push(words.join(" "));
        }
    }
    report::write_all(&args.run.out)?;
    match failures.as_slice() {
        [] => Ok(()),
        failures => Err(format!("not all of it could be measured: {}", failures.join("; "))),
    }
}

/// Words of a run, of which the quick ones win.
fn all_words(words: &str, quick: &str) -> Vec<String> {
    let quick: Vec<&str> = quick.split_whitespace().collect();
    let mut all = Vec::new();
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        match word.starts_with("--") && quick.contains(&word) {
            true => drop(words.next()),
            false => all.push(word.to_owned()),
        }
    }
    all.extend(quick.into_iter().map(str::to_owned));
    all
}

/// Command line of one experiment: its own words, then the words behind `all`, without the options
/// of `all` itself and without options set by the run.
fn command_line(words: &[String], given: impl Iterator<Item = String>) -> Vec<String> {
    let mut line = vec!["petrel-bench".to_owned()];
    line.extend_from_slice(words);
    let has = |name: &str| words.iter().any(|word| word == name);
    let has_transport = has("--tcp") || has("--tls");
    let mut given = given.skip_while(|word| word != "all").skip(1);
    while let Some(word) = given.next() {
        let (name, value) = word.split_once('=').map_or((&word[..], None), |(n, v)| (n, Some(v)));
        match name {
            "--tcp" | "--tls" if has_transport => {}
            "--only" | "--servers" if name == "--only" || has(name) => {
                if value.is_none() {
                    given.next();
                }
            }
            _ => line.push(word),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_can_be_read_quick_or_not() {
        for (words, quick) in runs() {
            let name = words.split(' ').next().unwrap();
            assert!(crate::experiment::all().iter().any(|known| known.name == name), "{name}");
            for (quick, last) in [("", "1"), (quick, "--quick")] {
                let words = all_words(words, quick);
                let given = ["petrel-bench", "all", "--only", "matrix", "--servers=a", "--tls"];
                let given = given.into_iter().chain(["--rounds", "1"]).chain([last]);
                let given = given.take(if last == "1" { 8 } else { 9 }).map(str::to_owned);
                let line = command_line(&words, given);
                assert!(!line.contains(&"--only".to_owned()) && line.ends_with(&[last.to_owned()]));
                crate::command()
                    .try_get_matches_from(&line)
                    .unwrap_or_else(|why| panic!("{line:?}: {why}"));
            }
        }
    }
}
