//! Random calls from the command table, mostly with arguments as the table describes them.

use crate::client::Client;
use crate::random::Random;
use petrel_commands::FAMILIES;
use petrel_table::{Arg, ArgFlags, ArgKind};

/// Keys with a small and a large value of each type, and missing keys.
const KEYS: [&[u8]; 14] = [
    b"text", b"number", b"list", b"list:l", b"set", b"set:l", b"ints", b"zset", b"zset:l", b"hash",
    b"hash:l", b"stream", b"hll", b"none",
];

const SMALL: [&[u8]; 8] = [b"0", b"1", b"2", b"3", b"5", b"10", b"100", b"-1"];

/// Valid arguments for the commands that have an argument of this name.
const BY_NAME: &[(&str, &[&[u8]])] = &[
    ("cursor", &[b"0", b"1", b"4294967296"]),
    (
        "id",
        &[
            b"*",
            b"1-1",
            b"5-*",
            b"0",
            b"$",
            b">",
            b"+",
            b"9-9",
            b"18446744073709551615-18446744073709551615",
        ],
    ),
    ("start", &[b"-", b"0", b"(1-1", b"1", b"-3", b"[a", b"(5"]),
    ("end", &[b"+", b"9-9", b"(9-9", b"-1", b"3"]),
    ("stop", &[b"+", b"-1", b"[z", b"(9", b"+inf"]),
    ("min", &[b"-inf", b"(1", b"0", b"-", b"[a", b"nan"]),
    ("max", &[b"+inf", b"(9", b"5", b"+", b"[z", b"(a"]),
    ("group", &[b"g", b"other"]),
    ("consumer", &[b"c", b"d"]),
    ("encoding", &[b"u8", b"i64", b"u63", b"u64", b"i1", b"u0", b"i65", b"x"]),
    ("offset", &[b"0", b"#1", b"7", b"#9223372036854775807", b"-1"]),
    ("longitude", &[b"13.4", b"-180", b"180", b"181", b"nan"]),
    ("latitude", &[b"52.5", b"-85.05112878", b"86", b"inf"]),
    ("member", &[b"member-1", b"member-500", b"1", b"none"]),
    ("field", &[b"field-1", b"field-500", b"none"]),
    ("element", &[b"element-1", b"element-500", b"none"]),
    ("threshold", &[b"0", b"1", b"100"]),
    ("lastid", &[b"9-9", b"0-0", b"1-0"]),
];

/// Resets the keys.
pub fn populate(client: &mut Client) {
    client.run("DISCARD");
    client.run("FLUSHALL");
    client.run("SET text hello");
    client.run("SET number 41");
    client.run("PFADD hll a b c");
    for n in 0..600 {
        let small = n < 5;
        for (line, is_wanted) in [
            (format!("RPUSH list element-{n}"), small),
            (format!("RPUSH list:l element-{n}"), true),
            (format!("SADD set member-{n}"), small),
            (format!("SADD set:l member-{n}"), true),
            (format!("SADD ints {n}"), true),
            (format!("ZADD zset {n} member-{n}"), small),
            (format!("ZADD zset:l {n} member-{n}"), true),
            (format!("HSET hash field-{n} {n}"), small),
            (format!("HSET hash:l field-{n} {n}"), true),
            (format!("XADD stream {}-1 field {n}", n + 1), n < 50),
        ] {
            if is_wanted {
                client.run(&line);
            }
        }
    }
    client.run("HEXPIRE hash 1 FIELDS 1 field-1");
    client.run("HEXPIRE hash:l 1 FIELDS 2 field-1 field-2");
    client.run("EXPIRE zset 2");
    client.run("XGROUP CREATE stream g 0");
    client.run("XREADGROUP GROUP g c COUNT 10 STREAMS stream >");
}

/// Draws random calls.
pub struct Drawer<'a> {
    /// Source of randomness.
    pub random: &'a mut Random,
    /// Values that occasionally replace an argument.
    pub wild: &'a [&'a [u8]],
    /// Payloads of `DUMP`.
    pub payloads: &'a [Vec<u8>],
}

