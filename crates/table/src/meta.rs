//! Metadata of a command: flags, categories, documentation.

use crate::argument::Arg;
use crate::bitset;
use crate::key_spec::{KeyFlags, KeyRange, KeySpec};

bitset! {
    /// Command flags, as in `COMMAND INFO`.
    Flags: u32 {
        /// May change data.
        WRITE = 0 "write",
        /// Reads data only.
        READONLY = 1 "readonly",
        /// Refused when memory is above `maxmemory`.
        DENYOOM = 2 "denyoom",
        /// Comes from a module.
        MODULE = 3 "module",
        /// Administration; implies the categories `@admin` and `@dangerous`.
        ADMIN = 4 "admin",
        /// Publish and subscribe.
        PUBSUB = 5 "pubsub",
        /// Refused inside scripts.
        NOSCRIPT = 6 "noscript",
        /// May wait for other clients.
        BLOCKING = 7 "blocking",
        /// Allowed while data is being loaded.
        LOADING = 8 "loading",
        /// Allowed on a replica with stale data.
        STALE = 9 "stale",
        /// Not shown to `MONITOR`.
        SKIP_MONITOR = 10 "skip_monitor",
        /// Not logged by the slow log: arguments may be secret.
        SKIP_SLOWLOG = 11 "skip_slowlog",
        /// Allowed on an importing hash slot.
        ASKING = 12 "asking",
        /// O(1) or O(log n), never delays the server.
        FAST = 13 "fast",
        /// Allowed before authentication.
        NO_AUTH = 14 "no_auth",
        /// Refused during an asynchronous load, even with `LOADING`.
        NO_ASYNC_LOADING = 15 "no_async_loading",
        /// Refused inside `MULTI`.
        NO_MULTI = 16 "no_multi",
        /// Key positions do not follow from first, last and step alone.
        MOVABLEKEYS = 17 "movablekeys",
        /// Allowed while a script overruns its time.
        ALLOW_BUSY = 18 "allow_busy",
        /// The key specs may match no key in a valid call.
        NO_MANDATORY_KEYS = 19 "no_mandatory_keys",
        /// Not a write, yet may propagate (`PUBLISH`, scripts). Not printed, as in Redis.
        MAY_REPLICATE = 20 "",
        /// Needs a configuration switch such as `enable-debug-command`. Not printed, as in Redis.
        PROTECTED = 21 "",
        /// Touches keys that no key spec names (`SCAN`, `RANDOMKEY`). Not printed, as in Redis.
        TOUCHES_ARBITRARY_KEYS = 22 "",
        /// Runs a script, which may call any command.
        SCRIPT_RUNNER = 23 "script_runner",
        /// Names several keys, or channels of shards: they must be of one hash slot for clients of
        /// Redis Cluster. Follows from the key specs. Not printed.
        SEVERAL_KEYS = 24 "",
    }
}

bitset! {
    /// Properties of a command that `admit` needs beyond its [`Flags`]; `COMMAND INFO` prints none
    /// of them.
    GateFlags: u32 {
        /// Acts on an open transaction instead of joining it.
        RUNS_IN_MULTI = 0 "runs_in_multi",
        /// Runs the commands of the open transaction.
        RUNS_QUEUE = 1 "runs_queue",
        /// Refused inside `MULTI` in Valkey's dialect.
        NO_MULTI_IN_VALKEY = 2 "no_multi_in_valkey",
        /// Selects the database of the commands that follow.
        SELECTS = 3 "selects",
        /// Locks the keys that it watches, or no longer watches.
        WATCHES = 4 "watches",
        /// Ends the connection's watches, which takes the locks of their keys.
        ENDS_WATCHES = 5 "ends_watches",
        /// Not held back by a pause.
        RUNS_IN_PAUSE = 6 "runs_in_pause",
        /// Asks after the server's health, and is refused where writes are.
        HEALTH_CHECK = 7 "health_check",
        /// Answered in a way that a subscriber with RESP2 can tell from messages.
        FOR_SUBSCRIBERS = 8 "for_subscribers",
        /// Answers by pushes, which are sent though `CLIENT REPLY` is off.
        ANSWERS_BY_PUSH = 9 "answers_by_push",
        /// Stands in append-only files and replication streams though it changes no data.
        FRAMES_STREAM = 10 "frames_stream",
        /// Not written to streams and logs: the commands that it executes are.
        NOT_IN_STREAMS = 11 "not_in_streams",
        /// Refused by a member of a cluster.
        NOT_IN_CLUSTER = 12 "not_in_cluster",
        /// Has no keys and the same result at every member of a cluster: may be part of a
        /// transaction that another member executes.
        RUNS_ANYWHERE = 13 "runs_anywhere",
        /// Waits for its keys only with the option `BLOCK`.
        BLOCKS_BY_OPTION = 14 "blocks_by_option",
        /// Is executed by the member that its client speaks to, or not at all.
        NOT_FORWARDED = 15 "not_forwarded",
        /// Runs the script of the sum that its first argument is.
        SCRIPT_BY_SUM = 16 "script_by_sum",
        /// Names no key: each primary of hash slots executes it for its share.
        AT_ALL_PRIMARIES = 17 "at_all_primaries",
        /// Changes the selected database only, where a command of its kind changes all.
        ONE_DATABASE = 18 "one_database",
        /// Reads all keys of a database: where the members of a cluster hold only some hash slots,
        /// each primary answers for its share.
        WHOLE_DATABASE = 19 "whole_database",
        /// Changes state that all members of a cluster share, though it names no key: the members
        /// agree on the result.
        AGREED = 20 "agreed",
        /// Asks about logs on disks, first about the log of the member that the client is connected
        /// to.
        ASKS_LOGS = 21 "asks_logs",
        /// Works on no keys, and may run on a helper thread: it depends on its arguments only.
        MOVES = 22 "moves",
        /// Takes work that grows with a product of sizes, with a pattern, or with a value of which
        /// each element costs much: a transaction with it may run for long, as a script.
        TAKES_LONG = 23 "takes_long",
    }
}

