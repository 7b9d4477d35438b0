//! Experiments with templates of commands as works: `commands`, `workloads`, `scaling`,
//! `memory-types`.

use std::time::Duration;

use crate::command::{Template, Variables};
use crate::exchange::Exchange;
use crate::experiment::{Case, Description, Experiment, Options, points};
use crate::random::Random;
use crate::result::{Measured, Measurement, Point};
use crate::server::Server;
use crate::text::Entry;
use crate::work::{Filling, Mix, Until, drive};

fn work<E: Experiment>(case: &Case<'_>, axis: &str) -> &'static Entry {
    Description::named(E::NAME).work(case.text(axis))
}

/// `commands`: server CPU per operation of commands on every data type.
#[derive(Default)]
pub struct Commands;

impl Experiment for Commands {
    const NAME: &'static str = "commands";
    type State = (Exchange, Mix);

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Self::State, String> {
        let work = work::<Self>(case, "command");
        let mut exchange = Exchange::connect(server.endpoint(), case.get("connections"))?;
        if let Some(filling) = Filling::of(work) {
            filling.store_keys(&mut exchange, case.get("keys"), case.get("pipeline"))?;
        }
        Ok((exchange, Mix::of(work)))
    }

    fn measure(
        &self,
        case: &Case<'_>,
        server: &Server,
        (exchange, mix): &mut Self::State,
    ) -> Measured {
        let size = case.get("keys");
        let until = Until::Operations(case.get("operations"));
        let draw =
            |random: &mut Random| Variables { n: random.below(size), at: random.below(90), size };
        let mut measured =
            drive((server, exchange, mix), case.get("pipeline"), until, case.seed(), draw)?;
        // An operation of several commands is one here.
        let cpu = measured.figures["cpu"] * mix.replies() as f64;
        let throughput = measured.figures["throughput"] / mix.replies() as f64;
        measured = measured.with("cpu", cpu).with("throughput", throughput);
        Ok(measured)
    }
}

/// `workloads`: mixes of commands as applications send them.
#[derive(Default)]
pub struct Workloads;

/// Operations between two looks at the clock, per connection.
const OPERATIONS_PER_LOOK: u64 = 64;

impl Experiment for Workloads {
    const NAME: &'static str = "workloads";
    type State = (Exchange, Mix);

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Self::State, String> {
        let work = work::<Self>(case, "workload");
        let connections = work.number("connections").unwrap_or(1);
        let mut exchange = Exchange::connect(server.endpoint(), connections)?;
        if let Some(filling) = Filling::of(work) {
            filling.store_keys(&mut exchange, case.get("keys"), 16)?;
        }
        Ok((exchange, Mix::of(work)))
    }

    fn measure(
        &self,
        case: &Case<'_>,
        server: &Server,
        (exchange, mix): &mut Self::State,
    ) -> Measured {
        let (size, pipeline) = (case.get("keys"), case.at::<u64>("pipeline"));
        let batch = OPERATIONS_PER_LOOK.max(pipeline) * exchange.connections() as u64;
        let until = Until::Seconds { seconds: case.get("seconds"), batch, batch_max: batch };
        let draw = |random: &mut Random| Variables { n: random.below(size), at: 0, size };
        drive((server, exchange, mix), pipeline as usize, until, case.seed(), draw)
    }
}

/// `scaling`: server CPU of one operation over the size of its collection.
#[derive(Default)]
pub struct Scaling;

impl Experiment for Scaling {
    const NAME: &'static str = "scaling";
    type State = Exchange;

    fn check(&self, options: &Options) -> Result<(), String> {
        match options.all::<u64>("sizes").contains(&0) {
            true => Err("--sizes needs numbers above zero".to_owned()),
            false => Ok(()),
        }
    }

    /// Operations on the same collection share a server.
    fn points(&self, options: &Options) -> Vec<Point> {
        let own = Description::named(Self::NAME);
        let mut points = points(own, options);
        for point in &mut points {
            let fill = own.work(&point["operation"]).get("fill").unwrap_or_default();
            point.insert("collection".to_owned(), fill.to_owned());
        }
        points
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Exchange, String> {
        let mut exchange = Exchange::connect(server.endpoint(), 1)?;
        if let Some(filling) = Filling::of(work::<Self>(case, "operation")) {
            filling.store(&mut exchange, case.at("size"), 500, 8)?;
        }
        server.wait_for_rest()?;
        Ok(exchange)
    }

    fn measure(&self, case: &Case<'_>, server: &Server, exchange: &mut Exchange) -> Measured {
        let (size, work) = (case.at::<u64>("size"), work::<Self>(case, "operation"));
        let (part, mix) = (work.number::<u64>("part").unwrap_or(2), Mix::of(work));
        let until = Until::Seconds { seconds: case.get("seconds"), batch: 1, batch_max: 1024 };
        let draw = |random: &mut Random| Variables { n: random.below(size), at: size / part, size };
        let seed = size + case.round as u64;
        let mut measured = drive((server, exchange, &mix), 16, until, seed, draw)?;
        measured.figures.retain(|name, _| name == "cpu");
        Ok(measured)
    }
}

/// `memory-types`: resident bytes per element of collections, small ones in many keys and large
/// ones.
#[derive(Default)]
pub struct MemoryTypes;

/// Commands sent to the empty server first, and bytes of each: as large as the later ones.
const WARM_UP_COMMANDS: u64 = 20_000;
const WARM_UP_BYTES: usize = 500;

/// Longest wait until the memory of an empty and of a loaded server rests.
const REST_EMPTY: Duration = Duration::from_secs(5);
const REST_LOADED: Duration = Duration::from_secs(10);

impl Experiment for MemoryTypes {
    const NAME: &'static str = "memory-types";
    type State = (Exchange, Filling);

    /// Warms the connections up, so that the memory of the traffic is not charged to the elements.
    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<Self::State, String> {
        let filling = Filling::of(work::<Self>(case, "collection")).ok_or("nothing is filled")?;
        let connections = if filling.takes_one() { 1 } else { 4 };
        let mut exchange = Exchange::connect(server.endpoint(), connections)?;
        let echo = Template::known(&format!("ECHO {{n:020}}{}", "0".repeat(WARM_UP_BYTES - 20)));
        let mut random = Random::new(0);
        exchange.run(1, WARM_UP_COMMANDS, 32, |out| {
            echo.put(Variables::default(), &mut random, out);
        })?;
        Ok((exchange, filling))
    }

    fn measure(
        &self,
        case: &Case<'_>,
        server: &Server,
        (exchange, filling): &mut Self::State,
    ) -> Measured {
        let elements: u64 = case.get("elements");
        let empty = server.rss_at_rest(REST_EMPTY)?.0;
        filling.store(exchange, elements, 100, 32)?;
        let loaded = server.rss_at_rest(REST_LOADED)?.0;
        let bytes = loaded.saturating_sub(empty) as f64 / elements as f64;
        Ok(Measurement::default().with("bytes", bytes))
    }
}
