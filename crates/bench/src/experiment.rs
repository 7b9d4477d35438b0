//! The frame of all experiments.
//!
//! ```text
//! experiment = servers x points of a grid x rounds -> result file -> tables and plots
//! ```
//!
//! An [`Experiment`] says which points there are, how a server is started and prepared for some of
//! them, and how one point is measured once. The frame ([`run`]) finds the servers, starts and ends
//! them, decides the order, records every measurement in a result file, and goes on with an
//! interrupted run. A [`Description`] says what the figures mean and which tables and plots are
//! made of the file; pages are made from files alone ([`crate::report`]).

mod load_args;
mod options;
mod run;

use std::str::FromStr;

use serde::Serialize;

pub use load_args::{LoadArgs, parse_seconds};
pub use options::{Configured, RunArgs};
pub use run::run;

use crate::result::{Measurement, OverRounds, Point};
use crate::server::{Chosen, Peer, Server, Setting};

/// What an experiment is apart from a run of it: all that is needed to make pages of its files.
#[derive(Debug)]
pub struct Description {
    /// Name of the subcommand and of the result file.
    pub name: &'static str,
    /// Heading of its page.
    pub title: &'static str,
    /// How it measures, for a reader of the page.
    pub about: &'static str,
    /// The axes of its grid: name, and how a value is shown (`{}`).
    pub axes: &'static [(&'static str, &'static str)],
    /// What it measures. The first one is shown while it runs.
    pub figures: &'static [Figure],
    /// The tables and plots of its page.
    pub views: &'static [View],
}

/// A measured quantity.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name in result files.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Unit, as in `us`.
    pub unit: &'static str,
    /// Digits after the point in tables.
    pub decimals: usize,
    /// Which direction is better.
    pub better: Better,
    /// How rounds become one number.
    pub over_rounds: OverRounds,
}

/// Which direction of a figure is better.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Better {
    /// The smaller one.
    Less,
    /// The larger one.
    More,
    /// It is information only.
    Neither,
}

impl Figure {
    /// A figure of which the median counts.
    pub const fn new(
        name: &'static str,
        title: &'static str,
        unit: &'static str,
        decimals: usize,
        better: Better,
    ) -> Figure {
        Figure { name, title, unit, decimals, better, over_rounds: OverRounds::Median }
    }

    /// The same, of which the largest over the rounds counts.
    pub const fn largest(self) -> Figure {
        Figure { over_rounds: OverRounds::Largest, ..self }
    }
}

/// Server CPU per operation, user and system, all threads.
pub const CPU: Figure = Figure::new("cpu", "Server CPU per operation", "us", 2, Better::Less);
/// Operations per second.
pub const THROUGHPUT: Figure =
    Figure::new("throughput", "Throughput", "operations/s", 0, Better::More);

/// The figures of [`Measurement::of_load`].
pub const LOAD: [Figure; 10] = [
    THROUGHPUT,
    CPU,
    Figure::new("p50", "p50 latency", "ms", 3, Better::Less),
    Figure::new("p99", "p99 latency", "ms", 3, Better::Less),
    Figure::new("p999", "p99.9 latency", "ms", 3, Better::Less),
    Figure::new("mean", "Mean latency", "ms", 3, Better::Less),
    Figure::new("max", "Largest latency", "ms", 3, Better::Neither),
    Figure::new("client_cpu", "Load generator CPU per operation", "us", 2, Better::Neither),
    Figure::new("fairness", "Slowest over fastest connection", "ratio", 2, Better::Neither),
    Figure::new("cpu_share", "Server CPU, share of one processor", "%", 1, Better::Neither),
];

/// Stands for the server among the axes of a view.
pub const SERVER: &str = "server";
/// Stands for the figure among the axes of a view.
pub const FIGURE: &str = "figure";

/// Tables and plots of one kind: each axis, [`SERVER`] and [`FIGURE`] included, goes to the
/// sections (a table each), to the rows, or to the columns.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Heading.
    pub title: &'static str,
    /// Names of the figures shown.
    pub figures: &'static [&'static str],
    /// A table for each combination of these.
    pub sections: &'static [&'static str],
    /// A row for each.
    pub rows: &'static [&'static str],
    /// A column for each.
    pub columns: &'static [&'static str],
    /// What the cells say.
    pub cells: Cells,
    /// A plot of each table, the servers as its series.
    pub plot: Option<Plot>,
    /// Whether the summary page shows it, too.
    pub is_in_summary: bool,
}

impl View {
    /// Tables of figures without plots, on the experiment's own page only.
    pub const fn new(
        title: &'static str,
        figures: &'static [&'static str],
        sections: &'static [&'static str],
        rows: &'static [&'static str],
        columns: &'static [&'static str],
    ) -> View {
        let (cells, plot, is_in_summary) = (Cells::Value, None, false);
        View { title, figures, sections, rows, columns, cells, plot, is_in_summary }
    }

    /// The same with other cells.
    pub const fn cells(self, cells: Cells) -> View {
        View { cells, ..self }
    }

    /// The same with plots.
    pub const fn plot(self, plot: Plot) -> View {
        View { plot: Some(plot), ..self }
    }

    /// The same, shown on the summary page, too.
    pub const fn in_summary(self) -> View {
        View { is_in_summary: true, ..self }
    }
}

/// What the cells of a table say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cells {
    /// The figure; in bold where the base server is not the best.
    Value,
    /// The figure, and in a column beside it how far it lies from the base server's.
    Versus,
    /// The base server's figure over that of the best peer, and over that of each server.
    Ratio,
    /// The figure, and in parentheses over the same server's at this value of this axis.
    Against(&'static str, &'static str),
}