impl Drawer<'_> {
    /// A random call.
    pub fn call(&mut self) -> Vec<Vec<u8>> {
        let family = FAMILIES[self.random.below(FAMILIES.len())];
        let spec = &family[self.random.below(family.len())];
        let mut call = vec![spec.meta.name.as_bytes().to_vec()];
        let mut meta = spec.meta;
        if !spec.subcommands.is_empty() {
            meta = spec.subcommands[self.random.below(spec.subcommands.len())].meta;
            call.push(meta.name.as_bytes().to_vec());
        }
        let named = call.len();
        self.arguments(meta.arguments, &mut call);
        self.spoil(named, &mut call);
        call
    }

    fn arguments(&mut self, arguments: &[Arg], call: &mut Vec<Vec<u8>>) {
        // Count of the following arguments, if the last argument announced one, like `numkeys`.
        let mut announced = None;
        for arg in arguments {
            if arg.flags.contains(ArgFlags::OPTIONAL) && self.random.below(2) == 0 {
                continue;
            }
            if arg.name.starts_with("num") && arg.kind == ArgKind::Integer {
                let count = 1 + self.random.below(4);
                announced = Some(count);
                self.token(arg, call);
                call.push(count.to_string().into_bytes());
                continue;
            }
            let often = match (arg.flags.contains(ArgFlags::MULTIPLE), announced) {
                (false, _) => 1,
                (true, Some(count)) => count,
                (true, None) => 1 + self.random.below(4),
            };
            for i in 0..often {
                if i == 0 || arg.flags.contains(ArgFlags::MULTIPLE_TOKEN) {
                    self.token(arg, call);
                }
                self.argument(arg, call);
            }
        }
    }

    fn token(&mut self, arg: &Arg, call: &mut Vec<Vec<u8>>) {
        if !arg.token.is_empty() && arg.kind != ArgKind::PureToken {
            call.push(arg.token.as_bytes().to_vec());
        }
    }

    fn argument(&mut self, arg: &Arg, call: &mut Vec<Vec<u8>>) {
        let by_name = BY_NAME.iter().find(|(name, _)| *name == arg.name);
        let drawn = match arg.kind {
            ArgKind::OneOf => {
                let choice = &arg.nested[self.random.below(arg.nested.len())];
                return self.arguments(std::slice::from_ref(choice), call);
            }
            ArgKind::Block => return self.arguments(arg.nested, call),
            ArgKind::PureToken => arg.token.as_bytes(),
            ArgKind::Key => self.random.pick(&KEYS),
            _ if arg.name == "serialized-value" => return call.push(self.payload()),
            _ if self.random.below(12) == 0 => self.random.pick(self.wild),
            _ if by_name.is_some() && self.random.below(4) > 0 => {
                self.random.pick(by_name.unwrap().1)
            }
            ArgKind::Pattern => self.random.pick(&[&b"*"[..], b"*-1", b"[a-", b"**?"]),
            ArgKind::Double => self.random.pick(&[&b"1.5"[..], b"-0", b"1e300", b"inf", b"nan"]),
            ArgKind::UnixTime => self.random.pick(&[&b"1700000001"[..], b"1", b"4000000000000"]),
            ArgKind::Integer | ArgKind::String => self.random.pick(&SMALL),
        };
        call.push(drawn.to_vec());
    }

    /// A payload with a few bytes changed.
    fn payload(&mut self) -> Vec<u8> {
        let mut payload = self.payloads[self.random.below(self.payloads.len())].clone();
        // The last ten bytes are the version and the checksum.
        let body = payload.len() - 10;
        for _ in 0..self.random.below(4) {
            payload[self.random.below(body)] = self.random.below(256) as u8;
        }
        if self.random.below(8) == 0 {
            payload.drain(1..=self.random.below(body));
        }
        payload
    }

    /// Makes one call in four invalid.
    fn spoil(&mut self, named: usize, call: &mut Vec<Vec<u8>>) {
        if call.len() == named {
            return;
        }
        let at = named + self.random.below(call.len() - named);
        match self.random.below(16) {
            0 => call[at] = self.random.pick(self.wild).to_vec(),
            1 => drop(call.remove(at)),
            2 => call.push(self.random.pick(self.wild).to_vec()),
            3 => call.insert(at, call[at].clone()),
            _ => {}
        }
    }
}
