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
const RUNS: [(&str, &str); 31] = [
    ("consistency", ""),
    ("matrix", ""),
    ("matrix --preset many-clients --label many-clients", "--values 256 --pipelines 1,16,64"),
    ("matrix --preset big-values --label big-values", "--pipelines 1"),
    ("matrix --tcp --label tcp", "--pipelines 1,50"),
    ("matrix --tls --label tls", "--pipelines 1,50"),
    (
        "matrix --servers petrel,floor-uring,floor-memory --commands get --values 512 --keys 1000000 \
         --server-threads 1 --label floor",
        "--pipelines 1,50",
    ),
    ("commands", ""),
    ("workloads", ""),
    ("persistence", ""),
    ("replication", ""),
    ("trace", ""),
    (
        "trace --traces block --requests 60000 --values 30000,1000000 --memory 500mb --label values",
        "--requests 4000",
    ),
    (
        "trace --servers petrel,petrel-cluster,redis,redis-cluster --memory none --nodes 1,2,4,6 \
         --requests 200000 --label cluster",
        "--requests 20000 --nodes 1,2",
    ),
    ("cluster", ""),
    ("hitrate", ""),
    ("memory", ""),
    (
        "memory --keys 63000 --values 32,256,1024,4096 --server-threads 1,12 --delete 0 --no-ttl \
         --label 63k",
        "--values 1024",
    ),
    ("memory --types", "--keys 100000"),
    ("scaling", "--sizes 100,100000"),
    ("connections", ""),
    ("publish", ""),
    ("tracking", ""),
    ("pause", ""),
    ("churn", ""),
    ("vectors", ""),
    ("json", ""),
    ("engine", ""),
    ("handlers", ""),
    ("effects", ""),
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
        let mut words = all_words(words, if args.run.quick { quick } else { "" });
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

/// The words of a run, of which the quick ones win.
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

/// The command line of one experiment: its own words, then what was given behind `all`, without
/// what only `all` has, and without what the run decides itself.
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
        for (words, quick) in RUNS {
            let name = words.split(' ').next().unwrap();
            assert!(crate::experiment::ALL.iter().any(|known| known.name == name), "{name}");
            for (quick, last) in [("", "1"), (quick, "--quick")] {
                let words = all_words(words, quick);
                let given = ["petrel-bench", "all", "--only", "matrix", "--servers=a", "--tls"];
                let given = given.into_iter().chain(["--rounds", "1"]).chain([last]);
                let given = given.take(if last == "1" { 8 } else { 9 }).map(str::to_owned);
                let line = command_line(&words, given);
                assert!(!line.contains(&"--only".to_owned()) && line.ends_with(&[last.to_owned()]));
                Cli::try_parse_from(&line).unwrap_or_else(|why| panic!("{line:?}: {why}"));
            }
        }
    }
}
