//! No call keeps its thread: it is answered soon, or moves to a helper.
//!
//! Run it with `-- -detect_leaks=0`: addresses in entries are packed, so that long values look
//! leaked. Leave it a processor of its own: it measures time.
//!
//! The input is a list of arguments. Each begins with a byte that says what it is:
//!
//! | | |
//! |---|---|
//! | 0..=63 | a key, by number |
//! | 64..=127 | the next byte in decimal, times 10 to the power of the low two bits |
//! | 128..=191 | as many bytes of text as the low four bits say |
//! | 192..=255 | the last `low four bits + 1` arguments again, 2^(next byte % 12) times |

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_commands::{
    Blocked, Command, Executor, FAMILIES, Fail, Host, Outcome, Registry, Session, Shared, Ticket,
};
use petrel_keyspace::{Cleared, Keyspace, Options};
use petrel_resp::{DecodeLimits, Protocol, RespWriter, Value};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for one call, in a build with sanitizers.
const CALL_MAX: Duration = Duration::from_secs(5);

const ARGS_MAX: usize = 50_000;
const REPLY_MAX: usize = 16 << 20;
const ITEMS: usize = 3000;

const KEYS: [&str; 18] = [
    "text", "long", "list", "set", "ints", "zset", "hash", "stream", "hll", "geo", "json", "vset",
    "bloom", "cuckoo", "sketch", "topk", "digest", "array",
];

/// A server that has a helper, which executes nothing.
#[derive(Default)]
struct Moves(usize);

impl Host for Moves {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
    fn admit_protected(&mut self, _: Command) -> Outcome {
        Err(Fail::fixed("ERR not here"))
    }
    fn client_label(&mut self) -> (String, String) {
        Default::default()
    }
    fn string_len_max(&self) -> usize {
        1 << 20
    }
    fn query_buffer_limit(&self) -> usize {
        1 << 20
    }
    fn reply_max(&self) -> Option<usize> {
        Some(REPLY_MAX)
    }
    fn discard(&mut self, _: Cleared) {}
    fn ticket(&mut self) -> Option<Ticket> {
        Some(Arc::new(()))
    }
    fn has_helpers(&mut self) -> bool {
        true
    }
    fn run_on_helper(&mut self, _: &Arc<Blocked>) {
        self.0 += 1;
    }
}

struct Client {
    exec: Executor,
    host: Moves,
    names: Vec<&'static str>,
    /// Payloads of the keys, which replace what a call has left of them.
    values: Vec<(&'static str, Vec<u8>)>,
    /// Changes of the keyspace when the values were last whole.
    changes: u64,
}

impl Client {
    fn new() -> Self {
        let keyspace = Keyspace::new(&Options { stripes: 16, ..Options::default() });
        let shared = Shared::new(Registry::new(FAMILIES));
        let mut exec = Executor::new(keyspace.attach(), shared);
        exec.give_way();
        // The work of scripts is their own, and that of PFSELFTEST does not depend on its input.
        let other = ["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro", "pfselftest"];
        let commands = FAMILIES.iter().flat_map(|family| family.iter());
        let names = commands.map(|spec| spec.meta.name).filter(|name| !other.contains(name));
        let names = names.collect();
        Client { exec, host: Moves::default(), names, values: Vec::new(), changes: 0 }
    }

    fn fill(&mut self) {
        self.call(&[b"SET", b"text", b"hello"]);
        self.call(&[b"SET", b"long", &b"a".repeat(1 << 20)]);
        self.call(&[b"CMS.INITBYDIM", b"sketch", b"1000", b"5"]);
        self.call(&[b"TOPK.RESERVE", b"topk", b"50"]);
        self.call(&[b"TDIGEST.CREATE", b"digest"]);
        let mut json = String::from("{");
        for n in 0..ITEMS {
            let (name, number) = (format!("{}{n}", "a".repeat(200)), n.to_string());
            json += &format!("\"{name}\":[{number},\"{number}\"],");
            let (name, number) = (name.as_bytes(), number.as_bytes());
            self.call(&[b"RPUSH", b"list", name]);
            self.call(&[b"SADD", b"set", name]);
            self.call(&[b"SADD", b"ints", number]);
            self.call(&[b"ZADD", b"zset", number, name]);
            self.call(&[b"HSET", b"hash", name, number]);
            self.call(&[b"XADD", b"stream", b"*", b"field", name]);
            self.call(&[b"PFADD", b"hll", name]);
            let degrees = format!("{}", n as f64 / 100.0);
            self.call(&[b"GEOADD", b"geo", degrees.as_bytes(), degrees.as_bytes(), number]);
            self.call(&[b"VADD", b"vset", b"VALUES", b"2", number, b"7", number]);
            self.call(&[b"BF.ADD", b"bloom", name]);
            self.call(&[b"CF.ADD", b"cuckoo", name]);
            self.call(&[b"CMS.INCRBY", b"sketch", name, b"1"]);
            self.call(&[b"TOPK.ADD", b"topk", name]);
            self.call(&[b"TDIGEST.ADD", b"digest", number]);
            self.call(&[b"ARSET", b"array", number, name]);
        }
        self.call(&[b"JSON.SET", b"json", b"$", format!("{json}\"\":0}}").as_bytes()]);
        self.values = KEYS.map(|key| (key, self.bulk(&[b"DUMP", key.as_bytes()]))).into();
        self.changes = self.exec.ks.keyspace().stats().changes;
    }

