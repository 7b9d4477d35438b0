//! Benchmarks that other servers publish: their tables, their headlines, and the experiments that
//! measure the same here. They are read from `assets/published.txt`:
//!
//! ```text
//! document NAME
//!   | Its measurements, and their machine.
//! table TITLE
//!   said 1.3 to 3.0x Redis            its statement, in short
//!   of matrix throughput beside redis experiment, figure, and peers by a prefix of their names;
//!                                     without a peer there is no published figure
//!   nodes 4                           in place of that: nodes of Petrel over one Redis, by `trace`
//!   not no ARM machine                in place of that: the reason why it is not measured here
//!   at values 32 | 256                the points that have one of these values of an axis
//! ```

use std::sync::OnceLock;

use super::markdown::Table;
use super::table::{Place, Reader};
use crate::experiment::{Better, SERVER};
use crate::result::{Results, Row};
use crate::text::entries;

/// A document with benchmarks.
#[derive(Debug)]
pub struct Published {
    /// Name.
    pub title: &'static str,
    /// Measurements, and their machine.
    pub about: String,
    tables: Vec<PublishedTable>,
}

/// Axes, each with some values.
type Values = Vec<(&'static str, Vec<&'static str>)>;

/// A table or plot of a document.
#[derive(Debug)]
struct PublishedTable {
    title: &'static str,
    said: &'static str,
    /// Experiment, figure and peer.
    source: Option<[&'static str; 3]>,
    /// Number of nodes of Petrel.
    nodes: Option<&'static str>,
    /// Reason why it is not measured here.
    not: Option<&'static str>,
    at: Values,
}

/// All documents.
pub fn all() -> &'static [Published] {
    static ALL: OnceLock<Vec<Published>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut documents: Vec<Published> = Vec::new();
        for entry in entries(include_str!("../../assets/published.txt")) {
            if entry.keyword == "document" {
                let (title, about) = (entry.rest, entry.text);
                documents.push(Published { title, about, tables: Vec::new() });
                continue;
            }
            let values = |text: &'static str| {
                let (axis, values) = text.split_once(' ').expect("at AXIS VALUE | VALUE");
                (axis, values.split(" | ").collect())
            };
            let source = match *entry.words("of").as_slice() {
                [name, figure] => Some([name, figure, ""]),
                [name, figure, "beside", peer] => Some([name, figure, peer]),
                _ => None,
            };
            documents.last_mut().expect("a document").tables.push(PublishedTable {
                title: entry.rest,
                said: entry.get("said").unwrap_or_default(),
                source,
                nodes: entry.get("nodes"),
                not: entry.get("not"),
                at: entry.all("at").map(values).collect(),
            });
        }
        documents
    })
}

impl Published {
    /// Makes the table of its tables: statement, ratios measured here, and verdict.
    pub fn table(&self, files: &[Results]) -> Table {
        let mut table =
            Table::new(["published", "it says", "here, over the peer", "points", "verdict"]);
        for published in &self.tables {
            let [here, points, verdict] = published.measured(files);
            let (title, said) = (published.title.to_owned(), published.said.to_owned());
            table.row([title, said, here, points, verdict]);
        }
        table
    }
}

impl PublishedTable {
    /// Range of ratios, number of points, and verdict.
    fn measured(&self, files: &[Results]) -> [String; 3] {
        let dash = || "–".to_owned();
        if let Some(why) = self.not {
            return [dash(), dash(), format!("not measured: {why}")];
        }
        let [name, figure, peer] = self.source.unwrap_or(["trace", "throughput", "redis"]);
        if peer.is_empty() {
            return own_figures(files, name, &self.at, figure);
        }
        let mut ratios = Vec::new();
        let mut is_there = false;
        for results in files.iter().filter(|results| results.experiment == name) {
            is_there = true;
            let reader = Reader::new(results);
            ratios.extend(ratios_of(&reader, &self.at, figure, peer, self.nodes));
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

/// Range of a figure of the base server at some points, and their number.
fn own_figures(files: &[Results], name: &str, at: &Values, figure: &str) -> [String; 3] {
    let mut values = Vec::new();
    let mut unit = "";
    for results in files.iter().filter(|results| results.experiment == name) {
        let Some(figure) = Reader::new(results).description.figure(figure) else { continue };
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
fn lies(row: &Row, at: &Values) -> bool {
    at.iter().all(|(axis, values)| {
        row.point.get(*axis).is_some_and(|value| values.contains(&value.as_str()))
    })
}

/// Ratios of the base server, or of nodes of Petrel, to the best of the peer's variants at each
/// point; above 1 is better.
fn ratios_of(
    reader: &Reader<'_>,
    at: &Values,
    figure: &str,
    peer: &str,
    nodes: Option<&'static str>,
) -> Vec<f64> {
    let Some(figure) = reader.description.figure(figure) else { return Vec::new() };
    let results = reader.results;
    let base = nodes.map_or(&results.base[..], |_| "petrel-cluster");
    let has_nodes = |row: &Row| {
        let own = row.point.get("nodes").map(String::as_str);
        nodes.is_none_or(|nodes| own == Some(nodes))
    };
    let rows = results.rows.iter().filter(|row| row.server == base && lies(row, at));
    rows.filter(|row| has_nodes(row))
        .filter_map(|row| {
            let own = row.figure(figure.name, figure.over_rounds)?;
            let axes = reader.description.axes.iter();
            let mut place: Place = axes
                .filter_map(|axis| Some((axis.name, row.point.get(axis.name)?.clone())))
                .collect();
            if nodes.is_some() {
                // A single server stands beside all numbers of nodes.
                let mut axis = place.iter_mut().find(|(axis, _)| *axis == "nodes");
                axis.iter_mut().for_each(|(_, nodes)| *nodes = "1".to_owned());
            }
            let peers = results.servers.iter().filter(|server| server.name.starts_with(peer));
            // A document compares with one server, not with several nodes.
            let peers =
                peers.filter(|server| server.name != base && !server.name.ends_with("-cluster"));
            let others = peers.filter_map(|server| {
                let place = [place.clone(), vec![(SERVER, server.name.clone())]];
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
    use crate::experiment::Description;
    use crate::result::{Measurement, Point, ServerFacts};

    #[test]
    fn tables_name_figures_and_axes_that_exist() {
        for published in all().iter().flat_map(|document| &document.tables) {
            let is_complete = [published.not, published.nodes].iter().flatten().count() == 1
                || published.source.is_some();
            assert!(is_complete, "{}", published.title);
            let Some([name, figure, _]) = published.source else { continue };
            let known = Description::named(name);
            assert!(known.figure(figure).is_some(), "{}: no figure {figure}", published.title);
            for (axis, _) in &published.at {
                let is_known = known.axes.iter().any(|known| known.name == *axis);
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
            let files: Vec<_> = results.into_iter().collect();
            all()[0].tables[1].measured(&files)
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
