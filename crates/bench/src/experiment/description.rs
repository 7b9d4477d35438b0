//! Descriptions of experiments, read from the files in `experiments/`.
//!
//! ```text
//! title SET and GET                         heading of the page
//! help                                      help of the subcommand
//! about                                     method, for a reader of the page
//! rounds 5 2                                of a whole run, and of a quick one
//! lifetime group                            lifetime of a prepared server (`Lifetime`)
//! group values threads                      axes that divide the points into groups
//! servers memcached floors clusters         admitted besides servers with RESP
//! one-thread                                servers with one command thread run with one, too
//! axis threads server-threads : {} threads  axis, its option (or `work`), how a value is shown
//! order threads command                     axes from the slowest to the fastest, if another order
//! option keys N = 1000                      an option and its default
//! figure cpu 2 less : Server CPU [us]       name, decimals, better direction, heading, unit
//! view By threads                           tables, a table for each of `sections`
//! work HSET                                 value of an axis, with its commands or parameters
//! ```

use std::sync::OnceLock;

use super::options::OptionDescription;
use crate::result::{OverRounds, Point};
use crate::text::{Entry, entries};

/// Description of an experiment, sufficient to make pages of its result files.
#[derive(Debug, Default)]
pub struct Description {
    /// Name of the subcommand and of the result file.
    pub name: &'static str,
    /// Heading of its page.
    pub title: &'static str,
    /// Help of the subcommand; empty if it has none of its own.
    pub help: String,
    /// Method, for a reader of the page.
    pub about: String,
    /// Rounds of a whole run and of a quick one, unless given as an option.
    pub rounds: (usize, usize),
    /// Lifetime of a prepared server.
    pub lifetime: Lifetime,
    /// The axes that must have the same values for points to share a prepared server.
    pub group: Vec<&'static str>,
    /// Kinds of servers that are admitted besides single servers with RESP.
    pub servers: Vec<&'static str>,
    /// Servers that run commands on one thread are also measured with one thread.
    pub has_one_thread: bool,
    /// The axes of its grid.
    pub axes: Vec<Axis>,
    /// Names of the axes from the slowest to the fastest.
    pub order: Vec<&'static str>,
    /// Options on the command line.
    pub options: Vec<OptionDescription>,
    /// Measured quantities. The first one is shown during a run.
    pub figures: Vec<Figure>,
    /// Tables and plots of its page.
    pub views: Vec<View>,
    /// Entries `work`: values of an axis, with their commands or parameters.
    pub works: Vec<Entry>,
}

/// Axis of a grid.
#[derive(Debug)]
pub struct Axis {
    /// Name in result files.
    pub name: &'static str,
    /// Form in which a value is shown (`{}`).
    pub label: &'static str,
    /// Option with its values; `work`: the works, if that option names none.
    pub source: Vec<&'static str>,
    /// Values, if they are no option.
    pub values: Vec<&'static str>,
}

/// A measured quantity.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Name in result files.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Unit, as in `us`.
    pub unit: &'static str,
    /// Digits after the point in tables.
    pub decimals: usize,
    /// The better direction.
    pub better: Better,
    /// Reduction of the rounds to one number.
    pub over_rounds: OverRounds,
}

/// Better direction of a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Better {
    /// The smaller one.
    Less,
    /// The larger one.
    More,
    /// Information only.
    Neither,
}

/// Stands for the server among the axes of a view.
pub const SERVER: &str = "server";
/// Stands for the figure among the axes of a view.
pub const FIGURE: &str = "figure";

/// Tables and plots of one kind: each axis, [`SERVER`] and [`FIGURE`] included, goes to the
/// sections (a table each), to the rows, or to the columns.
#[derive(Debug)]
pub struct View {
    /// Heading.
    pub title: &'static str,
    /// Names of the figures shown.
    pub figures: Vec<&'static str>,
    /// A table for each combination of these.
    pub sections: Vec<&'static str>,
    /// A row for each.
    pub rows: Vec<&'static str>,
    /// A column for each.
    pub columns: Vec<&'static str>,
    /// Content of the cells.
    pub cells: Cells,
    /// A plot of each table, the servers as its series.
    pub plot: Option<Plot>,
    /// Whether the summary page shows it, too.
    pub is_in_summary: bool,
}

