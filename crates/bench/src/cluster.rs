//! `cluster`: what a command costs all nodes of a cluster together, what they say to each other for
//! it, and how many round trips between them a client waits for.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use petrel_client::Commands;
use petrel_client::blocking::Client;
use petrel_cluster::{SLOTS, slot_of};
use serde::Serialize;

use crate::exchange::{client, order, wait_for_rest};
use crate::experiment::{
    Better, CPU, Cells, Description, Experiment, FIGURE, Figure, Lifetime, LoadArgs, RunArgs,
    SERVER, THROUGHPUT, View, at, axis_values,
};
use crate::load::{self, Extent, KeySpace, Operation, Plan, ValueSizes};
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting, relay};

/// Measure GET and SET at one node of a cluster, of which the CPU of all nodes counts; the bytes
/// that nodes say to each other; and round trips between them.
///
/// petrel-cluster is started with so many nodes, all of which hold all keys, and their clients
/// share the processors with them. What is no cluster is measured as one node. For bytes and round
/// trips what the nodes say to each other passes relays, which count and delay it.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ClusterArgs {
    /// Nodes
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,2,4",
          default_value_if("quick", "true", "1,2"),
          value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: Vec<u16>,

    /// What to measure
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORK,...",
        default_value = "get,set,bytes,trips"
    )]
    works: Vec<Work>,

    /// Requests in flight per connection
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,16",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pipelines: Vec<u16>,

    /// Number of keys
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    keys: u64,

    /// Sizes of values in bytes
    #[arg(long, default_value = "100", value_name = "SIZES")]
    values: ValueSizes,

    /// Round trip between nodes, microseconds
    #[arg(long, default_value_t = 500, value_name = "US",
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    round_trip: u64,

    #[command(flatten)]
    #[serde(flatten)]
    load: LoadArgs,
}

/// What is measured at a point.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Work {
    /// GET of keys that the node holds.
    Get,
    /// SET of keys with their homes at all nodes.
    Set,
    /// What nodes say to each other for SETs, ten at a time.
    Bytes,
    /// Round trips of one client's SET and INCR of keys with their homes elsewhere.
    Trips,
}

axis_values!(Work);

/// SETs in flight while the bytes between nodes are counted.
const BATCH: u16 = 10;

/// SETs whose bytes are counted.
const COUNTED: u64 = 50_000;

/// Commands whose round trips are measured, and round trips of the relays alone.
const TRIPS: usize = 1_000;

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "cluster",
    title: "Cluster",
    about: "All connections go to one node of a cluster; keys have their homes at all nodes, and every node holds all of them. \
            CPU is that of all nodes together, which share the processors with the load: so throughput is not that of as many \
            machines. Derived is what nodes with two processors each would reach together, if CPU were all: 2 x nodes / CPU per \
            operation. Bytes are those that pass between nodes, TLS included, for SETs of one connection, ten in flight, less key \
            and value once for each other node, which is how often they have to travel. Trips are the median time of a client's \
            SET (INCR) of a key with its home at another node, over the median time of a byte there and back through a relay with \
            the same delay.",
    axes: &[("work", "{}"), ("nodes", "nodes: {}"), ("pipeline", "P{}")],
    figures: &[
        THROUGHPUT,
        CPU,
        Figure::new("derived", "Derived throughput", "operations/s", 0, Better::More),
        Figure::new("p50", "p50 latency", "ms", 3, Better::Less),
        Figure::new("p99", "p99 latency", "ms", 3, Better::Less),
        Figure::new("p999", "p99.9 latency", "ms", 3, Better::Less),
        Figure::new("bytes", "Bytes beyond key and value per SET and node", "B", 1, Better::Less),
        Figure::new("set_trips", "SET of a key elsewhere", "round trips", 2, Better::Less),
        Figure::new("incr_trips", "INCR of a key elsewhere", "round trips", 2, Better::Less),
        Figure::new("round_trip", "Round trip through a relay", "us", 0, Better::Neither),
    ],
    views: &[
        View::new("CPU of all nodes", &["cpu"], &["work"], &["nodes", "pipeline"], &[SERVER])
            .in_summary(),
        View::new(
            "Between nodes",
            &["bytes", "set_trips", "incr_trips", "round_trip"],
            &[],
            &[FIGURE, "work", "nodes", "pipeline"],
            &[SERVER],
        )
        .in_summary(),
        View::new(
            "Throughput, measured and derived",
            &["throughput", "derived"],
            &[FIGURE, "work"],
            &["nodes", "pipeline"],
            &[SERVER],
        )
        .cells(Cells::Value),
        View::new(
            "Latency",
            &["p50", "p99", "p999"],
            &[FIGURE, "work"],
            &["nodes", "pipeline"],
            &[SERVER],
        ),
    ],
};

