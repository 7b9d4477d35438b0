//! `vectors`: what a query for the nearest vectors costs at a recall, on servers with vector sets
//! and in libraries.

mod data;
mod engine;
mod library;
mod set;

use std::path::PathBuf;

use serde::Serialize;

use crate::experiment::{
    Better, Description, Experiment, FIGURE, Figure, Lifetime, Plot, RunArgs, SERVER, Session,
    View, at, grid, parse_seconds, texts,
};
use crate::result::{Measurement, Point};
use crate::server::{Chosen, Peer, Server, Setting};

use data::{Data, Sets, Share};
use engine::{Engine, Loaded};
use library::Library;
use set::VectorSet;

/// Measure queries for the nearest vectors at a recall, inserts beside them, filters, memory.
///
/// Servers need vector sets: petrel, redis from version 8, and those of --peer. Libraries of Python
/// (hnswlib, usearch, faiss, qdrant's embedded engine) are measured in processes of their own where
/// they are installed. Vectors of texts need numpy and scikit-learn; they are made once and kept in
/// the cache directory of the user.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct VectorsArgs {
    /// Vectors: texts (latent semantic analysis of installed documentation), clusters (Gaussians)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,...",
        default_value = "texts,clusters",
        default_value_if("quick", "true", "clusters")
    )]
    data: Vec<data::Kind>,

    /// Numbers of vectors
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "100000",
          default_value_if("quick", "true", "4000"),
          value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    sizes: Vec<u32>,

    /// Dimensions
    #[arg(long, default_value_t = 384, value_name = "N",
          value_parser = clap::value_parser!(u32).range(2..=32_768))]
    dim: u32,

    /// How vectors are stored: floats, int8, coded (petrel's RABITQ, faiss's RaBitQ)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "FORM,...",
        default_value = "floats,int8,coded",
        default_value_if("quick", "true", "floats,coded")
    )]
    forms: Vec<engine::Form>,

    /// What is measured: load, search, filter, insert
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,...",
        default_value = "load,search,filter,insert"
    )]
    work: Vec<Work>,

    /// Recall of the nearest ten that searches must reach, per cent; filters and inserts take the
    /// first
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...", default_value = "96,90,99",
          default_value_if("quick", "true", "96"),
          value_parser = clap::value_parser!(u16).range(1..=100))]
    recall: Vec<u16>,

    /// Queries, none of which is among the vectors
    #[arg(long, default_value_t = 1000, default_value_if("quick", "true", "200"),
          value_name = "N", value_parser = clap::value_parser!(u32).range(64..=10_000))]
    queries: u32,

    /// Libraries [default: all that are installed]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    libraries: Option<Vec<String>>,

    /// The interpreter that has the libraries
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    #[serde(skip)]
    python: PathBuf,

    /// Threads of servers and libraries, and connections that ask at once
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    server_threads: u16,

    /// How long inserts and queries beside them take
    #[arg(long, default_value_t = 3.0, default_value_if("quick", "true", "0.7"),
          value_parser = parse_seconds)]
    seconds: f64,

    /// Of what texts were made.
    #[arg(skip)]
    provenance: data::Provenance,

    #[arg(skip)]
    #[serde(skip)]
    sets: Sets,
}

/// What is measured of a set of vectors.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Work {
    /// Building it.
    Load,
    /// Queries.
    Search,
    /// Queries with a filter, which only servers have in the same form.
    Filter,
    /// Inserts beside queries.
    Insert,
}

/// Links of a node on the upper levels (M), and neighbours that are looked at for a new one, the
/// same everywhere.
const LINKS: u32 = 16;
const BUILD: u32 = 200;

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "vectors",
    title: "Vectors",
    about: "The ten nearest of vectors of length 1, by their cosine. For each recall the smallest effort is looked for \
            by bisection at which this share of the ten is found that looking at every float finds; ef is that effort \
            (faiss, coded: lists that are probed). As many connections as threads ask, 8 queries in flight on each; \
            libraries are asked for all queries by one call. CPU is of the server's or the library's process, all \
            threads. Graphs have M 16 and are built with ef 200. Inserts: one connection or thread inserts, another \
            queries; hnswlib, usearch and faiss take turns, as their documentation says or their Python needs. Bytes: \
            growth of a server's resident memory, names included; a library's index as it says. Filters pass 1, 10 and 50 \
            % at random.",
    axes: &[("data", "{}"), ("size", "{} vectors"), ("form", "{}"), ("work", "{}")],
    figures: &[
        Figure::new("cpu", "CPU per query", "us", 1, Better::Less),
        Figure::new("ef", "ef", "", 0, Better::Neither),
        Figure::new("recall", "Recall of the nearest ten", "%", 2, Better::Neither),
        Figure::new("throughput", "Queries", "queries/s", 0, Better::More),
        Figure::new("inserts", "Inserts", "inserts/s", 0, Better::More),
        Figure::new("insert_cpu", "CPU per insert", "us", 0, Better::Less),
        Figure::new("bytes", "Bytes per vector", "", 0, Better::Less),
        Figure::new("of_floats", "Bytes over those of the floats", "ratio", 3, Better::Less),
        Figure::new("counted", "Bytes per vector, MEMORY USAGE", "", 0, Better::Less),
    ],
    views: &[
        View::new("CPU per query, us", &["cpu"], &["data", "size", "form"], &["work"], &[SERVER])
            .plot(Plot::Bars)
            .in_summary(),
        View::new(
            "All figures",
            ALL_FIGURES,
            &["data", "size", "work"],
            &["form", SERVER],
            &[FIGURE],
        ),
    ],
};