/// Content of the cells of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cells {
    /// The figure; in bold where the base server is not the best.
    Value,
    /// The figure, and in a column beside it the difference from the base server's.
    Versus,
    /// The base server's figure over that of the best peer, and over that of each server.
    Ratio,
    /// The figure, and in parentheses over the same server's at this value of this axis.
    Against(&'static str, &'static str),
}

/// Plot of a table. The axis beside the servers is the horizontal one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plot {
    /// A group of bars for each value.
    Bars,
    /// Lines over the value as a number, both axes logarithmic.
    Lines,
    /// A surface for each section, of one server: rows up to this number are x, the figures, which
    /// are named `q` and a percentile, are y.
    Surface {
        /// Largest x.
        x_max: f64,
    },
}

/// Lifetime of a prepared server, which decides the order of a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Lifetime {
    /// All points of a group and all rounds. The servers of a group run at the same time and are
    /// measured in turn, point by point; the others are stopped meanwhile (SIGSTOP).
    #[default]
    Group,
    /// All points of a group in one round, the servers one after the other.
    Round,
    /// All points of a group and all rounds, one server after the other.
    Server,
    /// A single measurement.
    Measurement,
}

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../experiments/", $name, ".txt")))),*]
    };
}

/// Every experiment that there is.
pub fn all() -> &'static [Description] {
    static ALL: OnceLock<Vec<Description>> = OnceLock::new();
    ALL.get_or_init(|| {
        let files = files![
            "matrix" "commands" "workloads" "persistence" "replication" "memory" "memory-types"
            "scaling" "tracking" "publish" "pause" "churn" "full" "connections" "trace" "hitrate"
            "vectors" "json" "sketches" "arrays" "search" "engine" "handlers" "effects" "client" "cluster" "consistency"
        ];
        files.into_iter().map(|(name, text)| Description::read(name, text)).collect()
    })
}

impl Description {
    /// The description of a name.
    ///
    /// # Panics
    ///
    /// If there is no such experiment.
    pub fn named(name: &str) -> &'static Description {
        let found = all().iter().find(|known| known.name == name);
        found.unwrap_or_else(|| panic!("there is no experiment {name}"))
    }

    fn read(name: &'static str, text: &'static str) -> Description {
        let mut own = Description { name, rounds: (3, 1), ..Description::default() };
        for entry in entries(text) {
            own.take(entry);
        }
        if own.order.is_empty() {
            own.order = own.axes.iter().map(|axis| axis.name).collect();
        }
        own
    }

    fn take(&mut self, entry: Entry) {
        let words: Vec<&'static str> = entry.rest.split_whitespace().collect();
        match entry.keyword {
            "title" => self.title = entry.rest,
            "help" => self.help = entry.text,
            "about" => self.about = entry.text,
            "rounds" => self.rounds = (number(words[0]), number(words[1])),
            "group" => self.group = words,
            "servers" => self.servers = words,
            "one-thread" => self.has_one_thread = true,
            "order" => self.order = words,
            "axis" => self.axes.push(axis(&entry)),
            "option" => self.options.push(OptionDescription::read(&entry)),
            "figure" => self.figures.push(figure(&entry)),
            "view" => self.views.push(view(&entry)),
            "work" => self.works.push(entry),
            "lifetime" => {
                self.lifetime = match entry.rest {
                    "group" => Lifetime::Group,
                    "round" => Lifetime::Round,
                    "server" => Lifetime::Server,
                    "measurement" => Lifetime::Measurement,
                    other => panic!("lifetime {other}"),
                }
            }
            other => panic!("{}: there is no entry '{other}'", self.name),
        }
    }

    /// The figure of a name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Text that shows a value of an axis.
    pub fn axis_label(&self, axis: &str, value: &str) -> String {
        let axis = self.axes.iter().find(|known| known.name == axis);
        let label = axis.map_or("{}", |axis| axis.label).replace("{}", value);
        if value == "1" { label.replace("threads", "thread") } else { label }
    }

    /// Labels of a point, separated by commas.
    pub fn point_label(&self, point: &Point) -> String {
        let labels = self
            .axes
            .iter()
            .filter_map(|axis| point.get(axis.name).map(|value| self.axis_label(axis.name, value)));
        labels.collect::<Vec<_>>().join(", ")
    }

    /// The work of a name.
    ///
    /// # Panics
    ///
    /// If there is no such work: the grid is made of them.
    pub fn work(&self, name: &str) -> &Entry {
        let found = self.works.iter().find(|work| work.rest == name);
        found.unwrap_or_else(|| panic!("{} has no work {name}", self.name))
    }

    /// Names of the works.
    pub fn work_names(&self) -> impl Iterator<Item = &'static str> {
        self.works.iter().map(|work| work.rest)
    }
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

