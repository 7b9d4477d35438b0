//! `cluster`: CPU of a command on all nodes of a cluster together, bytes between them for it, and
//! round trips between them that a client waits for.

mod near;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use petrel_client::Commands;
use petrel_client::blocking::Client;
use petrel_cluster::{SLOTS, slot_of};

use crate::experiment::{
    Case, Description, Experiment, Options, SET, axis_values, fill, plan, points, texts, timed,
};
use crate::load::{self, Extent, Operation, Plan, ValueSizes};
use crate::result::{Measured, Measurement, Point};
use crate::server::{Peer, Server, Setting, parse_copies, relay};
use crate::sys::text;
use crate::wire::{Endpoint, client, order};

/// Work of a point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Work {
    /// GET of keys that the node holds.
    Get,
    /// SET of keys with their primaries at all nodes.
    Set,
    /// SET of keys with their primaries at other nodes.
    RemoteSet,
    /// Bytes between nodes for SETs, ten at a time.
    Bytes,
    /// Round trips of one client's SET and INCR of keys with their primaries at other nodes.
    Trips,
    /// Round trips and bytes of GETs at a cache of keys that it has not had.
    FirstTouch,
    /// GET at a cache of keys that it has, and at a server that is no cluster.
    CopyGet,
    /// Bytes for SETs at another node of keys that a cache has, ten at a time.
    HomeSet,
    /// Round trips and bytes of SET and INCR at a cache.
    CacheWrite,
}

axis_values!(Work: Get "get", Set "set", RemoteSet "remote-set", Bytes "bytes", Trips "trips", FirstTouch "first-touch",
    CopyGet "copy-get", HomeSet "home-set", CacheWrite "cache-write");

impl Work {
    /// Whether there is a cache beside the nodes that hold data.
    fn has_cache(self) -> bool {
        matches!(self, Work::FirstTouch | Work::CopyGet | Work::HomeSet | Work::CacheWrite)
    }
}

/// SETs in flight while the bytes between nodes are counted.
const BATCH: u16 = 10;

/// Number of SETs in a count of bytes.
const COUNTED: u64 = 50_000;

/// Number of timed commands, and of timed round trips of a relay alone.
const TRIPS: usize = 1_000;

/// `cluster`: CPU, bytes and round trips of a cluster.
#[derive(Default)]
pub struct Cluster;

impl Experiment for Cluster {
    const NAME: &'static str = "cluster";
    const MEASURES_CLUSTERS: bool = true;
    type State = ();

    fn check(&self, options: &Options) -> Result<(), String> {
        options.texts("copies").iter().try_for_each(|text| parse_copies(text).map(|_| ()))
    }

    fn admits(&self, peer: &Peer) -> bool {
        peer.has_keys() && !peer.names_its_nodes()
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let with_pipeline = |point: Point| {
            let work: Work = point["work"].parse().expect("the grid is made of them");
            let pipelines = match work {
                Work::RemoteSet | Work::Bytes | Work::Trips if point["nodes"] == "1" => Vec::new(),
                Work::Get | Work::Set | Work::RemoteSet | Work::CopyGet => {
                    options.texts("pipelines").to_vec()
                }
                Work::Bytes | Work::HomeSet => texts(&[BATCH]),
                Work::Trips | Work::FirstTouch | Work::CacheWrite => texts(&[1]),
            };
            pipelines.into_iter().map(move |pipeline| {
                let mut point = point.clone();
                point.insert("pipeline".to_owned(), pipeline);
                point
            })
        };
        points(Description::named(Self::NAME), options)
            .into_iter()
            .flat_map(with_pipeline)
            .collect()
    }

    fn leaves_out(&self, peer: &Peer, case: &Case<'_>) -> bool {
        // A single server is one node with everything, measured once; without primaries of its
        // keys a cluster has no number of copies to vary.
        let is_first = case.text("copies") == case.options.texts("copies")[0];
        let is_single = case.text("nodes") == "1" && is_first;
        let is_load = matches!(case.at("work"), Work::Get | Work::Set | Work::CopyGet);
        let is_cluster = peer.is_cluster() && (peer.has_homes() || is_first);
        !(is_cluster || is_single && is_load)
    }

    fn setting(&self, case: &Case<'_>, setting: Setting) -> Setting {
        let work = case.at::<Work>("work");
        let relay = match work {
            Work::Get | Work::Set | Work::RemoteSet => None,
            Work::Bytes | Work::CopyGet | Work::HomeSet => Some(Duration::ZERO),
            Work::Trips | Work::FirstTouch | Work::CacheWrite => {
                Some(Duration::from_micros(case.get("round-trip")))
            }
        };
        let (nodes, copies) = (case.at("nodes"), copies(case));
        Setting { nodes, copies, caches: u16::from(work.has_cache()), relay, ..setting }
    }

    fn prepare(&self, case: &Case<'_>, server: &Server) -> Result<(), String> {
        let work = case.at::<Work>("work");
        if matches!(work, Work::Get | Work::CopyGet | Work::FirstTouch | Work::HomeSet) {
            fill(plan(case, server))?;
            server.wait_for_rest()?;
        }
        match work {
            Work::CopyGet | Work::HomeSet => near::take_copies(case, server),
            _ => Ok(()),
        }
    }

