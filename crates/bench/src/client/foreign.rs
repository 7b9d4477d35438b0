//! Programs that drive libraries of others. Their sources are a part of this one; they are built
//! with dependencies of their own if the tool for that is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::{cache, sys};

/// A program to be built.
#[derive(Debug)]
pub struct Foreign {
    /// Language, for messages.
    pub language: &'static str,
    /// Tool that builds it, by its name on `PATH`.
    pub tool: &'static str,
    arguments: &'static [&'static str],
    /// Directory in which the tool runs, in the repository and in the copy that is built.
    directory: &'static str,
    /// Built program, relative to that directory.
    program: &'static str,
    /// Whether the tool runs it, too.
    is_interpreted: bool,
    /// Files by their paths in the repository.
    sources: &'static [(&'static str, &'static str)],
    built: OnceLock<Result<PathBuf, String>>,
}

macro_rules! sources {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../", $path)))),+]
    };
}

/// Clients of Go.
pub static GO: Foreign = Foreign {
    language: "Go",
    tool: "go",
    arguments: &["build", "-o", "drive", "."],
    directory: "bench/go",
    program: "drive",
    is_interpreted: false,
    sources: sources!["bench/go/go.mod", "bench/go/go.sum", "bench/go/main.go"],
    built: OnceLock::new(),
};

/// Clients of Rust that are not ours.
pub static RUST: Foreign = Foreign {
    language: "Rust",
    tool: "cargo",
    arguments: &["build", "--release", "--locked", "--quiet", "--target-dir", "target"],
    directory: "bench/rust",
    program: "target/release/petrel-bench-rust",
    is_interpreted: false,
    sources: sources![
        "bench/rust/Cargo.toml",
        "bench/rust/Cargo.lock",
        "bench/rust/src/main.rs",
        "crates/bench/src/allocations.rs",
        "crates/bench/src/client/measure.rs",
        "crates/bench/src/random.rs",
    ],
    built: OnceLock::new(),
};

/// Clients of Python, where the packages of both are installed.
pub static PYTHON: Foreign = Foreign {
    language: "Python",
    tool: "python3",
    arguments: &["-c", "import petrel.asyncio, redis.asyncio"],
    directory: "bench/python",
    program: "drive.py",
    is_interpreted: true,
    sources: sources!["bench/python/drive.py"],
    built: OnceLock::new(),
};

impl Foreign {
    /// Path of the tool, if it is installed.
    pub fn builder(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|directory| directory.join(self.tool))
            .find(|at| at.is_file())
    }

    /// Whether it can be built. An interpreted program needs its packages.
    pub fn is_available(&self) -> bool {
        self.builder().is_some() && (!self.is_interpreted || self.path().is_ok())
    }

    /// Builds the program once and returns its path.
    fn path(&self) -> Result<PathBuf, String> {
        self.built.get_or_init(|| self.build(&cache::directory())).clone()
    }

    /// Command that runs it.
    pub fn command(&self) -> Result<Command, String> {
        let path = self.path()?;
        if !self.is_interpreted {
            return Ok(Command::new(path));
        }
        let mut command = Command::new(self.tool);
        command.arg(path);
        Ok(command)
    }

    /// Builds below `root`, where a later run finds unchanged files.
    fn build(&self, root: &Path) -> Result<PathBuf, String> {
        let failed = |error: std::io::Error| format!("the clients of {}: {error}", self.language);
        let tool = self.builder().ok_or_else(|| format!("no `{}` on PATH", self.tool))?;
        for (name, text) in self.sources {
            cache::write_if_new(&root.join(name), text).map_err(failed)?;
        }
        let directory = root.join(self.directory);
        let mut command = Command::new(tool);
        command.args(self.arguments).current_dir(&directory).stdin(Stdio::null());
        let output = sys::die_with_parent(&mut command).output().map_err(failed)?;
        match output.status.success() {
            true => Ok(directory.join(self.program)),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("{} build: {}", self.tool, said.trim().replace('\n', " | ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_complete() {
        for foreign in [&GO, &RUST, &PYTHON] {
            let is_main = |name: &str| name.contains("/main.") || name.ends_with(foreign.program);
            let main = foreign.sources.iter().find(|(name, _)| is_main(name));
            let (path, text) = main.expect("a main file");
            for line in text.lines().filter_map(|line| line.strip_prefix("#[path = \"")) {
                let mut at = Path::new(path).parent().expect("a directory").to_owned();
                for part in line.trim_end_matches("\"]").split('/') {
                    match part {
                        ".." => assert!(at.pop(), "{line}"),
                        part => at.push(part),
                    }
                }
                let is_there = foreign.sources.iter().any(|(name, _)| Path::new(name) == at);
                assert!(is_there, "{} is compiled by {path} and not embedded", at.display());
            }
        }
    }
}
