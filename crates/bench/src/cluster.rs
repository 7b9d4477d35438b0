//! `cluster`: what a command costs all nodes of a cluster together, what they say to each other for
//! it, and how many round trips between them a client waits for.

mod near;

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
    SERVER, THROUGHPUT, View, at, axis_values, grid, texts,
};
use crate::load::{self, Endpoint, Extent, KeySpace, Operation, Plan, ValueSizes};
use crate::result::{Measurement, Point};
use crate::server::{Peer, Server, Setting, relay};

/// Measure GET and SET at one node of a cluster, of which the CPU of all nodes counts; the bytes
/// that nodes say to each other; and round trips between them.
///
/// petrel-cluster is started with so many nodes, all of which or so many (--copies) hold each key,
/// and their clients share the processors with them; swytch-cluster too, whose nodes hold what they
/// have been asked for. What is no cluster is measured as one node. For bytes and round trips what
/// Petrels say to each other passes relays, which count and delay it; Swytch's nodes are hosts of a
/// network of their own for that, which needs root. first-touch, copy-get, home-set and cache-write
/// measure a near cache: one node more, which holds copies of what is read there.
#[derive(Clone, Debug, Serialize, clap::Args)]
pub struct ClusterArgs {
    /// Nodes
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1,2,4",
          default_value_if("quick", "true", "1,2"),
          value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: Vec<u16>,

    /// Nodes that hold each key, in turn
    #[arg(long, value_delimiter = ',', value_name = "all|N,...", default_value = "all")]
    copies: Vec<Copies>,

    /// What to measure
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORK,...",
        default_value = "get,set,bytes,trips,first-touch,copy-get,home-set,cache-write"
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
#[serde(rename_all = "kebab-case")]
enum Work {
    /// GET of keys that the node holds.
    Get,
    /// SET of keys with their homes at all nodes.
    Set,
    /// What nodes say to each other for SETs, ten at a time.
    Bytes,
    /// Round trips of one client's SET and INCR of keys with their homes elsewhere.
    Trips,
    /// Round trips and bytes of GETs at a cache of keys that it has not had.
    FirstTouch,
    /// GET at a cache of keys that it has, and at what is no cluster.
    CopyGet,
    /// What is said for SETs at another node of keys that a cache has, ten at a time.
    HomeSet,
    /// Round trips and bytes of SET and INCR at a cache.
    CacheWrite,
}

axis_values!(Work);

impl Work {
    /// Whether there is a cache beside the nodes that hold data.
    fn has_cache(self) -> bool {
        matches!(self, Work::FirstTouch | Work::CopyGet | Work::HomeSet | Work::CacheWrite)
    }
}

/// How many nodes hold each key; `None` is all.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Copies(pub Option<u16>);

impl std::fmt::Display for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(copies) => copies.fmt(f),
            None => f.write_str("all"),
        }
    }
}

impl std::str::FromStr for Copies {
    type Err = String;

    fn from_str(text: &str) -> Result<Copies, String> {
        match text.parse() {
            _ if text == "all" => Ok(Copies(None)),
            Ok(copies @ 1..=64) => Ok(Copies(Some(copies))),
            _ => Err("all, or a number from 1 to 64".to_owned()),
        }
    }
}

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
    about: "All connections go to one node of a cluster; keys have their homes at all nodes. With copies: all, every node holds all \
            keys, else so many nodes hold each, and GETs name keys with their homes at the node that is asked. \
            CPU is that of all nodes together, which share the processors with the load: so throughput is not that of as many \
            machines. Derived is what nodes with two processors each would reach together, if CPU were all: 2 x nodes / CPU per \
            operation. Bytes are those that pass between nodes, TLS included, for SETs of one connection, ten in flight, less key \
            and value once for each node that must get them, which is how often they have to travel. Trips are the median time of \
            a client's SET (INCR) of a key with its home at another node, over the median time of a byte there and back through a \
            relay with the same delay. A near cache is one node more, which holds copies of what is read there and no slots: of \
            it first-touch asks each key once, copy-get keys that it has, cache-write any; home-set are SETs at another node of \
            keys that it has. CPU per GET of a copy is the cache's alone.",
    axes: &[("work", "{}"), ("nodes", "nodes: {}"), ("copies", "copies: {}"), ("pipeline", "P{}")],
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
        Figure::new("cache_cpu", "CPU per GET of a copy", "us", 2, Better::Less),
        Figure::new("copy_bytes", "Bytes between nodes per GET of a copy", "B", 2, Better::Less),
        Figure::new(
            "touch_trips",
            "First GET of a key at the cache",
            "round trips",
            2,
            Better::Less,
        ),
        Figure::new(
            "touch_bytes",
            "Bytes beyond key and value per first GET",
            "B",
            1,
            Better::Less,
        ),
        Figure::new(
            "incr_bytes",
            "Bytes beyond the key per INCR at the cache",
            "B",
            1,
            Better::Less,
        ),
        Figure::new("round_trip", "Round trip through a relay", "us", 0, Better::Neither),
    ],
    views: &[
        View::new(
            "CPU of all nodes",
            &["cpu"],
            &["work"],
            &["nodes", "copies", "pipeline"],
            &[SERVER],
        )
        .in_summary(),
        View::new(
            "CPU of a near cache",
            &["cache_cpu"],
            &[],
            &["work", "nodes", "copies", "pipeline"],
            &[SERVER],
        )
        .cells(Cells::Versus),
        View::new(
            "Between nodes",
            &[
                "bytes",
                "set_trips",
                "incr_trips",
                "touch_trips",
                "touch_bytes",
                "copy_bytes",
                "incr_bytes",
                "round_trip",
            ],
            &[],
            &[FIGURE, "work", "nodes", "copies", "pipeline"],
            &[SERVER],
        )
        .in_summary(),
        View::new(
            "Throughput, measured and derived",
            &["throughput", "derived"],
            &[FIGURE, "work"],
            &["nodes", "copies", "pipeline"],
            &[SERVER],
        )
        .cells(Cells::Value),
        View::new(
            "Latency",
            &["p50", "p99", "p999"],
            &[FIGURE, "work"],
            &["nodes", "copies", "pipeline"],
            &[SERVER],
        ),
    ],
};

