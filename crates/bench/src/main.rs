//! `petrel-bench`: every table that Petrel is measured by, reproducible, beside any peer.
//!
//! It knows servers from outside only: it starts processes and sends RESP (to memcached its text
//! protocol) over sockets. Libraries are measured in processes of this program ([`in_process`]).
//! The frame of all experiments is [`experiment`]; [`EXPERIMENTS`] lists them.

mod all;
mod allocations;
mod cache;
mod churn;
mod client;
mod cluster;
mod command;
mod connections;
mod consistency;
mod effects;
mod engine;
mod exchange;
mod experiment;
mod floor;
mod full;
mod handlers;
mod hitrate;
mod in_process;
mod json;
mod load;
mod matrix;
mod memory;
mod pause;
mod persistence;
mod publish;
mod random;
mod replication;
mod report;
mod result;
mod search;
mod server;
mod sketches;
mod sys;
mod templates;
mod text;
mod trace;
mod tracking;
mod vectors;
mod wire;
mod work;
mod zipf;

use std::process::ExitCode;

use clap::{Args, FromArgMatches, Subcommand};

use experiment::{Description, Experiment, Options, RunArgs, run};
use in_process::{InProcess, Order};
use result::Measured;

/// Subcommands beside the experiments.
#[derive(Debug, Subcommand)]
enum Task {
    All(Box<all::AllArgs>),
    Floor(floor::FloorArgs),
    Report(report::ReportArgs),
    /// Hold connections for `connections`, following orders on standard input
    #[command(name = connections::HOLDER, hide = true)]
    HoldConnections,
    /// Start a cluster on 127.0.0.1, as the servers `petrel-cluster` and `redis-cluster`
    #[command(name = server::CLUSTER, hide = true)]
    StartCluster(server::ClusterArgs),
    /// Measure within this process, following orders that come over a Unix socket
    #[command(name = server::IN_PROCESS, hide = true)]
    InProcess {
        /// Path of the socket to listen on
        socket: std::path::PathBuf,
    },
    /// Measure a client library for `client`, as an order in JSON says
    #[command(name = client::DRIVER, hide = true)]
    DriveClient {
        /// The order
        order: String,
    },
}

type Run = fn(&RunArgs, &Options) -> Result<(), String>;

macro_rules! experiments {
    ($($module:ident::$name:ident)*) => {
        &[$((<$module::$name as Experiment>::NAME, run::<$module::$name>)),*]
    };
}

/// Experiments in the order of the help.
const EXPERIMENTS: &[(&str, Run)] = experiments![
    matrix::Matrix memory::Memory templates::MemoryTypes templates::Commands templates::Scaling
    connections::Connections publish::Publish tracking::Tracking pause::Pause churn::Churn
    full::Full trace::Trace hitrate::Hitrate persistence::Persistence replication::Replication
    templates::Workloads vectors::Vectors json::Json sketches::Sketches sketches::Arrays search::Search engine::Engine handlers::Handlers
    effects::Effects client::ClientLibraries cluster::Cluster consistency::Consistency
];

/// The command line: a subcommand for each experiment, then the others.
fn command() -> clap::Command {
    let mut command = clap::Command::new("petrel-bench")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Measures Petrel and other servers of its kind under the same load")
        .max_term_width(100)
        .subcommand_required(true)
        .arg_required_else_help(true);
    // `memory --types` runs the one without a help of its own.
    for (name, _) in EXPERIMENTS {
        let own = Description::named(name);
        if !own.help.is_empty() {
            let run = RunArgs::augment_args(clap::Command::new(*name));
            command = command.subcommand(experiment::with_options(run, own));
        }
    }
    Task::augment_subcommands(command)
}

fn main() -> ExitCode {
    match run_task(command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("petrel-bench: {error}");
            if server::is_stopped() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

/// Raises limits; cleans up at signals, except in tasks that another process ends.
fn prepare_process(is_owner: bool) -> Result<(), String> {
    sys::raise_open_files().map_err(|error| format!("limit on open files: {error}"))?;
    if is_owner {
        server::sweep_on_stop().map_err(|error| format!("signals: {error}"))?;
        sys::survive_file_size_limit().map_err(|error| format!("signals: {error}"))?;
    }
    Ok(())
}

fn run_task(matches: clap::ArgMatches) -> Result<(), String> {
    let (name, own) = matches.subcommand().ok_or("a subcommand is needed")?;
    if EXPERIMENTS.iter().any(|(known, _)| *known == name) {
        prepare_process(true)?;
        return run_experiment(name, own);
    }
    let task = Task::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    prepare_process(matches!(task, Task::All(_) | Task::Report(_)))?;
    match &task {
        Task::All(args) => all::run(args, run_line),
        Task::Floor(args) => floor::run(args),
        Task::Report(args) => report::run(args),
        Task::HoldConnections => connections::hold(),
        Task::StartCluster(args) => server::run_cluster(args),
        Task::InProcess { socket } => in_process::serve(socket, measure),
        Task::DriveClient { order } => client::drive(order),
    }
}

/// Runs an experiment by its command line.
fn run_line(line: &[String]) -> Result<(), String> {
    let matches = command().try_get_matches_from(line).map_err(|error| error.to_string())?;
    let (name, own) = matches.subcommand().ok_or("a subcommand is needed")?;
    run_experiment(name, own)
}

fn run_experiment(name: &str, matches: &clap::ArgMatches) -> Result<(), String> {
    let args = RunArgs::from_arg_matches(matches).map_err(|error| error.to_string())?;
    let options = Options::read(Description::named(name), matches);
    let types = (name == "memory" && options.has("types")).then(|| {
        let first = |option: &str| options.texts(option).iter().take(1).cloned().collect();
        Options::new([("elements", first("keys")), ("server-threads", first("server-threads"))])
    });
    let name = if types.is_some() { "memory-types" } else { name };
    let (_, run) = EXPERIMENTS.iter().find(|(known, _)| *known == name).ok_or("no experiment")?;
    run(&args, &types.unwrap_or(options))
}

/// Carries out an order to a process of `engine`, `handlers` or `effects`.
fn measure(order: &Order) -> Measured {
    match order.experiment.as_str() {
        <engine::Engine as InProcess>::NAME => order.measure::<engine::Engine>(),
        <handlers::Handlers as InProcess>::NAME => order.measure::<handlers::Handlers>(),
        <effects::Effects as InProcess>::NAME => order.measure::<effects::Effects>(),
        other => Err(format!("{other} is not measured within a process")),
    }
}
