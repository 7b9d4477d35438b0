//! `persistence`: SET over pipelines without a log of changes, and with one.

use petrel_client::Commands;

use crate::experiment::{Case, Experiment, SET, fill, measured, plan, timed};
use crate::load::Plan;
use crate::result::Measured;
use crate::server::Server;
use crate::wire::client;

/// `persistence`: SET with and without a log.
#[derive(Default)]
pub struct Persistence;

impl Experiment for Persistence {
    const NAME: &'static str = "persistence";
    type State = ();

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<(), String> {
        let turn_on = || -> petrel_client::Result<String> {
            let client = client(server.endpoint())?;
            client.config_set([("appendfsync", case.text("log"))]).run()?;
            client.config_set([("appendonly", "yes")]).run()?;
            client.info().section(["persistence"]).run()
        };
        if case.text("log") != "off" {
            let info = turn_on().map_err(|error| format!("cannot turn its log on: {error}"))?;
            if !info.lines().any(|line| line.trim() == "aof_enabled:1") {
                return Err("its log is not on after CONFIG SET appendonly yes".to_owned());
            }
        }
        fill(plan(case, server))
    }

    fn measure(&self, case: &Case<'_>, server: &Server, (): &mut ()) -> Measured {
        measured(&timed(case, Plan { operation: SET, ..plan(case, server) }))
    }
}
