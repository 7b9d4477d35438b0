//! `petrel check FILE ...`: whether files are whole, and what they hold.

use petrel_persistence::rdb::{FileError, Leniency};
use petrel_persistence::{Census, check};
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Checks each file and prints what was found; fails if one is not whole.
pub fn check_all(paths: &[PathBuf]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in paths {
        let shown = path.display();
        match check_file(path) {
            Ok(census) => println!("{shown}: {}", describe(&census)),
            Err(error) => {
                eprintln!("{shown}: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn check_file(path: &Path) -> Result<Census, FileError> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    check(file, len, Leniency::default())
}

/// One line that says what a file holds.
fn describe(census: &Census) -> String {
    let mut text = format!("whole; RDB version {}, {} keys", census.version, census.keys());
    for (name, count) in &census.by_type {
        let _ = write!(text, ", {count} {name}");
    }
    if census.volatile > 0 {
        let _ = write!(text, "; {} expire", census.volatile);
    }
    if census.by_database.len() > 1 {
        let _ = write!(text, "; in {} databases", census.by_database.len());
    }
    if census.functions > 0 {
        let _ = write!(text, "; {} libraries of functions", census.functions);
    }
    if census.modules > 0 {
        let _ = write!(text, "; data of {} modules, which is skipped", census.modules);
    }
    if let Some((_, version)) = census.aux.iter().find(|(name, _)| name == b"redis-ver") {
        let _ = write!(text, "; made by version {}", String::from_utf8_lossy(version));
    }
    text
}
