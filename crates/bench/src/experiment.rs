//! Frame of all experiments.
//!
//! ```text
//! experiment = servers x points of a grid x rounds -> result file -> tables and plots
//! ```
//!
//! A [`Description`] is read from a file in `experiments/`: options, axes of the grid, figures,
//! tables and plots, and works that a table can describe. An [`Experiment`] adds the code:
//! preparing a server and measuring one point once. The frame ([`run`]) finds the servers, starts
//! and ends them, decides the order, records every measurement in a result file, and resumes an
//! interrupted run. Pages are made from result files alone ([`crate::report`]).

mod description;
mod load;
mod options;
mod run;
mod run_args;

use std::str::FromStr;

pub use description::{
    Better, Cells, Description, FIGURE, Figure, Lifetime, Plot, SERVER, View, all,
};
pub use load::{SET, WARM_UP_S, fill, measured, plan, timed};
pub use options::{Options, with_options};
pub use run::run;
pub use run_args::RunArgs;

use crate::result::{Measured, Point};
use crate::server::{Chosen, Peer, Server, Setting};

/// Point of a grid, with the options of the run.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Options of the run.
    pub options: &'a Options,
    /// The point.
    pub point: &'a Point,
    /// Number of the round, from 0.
    pub round: usize,
}

impl<'a> Case<'a> {
    /// Value of an axis at the point.
    ///
    /// # Panics
    ///
    /// If the grid has no such axis, or if its values are of another type.
    pub fn at<T: FromStr>(&self, axis: &str) -> T {
        self.some(axis).expect("an experiment reads the axes that it has made")
    }

    /// Value of an axis at the point, if it is of this type.
    pub fn some<T: FromStr>(&self, axis: &str) -> Option<T> {
        self.point.get(axis)?.parse().ok()
    }

    /// Value of an axis as text; empty if the grid has no such axis.
    pub fn text(&self, axis: &str) -> &'a str {
        self.point.get(axis).map_or("", String::as_str)
    }

    /// Value of an option ([`Options::get`]).
    pub fn get<T: FromStr>(&self, option: &str) -> T {
        self.options.get(option)
    }

    /// Seed of the round's random numbers.
    pub fn seed(&self) -> u64 {
        self.round as u64 + 1
    }
}

/// An experiment: the code beside its [`Description`].
pub trait Experiment: Default {
    /// Name of the description.
    const NAME: &'static str;
    /// Whether clusters are measured without being named.
    const MEASURES_CLUSTERS: bool = false;
    /// State of a prepared server: connections, and facts about its data.
    type State;

    /// Refuses options that make no sense together.
    fn check(&self, _: &Options) -> Result<(), String> {
        Ok(())
    }

    /// Settings in the result file.
    fn settings(&self, options: &Options) -> serde_json::Value {
        options.settings(Description::named(Self::NAME))
    }

    /// Subjects measured within processes of this program, in place of servers.
    fn in_process(&self, _: &Options) -> Option<Vec<Peer>> {
        None
    }

    /// Whether it can measure a server at all.
    fn admits(&self, peer: &Peer) -> bool {
        let admitted = &Description::named(Self::NAME).servers;
        let is_admitted = |is_kind: bool, kind: &str| !is_kind || admitted.contains(&kind);
        is_admitted(!peer.speaks_resp(), "memcached")
            && is_admitted(peer.is_floor(), "floors")
            && is_admitted(peer.is_cluster(), "clusters")
    }

    /// Libraries measured beside servers, each in a process that answers its orders.
    fn libraries(&self, _: &Options) -> Chosen {
        Chosen::default()
    }

    /// Points in the order of the run; those of a group lie together.
    fn points(&self, options: &Options) -> Vec<Point> {
        points(Description::named(Self::NAME), options)
    }

    /// Lifetime of a prepared server.
    fn lifetime(&self, _: &Options) -> Lifetime {
        Description::named(Self::NAME).lifetime
    }

    /// Whether the grid has no such point for a server.
    fn leaves_out(&self, peer: &Peer, case: &Case<'_>) -> bool {
        peer.is_variant() && case.text("threads") == "1"
    }

    /// Changes the setting of a server that is started for a point.
    fn setting(&self, _: &Case<'_>, setting: Setting) -> Setting {
        setting
    }

    /// Prepares a server that has just been started for the group of a point.
    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Self::State, String>;

    /// Measures a point once. After an error the server is started again.
    fn measure(&self, case: &Case<'_>, server: &Server, state: &mut Self::State) -> Measured;
}

/// Grid of the axes of a description: values of an option, the works, or values of the axis.
pub fn points(own: &Description, options: &Options) -> Vec<Point> {
    let values = |name: &&'static str| {
        let axis = own.axes.iter().find(|axis| axis.name == *name);
        let axis = axis.unwrap_or_else(|| panic!("{} has no axis {name}", own.name));
        let option = axis.source.iter().find(|source| **source != "work").copied();
        let given = option.map_or(&[][..], |option| options.texts(option));
        let values: Vec<&str> = if axis.source.contains(&"work") {
            own.work_names().filter(|work| options.wants(option.unwrap_or(""), work)).collect()
        } else {
            axis.values.iter().copied().chain(given.iter().map(String::as_str)).collect()
        };
        let is_usual = values.is_empty() && *name == "threads";
        (*name, if is_usual { texts(&usual_threads()) } else { texts(&values) })
    };
    grid(own.order.iter().map(values))
}

/// Default numbers of threads: one, and all processors.
fn usual_threads() -> Vec<usize> {
    let mut threads = vec![1, std::thread::available_parallelism().map_or(1, usize::from)];
    threads.dedup();
    threads
}

/// All combinations of the values of some axes; the last axis changes first.
pub fn grid<'a>(axes: impl IntoIterator<Item = (&'a str, Vec<String>)>) -> Vec<Point> {
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

/// Lets values of an axis be written, and read again, by their names as options.
macro_rules! axis_values {
    ($type:ident: $($value:ident $name:literal),* $(,)?) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($type::$value => $name),* })
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok($type::$value),)*
                    _ => Err(format!("there are {}", [$($name),*].join(", "))),
                }
            }
        }
    };
}
pub(crate) use axis_values;