impl Experiment for ClusterArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const GROUP: &'static [&'static str] = &["work", "nodes"];
    type Session = Server;

    fn check(&self) -> Result<(), String> {
        KeySpace::new(self.keys, 16).map(|_| ())
    }

    fn admits(&self, peer: &Peer) -> bool {
        peer.has_keys() && !peer.names_its_nodes()
    }

    fn measures_clusters(&self) -> bool {
        true
    }

    fn server_threads_max(&self) -> usize {
        self.load.server_threads()
    }

    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for &work in &self.works {
            for &nodes in &self.nodes {
                let pipelines = match work {
                    Work::Get | Work::Set => self.pipelines.as_slice(),
                    Work::Bytes | Work::Trips if nodes == 1 => &[],
                    Work::Bytes => &[BATCH],
                    Work::Trips => &[1],
                };
                points.extend(pipelines.iter().map(|pipeline| {
                    let axes = [
                        ("work", work.to_string()),
                        ("nodes", nodes.to_string()),
                        ("pipeline", pipeline.to_string()),
                    ];
                    axes.map(|(axis, value)| (axis.to_owned(), value)).into_iter().collect()
                }));
            }
        }
        points
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Round
    }

    fn leaves_out(&self, peer: &Peer, point: &Point) -> bool {
        !peer.is_cluster() && at::<u16>(point, "nodes") != 1
    }

    fn setting(&self, run: &RunArgs, point: &Point) -> Setting {
        let relay = match at(point, "work") {
            Work::Get | Work::Set => None,
            Work::Bytes => Some(Duration::ZERO),
            Work::Trips => Some(Duration::from_micros(self.round_trip)),
        };
        Setting { nodes: at(point, "nodes"), relay, ..self.load.setting(run, self.values.max) }
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Server, String> {
        if at::<Work>(point, "work") == Work::Get {
            let fill = Plan { operation: SET, extent: Extent::Walk, ..self.plan(&server) };
            load::run(&fill).map_err(|error| format!("while filled: {error}"))?;
            wait_for_rest(&server)?;
        }
        Ok(server)
    }

    fn measure(
        &self,
        server: &mut Server,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let operation = match at(point, "work") {
            Work::Get => Operation::Get,
            Work::Set => SET,
            Work::Bytes => return self.count_bytes(server, at(point, "nodes")),
            Work::Trips => return self.count_trips(server),
        };
        let plan = Plan { operation, ..self.plan(server) };
        let plan = self.load.timed(plan, at(point, "pipeline"), round);
        let outcome = load::run(&plan).map_err(|error| error.to_string())?;
        let derived = outcome.server_cpu_us().map(|cpu| 2e6 * at::<f64>(point, "nodes") / cpu);
        Ok(Measurement::of_load(&outcome, operation == Operation::Get)
            .with_some("derived", derived))
    }
}

const SET: Operation = Operation::Set { ttl_s: None };

impl ClusterArgs {
    fn plan(&self, server: &Server) -> Plan {
        let keys = KeySpace { count: self.keys, size: 16 };
        Plan { values: self.values, ..Plan::new(server, keys) }
    }

