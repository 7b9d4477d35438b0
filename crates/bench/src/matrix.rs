//! `matrix`: SET and GET over pipelines and server threads, every server under the same load.

use crate::experiment::{Case, Description, Experiment, Lifetime, Options, SET, fill, points};
use crate::load::{self, Extent, KeyOrder, KeySpace, Lengths, Operation, Plan, ValueSizes};
use crate::result::{Measured, Measurement, Point};
use crate::server::Server;

/// Bytes in flight per connection while a server is filled.
const FILL_BYTES: f64 = 256.0 * 1024.0;

/// `matrix`: SET and GET apart.
#[derive(Default)]
pub struct Matrix;

impl Experiment for Matrix {
    const NAME: &'static str = "matrix";
    type State = ();

    fn check(&self, options: &Options) -> Result<(), String> {
        KeySpace::new(options.get("keys"), options.get("key-size")).map(|_| ())
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let mut points = points(Description::named(Self::NAME), options);
        let commands = points.iter_mut().filter_map(|point| point.get_mut("command"));
        commands.for_each(|command| *command = command.to_uppercase());
        points
    }

    fn lifetime(&self, options: &Options) -> Lifetime {
        if options.has("fresh") { Lifetime::Measurement } else { Lifetime::Group }
    }

    /// Stores every key once, with lengths that a GET can check. A bare loop stores nothing.
    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<(), String> {
        let is_empty = case.options.has("fresh") && case.text("command") == "SET";
        if is_empty || server.peer().is_floor() {
            return Ok(());
        }
        let mean = case.at::<ValueSizes>("values").mean().max(1.0);
        let pipeline = (FILL_BYTES / mean).clamp(1.0, 50.0) as usize;
        let plan = Plan { connections: 4, pipeline, ..plan(case, server) };
        fill(plan)
    }

    fn measure(&self, case: &Case<'_>, server: &Server, (): &mut ()) -> Measured {
        let is_get = case.text("command") == "GET";
        let (operation, lengths) = match is_get {
            false => (SET, Lengths::Random),
            true => (Operation::Get, Lengths::ByKey),
        };
        let extent = match case.options.some("ops") {
            Some(count) => Extent::Operations(count),
            None => Extent::window(case.get("warmup"), case.get("seconds")),
        };
        let order = match case.options.has_value("key-order", "random") {
            true => KeyOrder::Random,
            false => KeyOrder::Sequential,
        };
        let plan = Plan {
            operation,
            order,
            lengths,
            connections: case.get("connections"),
            threads: case.get("client-threads"),
            pipeline: case.at("pipeline"),
            extent,
            rate: case.options.some("rate"),
            seed: case.seed(),
            ..plan(case, server)
        };
        let outcome = load::run(&plan)?;
        let replies = &outcome.replies;
        let other = if is_get { replies.done } else { replies.hits + replies.misses };
        if other > 0 {
            return Err(format!("{other} replies belong to another command"));
        }
        Ok(Measurement::of_load(&outcome, plan.check_lengths && is_get))
    }
}

/// Plan over all keys, as many as the limit on stored bytes allows.
fn plan(case: &Case<'_>, server: &Server) -> Plan {
    let values: ValueSizes = case.at("values");
    let fitting = (case.get::<u64>("data-limit") as f64 / values.mean().max(1.0)) as u64;
    let count = case.get::<u64>("keys").min(fitting.max(1));
    let keys = KeySpace { count, size: case.get("key-size") };
    Plan { check_lengths: !server.peer().is_floor(), values, ..Plan::new(server, keys) }
}
