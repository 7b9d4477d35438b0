//! Programs that drive libraries of others. Their sources are a part of this one; they are built
//! where the tool that builds them is installed, with dependencies of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::sys;

/// A program to be built.
#[derive(Debug)]
pub struct Foreign {
    /// Its language, for messages.
    pub language: &'static str,
    /// What builds it, by its name on `PATH`.
    pub tool: &'static str,
    arguments: &'static [&'static str],
    /// Where the tool is run, in the repository and in the copy of it that is built.
    directory: &'static str,
    /// What is built, seen from there.
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
    /// What builds it, where that is installed.
    pub fn builder(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|directory| directory.join(self.tool))
            .find(|at| at.is_file())
    }

    /// Whether it can be built. What is interpreted can be if its packages are there.
    pub fn is_available(&self) -> bool {
        self.builder().is_some() && (!self.is_interpreted || self.path().is_ok())
    }

    /// Builds the program once and returns where it lies.
    fn path(&self) -> Result<PathBuf, String> {
        self.built.get_or_init(|| self.build(&cache().join("petrel-bench"))).clone()
    }

    /// What runs it.
    pub fn command(&self) -> Result<Command, String> {
        let path = self.path()?;
        if !self.is_interpreted {
            return Ok(Command::new(path));
        }
        let mut command = Command::new(self.tool);
        command.arg(path);
        Ok(command)
    }

    /// Builds below `root`, where a later run finds what has not changed.
    fn build(&self, root: &Path) -> Result<PathBuf, String> {
        let failed = |error: std::io::Error| format!("the clients of {}: {error}", self.language);
        let tool = self.builder().ok_or_else(|| format!("no `{}` on PATH", self.tool))?;
        for (name, text) in self.sources {
            write_if_new(&root.join(name), text).map_err(failed)?;
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

/// The directory of this user's caches.
fn cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    cache.or_else(home).unwrap_or_else(std::env::temp_dir)
}

/// Writes a file, unless it is as it should be: tools build anew what was written since.
fn write_if_new(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|is| is == text.as_bytes()) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text)
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

    #[test]
    fn a_file_that_is_the_same_is_not_written_again() {
        let root = std::env::temp_dir().join(format!("petrel-foreign-{}", std::process::id()));
        let path = root.join("a/b");
        write_if_new(&path, "one").unwrap();
        let old = fs::File::open(&path).unwrap();
        old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        write_if_new(&path, "one").unwrap();
        let modified = || fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(modified(), std::time::SystemTime::UNIX_EPOCH);
        write_if_new(&path, "two").unwrap();
        assert!(modified() > std::time::SystemTime::UNIX_EPOCH);
        fs::remove_dir_all(&root).unwrap();
    }
}
