//! `petrel-bench`: every table that Petrel is measured by, reproducible, beside any peer.
//!
//! It knows nothing of a server's inside: it starts processes and speaks RESP (to memcached its
//! text protocol) over sockets. The frame of all experiments is [`experiment`].

mod churn;
mod collections;
mod command;
mod commands;
mod connections;
mod exchange;
mod experiment;
mod floor;
mod load;
mod matrix;
mod memory;
mod pause;
mod publish;
mod report;
mod result;
mod scaling;
mod server;
mod sys;
mod tracking;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures Petrel and other servers of its kind under the same load.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Matrix(Box<matrix::MatrixArgs>),
    Memory(Box<memory::MemoryArgs>),
    Commands(Box<commands::CommandsArgs>),
    Scaling(Box<scaling::ScalingArgs>),
    Connections(Box<connections::ConnectionsArgs>),
    Publish(Box<publish::PublishArgs>),
    Tracking(Box<tracking::TrackingArgs>),
    Pause(Box<pause::PauseArgs>),
    Churn(Box<churn::ChurnArgs>),
    Floor(floor::FloorArgs),
    Report(report::ReportArgs),
    /// Hold connections for `connections`, following orders on standard input
    #[command(name = connections::HOLDER, hide = true)]
    HoldConnections,
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
    if !matches!(task, Task::HoldConnections | Task::Floor(_)) {
        server::sweep_on_stop().map_err(|error| format!("signals: {error}"))?;
    }
    match task {
        Task::Matrix(args) => experiment::run(&**args),
        Task::Memory(args) if args.types => {
            experiment::run(&collections::CollectionsArgs::from(&**args))
        }
        Task::Memory(args) => experiment::run(&**args),
        Task::Commands(args) => experiment::run(&**args),
        Task::Scaling(args) => experiment::run(&**args),
        Task::Connections(args) => experiment::run(&**args),
        Task::Publish(args) => experiment::run(&**args),
        Task::Tracking(args) => experiment::run(&**args),
        Task::Pause(args) => experiment::run(&**args),
        Task::Churn(args) => experiment::run(&**args),
        Task::Floor(args) => floor::run(args),
        Task::Report(args) => report::run(args),
        Task::HoldConnections => connections::hold(),
    }
}
