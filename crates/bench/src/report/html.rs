//! All result files on one HTML page that needs nothing beside it: tables that sort, plots that
//! zoom, surfaces that turn. The page's files are in `assets`.

use serde_json::{Value, json};

use super::markdown::Table;
use super::page::{self, QUICK};
use super::published::{self, Published};
use super::table::Reader;
use super::{plot, summary};
use crate::experiment::View;
use crate::result::Results;

const PAGE: &str = include_str!("../../assets/page.html");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");
const PLOTLY: &[u8] = include_bytes!("../../assets/plotly-3.7.0.min.js.zst");

/// The page of some result files, which must be of one machine, commit and base server.
pub fn page(files: &[Results]) -> Result<String, String> {
    let first = summary::same_machine(files)?;
    let is_quick = files.iter().any(|results| results.quick);
    let mut versions = Table::new(["server", "version"]);
    summary::versions(files).into_iter().for_each(|line| versions.row(line));
    let document = |document: &Published| {
        let Published { title, about, .. } = document;
        json!({"title": title, "about": about, "table": document.table(files)})
    };
    let content = json!({
        "title": "Benchmarks",
        "base": first.base,
        "introduction": [
            format!("Commit `{}`, {}.", first.commit, first.machine.describe()),
            format!(
                "Medians of the rounds, ± half the range of the rounds; error bars show the same. Red: {} is \
                 not the best of the servers. Click on a heading to sort, drag over a plot to zoom, double \
                 click to come back, drag a surface to turn it.",
                first.base
            ),
        ],
        "quick": is_quick.then_some(QUICK),
        "versions": versions,
        "documents": published::all().iter().map(document).collect::<Vec<_>>(),
        "score": summary::score(files, None),
        "experiments": files.iter().map(experiment).collect::<Vec<_>>(),
    });
    let data = content.to_string();
    let plotly = zstd::decode_all(PLOTLY).map_err(|error| format!("plotly: {error}"))?;
    let plotly = String::from_utf8(plotly).map_err(|error| format!("plotly: {error}"))?;
    Ok(assemble(&data, &plotly))
}

/// Puts the parts in their places. No text may end its script.
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

fn experiment(results: &Results) -> Value {
    let reader = Reader::new(results);
    let description = reader.description;
    let views = description.views.iter().map(|view| (view.title, sections(&reader, view)));
    let views = views.filter(|(_, sections)| !sections.is_empty());
    let views = views.map(|(title, sections)| json!({"title": title, "sections": sections}));
    let label = match results.label.as_str() {
        "" => String::new(),
        label => format!(" ({label})"),
    };
    let absent = match results.absent.as_slice() {
        [] => String::new(),
        absent => format!(" Not on this machine, so not measured: {}.", absent.join(", ")),
    };
    json!({
        "name": results.name(),
        "title": format!("{}{label}", description.title),
        "about": description.about,
        "command": results.command_line,
        "facts": format!("{}, {} rounds.{absent}", results.started, results.rounds),
        "quick": results.quick.then_some(QUICK),
        "summary": summary::sentences(&reader),
        "views": views.collect::<Vec<_>>(),
        "servers": page::servers(results),
        "options": page::options(results),
        "checked": page::checked(results),
        "checks": page::problems(&reader),
    })
}

fn sections(reader: &Reader<'_>, view: &View) -> Vec<Value> {
    let content = |section: &super::table::Section| {
        let plot = view.plot.map(|plot| plot::chart(reader, view, plot, section));
        let table = reader.table(view, section, true);
        json!({"heading": section.heading, "table": table, "plot": plot})
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
