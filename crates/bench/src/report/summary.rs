//! Summary of all result files of a directory on one page.

use super::markdown::{Document, Table};
use super::page::{QUICK, counts};
use super::plot::plot_name;
use super::table::{Reader, title};
use crate::experiment::{Better, Figure};
use crate::result::Results;

/// Largest size of a summary, bytes: it is read from its beginning to its end.
const BYTES_MAX: usize = 15 * 1024;

/// Plots of the summary for one experiment at most; its page has all.
const PLOTS_MAX: usize = 1;

/// The summary in Markdown. `directory` is where the pages are, seen from it.
pub fn summary(files: &[Results], directory: &str) -> Result<String, String> {
    let first = same_machine(files)?;
    let mut document = Document::new("Benchmarks");
    introduction(files, first, &mut document);
    document.heading(2, "Won and lost");
    let begin = document.clone();
    document.table(&score(files, Some(directory)));
    for results in files {
        experiment(results, directory, &mut document);
    }
    if document.text().len() > BYTES_MAX {
        document = shorter(begin, files, directory);
    }
    let text = document.text().to_owned();
    match text.len() {
        ..=BYTES_MAX => Ok(text),
        bytes => Err(format!("the summary has {bytes} bytes, {BYTES_MAX} are allowed")),
    }
}

/// Summary of many experiments: a line for each, and the tables of the first ones that fit.
fn shorter(mut document: Document, files: &[Results], directory: &str) -> Document {
    document.paragraph("Of each experiment all judged figures together; its page has them all.");
    document.table(&score_of_experiments(files, directory));
    for results in files {
        let before = document.clone();
        experiment(results, directory, &mut document);
        if document.text().len() > BYTES_MAX {
            document = before;
        }
    }
    document
}

/// The first file. All must be of one machine, commit and base server.
pub fn same_machine(files: &[Results]) -> Result<&Results, String> {
    let Some(first) = files.first() else { return Err("no result files".to_owned()) };
    for results in files {
        let differs = if results.machine != first.machine {
            Some("machine")
        } else if results.commit != first.commit {
            Some("commit")
        } else if results.base != first.base {
            Some("base server")
        } else {
            None
        };
        if let Some(what) = differs {
            let (one, other) = (first.name(), results.name());
            return Err(format!(
                "{one} and {other} are not of one {what}: measure one of them again"
            ));
        }
    }
    Ok(first)
}

fn introduction(files: &[Results], first: &Results, document: &mut Document) {
    document.paragraph(&format!(
        "Made by `petrel-bench report --summary` from the result files beside the pages linked \
         here; every figure was measured with the command given. Commit {}, {}.",
        first.commit,
        first.machine.describe()
    ));
    document.paragraph(&format!(
        "Medians of the rounds, the servers measured in turn. Bold: {} is not the best of the \
         servers.",
        first.base
    ));
    if files.iter().any(|results| results.quick) {
        document.paragraph(QUICK);
    }
    document.items(versions(files).into_iter().map(|[name, version]| format!("{name}: {version}")));
}

/// Every server of the files with its version, then absent ones.
pub fn versions(files: &[Results]) -> Vec<[String; 2]> {
    let mut versions: Vec<[String; 2]> = Vec::new();
    for server in files.iter().flat_map(|results| &results.servers) {
        let line = [server.name.clone(), server.version.clone()];
        if !versions.contains(&line) && !server.name.contains(" (") {
            versions.push(line);
        }
    }
    let absent = files.iter().flat_map(|results| &results.absent);
    for name in absent {
        let line = [name.clone(), "not on this machine".to_owned()];
        if !versions.iter().any(|[known, _]| known == name) {
            versions.push(line);
        }
    }
    versions
}

/// Number of points of a figure at which the base server is not the best, and the worst of them.
#[derive(Default)]
struct Score {
    points: usize,
    lost: usize,
    /// Factor behind the best, and the place.
    worst: Option<(f64, String)>,
}

impl Score {
    fn of(reader: &Reader<'_>, figure: &Figure) -> Score {
        let (results, axes) = (reader.results, &reader.description.axes);
        let mut score = Score::default();
        for row in results.rows.iter().filter(|row| row.server == results.base) {
            let own = row.figure(figure.name, figure.over_rounds);
            let value = |axis: &'static str| row.point.get(axis).map(|value| (axis, value.clone()));
            let place = axes.iter().filter_map(|axis| value(axis.name)).collect();
            let best = reader.best_peer(figure, &place);
            let Some((own, best)) = own.zip(best).filter(|(_, best)| *best > 0.0) else {
                continue;
            };
            score.points += 1;
            if reader.loses(figure, &place) {
                score.lost += 1;
                let ratio = own / best;
                let behind = if figure.better == Better::Less { ratio } else { 1.0 / ratio };
                if behind > score.worst.as_ref().map_or(1.0, |(worst, _)| *worst) {
                    let text = format!("{ratio:.2}x at {}", reader.label(&place));
                    score.worst = Some((behind, text));
                }
            }
        }
        score
    }

