//! Every dependency, direct or not, is under a licence that Petrel may be shipped with.

use serde_json::Value;
use std::process::Command;

const PERMITTED: [&str; 10] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    // For data: the root certificates that clients of TLS bring along where the system has none.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unicode-3.0",
    "Zlib",
];

/// Whether one of the alternatives of an SPDX expression is permitted as a whole. `A OR B`, the
/// older `A/B`, `A AND B` and parentheses around alternatives are what occurs.
fn is_permitted(expression: &str) -> bool {
    let alternatives = expression.replace('/', " OR ").replace(['(', ')'], "");
    alternatives.split(" OR ").any(|alternative| {
        alternative.split(" AND ").all(|licence| PERMITTED.contains(&licence.trim()))
    })
}

#[test]
fn dependencies_are_permissive() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features"])
        // What another system would need is never built.
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs, since it runs this test");
    let metadata: Value =
        serde_json::from_slice(&metadata.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    assert!(packages.len() > 20, "only {} packages", packages.len());
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(is_permitted))
        .map(|package| {
            format!("{} {}: {}", package["name"], package["version"], package["license"])
        })
        .collect();
    assert!(refused.is_empty(), "licences to be looked at:\n{}", refused.join("\n"));
}

#[test]
fn expressions_are_read_by_their_alternatives() {
    assert!(is_permitted("MIT OR GPL-3.0"));
    assert!(is_permitted("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(is_permitted("Unlicense/MIT"));
    assert!(!is_permitted("GPL-3.0"));
    assert!(!is_permitted("MIT AND GPL-3.0"));
    assert!(!is_permitted(""));
}
