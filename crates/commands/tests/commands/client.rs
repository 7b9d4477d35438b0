//! A client of the commands: no socket, one thread.

use petrel_commands::{
    Attendant, Blocked, Command, CommandSpec, Executor, FAMILIES, Fail, Helped, Host, Outcome,
    Registry, Session, Shared, Ticket, server::memory, transactions,
};
use petrel_keyspace::{Cleared, Event, Handle, Keyspace, Options};
use petrel_persistence::rdb::{Dialect, Leniency};
use petrel_resp::{DecodeLimits, Protocol, Reply, RespWriter, Value, decode};
use petrel_table::commands as meta;
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;

/// Start of every client's clock, in Unix milliseconds.
pub const START_MS: i64 = 1_700_000_000_000;

/// The part of `MEMORY` that needs no server.
static MEMORY: &[CommandSpec] = &[CommandSpec::container(
    &meta::MEMORY,
    &[CommandSpec::new(&meta::MEMORY_USAGE, memory::usage)],
)];

/// A connection with an executor of its own, as if on a thread of its own.
pub struct Client {
    pub exec: Executor,
    pub session: Session,
    pub host: FakeHost,
    helper: Option<Executor>,
}

/// Host of the commands, in place of a server.
pub struct FakeHost {
    pub string_len_max: usize,
    /// Number of keys passed to the background for freeing.
    pub discarded: usize,
    pub dialect: Dialect,
    pub leniency: Leniency,
    /// Keyspace events as `name:key`, followed by the database number if it is not 0.
    pub events: Vec<String>,
    /// Invalidated keys: in broadcasting mode, and of tracked reads. `*` stands for all keys.
    pub invalidated: [BTreeSet<String>; 2],
    /// Commands that were passed to the helper, if there is one.
    pub moved: Option<Vec<Arc<Blocked>>>,
    /// Serves others while a transaction or a script runs for long.
    pub attendant: Option<Rc<dyn Attendant>>,
}

impl Host for FakeHost {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn admit_protected(&mut self, _: Command) -> Outcome {
        Err(Fail::fixed("ERR not here"))
    }

    fn client_label(&mut self) -> (String, String) {
        ("127.0.0.1:5".to_owned(), "tester".to_owned())
    }

    fn string_len_max(&self) -> usize {
        self.string_len_max
    }

    fn query_buffer_limit(&self) -> usize {
        1 << 20
    }

    fn dump_dialect(&self) -> Dialect {
        self.dialect
    }

    fn leniency(&self) -> Leniency {
        self.leniency
    }

    fn discard(&mut self, cleared: Cleared) {
        self.discarded += cleared.keys();
    }

    fn ticket(&mut self) -> Option<Ticket> {
        self.moved.as_ref().map(|_| Arc::new(()) as Ticket)
    }

    fn has_helpers(&mut self) -> bool {
        self.moved.is_some()
    }

    fn run_on_helper(&mut self, blocked: &Arc<Blocked>) {
        self.moved.get_or_insert_default().push(blocked.clone());
    }

    fn attendant(&self) -> Option<Rc<dyn Attendant>> {
        self.attendant.clone()
    }

    fn notify(&mut self, event: &Event) {
        let db = if event.db == 0 { String::new() } else { format!("@{}", event.db) };
        self.events.push(format!("{}:{}{db}", event.name, event.key.escape_ascii()));
    }

    fn invalidate(&mut self, ks: &mut Handle, _: Option<&mut dyn Reply>) {
        let told = ks.take_invalidations();
        let name = |key: &[u8]| key.escape_ascii().to_string();
        let [by_prefix, by_read] = &mut self.invalidated;
        by_prefix.extend(told.broadcasts.iter().map(|broadcast| name(&broadcast.key)));
        by_read.extend(told.keys().map(|invalidation| name(invalidation.key)));
        if told.everything {
            self.invalidated.iter_mut().for_each(|keys| keys.extend(["*".to_owned()]));
        }
    }
}

impl Client {
    /// The only client of a new keyspace.
    pub fn new() -> Self {
        Self::with_options(&Options { stripes: 16, ..Options::default() })
    }

    /// The only client of a new keyspace with these options.
    pub fn with_options(options: &Options) -> Self {
        let keyspace = Keyspace::new(options);
        let families = [FAMILIES, &[MEMORY]].concat();
        Self::of(&keyspace, Shared::new(Registry::new(&families)))
    }

    /// Another client of the same keyspace.
    pub fn another(&self) -> Self {
        Self::of(self.exec.ks.keyspace(), self.exec.shared.clone())
    }

    /// A client of a keyspace.
    pub fn of(keyspace: &Arc<Keyspace>, shared: Arc<Shared>) -> Self {
        let mut ks = keyspace.attach();
        ks.set_clock(START_MS);
        Client {
            exec: Executor::new(ks, shared),
            session: Session::new(true),
            host: FakeHost {
                string_len_max: 512 << 20,
                discarded: 0,
                dialect: Dialect::Redis,
                leniency: Leniency::default(),
                events: Vec::new(),
                invalidated: Default::default(),
                moved: None,
                attendant: None,
            },
            helper: None,
        }
    }

    /// Lets a helper execute all commands that are expected to take some time.
    pub fn helped(mut self) -> Self {
        let ks = self.exec.ks.keyspace().attach();
        let helper = Executor::new(ks, self.exec.shared.clone());
        self.exec.give_way();
        self.exec.move_after(0);
        self.host.moved = Some(Vec::new());
        self.helper = Some(helper);
        self
    }

    /// Moves the client's clock.
    pub fn wait(&mut self, millis: i64) {
        let now = self.exec.ks.now_ms();
        self.exec.ks.set_clock(now + millis);
    }