const ALL_FIGURES: &[&str] = &[
    "ef",
    "recall",
    "cpu",
    "throughput",
    "inserts",
    "insert_cpu",
    "bytes",
    "of_floats",
    "counted",
];

/// A server or a library with vectors.
pub struct Scene {
    server: Server,
    engine: Box<dyn Engine>,
    data: std::sync::Arc<Data>,
    loaded: Loaded,
}

impl Session for Scene {
    fn server(&self) -> &Server {
        &self.server
    }
}

impl Experiment for VectorsArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const ROUNDS: (usize, usize) = (3, 1);
    const GROUP: &'static [&'static str] = &["data", "size", "form"];
    type Session = Scene;

    /// Vectors are there: that is better known before the first server is started.
    fn check(&self) -> Result<(), String> {
        for kind in &self.data {
            for &size in &self.sizes {
                let shape = self.shape(*kind, size);
                self.sets.of(&shape, &self.python, &self.provenance)?;
            }
        }
        Ok(())
    }

    fn admits(&self, peer: &Peer) -> bool {
        peer.is_library() || peer.is_petrel() || peer.may_have_types_of_redis_8()
    }

    fn libraries(&self) -> Chosen {
        library::installed(&self.python, self.libraries.as_deref())
    }

    fn points(&self) -> Vec<Point> {
        let mut works = Vec::new();
        for work in &self.work {
            match work {
                Work::Load => works.push("load".to_owned()),
                Work::Search => {
                    works.extend(self.recall.iter().map(|recall| format!("search {recall}")));
                }
                Work::Filter => works.extend(Share::FILTERED.map(|share| share.to_string())),
                Work::Insert => works.push("insert".to_owned()),
            }
        }
        // Inserts come last: what is found changes with them.
        works.sort_by_key(|work| work == "insert");
        grid([
            ("data", texts(&self.data)),
            ("size", texts(&self.sizes)),
            ("form", texts(&self.forms)),
            ("work", works),
        ])
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Server
    }

    fn leaves_out(&self, peer: &Peer, point: &Point) -> bool {
        let form: engine::Form = at(point, "form");
        let has = match peer.is_library() {
            true => library::has(&peer.name, form, &point["work"]),
            false => peer.is_petrel() || form != engine::Form::Coded,
        };
        !has
    }

    fn setting(&self, run: &RunArgs, _: &Point) -> Setting {
        run.setting(usize::from(self.server_threads), 64)
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Scene, String> {
        let shape = self.shape(at(point, "data"), at(point, "size"));
        let data = self.sets.of(&shape, &self.python, &self.provenance)?;
        let (form, threads) = (at(point, "form"), usize::from(self.server_threads));
        let mut engine: Box<dyn Engine> = match server.peer().is_library() {
            true => Box::new(Library::new(&server, form, threads)?),
            false => Box::new(VectorSet::new(&server, form, threads)?),
        };
        let loaded = engine.load(&server, &data)?;
        Ok(Scene { server, engine, data, loaded })
    }

    fn measure(&self, scene: &mut Scene, point: &Point, _: usize) -> Result<Measurement, String> {
        let Scene { server, engine, data, loaded } = scene;
        let share = point["work"].parse().unwrap_or(Share::ALL);
        match point["work"].as_str() {
            "load" => Ok(loaded.measured(data)),
            "insert" => {
                let found = engine::reach(&mut **engine, server, data, Share::ALL, self.target(0))?;
                let beside = engine.insert(server, data, found.effort, self.seconds)?;
                Ok(Measurement::default()
                    .with("ef", f64::from(found.effort))
                    .with("recall", 100.0 * found.recall)
                    .with("inserts", beside.inserts_per_s())
                    .with("throughput", beside.queries_per_s()))
            }
            work => {
                let target = work.strip_prefix("search ").and_then(|text| text.parse().ok());
                let target = target.map_or(self.target(0), |percent: f64| percent / 100.0);
                let found = engine::reach(&mut **engine, server, data, share, target)?;
                Ok(found.measured(target))
            }
        }
    }
}

impl VectorsArgs {
    fn shape(&self, kind: data::Kind, size: u32) -> data::Shape {
        let (count, queries) = (size as usize, self.queries as usize);
        data::Shape { kind, dim: self.dim as usize, count, queries, spare: count / 5 }
    }

    fn target(&self, at: usize) -> f64 {
        f64::from(self.recall.get(at).copied().unwrap_or(96)) / 100.0
    }
}
