//! What the measurements were made on.

use std::fs;
use std::thread::available_parallelism;

use serde::Serialize;

use super::markdown::Document;

/// The machine, as the kernel describes it. What cannot be read is said to be unknown.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Distribution.
    pub system: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory in GiB.
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
            memory_gib: memory.unwrap_or(0.0) / 1024.0 / 1024.0,
        }
    }

    /// Writes the section "Machine".
    pub fn describe(&self, document: &mut Document) {
        document.heading(2, "Machine");
        document.items([
            format!("OS: {}, Linux {}", self.system, self.kernel),
            format!("CPU: {} ({} processors)", self.processor, self.processors),
            format!("RAM: {:.1} GiB", self.memory_gib),
        ]);
    }
}
