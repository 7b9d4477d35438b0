//! `petrel-bench`: every table that Petrel is measured by, reproducible, beside any peer.
//!
//! It knows nothing of a server's inside: it starts processes and speaks RESP (to memcached its
//! text protocol) over sockets.

mod load;
mod matrix;
mod report;
mod server;
mod sys;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures Petrel and other servers of its kind under the same load.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Matrix(Box<matrix::MatrixArgs>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = server::sweep_on_stop().map_err(|error| error.to_string()).and_then(|()| match &cli
        .command
    {
        Task::Matrix(args) => matrix::run(args),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("petrel-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
