//! `all`: every experiment one after the other, and the page of what they measured.

use std::env;

use clap::Parser;

use crate::experiment::RunArgs;
use crate::{Cli, Task, report, server};

/// Run every experiment one after the other and make the page of all of them.
///
/// Options that all experiments have go to each of them. What cannot be measured is named at the
/// end; the others are measured all the same. Ctrl-C leaves what there is, --resume goes on with
/// it.
#[derive(Clone, Debug, clap::Args)]
pub struct AllArgs {
    #[command(flatten)]
    run: RunArgs,

    /// Only these experiments
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
}

/// The runs: words of the command line, and those that are added for a quick one.
const RUNS: [(&str, &str); 19] = [
    ("consistency", ""),
    ("matrix", ""),
    ("matrix --preset many-clients --label many-clients", "--values 256 --pipelines 1,16,64"),
    ("matrix --preset big-values --label big-values", "--pipelines 1"),
    ("matrix --tcp --label tcp", "--pipelines 1,50"),
    ("commands", ""),
    ("workloads", ""),
    ("persistence", ""),
    ("replication", "--keys 100000"),
    ("trace", ""),
    ("memory", ""),
    ("memory --types", "--keys 100000"),
    ("scaling", "--sizes 100,100000"),
    ("connections", ""),
    ("publish", ""),
    ("tracking", ""),
    ("pause", ""),
    ("churn", ""),
    ("client", ""),
];

/// Runs them. An error names what could not be measured.
pub fn run(args: &AllArgs) -> Result<(), String> {
    let runs: Vec<_> = RUNS
        .into_iter()
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
        let words = words.split(' ').chain(quick.split(' ').filter(|_| args.run.quick));
        let mut words: Vec<String> =
            words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
        if words[0] == "consistency"
            && let Some(path) = args.run.peers.path_of("redis")
        {
            words.extend(["--reference".to_owned(), path.display().to_string()]);
        }
        let line = command_line(&words, env::args().skip(1));
        let done = Cli::try_parse_from(&line).map_err(|error| error.to_string());
        let done = done.and_then(|cli| {
            report::set_command_line(&line);
            match cli.task {
                Task::All(_) => Err("not within itself".to_owned()),
                task => crate::run_task(&task),
            }
        });
        if let Err(why) = done {
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

/// The command line of one experiment: its own words, then what was given behind `all`, without
/// what only `all` has.
fn command_line(words: &[String], given: impl Iterator<Item = String>) -> Vec<String> {
    let mut line = vec!["petrel-bench".to_owned()];
    line.extend_from_slice(words);
    let mut given = given.skip_while(|word| word != "all").skip(1);
    while let Some(word) = given.next() {
        match word.as_str() {
            "--only" => drop(given.next()),
            _ if word.starts_with("--only=") => {}
            "--tcp" if words.contains(&word) => {}
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
        for (words, quick) in RUNS {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let given = ["petrel-bench", "all", "--only", "matrix", "--rounds", "1"];
            let line = command_line(&words, given.map(str::to_owned).into_iter());
            assert!(!line.contains(&"--only".to_owned()) && line.ends_with(&["1".to_owned()]));
            Cli::try_parse_from(&line).unwrap();
            let quick = quick.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
            let line: Vec<String> =
                line.into_iter().chain(quick).chain(["--quick".into()]).collect();
            Cli::try_parse_from(&line).unwrap();
        }
    }
}
