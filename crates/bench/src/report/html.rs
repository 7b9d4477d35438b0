//! All result files on one HTML page that needs nothing beside it: tables that sort, plots that
//! zoom, surfaces that turn. The page's files are in `assets`.

use serde::Serialize;

use super::markdown::Table;
use super::page::{self, QUICK};
use super::published::DOCUMENTS;
use super::table::Reader;
use super::{plot, summary};
use crate::experiment::{Description, View};
use crate::result::Results;

const PAGE: &str = include_str!("../../assets/page.html");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");
const PLOTLY: &[u8] = include_bytes!("../../assets/plotly-3.7.0.min.js.zst");

/// What the page shows.
#[derive(Debug, Serialize)]
struct Content {
    title: &'static str,
    base: String,
    introduction: Vec<String>,
    /// Said where a run was quick.
    quick: Option<&'static str>,
    versions: Table,
    documents: Vec<DocumentContent>,
    score: Table,
    experiments: Vec<ExperimentContent>,
}

#[derive(Debug, Serialize)]
struct DocumentContent {
    title: &'static str,
    about: &'static str,
    table: Table,
}

#[derive(Debug, Serialize)]
struct ExperimentContent {
    name: String,
    title: String,
    about: &'static str,
    command: String,
    facts: String,
    quick: Option<&'static str>,
    summary: Vec<String>,
    views: Vec<ViewContent>,
    servers: Table,
    options: String,
    checked: String,
    checks: Table,
}

#[derive(Debug, Serialize)]
struct ViewContent {
    title: &'static str,
    sections: Vec<SectionContent>,
}

#[derive(Debug, Serialize)]
struct SectionContent {
    heading: String,
    table: Table,
    plot: Option<plot::Chart>,
}

/// The page of some result files, which must be of one machine, commit and base server.
pub fn page(files: &[(&'static Description, Results)]) -> Result<String, String> {
    let first = summary::same_machine(files)?;
    let is_quick = files.iter().any(|(_, results)| results.quick);
    let mut versions = Table::new(["server", "version"]);
    summary::versions(files).into_iter().for_each(|line| versions.row(line));
    let document = |document: &super::published::Published| DocumentContent {
        title: document.title,
        about: document.about,
        table: document.table(files),
    };
    let content = Content {
        title: "Benchmarks",
        base: first.base.clone(),
        introduction: vec![
            format!("Commit `{}`, {}.", first.commit, first.machine.describe()),
            format!(
                "Medians of the rounds, ± half the range of the rounds; error bars show the same. Red: {} is \
                 not the best of the servers. Click on a heading to sort, drag over a plot to zoom, double \
                 click to come back, drag a surface to turn it.",
                first.base
            ),
        ],
        quick: is_quick.then_some(QUICK),
        versions,
        documents: DOCUMENTS.iter().map(document).collect(),
        score: summary::score(files, None),
        experiments: files.iter().map(|(known, results)| experiment(known, results)).collect(),
    };
    let data = serde_json::to_string(&content).map_err(|error| error.to_string())?;
    let plotly = zstd::decode_all(PLOTLY).map_err(|error| format!("plotly: {error}"))?;
    let plotly = String::from_utf8(plotly).map_err(|error| format!("plotly: {error}"))?;
    Ok(assemble(&data, &plotly))
}

/// Puts the parts in their places. No text may end the script that it stands in.
fn assemble(data: &str, plotly: &str) -> String {
    let parts = [("{css}", STYLE), ("{data}", data), ("{plotly}", plotly), ("{script}", SCRIPT)];
    let mut page = String::new();
    let mut rest = PAGE;
    for (place, text) in parts {
        let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(&text.replace("</", "<\\/"));
        rest = after;
    }
    page.push_str(rest);
    page
}

fn experiment(description: &'static Description, results: &Results) -> ExperimentContent {
    let reader = Reader::new(description, results);
    let views = description
        .views
        .iter()
        .map(|view| ViewContent { title: view.title, sections: sections(&reader, view) });
    let label = match results.label.as_str() {
        "" => String::new(),
        label => format!(" ({label})"),
    };
    let absent = match results.absent.as_slice() {
        [] => String::new(),
        absent => format!(" Not on this machine, so not measured: {}.", absent.join(", ")),
    };
    ExperimentContent {
        name: results.name(),
        title: format!("{}{label}", description.title),
        about: description.about,
        command: results.command_line.clone(),
        facts: format!("{}, {} rounds.{absent}", results.started, results.rounds),
        quick: results.quick.then_some(QUICK),
        summary: summary::sentences(&reader),
        views: views.filter(|view| !view.sections.is_empty()).collect(),
        servers: page::servers(results),
        options: page::options(results),
        checked: page::checked(results),
        checks: page::problems(&reader),
    }
}

fn sections(reader: &Reader<'_>, view: &View) -> Vec<SectionContent> {
    let content = |section: &super::table::Section| SectionContent {
        heading: section.heading.clone(),
        table: reader.table(view, section, true),
        plot: view.plot.map(|plot| plot::chart(reader, view, plot, section)),
    };
    reader.sections(view).iter().map(content).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_beside_it_and_no_text_ends_a_script() {
        let page = assemble(r#"{"title":"</script><b>"}"#, "var Plotly = '</p>';");
        assert_eq!(page.matches("</script>").count(), 3);
        assert!(page.contains(r#"{"title":"<\/script><b>"}"#));
        for outside in ["src=", "@import", "url(", "href=\""] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'") && page.ends_with("</html>\n"));
    }
}