/// Reads `axis NAME OPTION : LABEL`.
fn axis(entry: &Entry) -> Axis {
    let (words, label) = entry.rest.split_once(" : ").unwrap_or((entry.rest, "{}"));
    let mut words = words.split_whitespace();
    let name = words.next().unwrap_or_default();
    Axis { name, label, source: words.collect(), values: entry.all("value").collect() }
}

/// Reads `figure NAME DECIMALS BETTER [largest] : TITLE [UNIT]`.
fn figure(entry: &Entry) -> Figure {
    let (words, title) = entry.rest.split_once(" : ").expect("a figure has a heading");
    let words: Vec<&str> = words.split_whitespace().collect();
    let (title, unit) = match title.split_once(" [") {
        Some((title, unit)) => (title, unit.trim_end_matches(']')),
        None => (title, ""),
    };
    let better = match words[2] {
        "less" => Better::Less,
        "more" => Better::More,
        "neither" => Better::Neither,
        other => panic!("better {other}"),
    };
    let over_rounds = match words.get(3) {
        None => OverRounds::Median,
        Some(&"largest") => OverRounds::Largest,
        Some(other) => panic!("{other} over rounds"),
    };
    Figure { name: words[0], title, unit, decimals: number(words[1]), better, over_rounds }
}

fn view(entry: &Entry) -> View {
    let cells = match *entry.words("cells").as_slice() {
        [] => Cells::Value,
        ["versus"] => Cells::Versus,
        ["ratio"] => Cells::Ratio,
        ["against", axis, ..] => {
            let value = entry.get("cells").and_then(|text| text.splitn(3, ' ').nth(2));
            Cells::Against(axis, value.unwrap_or_default())
        }
        ref other => panic!("cells {other:?}"),
    };
    let plot = entry.get("plot").map(|plot| match plot.split_once(' ') {
        Some((_, x_max)) => Plot::Surface { x_max: number(x_max) as f64 },
        None if plot == "bars" => Plot::Bars,
        None if plot == "lines" => Plot::Lines,
        None => panic!("plot {plot}"),
    });
    let [figures, sections, rows, columns] =
        ["figures", "sections", "rows", "columns"].map(|keyword| entry.words(keyword));
    let is_in_summary = entry.get("summary").is_some();
    View { title: entry.rest, figures, sections, rows, columns, cells, plot, is_in_summary }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_can_be_read_and_name_what_exists() {
        for own in all() {
            assert!(!own.title.is_empty() && !own.about.is_empty(), "{}", own.name);
            let has_axis = |axis: &&str| {
                [SERVER, FIGURE].contains(axis) || own.axes.iter().any(|known| known.name == *axis)
            };
            for view in &own.views {
                let all = [&view.sections, &view.rows, &view.columns];
                assert!(all.into_iter().flatten().all(&has_axis), "{}", own.name);
                assert!(!view.figures.is_empty(), "{}: {}", own.name, view.title);
                for figure in &view.figures {
                    assert!(own.figure(figure).is_some(), "{}: no figure {figure}", own.name);
                }
            }
            let options = own.axes.iter().flat_map(|axis| &axis.source);
            for option in options.filter(|option| **option != "work") {
                let is_known = own.options.iter().any(|known| known.name == *option);
                assert!(is_known, "{}: no option {option}", own.name);
            }
        }
    }
}