/// How a table is drawn. The axis beside the servers is the horizontal one.
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

impl Description {
    /// The figure of a name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// How a value of an axis is shown.
    pub fn axis_label(&self, axis: &str, value: &str) -> String {
        let form = self.axes.iter().find(|(name, _)| *name == axis).map_or("{}", |(_, form)| form);
        let label = form.replace("{}", value);
        if value == "1" { label.replace("threads", "thread") } else { label }
    }
}

/// How long a server with what was prepared on it is used, and with that the order of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lifetime {
    /// For all points of a group and all rounds. The servers of a group are there at the same time
    /// and measured in turn, point by point; those that are not measured are stopped (SIGSTOP).
    Group,
    /// For all points of a group in one round, the servers one after the other.
    Round,
    /// For all points of a group and all rounds, one server after the other.
    Server,
    /// For one measurement.
    Measurement,
}

/// What is prepared for measuring: a server, connections to it, and what is known of its data.
pub trait Session {
    /// The process to be stopped while others are measured.
    fn server(&self) -> &Server;
}

impl Session for Server {
    fn server(&self) -> &Server {
        self
    }
}

impl<T> Session for (Server, T) {
    fn server(&self) -> &Server {
        &self.0
    }
}

/// An experiment with its options.
pub trait Experiment: Serialize {
    /// What it is.
    const DESCRIPTION: &'static Description;
    /// Rounds unless told otherwise: of a whole run, and of a quick one.
    const ROUNDS: (usize, usize) = (3, 1);
    /// The axes that must have the same values for points to share a prepared server.
    const GROUP: &'static [&'static str] = &[];
    /// A prepared server.
    type Session: Session;

    /// Refuses options that make no sense together.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// What it measures within processes of this program, where it measures no servers.
    fn in_process(&self) -> Option<Vec<Peer>> {
        None
    }

    /// Whether it can measure a server at all.
    fn admits(&self, peer: &Peer) -> bool {
        peer.speaks_resp() && !peer.is_floor() && !peer.is_cluster()
    }

    /// Whether it measures clusters without being asked for them by name.
    fn measures_clusters(&self) -> bool {
        false
    }

    /// Libraries that it measures beside servers, each in a process that answers its orders.
    fn libraries(&self) -> Chosen {
        Chosen::default()
    }

    /// Threads of the servers at most: above one, servers that run commands on one thread are also
    /// measured with one.
    fn server_threads_max(&self) -> usize {
        1
    }

    /// The points in the order of the run, most often a [`grid`]; those of a group lie together.
    fn points(&self) -> Vec<Point>;

    /// How long a prepared server is used.
    fn lifetime(&self) -> Lifetime {
        Lifetime::Group
    }

    /// Whether the grid has no such point for a server.
    fn leaves_out(&self, _peer: &Peer, _point: &Point) -> bool {
        false
    }

    /// How a server is started for the group of a point.
    fn setting(&self, run: &RunArgs, point: &Point) -> Setting;

    /// Prepares a server that has just been started for the group of a point.
    fn prepare(&self, server: Server, point: &Point) -> Result<Self::Session, String>;

    /// Measures a point once. After an error the server is started anew for what follows.
    fn measure(
        &self,
        session: &mut Self::Session,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String>;
}

/// Lets values of an axis be written, and read again, by their names as options.
macro_rules! axis_values {
    ($($of:ty),*) => {$(
        impl std::fmt::Display for $of {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let value = clap::ValueEnum::to_possible_value(self);
                f.write_str(value.as_ref().map_or("", |value| value.get_name()))
            }
        }

        impl std::str::FromStr for $of {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                clap::ValueEnum::from_str(text, false)
            }
        }
    )*};
}
pub(crate) use axis_values;

/// All combinations of the values of some axes; the last axis changes first.
pub fn grid<const N: usize>(axes: [(&str, Vec<String>); N]) -> Vec<Point> {
    let mut points = vec![Point::new()];
    for (axis, values) in axes {
        let with = |point: &Point| {
            let longer = |value: &String| {
                let mut point = point.clone();
                point.insert(axis.to_owned(), value.clone());
                point
            };
            values.iter().map(longer).collect::<Vec<_>>()
        };
        points = points.iter().flat_map(with).collect();
    }
    points
}

/// Values of an axis as text.
pub fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

/// The value of an axis at a point of an experiment's own grid.
pub fn at<T: FromStr>(point: &Point, axis: &str) -> T {
    let value = point.get(axis).and_then(|text| text.parse().ok());
    value.expect("an experiment reads the axes that it has made")
}

/// Every experiment that there is.
pub const ALL: &[&Description] = &[
    crate::matrix::DESCRIPTION,
    crate::commands::DESCRIPTION,
    crate::workloads::DESCRIPTION,
    crate::persistence::DESCRIPTION,
    crate::replication::DESCRIPTION,
    crate::memory::DESCRIPTION,
    crate::collections::DESCRIPTION,
    crate::scaling::DESCRIPTION,
    crate::tracking::DESCRIPTION,
    crate::publish::DESCRIPTION,
    crate::pause::DESCRIPTION,
    crate::churn::DESCRIPTION,
    crate::connections::DESCRIPTION,
    crate::trace::DESCRIPTION,
    crate::hitrate::DESCRIPTION,
    crate::vectors::DESCRIPTION,
    crate::json::DESCRIPTION,
    crate::engine::DESCRIPTION,
    crate::handlers::DESCRIPTION,
    crate::effects::DESCRIPTION,
    crate::client::DESCRIPTION,
    crate::cluster::DESCRIPTION,
    crate::consistency::DESCRIPTION,
];
