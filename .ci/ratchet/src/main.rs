//! Figures of the code's structure, beside the last accepted ones. Fails when one has risen above
//! what `.ci/ratchet.txt` accepts; a change that needs more changes that file in the same commit.
//! Also fails when a dependency's licence is not in `deny.toml`, or when a comment names a file that
//! does not exist.
//!
//! | figure | counts |
//! |---|---|
//! | code | lines that are neither blank nor comment nor test |
//! | cycle | files of the largest cycle of imports (`use` and qualified paths between files of a crate) |
//! | long | functions of more than 70 lines |
//! | unsafe | unsafe blocks, implementations and blocks of foreign functions |
//! | wide | comment lines past column 100, and lines of pages |
//! | large | files of more than 800 lines |
//! | private | comment lines with words that stand in for a term (`words.rs`) |
//! | openings | doc comments that open with neither subject nor verb |
//!
//! `cargo run --manifest-path .ci/ratchet/Cargo.toml` prints and compares; with `--accept` it writes
//! the figures as they are now into the file.

mod dependencies;
mod imports;
mod pages;
mod source;
mod words;

use source::Source;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};
use words::Words;

const FIGURES: [&str; 8] =
    ["code", "cycle", "long", "unsafe", "wide", "large", "private", "openings"];

/// The row whose first figure is the number of packages from registries.
const DEPENDENCIES: &str = "~ dependencies";

/// The row whose figure `wide` is of Markdown.
const PAGES: &str = "~ pages";

type Table = BTreeMap<String, [usize; FIGURES.len()]>;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let accepted_path = root.join(".ci/ratchet.txt");
    let mut measured = measure(&root);
    let now = &mut measured.table;
    let dependencies = dependencies::read(&root);
    now.insert(DEPENDENCIES.into(), [dependencies.count, 0, 0, 0, 0, 0, 0, 0]);
    if env::args().any(|arg| arg == "--accept") {
        fs::write(&accepted_path, print(now)).expect("the file of accepted figures is written");
        return ExitCode::SUCCESS;
    }
    let accepted = parse(&fs::read_to_string(&accepted_path).unwrap_or_default());
    let mut risen = 0;
    println!("{:<12} {}", "", FIGURES.map(|figure| format!("{figure:>16}")).join(""));
    for (name, figures) in &*now {
        let before = accepted.get(name).copied().unwrap_or_default();
        let cells = figures.iter().zip(before).map(|(&figure, before)| {
            let mark = if figure > before { "!" } else { "" };
            format!("{:>16}", format!("{mark}{figure} ({before})"))
        });
        risen += figures.iter().zip(before).filter(|(figure, before)| *figure > before).count();
        println!("{name:<12} {}", cells.collect::<String>());
    }
    for package in &dependencies.refused {
        println!("\nThe licence of {package} is not in deny.toml.");
    }
    if risen > 0 {
        println!("\n{risen} figures have risen above .ci/ratchet.txt (in parentheses).");
    }
    print_shares(&measured);
    for (source, name) in &measured.missing_files {
        println!("\n{source} names {name}, which does not exist.");
    }
    if risen > 0 || !dependencies.refused.is_empty() || !measured.missing_files.is_empty() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Figures of the tree.
struct Measured {
    /// By crate, and their sum.
    table: Table,
    words: Words,
    /// Source files, each with a file that a comment of it names and that does not exist.
    missing_files: Vec<(String, String)>,
}

fn measure(root: &Path) -> Measured {
    let mut table = Table::new();
    let mut words = Words::default();
    let mut missing_files = Vec::new();
    let mut known_files = Vec::new();
    for directory in ["crates", "fuzz", "python", "bench", ".ci"] {
        files(&root.join(directory), &mut known_files);
    }
    let crates = root.join("crates");
    for entry in fs::read_dir(&crates).expect("crates/").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut sources = Vec::new();
        for directory in ["src", "build"] {
            files(&entry.path().join(directory), &mut sources);
        }
        let sources: Vec<Source> = sources.iter().map(|path| Source::read(path)).collect();
        let product = || sources.iter().filter(|source| !source.is_test);
        let sum = |count: fn(&Source) -> usize| product().map(count).sum();
        let base = entry.path().join("src");
        for source in &sources {
            let missing = source
                .files_named
                .iter()
                .filter(|name| !known_files.iter().any(|file| file.ends_with(name.as_str())));
            let path = source.path.strip_prefix(root).unwrap_or(&source.path).display();
            missing_files.extend(missing.map(|name| (path.to_string(), name.clone())));
        }
        product().for_each(|source| words += source.words);
        table.insert(
            name,
            [
                sum(|source| source.code_lines),
                imports::largest_cycle(&base, &product().collect::<Vec<_>>()),
                sum(|source| source.long_functions),
                sum(|source| source.unsafe_sites),
                sources.iter().map(|source| source.wide_comments).sum(),
                sources.iter().filter(|source| source.lines > 800).count(),
                sum(|source| source.words.private),
                sum(|source| source.words.openings),
            ],
        );
    }
    let mut all = [0; FIGURES.len()];
    for figures in table.values() {
        for (i, (sum, figure)) in all.iter_mut().zip(figures).enumerate() {
            *sum = if FIGURES[i] == "cycle" { (*sum).max(*figure) } else { *sum + figure };
        }
    }
    table.insert("~ all".into(), all);
    table.insert(PAGES.into(), [0, 0, 0, 0, pages::wide_lines(root), 0, 0, 0]);
    Measured { table, words, missing_files }
}

/// Prints the shares of comment lines and doc comments behind the figures of words.
fn print_shares(measured: &Measured) {
    let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let Words { comments, private, docs, openings } = measured.words;
    println!(
        "\nPrivate words in {:.1} % of {comments} comment lines; {:.1} % of {docs} doc comments open \
         with neither subject nor verb.",
        share(private, comments),
        share(openings, docs)
    );
}

fn files(directory: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn print(table: &Table) -> String {
    let mut text = format!("# crate {}\n", FIGURES.join(" "));
    for (name, figures) in table {
        let figures = figures.map(|figure| figure.to_string()).join(" ");
        writeln!(text, "{}: {figures}", name).expect("to a string");
    }
    text
}

fn parse(text: &str) -> Table {
    let line = |line: &str| {
        let (name, figures) = line.split_once(": ")?;
        let mut row = [0; FIGURES.len()];
        for (cell, figure) in row.iter_mut().zip(figures.split(' ')) {
            *cell = figure.parse().ok()?;
        }
        Some((name.to_owned(), row))
    };
    text.lines().filter_map(line).collect()
}
