//! Page of one result file: its tables and plots, the run, and its checks.

use super::markdown::{Document, Table};
use super::plot::{data_name, plot_name};
use super::summary;
use super::table::Reader;
use crate::experiment::Plot;
use crate::result::Results;

/// Warning on pages of quick runs.
pub const QUICK: &str = "**A quick run: few rounds, less data, on a machine that other programs may have used \
                         meanwhile. It shows the order of magnitude only.**";

/// The page in Markdown.
pub fn page(results: &Results) -> String {
    let reader = Reader::new(results);
    let description = reader.description;
    let mut document = Document::new(description.title);
    document.paragraph(&description.about);
    document.paragraph(&format!(
        "Medians of the rounds ({}), ± half the range of the rounds. Bold: {} is not the best of the \
         servers. A dash: not measured, see the checks.",
        results.rounds, results.base
    ));
    if results.quick {
        document.paragraph(QUICK);
    }
    let sentences = summary::sentences(&reader);
    if !sentences.is_empty() {
        document.heading(2, "Summary");
        document.items(sentences);
    }
    for (number, view) in description.views.iter().enumerate() {
        let sections = reader.sections(view);
        if !sections.is_empty() && !view.title.is_empty() {
            document.heading(2, view.title);
        }
        for (place, section) in sections.iter().enumerate() {
            if !section.heading.is_empty() {
                document.heading(3, &section.heading);
            }
            document.table(&reader.table(view, section, true));
            let alt = format!("{} {}", view.title, section.heading);
            match view.plot {
                None => {}
                Some(Plot::Surface { .. }) => {
                    let file = data_name(results, number, place);
                    document.paragraph(&format!("[Points for gnuplot's `splot`]({file})"));
                }
                Some(_) => document.image(alt.trim(), &plot_name(results, number, place)),
            }
        }
    }
    configuration(results, &mut document);
    checks(&reader, &mut document);
    document.text().to_owned()
}

fn configuration(results: &Results, document: &mut Document) {
    document.heading(2, "What was run");
    document.items([
        format!("`{}`, {}, commit {}", results.command_line, results.started, results.commit),
        results.machine.describe(),
        match results.absent.as_slice() {
            [] => "No ready-made server was absent.".to_owned(),
            absent => format!("Not on this machine, so not measured: {}.", absent.join(", ")),
        },
    ]);
    document.table(&servers(results));
    document.paragraph(&options(results));
}

/// Servers, their versions and commands.
pub fn servers(results: &Results) -> Table {
    let mut table = Table::new(["server", "version", "command"]);
    for server in &results.servers {
        table.row([&server.name, &server.version, &server.command].map(String::as_str));
    }
    table
}

/// The options of the run, defaults included.
pub fn options(results: &Results) -> String {
    let settings = results.settings.as_object().into_iter().flatten();
    let settings = settings.map(|(name, value)| {
        let text = value.to_string().replace([' ', '"'], "").replace(',', ", ");
        format!("{} {}", name.replace('_', "-"), text.trim_matches(['[', ']']))
    });
    format!("Options: {}.", settings.collect::<Vec<_>>().join("; "))
}

/// Checks, with the doubtful measurements.
fn checks(reader: &Reader<'_>, document: &mut Document) {
    document.heading(2, "Checks");
    document.paragraph(&checked(reader.results));
    let (_, doubtful, failed) = counts(reader.results);
    if doubtful + failed > 0 {
        document.table(&problems(reader));
    }
}

/// Checks, and the number of violations.
pub fn checked(results: &Results) -> String {
    let (total, doubtful, failed) = counts(results);
    format!(
        "{total} measurements: {doubtful} doubtful, {failed} that do not count. Every reply is \
         checked for errors, and where values are known for its length; loads of the generator \
         also by Little's law (throughput x mean latency = requests in flight, within 5 %) and for \
         fairness (slowest connection at least half as fast as the fastest)."
    )
}

/// Every doubtful or failed measurement.
pub fn problems(reader: &Reader<'_>) -> Table {
    let mut table = Table::new(["point", "server", "round", "problem"]);
    for row in &reader.results.rows {
        let point = reader.description.point_label(&row.point);
        for round in &row.rounds {
            for problem in round.failure.iter().chain(&round.doubts) {
                let number = (round.round + 1).to_string();
                table.row([point.as_str(), &row.server, &number, problem]);
            }
        }
    }
    table
}

/// Number of all measurements, of doubtful ones, and of failed ones.
pub fn counts(results: &Results) -> (usize, usize, usize) {
    let rounds = || results.rows.iter().flat_map(|row| &row.rounds);
    let failed = rounds().filter(|round| !round.is_complete()).count();
    let doubtful = rounds().filter(|round| round.is_complete() && !round.doubts.is_empty()).count();
    (rounds().count(), doubtful, failed)
}