bitset! {
    /// ACL categories, named as in `COMMAND INFO` without the leading `@`.
    Categories: u32 {
        /// Keys of any type.
        KEYSPACE = 0 "keyspace",
        /// Reads values or metadata.
        READ = 1 "read",
        /// Writes values or metadata.
        WRITE = 2 "write",
        /// Sets.
        SET = 3 "set",
        /// Sorted sets.
        SORTEDSET = 4 "sortedset",
        /// Lists.
        LIST = 5 "list",
        /// Hashes.
        HASH = 6 "hash",
        /// Strings.
        STRING = 7 "string",
        /// Bitmaps.
        BITMAP = 8 "bitmap",
        /// HyperLogLogs.
        HYPERLOGLOG = 9 "hyperloglog",
        /// Geographic indexes.
        GEO = 10 "geo",
        /// Streams.
        STREAM = 11 "stream",
        /// Publish and subscribe.
        PUBSUB = 12 "pubsub",
        /// Administration.
        ADMIN = 13 "admin",
        /// Commands with [`Flags::FAST`].
        FAST = 14 "fast",
        /// Commands without [`Flags::FAST`].
        SLOW = 15 "slow",
        /// May wait for other clients.
        BLOCKING = 16 "blocking",
        /// To be kept from ordinary users.
        DANGEROUS = 17 "dangerous",
        /// The connection itself.
        CONNECTION = 18 "connection",
        /// Transactions.
        TRANSACTION = 19 "transaction",
        /// Scripts and functions.
        SCRIPTING = 20 "scripting",
        /// JSON documents.
        JSON = 21 "json",
        /// Bloom filters.
        BLOOM = 22 "bloom",
        /// Count-min sketches.
        CMS = 23 "cms",
        /// Cuckoo filters.
        CUCKOO = 24 "cuckoo",
        /// Top-k lists.
        TOPK = 25 "topk",
        /// t-digests.
        TDIGEST = 26 "tdigest",
        /// Arrays.
        ARRAY = 27 "array",
        /// The query engine.
        SEARCH = 28 "search",
    }
}

impl Categories {
    /// The categories that follow from a command's flags, given those stated outright.
    pub const fn implied(flags: Flags, stated: Self) -> Self {
        let mut all = stated;
        if flags.contains(Flags::WRITE) {
            all = all.with(Self::WRITE);
        }
        if flags.contains(Flags::READONLY) && !stated.contains(Self::SCRIPTING) {
            all = all.with(Self::READ);
        }
        if flags.contains(Flags::ADMIN) {
            all = all.with(Self::ADMIN).with(Self::DANGEROUS);
        }
        if flags.contains(Flags::PUBSUB) {
            all = all.with(Self::PUBSUB);
        }
        if flags.contains(Flags::BLOCKING) {
            all = all.with(Self::BLOCKING);
        }
        all.with(if flags.contains(Flags::FAST) { Self::FAST } else { Self::SLOW })
    }
}

/// Group of a command in `COMMAND DOCS`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Group {
    /// Strings.
    String,
    /// Keys of any type.
    Generic,
    /// The connection itself.
    Connection,
    /// The server.
    Server,
    /// `MULTI` and its companions.
    Transactions,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Hashes.
    Hash,
    /// Arrays.
    Array,
    /// Bitmaps.
    Bitmap,
    /// HyperLogLogs.
    HyperLogLog,
    /// Geographic indexes.
    Geo,
    /// Streams.
    Stream,
    /// Publish and subscribe.
    PubSub,
    /// Scripts and functions.
    Scripting,
    /// The cluster.
    Cluster,
    /// Commands of Redis modules.
    Module,
}