    /// What nodes say to each other for SETs.
    fn count_bytes(&self, server: &Server, nodes: u64) -> Result<Measurement, String> {
        let value = self.values.min;
        let plan = Plan {
            operation: SET,
            values: ValueSizes::fixed(value),
            connections: 1,
            pipeline: usize::from(BATCH),
            extent: Extent::Operations(COUNTED),
            ..self.plan(server)
        };
        let before = server.carried_between_nodes()?;
        load::run(&plan).map_err(|error| error.to_string())?;
        wait_for_rest(server)?;
        let carried = (server.carried_between_nodes()? - before) as f64;
        let each = carried / COUNTED as f64 / (nodes - 1) as f64;
        Ok(Measurement::default().with("bytes", each - 16.0 - f64::from(value)))
    }

    /// Times of commands whose keys have their homes at other nodes.
    fn count_trips(&self, server: &Server) -> Result<Measurement, String> {
        let delay = Duration::from_micros(self.round_trip) / 2;
        let alone = relayed_trip(delay).map_err(|error| format!("a relay: {error}"))?;
        let failed = |error: petrel_client::Error| error.to_string();
        let client = client(server.endpoint()).map_err(failed)?;
        let nodes = client.cluster_nodes().reply::<String>().run().map_err(failed)?;
        let own = own_slots(&nodes);
        let value = vec![b'v'; self.values.min as usize];
        let mut measured = Measurement::default().with("round_trip", alone.as_secs_f64() * 1e6);
        for (name, words) in
            [("set_trips", &[b"SET" as &[u8], b"", &value][..]), ("incr_trips", &[b"INCR", b""])]
        {
            let keys = (0u64..).map(|number| format!("{name}{number}").into_bytes());
            let elsewhere = keys.filter(|key| !own[usize::from(slot_of(key))]);
            let time = |key: Vec<u8>| time_of(&client, words, &key);
            let times = elsewhere.take(TRIPS).map(time).collect::<Result<_, _>>();
            let median = median(times.map_err(failed)?).as_secs_f64();
            measured = measured.with(name, median / alone.as_secs_f64());
        }
        Ok(measured)
    }
}

/// How long a command with this key in the place of its empty word takes.
fn time_of(client: &Client, words: &[&[u8]], key: &[u8]) -> petrel_client::Result<Duration> {
    let command: Vec<&[u8]> =
        words.iter().map(|word| if word.is_empty() { key } else { word }).collect();
    let begin = Instant::now();
    order(client, &command)?;
    Ok(begin.elapsed())
}

/// By slot: whether the node that has said this orders its changes.
fn own_slots(nodes: &str) -> Vec<bool> {
    let mut own = vec![false; usize::from(SLOTS)];
    let myself = nodes.lines().find(|line| line.contains("myself")).unwrap_or("");
    for range in myself.split_whitespace().skip(8) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            own.iter_mut().take(last + 1).skip(first).for_each(|own| *own = true);
        }
    }
    own
}

/// The median time of a byte through a relay to a process that sends it back.
fn relayed_trip(delay: Duration) -> std::io::Result<Duration> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let echo = thread::spawn(move || -> std::io::Result<()> {
        let (mut client, mut byte) = (listener.accept()?.0, [0]);
        client.set_nodelay(true)?;
        while client.read(&mut byte)? == 1 {
            client.write_all(&byte)?;
        }
        Ok(())
    });
    let port = relay::start(port, delay, relay::Carried::default())?;
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    client.set_nodelay(true)?;
    let times = (0..TRIPS).map(|_| {
        let begin = Instant::now();
        client.write_all(b"x")?;
        client.read_exact(&mut [0])?;
        Ok(begin.elapsed())
    });
    let times = times.collect::<std::io::Result<_>>()?;
    drop(client);
    let _ = echo.join();
    Ok(median(times))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_of_a_node_are_read_from_what_it_says() {
        let nodes = "a 1.2.3.4:1@2 master - 0 0 3 connected 0-5460\n\
                     b 1.2.3.4:2@3 myself,master - 0 0 3 connected 5461-5462 16383\n";
        let own = own_slots(nodes);
        let slots: Vec<usize> = (0..own.len()).filter(|slot| own[*slot]).collect();
        assert_eq!(slots, [5461, 5462, 16383]);
        assert!(own_slots("nonsense").iter().all(|own| !own));
    }

    #[test]
    fn a_relay_takes_its_time() {
        assert!(relayed_trip(Duration::from_millis(1)).unwrap() >= Duration::from_millis(2));
    }
}
