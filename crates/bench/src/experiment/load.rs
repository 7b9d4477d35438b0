//! Loads of one command over many connections, as several experiments measure them.

use super::Case;
use crate::load::{self, Extent, KeyOrder, KeySpace, Lengths, Operation, Plan, ValueSizes};
use crate::result::{Measured, Measurement};
use crate::server::Server;

/// Seconds of load before a window that is measured.
pub const WARM_UP_S: f64 = 0.3;

/// SET without a time to live.
pub const SET: Operation = Operation::Set { ttl_s: None };

/// GETs of all keys of 16 bytes of a case (options `keys`, `values`).
pub fn plan(case: &Case<'_>, server: &Server) -> Plan {
    let values: ValueSizes = case.get("values");
    Plan { values, ..Plan::new(server, KeySpace { count: case.get("keys"), size: 16 }) }
}

/// Stores every key of a plan once.
pub fn fill(plan: Plan) -> Result<(), String> {
    let plan = Plan { operation: SET, extent: Extent::Walk, ..plan };
    load::run(&plan).map(|_| ()).map_err(|error| format!("while filled: {error}"))
}

/// A plan's command with keys drawn at random, over the case's connections and pipeline, for the
/// time of a measurement. SET stores values of another length.
pub fn timed(case: &Case<'_>, plan: Plan) -> Plan {
    let is_set = matches!(plan.operation, Operation::Set { .. });
    Plan {
        order: KeyOrder::Random,
        lengths: if is_set { Lengths::Random } else { Lengths::ByKey },
        connections: case.get("connections"),
        pipeline: case.at("pipeline"),
        extent: Extent::window(WARM_UP_S, case.get("seconds")),
        seed: case.seed(),
        ..plan
    }
}

/// Figures of a load.
pub fn measured(plan: &Plan) -> Measured {
    let outcome = load::run(plan)?;
    Ok(Measurement::of_load(&outcome, plan.operation == Operation::Get))
}
