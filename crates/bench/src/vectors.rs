//! `vectors`: cost of a query for the nearest vectors at a recall, on servers with vector sets and
//! in libraries.

mod data;
mod engine;
mod library;
mod set;

use std::path::PathBuf;

use crate::experiment::{Case, Experiment, Options, grid};
use crate::result::{Measured, Measurement, Point};
use crate::server::{Chosen, Peer, Server, Setting};

use data::{Data, Sets, Share};
use engine::{Engine, Form, Loaded};
use library::Library;
use set::VectorSet;

/// Links of a node on the upper levels (M), and candidates of a new node (EF), equal everywhere.
const LINKS: u32 = 16;
const BUILD: u32 = 200;

/// Vectors in a server or a library.
pub struct Scene {
    engine: Box<dyn Engine>,
    data: std::sync::Arc<Data>,
    loaded: Loaded,
}

/// `vectors`: nearest vectors.
#[derive(Default)]
pub struct Vectors {
    sets: Sets,
}

impl Experiment for Vectors {
    const NAME: &'static str = "vectors";
    type State = Scene;

    /// Makes all vectors, so that an error comes before the first server is started.
    fn check(&self, options: &Options) -> Result<(), String> {
        for kind in options.all("data") {
            for size in options.all("sizes") {
                self.sets.of(&shape(options, kind, size), &python(options))?;
            }
        }
        Ok(())
    }

    fn settings(&self, options: &Options) -> serde_json::Value {
        let mut settings = options.settings(crate::experiment::Description::named(Self::NAME));
        settings["provenance"] = self.sets.provenance().into();
        settings
    }

    fn admits(&self, peer: &Peer) -> bool {
        peer.is_library() || peer.is_petrel() || peer.may_have_types_of_redis_8()
    }

    fn libraries(&self, options: &Options) -> Chosen {
        library::installed(&python(options), options)
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let mut works = Vec::new();
        for work in options.texts("work") {
            match work.as_str() {
                "search" => {
                    let recalls = options.texts("recall").iter();
                    works.extend(recalls.map(|recall| format!("search {recall}")));
                }
                "filter" => works.extend(Share::FILTERED.map(|share| share.to_string())),
                work => works.push(work.to_owned()),
            }
        }
        // Inserts come last: they change the answers.
        works.sort_by_key(|work| work == "insert");
        let axis = |option| options.texts(option).to_vec();
        grid([
            ("data", axis("data")),
            ("size", axis("sizes")),
            ("form", axis("forms")),
            ("work", works),
        ])
    }

    fn leaves_out(&self, peer: &Peer, case: &Case<'_>) -> bool {
        let form: Form = case.at("form");
        let has = match peer.is_library() {
            true => library::has(&peer.name, form, case.text("work")),
            false => peer.is_petrel() || form != Form::Coded,
        };
        !has
    }

    fn setting(&self, _: &Case<'_>, setting: Setting) -> Setting {
        Setting { connections: 64, ..setting }
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Scene, String> {
        let shape = shape(case.options, case.at("data"), case.at("size"));
        let data = self.sets.of(&shape, &python(case.options))?;
        let (form, threads) = (case.at("form"), case.get("server-threads"));
        let mut engine: Box<dyn Engine> = match server.peer().is_library() {
            true => Box::new(Library::new(server, form, threads)?),
            false => Box::new(VectorSet::new(server, form, threads)?),
        };
        let loaded = engine.load(server, &data)?;
        Ok(Scene { engine, data, loaded })
    }

    fn measure(&self, case: &Case<'_>, server: &Server, scene: &mut Scene) -> Measured {
        let Scene { engine, data, loaded } = scene;
        let share = case.some("work").unwrap_or(Share::ALL);
        let first = case.get::<f64>("recall") / 100.0;
        match case.text("work") {
            "load" => Ok(loaded.measured(data)),
            "insert" => {
                let found = engine::reach(&mut **engine, server, data, Share::ALL, first)?;
                let seconds = case.get("seconds");
                let beside = engine.insert(data, found.effort, seconds)?;
                Ok(Measurement::default()
                    .with("ef", f64::from(found.effort))
                    .with("recall", 100.0 * found.recall)
                    .with("inserts", beside.inserts_per_s())
                    .with("throughput", beside.queries_per_s()))
            }
            work => {
                let target = work.strip_prefix("search ").and_then(|text| text.parse().ok());
                let target = target.map_or(first, |percent: f64| percent / 100.0);
                let found = engine::reach(&mut **engine, server, data, share, target)?;
                Ok(found.measured(target))
            }
        }
    }
}

/// The interpreter that has the libraries.
fn python(options: &Options) -> PathBuf {
    options.get("python")
}

fn shape(options: &Options, kind: data::Kind, count: usize) -> data::Shape {
    let (dim, queries) = (options.get("dim"), options.get("queries"));
    data::Shape { kind, dim, count, queries, spare: count / 5 }
}
