//! Machine and program of the measurements.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use serde::{Deserialize, Serialize};

/// The machine, as the kernel describes it. What cannot be read is said to be unknown.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// Distribution.
    pub system: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory in GiB, to a tenth.
    pub memory_gib: f64,
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let field = |text: &str, key: &str, mark: char| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(mark)?.1.trim().trim_matches('"').to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal", ':')
            .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
        Machine {
            system: field(&read("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_else(unknown),
            kernel: if kernel.is_empty() { unknown() } else { kernel },
            processor: field(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_else(unknown),
            processors: available_parallelism().map_or(1, usize::from),
            memory_gib: (memory.unwrap_or(0.0) / 1024.0 / 102.4).round() / 10.0,
        }
    }

    /// In one line.
    pub fn describe(&self) -> String {
        format!(
            "{}, Linux {}, {} ({} processors), {} GiB",
            self.system, self.kernel, self.processor, self.processors, self.memory_gib
        )
    }
}

/// The commit of the working tree in which a program lies, `unknown` outside of one. It ends with
/// `-modified` if the sources differ from it. The first result counts for as long as this program
/// runs: the measured program was built before.
pub fn commit(program: &Path) -> String {
    static FOUND: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let program = program.canonicalize().unwrap_or_default();
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.entry(program).or_insert_with_key(|program| commit_now(program)).clone()
}

fn commit_now(program: &Path) -> String {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(words).current_dir(program.parent()?);
        let output = command.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let sources = ["status", "--porcelain", "-uno", "--", ":/crates", ":/Cargo.lock"];
    match git(&["rev-parse", "--short=7", "HEAD"]) {
        Some(commit) if git(&sources).is_none_or(|changed| changed.is_empty()) => commit,
        Some(commit) => format!("{commit}-modified"),
        None => "unknown".to_owned(),
    }
}

/// The command line of one experiment of several that one call runs.
static COMMAND_LINE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets the command line of an experiment.
pub fn set_command_line(words: &[String]) {
    *COMMAND_LINE.lock().unwrap_or_else(PoisonError::into_inner) = words.to_vec();
}

/// Command line of this program, without directories: they are of no use on another machine.
pub fn command_line() -> String {
    let set = COMMAND_LINE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let words = if set.is_empty() { env::args().collect() } else { set };
    let words = words.into_iter().enumerate().filter(|(_, word)| word != "--resume");
    let words = words.map(|(number, word)| match number {
        0 => "petrel-bench".to_owned(),
        _ => without_directory(&word),
    });
    shlex::try_join(words.collect::<Vec<_>>().iter().map(String::as_str)).unwrap_or_default()
}

/// `NAME=/a/path` as `NAME=path`, `/a/path` as `path`; in a command line only the program.
fn without_directory(word: &str) -> String {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) if value.starts_with('/') => (format!("{name}="), value),
        _ if word.starts_with('/') => (String::new(), word),
        _ => return word.to_owned(),
    };
    let (program, rest) = match value.split_once(' ') {
        Some((program, rest)) => (program, format!(" {rest}")),
        None => (value, String::new()),
    };
    let program = program.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    format!("{name}{program}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_name_no_directory() {
        assert_eq!(without_directory("redis=/opt/a/redis-server"), "redis=redis-server");
        assert_eq!(without_directory("x=/opt/a/x -s {sock}"), "x=x -s {sock}");
        assert_eq!(without_directory("/tmp/out/"), "out");
        assert_eq!(without_directory("--rounds"), "--rounds");
    }
}