    fn cells(self) -> [String; 3] {
        let lost = if self.lost > 0 { format!("**{}**", self.lost) } else { "0".to_owned() };
        [self.points.to_string(), lost, self.worst.map_or_else(String::new, |(_, text)| text)]
    }
}

/// The scores of the judged figures of a file, with their headings.
fn scores(results: &Results) -> Vec<(String, Score)> {
    let reader = Reader::new(results);
    let judged =
        reader.description.figures.iter().filter(|figure| figure.better != Better::Neither);
    let scores = judged.map(|figure| (title(figure), Score::of(&reader, figure)));
    scores.filter(|(_, score)| score.points > 0).collect()
}

/// A line for each figure. The names link to the pages in a directory, if one is given.
pub fn score(files: &[Results], directory: Option<&str>) -> Table {
    let mut table =
        Table::new(["experiment", "figure", "points", "lost", "furthest behind the best peer"]);
    for results in files {
        let name = results.name();
        let link = match directory {
            Some(directory) => link(&name, directory),
            None => name,
        };
        for (figure, score) in scores(results) {
            let [points, lost, worst] = score.cells();
            table.row([link.clone(), figure, points, lost, worst]);
        }
    }
    table
}

/// A line for each experiment, with a link to its page.
fn score_of_experiments(files: &[Results], directory: &str) -> Table {
    let mut table = Table::new(["experiment", "points", "lost", "furthest behind the best peer"]);
    for results in files {
        let mut all = Score::default();
        for (figure, score) in scores(results) {
            all.points += score.points;
            all.lost += score.lost;
            let worst = score.worst.map(|(behind, text)| (behind, format!("{figure} {text}")));
            all.worst = all.worst.into_iter().chain(worst).max_by(|a, b| a.0.total_cmp(&b.0));
        }
        let [points, lost, worst] = all.cells();
        table.row([link(&results.name(), directory), points, lost, worst]);
    }
    table
}

fn link(name: &str, directory: &str) -> String {
    format!("[{name}]({directory}/{name}.md)")
}

/// Sentences for each judged figure of the views in the summary and each other server: the range of
/// ratios, and the number of points at which the base server is better.
pub fn sentences(reader: &Reader<'_>) -> Vec<String> {
    let results = reader.results;
    let shown = reader.description.views.iter().filter(|view| view.is_in_summary);
    let mut names: Vec<&str> = shown.flat_map(|view| &view.figures).copied().collect();
    names.dedup();
    let figures = names.iter().filter_map(|name| reader.description.figure(name));
    let mut lines = Vec::new();
    for figure in figures.filter(|figure| figure.better != Better::Neither) {
        for server in results.servers.iter().filter(|server| reader.is_rival(&server.name)) {
            let mut ratios: Vec<f64> = Vec::new();
            for row in results.rows.iter().filter(|row| row.server == results.base) {
                let own = row.figure(figure.name, figure.over_rounds);
                let other = results.row(&server.name, &row.point);
                let other = other.and_then(|row| row.figure(figure.name, figure.over_rounds));
                ratios.extend(own.zip(other).filter(|(_, other)| *other > 0.0).map(|(a, b)| a / b));
            }
            ratios.sort_by(f64::total_cmp);
            let (Some(low), Some(high)) = (ratios.first(), ratios.last()) else { continue };
            let better = ratios.iter().filter(|ratio| match figure.better {
                Better::Less => **ratio < 1.0,
                _ => **ratio > 1.0,
            });
            let (better, all) = (better.count(), ratios.len());
            let range = match all {
                1 => format!("{low:.2}x"),
                _ => format!("{low:.2}x to {high:.2}x"),
            };
            let (base, title) = (&results.base, figure.title);
            lines.push(format!(
                "{title}: {base} has {range} of {}'s, better at {better} of {all} points.",
                server.name
            ));
        }
    }
    lines
}

fn experiment(results: &Results, directory: &str, document: &mut Document) {
    let reader = Reader::new(results);
    let description = reader.description;
    let name = results.name();
    let label =
        if results.label.is_empty() { String::new() } else { format!(" ({})", results.label) };
    document.heading(2, &format!("{}{label}", description.title));
    let (total, doubtful, failed) = counts(results);
    document.paragraph(&format!(
        "`{}`. Rounds: {}; of {total} measurements {doubtful} doubtful, {failed} failed. \
         [All tables]({directory}/{name}.md)",
        results.command_line, results.rounds
    ));
    let mut plots = 0;
    for (number, view) in description.views.iter().enumerate().filter(|(_, v)| v.is_in_summary) {
        for (place, section) in reader.sections(view).iter().enumerate() {
            let heading = [view.title, section.heading.as_str()];
            let heading: Vec<&str> = heading.into_iter().filter(|part| !part.is_empty()).collect();
            document.heading(3, &heading.join(": "));
            document.table(&reader.table(view, section, false));
            if view.plot.is_some() && plots < PLOTS_MAX {
                plots += 1;
                let file = plot_name(results, number, place);
                document.image(view.title, &format!("{directory}/{file}"));
            }
        }
    }
}
