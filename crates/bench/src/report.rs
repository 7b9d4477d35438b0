//! Pages made of result files: Markdown with tables, and plots as SVG.

mod html;
mod machine;
mod markdown;
mod page;
mod plot;
mod published;
mod summary;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

pub use machine::{Machine, command_line, commit, set_command_line};

use crate::experiment::all;
use crate::result::Results;

/// Make pages of result files: tables in Markdown, plots in SVG
///
/// Every EXPERIMENT.json of the directory becomes EXPERIMENT.md beside it, with its plots.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// Directory with result files
    directory: PathBuf,

    /// Also write a summary of all of them to this file. They must be of one machine and commit
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,

    /// Also write all of them as one HTML page that needs no other file. They must be of one
    /// machine and commit
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// Writes the pages of all result files of a directory, and the summary.
pub fn run(args: &ReportArgs) -> Result<(), String> {
    let files = files(&args.directory)?;
    for results in &files {
        write_page(results, &args.directory)?;
    }
    if let Some(path) = &args.summary {
        put(path, &summary::summary(&files, &between(path, &args.directory))?)?;
    }
    if let Some(path) = &args.page {
        put(path, &html::page(&files)?)?;
        eprintln!("{}", path.display());
    }
    Ok(())
}

/// Writes the page of all result files of a directory, `benchmarks.html`, beside them.
pub fn write_all(directory: &Path) -> Result<(), String> {
    let path = directory.join("benchmarks.html");
    put(&path, &html::page(&files(directory)?)?)?;
    eprintln!("{}", path.display());
    Ok(())
}

/// Writes the page of one result file and its plots.
pub fn write_page(results: &Results, directory: &Path) -> Result<(), String> {
    for (name, svg) in plot::plots(results) {
        put(&directory.join(name), &svg)?;
    }
    let path = directory.join(format!("{}.md", results.name()));
    put(&path, &page::page(results))?;
    eprintln!("{}", path.display());
    Ok(())
}

/// Result files of a directory, in the order of the experiments.
fn files(directory: &Path) -> Result<Vec<Results>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| failed(&error))? {
        let path = entry.map_err(|error| failed(&error))?.path();
        let is_hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
        if !is_hidden && path.extension().is_some_and(|extension| extension == "json") {
            let results = Results::read(&path)?;
            let at = all().iter().position(|known| known.name == results.experiment);
            let at = at.ok_or_else(|| {
                format!("{}: unknown experiment {}", path.display(), results.experiment)
            })?;
            files.push((at, results));
        }
    }
    if files.is_empty() {
        return Err(failed(&"no result files"));
    }
    files.sort_by_key(|(at, results)| (*at, results.label.clone()));
    Ok(files.into_iter().map(|(_, results)| results).collect())
}

/// Path from the directory of a file to another directory, for links.
fn between(file: &Path, directory: &Path) -> String {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (file, directory) = (absolute(file), absolute(directory));
    let own = file.parent().unwrap_or(Path::new("/"));
    let relative = directory.strip_prefix(own).unwrap_or(&directory);
    if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.display().to_string() }
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BENCHMARKS.md and the pages under docs/benchmarks are what their result files give.
    #[test]
    fn committed_pages_are_made_of_the_committed_result_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let directory = root.join("docs/benchmarks");
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let again = "petrel-bench report --summary BENCHMARKS.md docs/benchmarks";
        let files = files(&directory).unwrap();
        for results in &files {
            let path = directory.join(format!("{}.md", results.name()));
            assert_eq!(read(&path), page::page(results), "run {again}");
            for (name, content) in plot::plots(results) {
                let committed = read(&directory.join(&name));
                // Plots of another version of the library may differ in their details.
                match name.ends_with(".svg") {
                    true => assert!(content.contains("</svg>") && committed.contains("</svg>")),
                    false => assert_eq!(committed, content, "{name}: run {again}"),
                }
            }
        }
        let summary = summary::summary(&files, "docs/benchmarks").unwrap();
        assert_eq!(read(&root.join("BENCHMARKS.md")), summary, "run {again}");
    }

    #[test]
    fn links_go_from_the_summary_to_the_pages() {
        let way = |file, directory| between(Path::new(file), Path::new(directory));
        assert_eq!(way("BENCHMARKS.md", "docs/benchmarks"), "docs/benchmarks");
        assert_eq!(way("/a/b/all.md", "/a/b"), ".");
    }
}
