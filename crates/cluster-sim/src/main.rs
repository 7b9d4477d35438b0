//! `cluster-sim [--seconds N] [--seed S] [--ops N] [--copies N] [--acknowledge N] [--deaths N]
//! [--chains 1] [--joins 0] [--mixed 1] [--always 1] [--wrong RULE]`: runs simulations until the
//! time is up, and prints the seed of each run with violations. `--seed` without `--seconds`
//! repeats one run. `--deaths 2` lets two members die at once, `--chains 1` executes transactions
//! of several primaries, without `--joins` none joins, `--always 1` syncs logs before anything
//! depends on them. `--mixed` draws copies, acknowledgements and joins from the seed, as the tests
//! do. `--wrong` disables a rule and stops at the first run that detects it.

use petrel_cluster_sim::{FAULTS, Outcome, Plan, run};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let (mut seconds, mut seed, mut ops, mut wrong) = (None, None, 4000, None);
    let (mut copies, mut acknowledge, mut deaths, mut chains) = (None, 1, 1, false);
    let (mut joins, mut mixed, mut always) = (true, false, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let text = args.next().unwrap_or_default();
        if arg == "--wrong" {
            wrong = FAULTS.into_iter().find(|(name, _)| *name == text).map(|(_, wrong)| wrong);
            if wrong.is_none() {
                eprintln!("--wrong is one of: {}", FAULTS.map(|(name, _)| name).join(", "));
                return ExitCode::FAILURE;
            }
            continue;
        }
        match (arg.as_str(), text.parse::<u64>().ok()) {
            ("--seconds", Some(value)) => seconds = Some(value),
            ("--seed", Some(value)) => seed = Some(value),
            ("--ops", Some(value)) => ops = value,
            ("--copies", Some(value)) => copies = Some(value as usize),
            ("--acknowledge", Some(value)) => acknowledge = value as usize,
            ("--deaths", Some(value)) => deaths = value as usize,
            ("--chains", Some(value)) => chains = value != 0,
            ("--joins", Some(value)) => joins = value != 0,
            ("--mixed", Some(value)) => mixed = value != 0,
            ("--always", Some(value)) => always = value != 0,
            _ => {
                eprintln!(
                    "usage: cluster-sim [--seconds N] [--seed S] [--ops N] [--copies N] [--acknowledge N] [--deaths N] [--chains 1] [--joins 0] [--mixed 1] [--always 1] [--wrong RULE]"
                );
                return ExitCode::FAILURE;
            }
        }
    }
    let time = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |at| at.as_nanos() as u64);
    let first = seed.unwrap_or_else(time);
    let limit = Duration::from_secs(seconds.unwrap_or(if seed.is_some() { 0 } else { 10 }));
    println!("first seed {first}, {ops} commands a run");
    let (begin, mut runs, mut failed) = (Instant::now(), 0, 0);
    let mut sum = Outcome::default();
    loop {
        let seed = first.wrapping_add(runs);
        let plan = Plan { seed, ops, wrong, joins, copies, acknowledge, deaths, chains, always };
        let plan = if mixed { plan.mixed() } else { plan };
        let outcome = run(plan);
        runs += 1;
        if !outcome.violations.is_empty() {
            failed += 1;
            println!("seed {seed} ({plan}):");
            outcome.violations.iter().take(4).for_each(|text| println!("    {text}"));
        }
        sum.add(&outcome);
        if begin.elapsed() >= limit || wrong.is_some() && failed > 0 {
            break;
        }
    }
    println!("{runs} runs, {failed} with violations; {}", sum.figures());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