    /// Runs one command. There has to be one well-formed reply.
    pub fn call(&mut self, args: &[&[u8]]) -> Value {
        if let [b"SELECT", db] = args {
            // Connection commands are part of the server crate.
            self.session.db = petrel_keyspace::parse_int(db).expect("a database") as u16;
            return Value::Simple("OK".into());
        }
        let bytes = self.call_raw(args);
        let decoded = decode(&bytes, &DecodeLimits::default());
        match decoded {
            Ok(Some((value, len))) if len == bytes.len() => value,
            _ => panic!("{} after {}", bytes.escape_ascii(), show_args(args)),
        }
    }

    fn call_raw(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        let mut reply = RespWriter::new(&mut bytes, &mut shared, self.session.protocol);
        self.exec.begin();
        let request = self.exec.prepare(args, None);
        self.exec.prefetch(self.session.db, request.hash.into_iter(), 2);
        self.exec.execute(&request, &mut self.session, &mut self.host, &mut reply);
        let moved = self.host.moved.as_mut().and_then(Vec::pop);
        assert!(!self.exec.ks.holds_any(), "locks kept by {}", show_args(args));
        self.exec.end();
        if let Some(moved) = moved {
            assert!(bytes.is_empty(), "{} was given up amid its reply", show_args(args));
            return self.help(&moved);
        }
        let mut whole = Vec::with_capacity(bytes.len());
        let mut from = 0;
        for (at, blob) in shared {
            whole.extend_from_slice(&bytes[from..at]);
            whole.extend_from_slice(&blob);
            from = at;
        }
        whole.extend_from_slice(&bytes[from..]);
        whole
    }

    fn help(&mut self, moved: &Arc<Blocked>) -> Vec<u8> {
        let now = self.exec.ks.now_ms();
        let helper = self.helper.as_mut().expect("there is one where commands are moved");
        helper.ks.set_clock(now);
        helper.begin();
        let helped = helper.help_with(moved, 0, &mut self.host);
        helper.end();
        match helped {
            Helped::Answered(answer) => answer.into_bytes(),
            other => panic!("{other:?} of a command that nobody is in the way of"),
        }
    }

    /// Runs a command in command-line syntax, and returns its reply in the format of [`show`].
    pub fn run(&mut self, line: &str) -> String {
        let args = split(line);
        let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
        show(&self.call(&args))
    }

    /// Runs `command ⇒ reply` lines in order. An expected reply that ends in `...` is a prefix.
    pub fn follow(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once(" => ").expect("a line has an arrow");
            let reply = self.run(command.trim());
            match expected.trim().strip_suffix("...") {
                Some(beginning) => assert!(reply.starts_with(beginning), "{line}\nbut: {reply}"),
                None => assert_eq!(reply.trim_end(), expected.trim(), "{line}"),
            }
        }
    }

    /// Switches to RESP3.
    pub fn resp3(mut self) -> Self {
        self.session.protocol = Protocol::Resp3;
        self
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.exec.begin();
        transactions::abandon(&mut self.exec, &mut self.session);
        self.exec.end();
    }
}

/// Splits a line into words separated by spaces. Double-quoted words may contain spaces, `\n` and
/// `\xHH`.
pub fn split(line: &str) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut rest = line.trim().bytes().peekable();
    while let Some(first) = rest.next() {
        let mut word = Vec::new();
        if first == b'"' {
            while let Some(byte) = rest.next().filter(|&byte| byte != b'"') {
                word.push(if byte == b'\\' { unescape(&mut rest) } else { byte });
            }
        } else {
            word.push(first);
            while let Some(byte) = rest.next_if(|&byte| byte != b' ') {
                word.push(byte);
            }
        }
        words.push(word);
        while rest.next_if_eq(&b' ').is_some() {}
    }
    words
}

fn unescape(rest: &mut impl Iterator<Item = u8>) -> u8 {
    match rest.next() {
        Some(b'n') => b'\n',
        Some(b'x') => {
            let digits = [rest.next(), rest.next()].map(|digit| digit.map_or('0', char::from));
            u8::from_str_radix(&String::from_iter(digits), 16).expect("two hexadecimal digits")
        }
        other => other.expect("something after a backslash"),
    }
}

/// A reply on one line: `OK`, `ERR ...`, `7`, `"text"`, `nil`, `[1 2]`, `{"a": 1}`.
pub fn show(value: &Value) -> String {
    let list = |items: &[Value]| items.iter().map(show).collect::<Vec<_>>().join(" ");
    let mut text = String::new();
    match value {
        Value::Simple(line) | Value::Error(line) => {
            write!(text, "{}", String::from_utf8_lossy(line))
        }
        Value::Integer(n) => write!(text, "{n}"),
        Value::Bulk(bytes) => write!(text, "\"{}\"", bytes.escape_ascii()),
        Value::Verbatim { text: bytes, .. } => write!(text, "\"{}\"", bytes.escape_ascii()),
        Value::Null => write!(text, "nil"),
        Value::NullArray => write!(text, "nil-array"),
        Value::Array(items) => write!(text, "[{}]", list(items)),
        Value::Set(items) => write!(text, "<{}>", list(items)),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}: {}", show(key), show(value)));
            write!(text, "{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        other => write!(text, "{other:?}"),
    }
    .expect("strings take everything");
    text
}

/// Arguments in readable form.
pub fn show_args(args: &[&[u8]]) -> String {
    let shown = args.iter().map(|arg| {
        let text = arg.escape_ascii().to_string();
        if text.len() > 100 { format!("{}... ({} bytes)", &text[..100], arg.len()) } else { text }
    });
    shown.map(|arg| format!("{arg:?}")).collect::<Vec<_>>().join(" ")
}
