//! `--scan`, `--bigkeys`, `--memkeys` and `--hotkeys`: walks over the keys by `SCAN`.

use std::io::{self, Write};

use petrel_resp::Value;

use super::checked;
use crate::cli::Cli;
use crate::format::Form;
use crate::quote::quoted;

/// Pages between two pauses, where the walk asks for more than names.
const PAGES_PER_PAUSE: u64 = 100;
/// Keys listed by `--hotkeys`.
const HOT_KEYS: usize = 16;

/// A walk over all keys.
struct Walk {
    cursor: Vec<u8>,
    is_over: bool,
    pages: u64,
}

impl Walk {
    fn new(cli: &Cli) -> Self {
        let cursor = cli.options.cursor.to_string().into_bytes();
        Self { cursor, is_over: false, pages: 0 }
    }

    /// The next keys, perhaps none; `None` at the end.
    fn next(&mut self, cli: &mut Cli) -> Result<Option<Vec<Vec<u8>>>, String> {
        if self.is_over {
            return Ok(None);
        }
        let (pattern, count) = (cli.options.pattern.clone(), cli.options.count);
        let count = count.map(|count| count.to_string());
        let mut args: Vec<&[u8]> = vec![b"SCAN", &self.cursor];
        if let Some(pattern) = &pattern {
            args.extend([&b"MATCH"[..], pattern]);
        }
        if let Some(count) = &count {
            args.extend([&b"COUNT"[..], count.as_bytes()]);
        }
        let reply = checked("SCAN", cli.call(&args)?)?;
        let Value::Array(parts) = reply else { return Err("SCAN: no array".into()) };
        let [Value::Bulk(cursor), Value::Array(keys)] = &parts[..] else {
            return Err("SCAN: no cursor and keys".into());
        };
        self.cursor = cursor.to_vec();
        self.is_over = &cursor[..] == b"0";
        self.pages += 1;
        Ok(Some(keys.iter().filter_map(|key| Some(key.as_bytes()?.to_vec())).collect()))
    }

    /// Waits as long as the command line says, each hundredth page.
    fn pause(&self, cli: &Cli) {
        if let Some(interval) = cli.options.interval
            && self.pages.is_multiple_of(PAGES_PER_PAUSE)
        {
            std::thread::sleep(interval);
        }
    }
}

/// Lists the keys.
pub fn scan(cli: &mut Cli) -> Result<(), String> {
    let mut walk = Walk::new(cli);
    let form = cli.form();
    let mut out = io::BufWriter::new(io::stdout());
    while let Some(keys) = walk.next(cli)? {
        for key in keys {
            let written = match form {
                Form::Typed => writeln!(out, "{}", quoted(&key)),
                _ => out.write_all(&key).and_then(|()| out.write_all(b"\n")),
            };
            if written.is_err() {
                return Ok(());
            }
        }
        if out.flush().is_err() {
            return Ok(());
        }
        if let Some(interval) = cli.options.interval {
            std::thread::sleep(interval);
        }
    }
    Ok(())
}

/// Keys of a type.
struct OfType {
    name: String,
    /// Command for the size of a key, and its unit.
    size: Option<(&'static [u8], &'static str)>,
    keys: u64,
    total: u64,
    biggest: Option<(Vec<u8>, u64)>,
}

impl OfType {
    fn new(name: String) -> Self {
        let size: Option<(&[u8], _)> = match &*name {
            "string" => Some((b"STRLEN", "bytes")),
            "list" => Some((b"LLEN", "items")),
            "set" => Some((b"SCARD", "members")),
            "hash" => Some((b"HLEN", "fields")),
            "zset" => Some((b"ZCARD", "members")),
            "stream" => Some((b"XLEN", "entries")),
            "vectorset" => Some((b"VCARD", "elements")),
            _ => None,
        };
        Self { name, size, keys: 0, total: 0, biggest: None }
    }
}

/// Finds the key of each type with most elements.
pub fn big_keys(cli: &mut Cli) -> Result<(), String> {
    sizes(cli, None)
}

/// Finds the key of each type with most memory.
pub fn memory_of_keys(cli: &mut Cli, samples: Option<u64>) -> Result<(), String> {
    sizes(cli, Some(samples))
}

fn begin(what: &str) {
    println!("\n# Scanning the entire keyspace to find {what} keys as well as");
    println!("# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec");
    println!("# per 100 SCAN commands (not usually needed).\n");
}

fn integer(value: &Value) -> u64 {
    match value {
        Value::Integer(n) => u64::try_from(*n).unwrap_or(0),
        _ => 0,
    }
}

/// Sends a request for each key at once and returns the replies in order.
fn ask_all<'a>(
    cli: &mut Cli,
    requests: impl Iterator<Item = Vec<&'a [u8]>>,
) -> Result<Vec<Value>, String> {
    let requests: Vec<_> = requests.collect();
    let count = requests.len();
    let connection = cli.connection()?;
    let ask = || {
        connection.send_all(requests)?;
        (0..count).map(|_| connection.receive()).collect::<io::Result<Vec<_>>>()
    };
    ask().map_err(|error| cli.failed(&error))
}

