//! The benchmarks that other servers publish: their tables, their headlines, and which experiment
//! measures the same here.

mod documents;

use super::markdown::Table;
use super::table::{Place, Reader};
use crate::experiment::{Better, Description};
use crate::result::{Results, Row};

pub use documents::DOCUMENTS;

/// A document with benchmarks.
#[derive(Debug)]
pub struct Published {
    /// Its name.
    pub title: &'static str,
    /// What it measured, and on what.
    pub about: &'static str,
    tables: &'static [PublishedTable],
}

/// A table or plot of a document.
#[derive(Debug)]
struct PublishedTable {
    title: &'static str,
    /// What the document says of it, in short.
    said: &'static str,
    source: Source,
}

/// Where the same is measured.
#[derive(Debug)]
enum Source {
    /// At the points of an experiment that have these values; the figure is compared with that of
    /// the servers whose names begin with the peer's.
    Experiment {
        name: &'static str,
        at: &'static [(&'static str, &'static [&'static str])],
        figure: &'static str,
        peer: &'static str,
    },
    /// At the points of an experiment that have these values, of the base server alone: the
    /// document has no figure to compare with.
    Own {
        name: &'static str,
        at: &'static [(&'static str, &'static [&'static str])],
        figure: &'static str,
    },
    /// At the points of `trace` that have these values: this many nodes of Petrel, compared with
    /// one server of Redis.
    Nodes { nodes: &'static str, at: &'static [(&'static str, &'static [&'static str])] },
    /// Not here, for this reason.
    Nowhere(&'static str),
}

impl Published {
    /// Its tables: what it says, what was measured here, and what was not.
    pub fn table(&self, files: &[(&'static Description, Results)]) -> Table {
        let mut table =
            Table::new(["published", "it says", "here, over the peer", "points", "verdict"]);
        for published in self.tables {
            let [here, points, verdict] = published.measured(files);
            table.row([
                published.title.to_owned(),
                published.said.to_owned(),
                here,
                points,
                verdict,
            ]);
        }
        table
    }
}

impl PublishedTable {
    /// The range of ratios, how many points there are, and how often the base server is better.
    fn measured(&self, files: &[(&'static Description, Results)]) -> [String; 3] {
        let dash = || "–".to_owned();
        let (name, at, figure, peer, nodes) = match &self.source {
            Source::Experiment { name, at, figure, peer } => (*name, *at, *figure, *peer, None),
            Source::Nodes { nodes, at } => ("trace", *at, "throughput", "redis", Some(*nodes)),
            Source::Own { name, at, figure } => return own_figures(files, name, at, figure),
            Source::Nowhere(why) => return [dash(), dash(), format!("not measured: {why}")],
        };
        let mut ratios = Vec::new();
        let mut is_there = false;
        for (description, results) in files.iter().filter(|(d, _)| d.name == name) {
            is_there = true;
            let reader = Reader::new(description, results);
            ratios.extend(ratios_of(&reader, at, figure, peer, nodes));
        }
        ratios.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (ratios.first(), ratios.last()) else {
            let why = match is_there {
                true => format!("not measured: no such points of {name} beside {peer}"),
                false => format!("not measured: no results of {name}"),
            };
            return [dash(), dash(), why];
        };
        let (low, high, count) = (*low, *high, ratios.len());
        let better = ratios.iter().filter(|ratio| **ratio > 1.0).count();
        let equal = ratios.iter().filter(|ratio| **ratio == 1.0).count();
        let range = match count {
            1 => format!("{low:.2}x"),
            _ => format!("{low:.2}x to {high:.2}x"),
        };
        let verdict = match (better, equal) {
            (all, _) if all == count => "better".to_owned(),
            (0, all) if all == count => "equal".to_owned(),
            (0, 0) => "**worse**".to_owned(),
            (some, same) if some + same == count => format!("better at {some}, equal at {same}"),
            (some, same) => format!("**worse at {} of {count}**", count - some - same),
        };
        [range, count.to_string(), verdict]
    }
}

/// The range of a figure of the base server at some points, and how many there are.
fn own_figures(
    files: &[(&'static Description, Results)],
    name: &str,
    at: &[(&str, &[&str])],
    figure: &str,
) -> [String; 3] {
    let mut values = Vec::new();
    let mut unit = "";
    for (description, results) in files.iter().filter(|(known, _)| known.name == name) {
        let Some(figure) = description.figure(figure) else { continue };
        unit = figure.unit;
        let rows = results.rows.iter().filter(|row| row.server == results.base && lies(row, at));
        values.extend(rows.filter_map(|row| row.figure(figure.name, figure.over_rounds)));
    }
    values.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first(), values.last()) else {
        return ["–".to_owned(), "–".to_owned(), format!("not measured: no results of {name}")];
    };
    let range = match values.len() {
        1 => format!("{low:.0} {unit}"),
        _ => format!("{low:.0} to {high:.0} {unit}"),
    };
    [range, values.len().to_string(), "measured, nothing to compare with".to_owned()]
}

/// Whether a row has one of these values of each axis.
fn lies(row: &Row, at: &[(&str, &[&str])]) -> bool {
    at.iter().all(|(axis, values)| {
        row.point.get(*axis).is_some_and(|value| values.contains(&value.as_str()))
    })
}

/// Base server, or so many nodes of Petrel, over the best of the peer's variants at each point, so
/// that above 1 is better.
fn ratios_of(
    reader: &Reader<'_>,
    at: &[(&str, &[&str])],
    figure: &str,
    peer: &str,
    nodes: Option<&str>,
) -> Vec<f64> {
    let Some(figure) = reader.description.figure(figure) else { return Vec::new() };
    let results = reader.results;
    let base = nodes.map_or(&results.base[..], |_| "petrel-cluster");
    let has_nodes = |row: &Row| nodes.is_none_or(|nodes| lies(row, &[("nodes", &[nodes])]));
    let rows = results.rows.iter().filter(|row| row.server == base && lies(row, at));
    rows.filter(|row| has_nodes(row))
        .filter_map(|row| {
            let own = row.figure(figure.name, figure.over_rounds)?;
            let axes = reader.description.axes.iter();
            let mut place: Place =
                axes.filter_map(|(axis, _)| Some((*axis, row.point.get(*axis)?.clone()))).collect();
            if nodes.is_some() {
                // A single server stands beside all numbers of nodes.
                let mut axis = place.iter_mut().find(|(axis, _)| *axis == "nodes");
                axis.iter_mut().for_each(|(_, nodes)| *nodes = "1".to_owned());
            }
            let peers = results.servers.iter().filter(|server| server.name.starts_with(peer));
            // Several nodes are not what a document compares one server with.
            let peers =
                peers.filter(|server| server.name != base && !server.name.ends_with("-cluster"));
            let others = peers.filter_map(|server| {
                let place = [place.clone(), vec![(crate::experiment::SERVER, server.name.clone())]];
                reader.number(figure, &place.concat())
            });
            let ratio = match figure.better {
                Better::More | Better::Neither => own / others.reduce(f64::max)?,
                Better::Less => others.reduce(f64::min)? / own,
            };
            ratio.is_finite().then_some(ratio)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ALL;
    use crate::result::{Measurement, Point, ServerFacts};

    #[test]
    fn tables_name_figures_and_axes_that_exist() {
        for published in DOCUMENTS.iter().flat_map(|document| document.tables) {
            let (Source::Experiment { name, at, figure, .. } | Source::Own { name, at, figure }) =
                &published.source
            else {
                continue;
            };
            let known = ALL.iter().find(|known| known.name == *name);
            let known = known.unwrap_or_else(|| panic!("{}: no {name}", published.title));
            assert!(known.figure(figure).is_some(), "{}: no figure {figure}", published.title);
            for (axis, _) in *at {
                let is_known = known.axes.iter().any(|(name, _)| name == axis);
                assert!(is_known, "{}: no axis {axis}", published.title);
            }
        }
    }

    fn results(servers: &[(&str, f64)]) -> Results {
        let mut results = Results::new("matrix", serde_json::Value::Null);
        results.base = "petrel".to_owned();
        for (name, rate) in servers {
            let text = || (*name).to_owned();
            results.servers.push(ServerFacts {
                name: text(),
                version: text(),
                command: text(),
                is_floor: false,
            });
            let point = [("pipeline", "50"), ("values", "1-1024")];
            let point = Point::from(point.map(|(axis, value)| (axis.to_owned(), value.to_owned())));
            let measured = Measurement::default().with("throughput", *rate);
            results.record(name, &point, measured);
        }
        results
    }

    #[test]
    fn a_headline_compares_with_the_peers_best_variant_and_shows_losses() {
        let line = |results: Option<Results>| {
            let files: Vec<_> =
                results.map(|r| (crate::matrix::DESCRIPTION, r)).into_iter().collect();
            DOCUMENTS[0].tables[1].measured(&files)
        };
        let won = results(&[("petrel", 30.0), ("redis", 10.0), ("redis (1 thread)", 15.0)]);
        assert_eq!(line(Some(won)), ["2.00x", "1", "better"]);
        let lost = results(&[("petrel", 30.0), ("redis", 40.0)]);
        assert_eq!(line(Some(lost)), ["0.75x", "1", "**worse**"]);
        let alone = line(Some(results(&[("petrel", 30.0)])));
        assert!(alone[2].contains("beside redis"), "{alone:?}");
        assert!(line(None)[2].contains("no results of matrix"));
    }
}
