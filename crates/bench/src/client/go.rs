//! The program that drives clients of Go: its source is a part of this one, and it is built where
//! `go` is installed.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::sys;

/// The files of its module.
const SOURCES: [(&str, &str); 3] = [
    ("go.mod", include_str!("../../../../bench/go/go.mod")),
    ("go.sum", include_str!("../../../../bench/go/go.sum")),
    ("main.go", include_str!("../../../../bench/go/main.go")),
];

/// The `go` of this machine.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join("go")).find(|at| at.is_file())
}

/// Builds the program once and returns where it lies.
pub fn driver() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

/// Builds into the user's cache, so that a later run finds what has not changed.
fn build() -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("the clients of Go: {error}");
    let go = program().ok_or("no `go` on PATH")?;
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let directory = cache.or_else(home).unwrap_or_else(std::env::temp_dir);
    let directory = directory.join("petrel-bench/go");
    fs::create_dir_all(&directory).map_err(failed)?;
    for (name, text) in SOURCES {
        fs::write(directory.join(name), text).map_err(failed)?;
    }
    let mut command = Command::new(go);
    command.args(["build", "-o", "drive", "."]).current_dir(&directory).stdin(Stdio::null());
    let output = sys::die_with_parent(&mut command).output().map_err(failed)?;
    match output.status.success() {
        true => Ok(directory.join("drive")),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("go build: {}", said.trim().replace('\n', " | ")))
        }
    }
}