    /// Restores the values if the last call has changed anything.
    fn restore(&mut self) {
        if self.exec.ks.keyspace().stats().changes == self.changes {
            return;
        }
        self.call(&[b"FLUSHALL"]);
        let values = std::mem::take(&mut self.values);
        for (key, payload) in &values {
            self.call(&[b"RESTORE", key.as_bytes(), b"0", payload]);
            assert!(!self.bulk(&[b"DUMP", key.as_bytes()]).is_empty(), "{key} was not restored");
        }
        self.values = values;
        self.changes = self.exec.ks.keyspace().stats().changes;
    }

    /// The text that a call answers; none for another reply.
    fn bulk(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let reply = self.call(args);
        match petrel_resp::decode(&reply, &DecodeLimits::default()) {
            Ok(Some((Value::Bulk(bytes), _))) => bytes.to_vec(),
            _ => Vec::new(),
        }
    }

    fn call(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        let writer = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3);
        let mut reply = writer.limited(REPLY_MAX);
        let mut session = Session::new(true);
        self.exec.begin();
        let request = self.exec.prepare(args, None);
        self.exec.execute(&request, &mut session, &mut self.host, &mut reply);
        petrel_commands::transactions::abandon(&mut self.exec, &mut session);
        self.exec.end();
        self.exec.ks.refresh_clock();
        shared.iter().rev().for_each(|(at, part)| drop(bytes.splice(at..at, part.iter().copied())));
        bytes
    }
}

fn arguments(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut args: Vec<Vec<u8>> = Vec::new();
    while let [kind, rest @ ..] = input {
        let low = usize::from(kind & 15);
        input = rest;
        match kind >> 6 {
            0 => args.push(KEYS[usize::from(*kind) % KEYS.len()].into()),
            2 => {
                let (text, rest) = input.split_at(low.min(input.len()));
                args.push(text.to_vec());
                input = rest;
            }
            kind => {
                let Some((&number, rest)) = input.split_first() else { break };
                input = rest;
                if kind == 1 {
                    let power = 10usize.pow(low as u32 & 3);
                    args.push((usize::from(number) * power).to_string().into());
                    continue;
                }
                let begin = args.len().saturating_sub(low + 1);
                let times = 1usize << (number % 12);
                if (args.len() - begin).saturating_mul(times) + args.len() > ARGS_MAX {
                    break;
                }
                let again = args[begin..].to_vec();
                (1..times).for_each(|_| args.extend_from_slice(&again));
            }
        }
    }
    args
}

thread_local! {
    static CLIENT: RefCell<Option<Client>> = const { RefCell::new(None) };
}

fuzz_target!(|input: &[u8]| {
    let Some((&[first, second], input)) = input.split_first_chunk::<2>().map(|(a, b)| (a, b))
    else {
        return;
    };
    CLIENT.with_borrow_mut(|client| {
        let client = client.get_or_insert_with(|| {
            let mut client = Client::new();
            client.fill();
            client
        });
        let at = usize::from(u16::from_le_bytes([first, second])) % client.names.len();
        let name = client.names[at];
        let args = arguments(input);
        let call: Vec<&[u8]> =
            [name.as_bytes()].into_iter().chain(args.iter().map(|arg| &arg[..])).collect();
        let begin = Instant::now();
        client.call(&call);
        let took = begin.elapsed();
        assert!(took < CALL_MAX, "{name} with {} arguments took {took:?}", args.len());
        client.restore();
    });
});