impl Experiment for ClusterArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const GROUP: &'static [&'static str] = &["work", "nodes", "copies"];
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
        let all = [
            ("work", texts(&self.works)),
            ("nodes", texts(&self.nodes)),
            ("copies", texts(&self.copies)),
        ];
        let mut points = Vec::new();
        for point in grid(all) {
            let pipelines = match at(&point, "work") {
                Work::Get | Work::Set | Work::CopyGet => self.pipelines.as_slice(),
                Work::Bytes | Work::Trips if at::<u16>(&point, "nodes") == 1 => &[],
                Work::Bytes | Work::HomeSet => &[BATCH],
                Work::Trips | Work::FirstTouch | Work::CacheWrite => &[1],
            };
            points.extend(pipelines.iter().map(|pipeline| {
                let mut point = point.clone();
                point.insert("pipeline".to_owned(), pipeline.to_string());
                point
            }));
        }
        points
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Round
    }

    fn leaves_out(&self, peer: &Peer, point: &Point) -> bool {
        // What is no cluster is one node with everything, measured once.
        let is_single =
            at::<u16>(point, "nodes") == 1 && at::<Copies>(point, "copies") == self.copies[0];
        let is_load = matches!(at(point, "work"), Work::Get | Work::Set | Work::CopyGet);
        // Where keys have no homes there is no number of copies to vary.
        let is_first = at::<Copies>(point, "copies") == self.copies[0];
        let is_cluster = peer.is_cluster() && (peer.has_homes() || is_first);
        !(is_cluster || is_single && is_load)
    }

    fn setting(&self, run: &RunArgs, point: &Point) -> Setting {
        let work = at::<Work>(point, "work");
        let relay = match work {
            Work::Get | Work::Set => None,
            Work::Bytes | Work::CopyGet | Work::HomeSet => Some(Duration::ZERO),
            Work::Trips | Work::FirstTouch | Work::CacheWrite => {
                Some(Duration::from_micros(self.round_trip))
            }
        };
        Setting {
            nodes: at(point, "nodes"),
            copies: at::<Copies>(point, "copies").0,
            caches: u16::from(work.has_cache()),
            relay,
            ..self.load.setting(run, self.values.max)
        }
    }

    fn prepare(&self, server: Server, point: &Point) -> Result<Server, String> {
        let work = at::<Work>(point, "work");
        if matches!(work, Work::Get | Work::CopyGet | Work::FirstTouch | Work::HomeSet) {
            let fill = Plan { operation: SET, extent: Extent::Walk, ..self.plan(&server) };
            load::run(&fill).map_err(|error| format!("while filled: {error}"))?;
            wait_for_rest(&server)?;
        }
        if matches!(work, Work::CopyGet | Work::HomeSet) {
            self.take_copies(&server)?;
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
            Work::Bytes => return self.count_bytes(server, point),
            Work::Trips => return self.count_trips(server, server.endpoint()),
            work => return self.measure_near(server, work, point, round),
        };
        let plan = Plan { operation, ..self.plan(server) };
        let is_held_here = operation == SET || !server.peer().is_cluster();
        let listed = if is_held_here { Vec::new() } else { self.held(server)? };
        let plan = Plan { listed, ..plan };
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

    /// How many nodes hold each key.
    fn homes(&self, server: &Server, point: &Point) -> f64 {
        let nodes: f64 = at(point, "nodes");
        let copies = at::<Copies>(point, "copies").0.filter(|_| server.peer().has_homes());
        copies.map_or(nodes, |copies| nodes.min(f64::from(copies)))
    }

    /// The keys with their homes at the first node, unless every node holds all: of these a GET is
    /// answered there.
    fn held(&self, server: &Server) -> Result<Vec<u64>, String> {
        let has_all = server.setting().copies.is_none_or(|copies| copies >= server.setting().nodes);
        if has_all || !server.peer().has_homes() {
            return Ok(Vec::new());
        }
        let own = own_slots(&nodes_of(&client(server.endpoint()).map_err(text)?)?);
        let keys = self.plan(server).keys;
        let is_held = |number: &u64| own[usize::from(slot_of(&keys.key(*number)))];
        Ok((0..keys.count).filter(is_held).collect())
    }

    /// What nodes say to each other for SETs, for each node to which key and value have to travel.
    fn count_bytes(&self, server: &Server, point: &Point) -> Result<Measurement, String> {
        let (nodes, homes) = (at::<f64>(point, "nodes"), self.homes(server, point));
        // Those homes of a key that are not the node that was asked, which is one of them for so
        // many of all keys; and a cache that has them, too.
        let cache = f64::from(server.setting().caches);
        let travels = homes - homes / nodes + cache;
        let each = self.bytes_of_sets(server, server.endpoint())? / travels;
        Ok(Measurement::default().with("bytes", each - 16.0 - f64::from(self.values.min)))
    }

    /// Bytes between nodes for each of many SETs at one of them.
    fn bytes_of_sets(&self, server: &Server, endpoint: &Endpoint) -> Result<f64, String> {
        let plan = Plan {
            operation: SET,
            endpoint: endpoint.clone(),
            values: ValueSizes::fixed(self.values.min),
            connections: 1,
            pipeline: usize::from(BATCH),
            extent: Extent::Operations(COUNTED),
            ..self.plan(server)
        };
        let before = server.carried_between_nodes()?;
        load::run(&plan).map_err(text)?;
        wait_for_rest(server)?;
        Ok((server.carried_between_nodes()? - before) as f64 / COUNTED as f64)
    }

    /// The median time of a byte there and back through a relay with the delay of those between
    /// nodes.
    fn alone(&self) -> Result<Duration, String> {
        let delay = Duration::from_micros(self.round_trip) / 2;
        relayed_trip(delay).map_err(|error| format!("a relay: {error}"))
    }

    /// Times of commands at a node whose keys have their homes at others.
    fn count_trips(&self, server: &Server, endpoint: &Endpoint) -> Result<Measurement, String> {
        let alone = self.alone()?;
        let client = client(endpoint).map_err(text)?;
        let own = match server.peer().has_homes() {
            true => own_slots(&nodes_of(&client)?),
            false => vec![false; usize::from(SLOTS)],
        };
        let value = vec![b'v'; self.values.min as usize];
        let mut measured = Measurement::default().with("round_trip", alone.as_secs_f64() * 1e6);
        for (name, words) in
            [("set_trips", &[b"SET" as &[u8], b"", &value][..]), ("incr_trips", &[b"INCR", b""])]
        {
            let keys = (0u64..).map(|number| format!("{name}{number}").into_bytes());
            let elsewhere = keys.filter(|key| !own[usize::from(slot_of(key))]);
            let time = |key: Vec<u8>| time_of(&client, words, &key);
            let times = elsewhere.take(TRIPS).map(time).collect::<Result<_, _>>();
            let median = median(times.map_err(text)?).as_secs_f64();
            measured = measured.with(name, median / alone.as_secs_f64());
        }
        Ok(measured)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What a node says of all of them.
fn nodes_of(client: &Client) -> Result<String, String> {
    client.cluster_nodes().reply().run().map_err(text)
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
    fn copies_are_all_or_a_number_of_nodes() {
        let copies: Copies = "all".parse().unwrap();
        assert_eq!((copies, copies.to_string()), (Copies(None), "all".to_owned()));
        let copies: Copies = "2".parse().unwrap();
        assert_eq!((copies, copies.to_string()), (Copies(Some(2)), "2".to_owned()));
        for text in ["0", "65", "some", ""] {
            assert!(text.parse::<Copies>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_relay_takes_its_time() {
        assert!(relayed_trip(Duration::from_millis(1)).unwrap() >= Duration::from_millis(2));
    }
}