    fn measure(&self, case: &Case<'_>, server: &Server, (): &mut ()) -> Measured {
        let operation = match case.at("work") {
            Work::Get => Operation::Get,
            Work::Set | Work::RemoteSet => SET,
            Work::Bytes => return count_bytes(case, server),
            Work::Trips => return count_trips(case, server, server.endpoint()),
            work => return near::measure(case, server, work),
        };
        let listed = match case.at("work") {
            _ if !server.peer().is_cluster() => Vec::new(),
            Work::RemoteSet => remote(case, server)?,
            Work::Set => Vec::new(),
            _ => held(case, server)?,
        };
        let plan = timed(case, Plan { operation, listed, ..plan(case, server) });
        let outcome = load::run(&plan)?;
        let derived = outcome.server_cpu_us().map(|cpu| 2e6 * case.at::<f64>("nodes") / cpu);
        Ok(Measurement::of_load(&outcome, operation == Operation::Get)
            .with_some("derived", derived))
    }
}

fn copies(case: &Case<'_>) -> Option<u16> {
    parse_copies(case.text("copies")).unwrap_or(None)
}

/// Smallest value in bytes.
fn value_min(case: &Case<'_>) -> u32 {
    case.get::<ValueSizes>("values").min
}

/// Number of nodes that hold each key.
fn holders(case: &Case<'_>, server: &Server) -> f64 {
    let nodes: f64 = case.at("nodes");
    let copies = copies(case).filter(|_| server.peer().has_homes());
    copies.map_or(nodes, |copies| nodes.min(f64::from(copies)))
}

/// The keys with their primaries at the first node, which answers GETs of them itself; none if
/// every node holds all keys.
fn held(case: &Case<'_>, server: &Server) -> Result<Vec<u64>, String> {
    let has_all = server.setting().copies.is_none_or(|copies| copies >= server.setting().nodes);
    if has_all || !server.peer().has_homes() {
        return Ok(Vec::new());
    }
    let own = own_slots(&nodes_of(&client(server.endpoint()).map_err(text)?)?);
    let keys = plan(case, server).keys;
    let is_held = |number: &u64| own[usize::from(slot_of(&keys.key(*number)))];
    Ok((0..keys.count).filter(is_held).collect())
}

/// The keys with their primaries at other nodes than the first.
fn remote(case: &Case<'_>, server: &Server) -> Result<Vec<u64>, String> {
    let own = own_slots(&nodes_of(&client(server.endpoint()).map_err(text)?)?);
    let keys = plan(case, server).keys;
    Ok((0..keys.count).filter(|&number| !own[usize::from(slot_of(&keys.key(number)))]).collect())
}

/// Bytes between nodes for SETs, for each node to which key and value have to travel.
fn count_bytes(case: &Case<'_>, server: &Server) -> Measured {
    let (nodes, holders) = (case.at::<f64>("nodes"), holders(case, server));
    // Holders of a key other than the asked node, which is one of them for this share of all keys;
    // and a cache that has them, too.
    let travels = holders - holders / nodes + f64::from(server.setting().caches);
    let each = bytes_of_sets(case, server, server.endpoint())? / travels;
    Ok(Measurement::default().with("bytes", each - 16.0 - f64::from(value_min(case))))
}

/// Bytes between nodes for each of many SETs at one of them.
fn bytes_of_sets(case: &Case<'_>, server: &Server, endpoint: &Endpoint) -> Result<f64, String> {
    let plan = Plan {
        operation: SET,
        endpoint: endpoint.clone(),
        values: ValueSizes::fixed(value_min(case)),
        connections: 1,
        pipeline: usize::from(BATCH),
        extent: Extent::Operations(COUNTED),
        ..plan(case, server)
    };
    let before = server.carried_between_nodes()?;
    load::run(&plan)?;
    server.wait_for_rest()?;
    Ok((server.carried_between_nodes()? - before) as f64 / COUNTED as f64)
}

/// Median time of a byte there and back through a relay with the delay of those between nodes.
fn relay_trip(case: &Case<'_>) -> Result<Duration, String> {
    let delay = Duration::from_micros(case.get("round-trip")) / 2;
    relayed_trip(delay).map_err(|error| format!("a relay: {error}"))
}

/// Times of commands at a node, with keys that have their primaries at other nodes.
fn count_trips(case: &Case<'_>, server: &Server, endpoint: &Endpoint) -> Measured {
    let alone = relay_trip(case)?;
    let client = client(endpoint).map_err(text)?;
    let own = match server.peer().has_homes() {
        true => own_slots(&nodes_of(&client)?),
        false => vec![false; usize::from(SLOTS)],
    };
    let value = vec![b'v'; value_min(case) as usize];
    let mut measured = Measurement::default().with("round_trip", alone.as_secs_f64() * 1e6);
    for (name, words) in
        [("set_trips", &[b"SET" as &[u8], b"", &value][..]), ("incr_trips", &[b"INCR", b""])]
    {
        let keys = (0u64..).map(|number| format!("{name}{number}").into_bytes());
        let others = keys.filter(|key| !own[usize::from(slot_of(key))]);
        let time = |key: Vec<u8>| time_of(&client, words, &key);
        let times = others.take(TRIPS).map(time).collect::<Result<_, _>>();
        let median = median(times.map_err(text)?).as_secs_f64();
        measured = measured.with(name, median / alone.as_secs_f64());
    }
    Ok(measured)
}

/// Reply to `CLUSTER NODES`.
fn nodes_of(client: &Client) -> Result<String, String> {
    client.cluster_nodes().reply().run().map_err(text)
}

/// Time of a command, with this key in the place of its empty word.
fn time_of(client: &Client, words: &[&[u8]], key: &[u8]) -> petrel_client::Result<Duration> {
    let command: Vec<&[u8]> =
        words.iter().map(|word| if word.is_empty() { key } else { word }).collect();
    let begin = Instant::now();
    order(client, &command)?;
    Ok(begin.elapsed())
}

/// By slot: whether its primary is the node that has replied this to `CLUSTER NODES`.
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
