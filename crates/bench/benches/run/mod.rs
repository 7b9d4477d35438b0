//! Runs an experiment of `petrel-bench` and shows its page.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs};

/// Options behind `--` are those of the experiment.
pub fn experiment(name: &str) -> ExitCode {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
    // What cargo adds for harnesses.
    let options = env::args().skip(1).filter(|option| option != "--bench");
    let mut command = Command::new(env!("CARGO_BIN_EXE_petrel-bench"));
    command.arg(name).arg("--out").arg(&out).args(options);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return ExitCode::from(status.code().unwrap_or(1) as u8),
        Err(error) => {
            eprintln!("petrel-bench: {error}");
            return ExitCode::FAILURE;
        }
    }
    match fs::read_to_string(out.join(format!("{name}.md"))) {
        Ok(page) => println!("{page}"),
        // It was asked only for help.
        Err(_) => return ExitCode::SUCCESS,
    }
    ExitCode::SUCCESS
}