impl Group {
    /// The name that `COMMAND DOCS` prints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Generic => "generic",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Transactions => "transactions",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Hash => "hash",
            Self::Array => "array",
            Self::Bitmap => "bitmap",
            Self::HyperLogLog => "hyperloglog",
            Self::Geo => "geo",
            Self::Stream => "stream",
            Self::PubSub => "pubsub",
            Self::Scripting => "scripting",
            Self::Cluster => "cluster",
            Self::Module => "module",
        }
    }
}

/// Arguments that are channels. Leaving a channel needs no permission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Channels {
    /// None.
    None,
    /// The first argument.
    First,
    /// All arguments.
    All,
    /// All arguments, which are patterns.
    Patterns,
}

/// Member of a cluster that runs a command. Clients may send any command to any member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// On the node that the client speaks to: it has no keys.
    Here,
    /// On that node if the keys are held there, which it only reads.
    Read,
    /// On the node that orders the changes of its keys.
    Primary,
}

/// All that is said of a command, or of a subcommand, apart from its code.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// Lower-case name; of a subcommand without its container (`setname`).
    pub name: &'static str,
    /// Arguments including the name (and the container's): exact if positive, at least `-arity` if
    /// negative.
    pub arity: i16,
    /// Behaviour.
    pub flags: Flags,
    /// Behaviour that only the gate has to know.
    pub gate: GateFlags,
    /// Explicit ACL categories, in addition to those implied by the flags; see
    /// [`Meta::categories`].
    pub stated_categories: Categories,
    /// Positions of the keys.
    pub keys: &'static [KeySpec],
    /// Arguments that are channels for which the user needs permission.
    pub channels: Channels,
    /// Command tips, such as `request_policy:all_shards`.
    pub tips: &'static [&'static str],
    /// Summary in one line.
    pub summary: &'static str,
    /// Release that introduced the command.
    pub since: &'static str,
    /// Group in `COMMAND DOCS`.
    pub group: Group,
    /// Big-O, one line.
    pub complexity: &'static str,
    /// `(version, change)` pairs, oldest first.
    pub history: &'static [(&'static str, &'static str)],
    /// For a deprecated command: since which release, and what replaces it.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Whether it is meant for servers among themselves rather than for users.
    pub system: bool,
    /// The arguments after the name, of which the syntax line is made too.
    pub arguments: &'static [Arg],
    /// `(syntax, text)` pairs, lines of the text parted by `\n`. Of a subcommand: what `HELP` says
    /// instead of the syntax made of the arguments, and the summary. Of any other command: what
    /// its `HELP` lists before the subcommands of the table.
    pub help: &'static [(&'static str, &'static str)],
    /// [`Meta::help`] in Valkey's dialect, if that has other words.
    pub help_valkey: &'static [(&'static str, &'static str)],
}

impl Meta {
    /// A command with these facts and nothing else said: the base of the tables' struct updates.
    pub const fn new(name: &'static str, arity: i16, group: Group, since: &'static str) -> Self {
        Self {
            name,
            arity,
            flags: Flags::NONE,
            gate: GateFlags::NONE,
            stated_categories: Categories::NONE,
            keys: &[],
            channels: Channels::None,
            tips: &[],
            summary: "",
            since,
            group,
            complexity: "O(1)",
            history: &[],
            deprecated: None,
            system: false,
            arguments: &[],
            help: &[],
            help_valkey: &[],
        }
    }

    /// The value of the tip with this name, such as `all_shards` for `request_policy`.
    pub fn tip(&self, name: &str) -> Option<&'static str> {
        self.tips.iter().find_map(|tip| tip.strip_prefix(name)?.strip_prefix(':'))
    }

    /// Whether each primary of hash slots executes the command for its share where the members of a
    /// cluster hold only some, step by step; else one reply of one primary is all of it.
    pub fn is_summed(&self) -> bool {
        self.gate.contains(GateFlags::WHOLE_DATABASE)
            && self.tip("response_policy") != Some("special")
    }

    /// Every ACL category of the command, implied ones included.
    pub const fn categories(&self) -> Categories {
        Categories::implied(self.flags, self.stated_categories)
    }

    /// The member of a cluster that runs the command. Commands that may change their keys, or touch
    /// keys that they do not name, run at the keys' primary.
    pub const fn place(&self) -> Place {
        let reads =
            self.flags.contains(Flags::READONLY) && !self.flags.contains(Flags::SCRIPT_RUNNER);
        let (mut at, mut has_keys, mut only_reads) = (0, false, true);
        while at < self.keys.len() {
            has_keys |= !self.keys[at].flags.contains(KeyFlags::NOT_KEY);
            only_reads &= self.keys[at].flags.contains(KeyFlags::RO);
            at += 1;
        }
        match !has_keys {
            true if self.flags.contains(Flags::WRITE) => Place::Primary,
            true => Place::Here,
            false if reads && only_reads => Place::Read,
            false => Place::Primary,
        }
    }

    /// First key, last key and step, as the older half of `COMMAND INFO` says it.
    pub const fn key_range(&self) -> KeyRange {
        KeyRange::of(self.keys)
    }
}
