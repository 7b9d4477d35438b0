//! `petrel-bench`: every table that Petrel is measured by, reproducible, beside any peer.
//!
//! It knows nothing of a server's inside: it starts processes and speaks RESP (to memcached its
//! text protocol) over sockets.

mod commands;
mod connections;
mod element;
mod exchange;
mod floor;
mod load;
mod matrix;
mod memory;
mod pause;
mod publish;
mod report;
mod scaling;
mod server;
mod sys;
mod tracking;
mod workload;

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
    Memory(memory::MemoryArgs),
    Commands(commands::CommandsArgs),
    Scaling(scaling::ScalingArgs),
    Connections(Box<connections::ConnectionsArgs>),
    Publish(publish::PublishArgs),
    Tracking(tracking::TrackingArgs),
    Pause(pause::PauseArgs),
    Floor(floor::FloorArgs),
    /// Hold connections for `connections`, told what to do on standard input
    #[command(name = connections::HOLDER, hide = true)]
    HoldConnections,
}

fn main() -> ExitCode {
    match run(&Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("petrel-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<(), String> {
    sys::raise_open_files().map_err(|error| format!("limit on open files: {error}"))?;
    if !matches!(task, Task::HoldConnections) {
        server::sweep_on_stop().map_err(|error| format!("signals: {error}"))?;
    }
    match task {
        Task::Matrix(args) => matrix::run(args),
        Task::Memory(args) => memory::run(args),
        Task::Commands(args) => commands::run(args),
        Task::Scaling(args) => scaling::run(args),
        Task::Connections(args) => connections::run(args),
        Task::Publish(args) => publish::run(args),
        Task::Tracking(args) => tracking::run(args),
        Task::Pause(args) => pause::run(args),
        Task::Floor(args) => floor::run(args),
        Task::HoldConnections => connections::hold(),
    }
}