fn sizes(cli: &mut Cli, memory: Option<Option<u64>>) -> Result<(), String> {
    begin("biggest");
    let total_keys = integer(&checked("DBSIZE", cli.call(&[b"DBSIZE"])?)?);
    let names = ["list", "hash", "string", "stream", "set", "zset"];
    let mut types: Vec<OfType> = names.map(|name| OfType::new(name.into())).into();
    let (mut sampled, mut name_bytes) = (0u64, 0u64);
    let mut walk = Walk::new(cli);
    while let Some(keys) = walk.next(cli)? {
        let kinds = ask_all(cli, keys.iter().map(|key| vec![&b"TYPE"[..], key]))?;
        let kinds: Vec<usize> = kinds
            .iter()
            .map(|kind| {
                let kind = String::from_utf8_lossy(kind.as_bytes().unwrap_or_default());
                types.iter().position(|of| of.name == *kind).unwrap_or_else(|| {
                    types.push(OfType::new(kind.into_owned()));
                    types.len() - 1
                })
            })
            .collect();
        let samples = memory.flatten().map(|samples| samples.to_string());
        let requests =
            keys.iter().zip(&kinds).map(|(key, kind)| match (memory, types[*kind].size) {
                (None, Some((command, _))) => vec![command, key],
                // A type without a size of its own is measured by its memory, which every key has.
                (None, None) => vec![&b"MEMORY"[..], b"USAGE", key],
                (Some(_), _) => match &samples {
                    Some(samples) => {
                        vec![&b"MEMORY"[..], b"USAGE", key, b"SAMPLES", samples.as_bytes()]
                    }
                    None => vec![&b"MEMORY"[..], b"USAGE", key],
                },
            });
        let replies = ask_all(cli, requests)?;
        for ((key, kind), reply) in keys.into_iter().zip(kinds).zip(replies) {
            // The key was deleted meanwhile.
            if types[kind].name == "none" {
                continue;
            }
            sampled += 1;
            name_bytes += key.len() as u64;
            let share = 100.0 * sampled as f64 / total_keys.max(sampled) as f64;
            note(&mut types[kind], key, integer(&reply), share, memory.is_some());
        }
        walk.pause(cli);
    }
    types.retain(|of| of.name != "none");
    summary(&types, sampled, name_bytes, memory.is_some());
    Ok(())
}

impl OfType {
    fn unit(&self, is_memory: bool) -> &'static str {
        match self.size {
            Some((_, unit)) if !is_memory => unit,
            _ => "bytes",
        }
    }
}

fn note(of: &mut OfType, key: Vec<u8>, size: u64, share: f64, is_memory: bool) {
    of.keys += 1;
    of.total += size;
    if of.biggest.as_ref().is_none_or(|(_, biggest)| size > *biggest) {
        let (name, unit) = (&of.name, of.unit(is_memory));
        println!(
            "[{share:05.2}%] Biggest {name:<6} found so far '{}' with {size} {unit}",
            quoted(&key)
        );
        of.biggest = Some((key, size));
    }
}

fn summary(types: &[OfType], sampled: u64, name_bytes: u64, is_memory: bool) {
    println!("\n-------- summary -------\n");
    println!("Sampled {sampled} keys in the keyspace!");
    let average = name_bytes as f64 / sampled.max(1) as f64;
    println!("Total key length in bytes is {name_bytes} (avg len {average:.2})\n");
    for of in types {
        if let Some((key, size)) = &of.biggest {
            let (name, unit) = (&of.name, of.unit(is_memory));
            println!("Biggest {name:>6} found '{}' has {size} {unit}", quoted(key));
        }
    }
    println!();
    for of in types {
        let share = 100.0 * of.keys as f64 / sampled.max(1) as f64;
        let average = of.total as f64 / of.keys.max(1) as f64;
        let OfType { name, keys, total, .. } = of;
        let unit = of.unit(is_memory);
        println!(
            "{keys} {name}s with {total} {unit} ({share:05.2}% of keys, avg size {average:.2})"
        );
    }
}

/// Finds the keys with the highest counters of the LFU policies.
pub fn hot_keys(cli: &mut Cli) -> Result<(), String> {
    begin("hot");
    let total_keys = integer(&checked("DBSIZE", cli.call(&[b"DBSIZE"])?)?);
    let mut hot: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut sampled = 0u64;
    let mut walk = Walk::new(cli);
    while let Some(keys) = walk.next(cli)? {
        let replies = ask_all(cli, keys.iter().map(|key| vec![&b"OBJECT"[..], b"FREQ", key]))?;
        for (key, reply) in keys.into_iter().zip(replies) {
            let counter = integer(&checked("OBJECT FREQ", reply)?);
            sampled += 1;
            if counter == 0 || (hot.len() == HOT_KEYS && counter <= hot[HOT_KEYS - 1].0) {
                continue;
            }
            let share = 100.0 * sampled as f64 / total_keys.max(sampled) as f64;
            println!(
                "[{share:05.2}%] Hot key '{}' found so far with counter {counter}",
                quoted(&key)
            );
            let place = hot.partition_point(|(other, _)| *other >= counter);
            hot.insert(place, (counter, key));
            hot.truncate(HOT_KEYS);
        }
        walk.pause(cli);
    }
    println!("\n-------- summary -------\n");
    println!("Sampled {sampled} keys in the keyspace!");
    for (counter, key) in hot {
        println!("hot key found with counter: {counter}\tkeyname: {}", quoted(&key));
    }
    Ok(())
}
