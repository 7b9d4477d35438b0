//! Packages that the workspace builds on: how many, and whether their licences are in `deny.toml`.

use serde_json::Value;
use spdx::{Expression, ParseMode};
use std::path::Path;
use std::process::Command;

/// The number of packages from registries, and those whose licence is not allowed.
pub struct Dependencies {
    pub count: usize,
    pub refused: Vec<String>,
}

/// The platform whose packages count: others are never built. `deny.toml` names it too.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Asks cargo, without a network: `Cargo.lock` says the versions.
pub fn read(root: &Path) -> Dependencies {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", PLATFORM])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo's JSON");
    let allowed = allowed(root);
    let packages = metadata["packages"].as_array().expect("packages");
    let foreign: Vec<&Value> = packages.iter().filter(|p| !p["source"].is_null()).collect();
    let refused = foreign.iter().filter(|package| !is_allowed(package, &allowed));
    let refused = refused.map(|p| format!("{} {}: {}", p["name"], p["version"], p["license"]));
    Dependencies { count: foreign.len(), refused: refused.collect() }
}

/// The list `allow` of `deny.toml`, which `cargo deny` reads too.
fn allowed(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("deny.toml")).expect("deny.toml");
    let list = text.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']'));
    let quoted = list.expect("a list of licences").0.split('"').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

fn is_allowed(package: &Value, allowed: &[String]) -> bool {
    let licence = package["license"].as_str().unwrap_or_default();
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else { return false };
    expression.evaluate(|required| allowed.contains(&required.to_string()))
}
