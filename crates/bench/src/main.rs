//! `petrel-bench`: every table that Petrel is measured by, reproducible, beside any peer.
//!
//! Of servers it knows nothing inside: it starts processes and speaks RESP (to memcached its text
//! protocol) over sockets. What has no sockets is measured in processes of this program
//! ([`in_process`]). The frame of all experiments is [`experiment`].

mod all;
mod allocations;
mod cache;
mod churn;
mod client;
mod cluster;
mod collections;
mod command;
mod commands;
mod connections;
mod consistency;
mod effects;
mod engine;
mod exchange;
mod experiment;
mod floor;
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
mod scaling;
mod server;
mod sys;
mod trace;
mod tracking;
mod vectors;
mod workloads;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use experiment::Configured;

/// Measures Petrel and other servers of its kind under the same load.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Matrix(Box<Configured<matrix::MatrixArgs>>),
    Memory(Box<Configured<memory::MemoryArgs>>),
    Commands(Box<Configured<commands::CommandsArgs>>),
    Scaling(Box<Configured<scaling::ScalingArgs>>),
    Connections(Box<Configured<connections::ConnectionsArgs>>),
    Publish(Box<Configured<publish::PublishArgs>>),
    Tracking(Box<Configured<tracking::TrackingArgs>>),
    Pause(Box<Configured<pause::PauseArgs>>),
    Churn(Box<Configured<churn::ChurnArgs>>),
    Trace(Box<Configured<trace::TraceArgs>>),
    Hitrate(Box<Configured<hitrate::HitrateArgs>>),
    Persistence(Box<Configured<persistence::PersistenceArgs>>),
    Replication(Box<Configured<replication::ReplicationArgs>>),
    Workloads(Box<Configured<workloads::WorkloadsArgs>>),
    Vectors(Box<Configured<vectors::VectorsArgs>>),
    Json(Box<Configured<json::JsonArgs>>),
    Engine(Box<Configured<engine::EngineArgs>>),
    Handlers(Box<Configured<handlers::HandlersArgs>>),
    Effects(Box<Configured<effects::EffectsArgs>>),
    Client(Box<Configured<client::ClientArgs>>),
    Cluster(Box<Configured<cluster::ClusterArgs>>),
    Consistency(Box<Configured<consistency::ConsistencyArgs>>),
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
    #[command(name = in_process::NAME, hide = true)]
    InProcess {
        /// Where to listen
        socket: std::path::PathBuf,
    },
    /// Measure a client library for `client`, as an order in JSON says
    #[command(name = client::DRIVER, hide = true)]
    DriveClient {
        /// The order
        order: String,
    },
}

fn main() -> ExitCode {
    match run(&Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("petrel-bench: {error}");
            if server::is_stopped() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

fn run(task: &Task) -> Result<(), String> {
    sys::raise_open_files().map_err(|error| format!("limit on open files: {error}"))?;
    if !matches!(
        task,
        Task::HoldConnections
            | Task::StartCluster(_)
            | Task::InProcess { .. }
            | Task::DriveClient { .. }
            | Task::Floor(_)
    ) {
        server::sweep_on_stop().map_err(|error| format!("signals: {error}"))?;
        sys::survive_file_size_limit().map_err(|error| format!("signals: {error}"))?;
    }
    run_task(task)
}

fn run_task(task: &Task) -> Result<(), String> {
    match task {
        Task::Matrix(args) => experiment::run(&args.run, &args.experiment),
        Task::Memory(args) if args.experiment.types => {
            experiment::run(&args.run, &collections::CollectionsArgs::from(&args.experiment))
        }
        Task::Memory(args) => experiment::run(&args.run, &args.experiment),
        Task::Commands(args) => experiment::run(&args.run, &args.experiment),
        Task::Scaling(args) => experiment::run(&args.run, &args.experiment),
        Task::Connections(args) => experiment::run(&args.run, &args.experiment),
        Task::Publish(args) => experiment::run(&args.run, &args.experiment),
        Task::Tracking(args) => experiment::run(&args.run, &args.experiment),
        Task::Pause(args) => experiment::run(&args.run, &args.experiment),
        Task::Churn(args) => experiment::run(&args.run, &args.experiment),
        Task::Trace(args) => experiment::run(&args.run, &args.experiment),
        Task::Hitrate(args) => experiment::run(&args.run, &args.experiment),
        Task::Persistence(args) => experiment::run(&args.run, &args.experiment),
        Task::Replication(args) => experiment::run(&args.run, &args.experiment),
        Task::Workloads(args) => experiment::run(&args.run, &args.experiment),
        Task::Vectors(args) => experiment::run(&args.run, &args.experiment),
        Task::Json(args) => experiment::run(&args.run, &args.experiment),
        Task::Engine(args) => experiment::run(&args.run, &args.experiment),
        Task::Handlers(args) => experiment::run(&args.run, &args.experiment),
        Task::Effects(args) => experiment::run(&args.run, &args.experiment),
        Task::Client(args) => experiment::run(&args.run, &args.experiment),
        Task::Cluster(args) => experiment::run(&args.run, &args.experiment),
        Task::Consistency(args) => experiment::run(&args.run, &args.experiment),
        Task::All(args) => all::run(args),
        Task::Floor(args) => floor::run(args),
        Task::Report(args) => report::run(args),
        Task::HoldConnections => connections::hold(),
        Task::StartCluster(args) => server::run_cluster(args),
        Task::InProcess { socket } => in_process::serve(socket),
        Task::DriveClient { order } => client::drive(order),
    }
}
