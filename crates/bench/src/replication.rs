//! `replication`: cost of a replica to its primary, full copies, and failovers.

mod copy;
mod failover;

use std::time::{Duration, Instant};

use petrel_client::{Commands, DedicatedCommands};

use crate::experiment::{Case, Experiment, Options, SET, fill, grid, measured, texts, timed};
use crate::load::{KeySpace, Plan, ValueSizes};
use crate::result::{Measured, Point};
use crate::server::{Peer, Server, Setting, Transport};
use crate::wire::{Endpoint, client};
use copy::follow;
use failover::Sentinel;

/// Longest time of a copy, and of a replica that lags behind.
const PATIENCE: Duration = Duration::from_secs(300);

/// Processes beside the server: a replica, and a sentinel that watches both.
#[derive(Default)]
pub struct Beside {
    replica: Option<Server>,
    _sentinel: Option<Sentinel>,
}

/// `replication`: primary and replica.
#[derive(Default)]
pub struct Replication;

impl Experiment for Replication {
    const NAME: &'static str = "replication";
    type State = Beside;

    fn points(&self, options: &Options) -> Vec<Point> {
        let of = |work: &String| {
            let pipelines = match work.as_str() {
                "alone" | "replica" => options.texts("pipelines").to_vec(),
                _ => texts(&[1]),
            };
            grid([("work", texts(&[work])), ("pipeline", pipelines)])
        };
        options.texts("works").iter().flat_map(of).collect()
    }

    fn leaves_out(&self, _: &Peer, case: &Case<'_>) -> bool {
        case.text("work") == "sentinel" && !Sentinel::is_there(case)
    }

    /// Sets TCP, where a replica finds its primary.
    fn setting(&self, _: &Case<'_>, setting: Setting) -> Setting {
        Setting { transport: Transport::Tcp, ..setting }
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Beside, String> {
        let work = case.text("work");
        fill(plan(case, server))?;
        let set = client(server.endpoint())
            .and_then(|client| client.config_set([("repl-diskless-sync-delay", 0)]).run());
        set.map_err(|error| format!("it takes no setting: {error}"))?;
        if matches!(work, "alone" | "copy") {
            return Ok(Beside::default());
        }
        let replica = follow(server, case.get("keys"), || Ok(()))?.0;
        let is_watched = work == "sentinel";
        let sentinel = is_watched.then(|| Sentinel::start(case, server)).transpose()?;
        Ok(Beside { replica: Some(replica), _sentinel: sentinel })
    }

    fn measure(&self, case: &Case<'_>, server: &Server, beside: &mut Beside) -> Measured {
        match (case.text("work"), &beside.replica) {
            ("copy", _) => return copy::measure_copies(case, server),
            ("failover", Some(replica)) => {
                return failover::by_command(server, replica);
            }
            ("sentinel", Some(replica)) => {
                return failover::by_sentinel(server, replica);
            }
            _ => {}
        }
        let plan = Plan { operation: SET, ..plan(case, server) };
        let measured = measured(&timed(case, plan))?;
        match beside.replica {
            None => Ok(measured),
            Some(_) => Ok(measured.with("lag", 1000.0 * lag(server)?.as_secs_f64())),
        }
    }
}

fn plan(case: &Case<'_>, server: &Server) -> Plan {
    let keys = if case.text("work") == "copy" { "copy-keys" } else { "keys" };
    let keys = KeySpace { count: case.get(keys), size: 16 };
    Plan { values: case.get::<ValueSizes>("values"), ..Plan::new(server, keys) }
}

/// Host and port of a primary.
fn address(server: &Server) -> Result<(String, String), String> {
    match server.endpoint() {
        Endpoint::Tcp(address) => Ok((address.ip().to_string(), address.port().to_string())),
        _ => Err("a replica finds its primary over TCP".to_owned()),
    }
}

/// Time until the replica has acknowledged all writes.
fn lag(server: &Server) -> Result<Duration, String> {
    let failed = |error: petrel_client::Error| format!("the replica does not follow: {error}");
    let mut client =
        client(server.endpoint()).and_then(|client| client.dedicated()).map_err(failed)?;
    let begin = Instant::now();
    // A client waits for its own writes.
    client.set("replication-end", 1).run().map_err(failed)?;
    let count = client.wait(1, 20_000).run().map_err(failed)?;
    match count {
        1 => Ok(begin.elapsed()),
        count => Err(format!("WAIT answers {count}")),
    }
}
