//! Pages: lines of Markdown past column 100, without tables, code, links and the pages that
//! `petrel-bench` writes.

use std::fs;
use std::path::Path;

/// Columns of a line at most.
const COLUMNS: usize = 100;

/// Folders that are not read: products, and pages that are made of results.
const LEFT_OUT: [&str; 4] = ["target", "node_modules", "benchmarks", ".git"];

/// Counts the wide lines of the pages below a folder.
pub fn wide_lines(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let paths = entries.flatten().map(|entry| (entry.file_name(), entry.path()));
    let of = |(name, path): (std::ffi::OsString, std::path::PathBuf)| {
        let name = name.to_string_lossy();
        if path.is_dir() {
            return if LEFT_OUT.contains(&&*name) { 0 } else { wide_lines(&path) };
        }
        let is_page = name.ends_with(".md") && name != "BENCHMARKS.md";
        if is_page { fs::read_to_string(&path).map_or(0, |text| wide(&text)) } else { 0 }
    };
    paths.map(of).sum()
}

fn wide(text: &str) -> usize {
    let (mut count, mut is_code) = (0, false);
    for line in text.lines() {
        let start = line.trim_start();
        if start.starts_with("```") {
            is_code = !is_code;
        }
        let is_link = start.starts_with('[') && start.contains("]: ");
        let is_prose = !is_code && !start.starts_with('|') && !is_link;
        count += usize::from(is_prose && line.chars().count() > COLUMNS);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::wide;

    #[test]
    fn prose_is_counted() {
        let long = "x".repeat(101);
        assert_eq!(wide(&long), 1);
        assert_eq!(wide(&format!("| {long} |\n```\n{long}\n```\n[a]: {long}\n")), 0);
        assert_eq!(wide(&format!("```\n```\n* {long}")), 1);
        assert_eq!(wide(&"é".repeat(100)), 0);
    }
}
