//! The values that are more than a number, a path or a yes.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::value::{Invalid, Rule, Value, memory_text, parse_decimal, parse_memory, single};

/// Defines an enum of the words that an operator may write.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident {
        $( $(#[$variant_doc:meta])* $variant:ident = $text:literal, )+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum $name { $( $(#[$variant_doc])* $variant, )+ }

        impl $name {
            /// Every variant, in the order of `NAMES`.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),+];
            /// The words, in the order in which error messages list them.
            pub const NAMES: &'static [&'static str] = &[$( $text ),+];

            /// The word of this variant.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $text, )+ }
            }
        }

        impl Value for $name {
            fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
                let text = single(args)?;
                let spelled = |v: &&Self| v.name().as_bytes().eq_ignore_ascii_case(text);
                let found = Self::ALL.iter().find(spelled);
                found.copied().ok_or_else(|| not_among(Self::NAMES))
            }

            fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
                vec![self.name().into()]
            }
        }
    };
}

pub(super) use choice;

choice! {
    /// Treatment of writes at `maxmemory`.
    MaxmemoryPolicy {
        /// Evict the least recently used of the keys that expire.
        VolatileLru = "volatile-lru",
        /// Evict the least frequently used of the keys that expire.
        VolatileLfu = "volatile-lfu",
        /// Evict any of the keys that expire.
        VolatileRandom = "volatile-random",
        /// Evict the key that expires next.
        VolatileTtl = "volatile-ttl",
        /// Evict the least recently modified of the keys that expire.
        VolatileLrm = "volatile-lrm",
        /// Evict the least recently used key.
        AllkeysLru = "allkeys-lru",
        /// Evict the least frequently used key.
        AllkeysLfu = "allkeys-lfu",
        /// Evict any key.
        AllkeysRandom = "allkeys-random",
        /// Evict the least recently modified key.
        AllkeysLrm = "allkeys-lrm",
        /// Evict nothing; writes that need memory fail.
        Noeviction = "noeviction",
        /// Evict by S3-FIFO: a small queue for newcomers, a main queue for keys read again.
        AllkeysS3fifo = "allkeys-s3fifo",
    }
}

choice! {
    /// Clients that may use a dangerous feature.
    Permission {
        /// No client.
        No = "no",
        /// All clients.
        Yes = "yes",
        /// Clients on a Unix socket or the loopback address.
        Local = "local",
    }
}

choice! {
    /// Back-end of the event loop.
    IoBackend {
        /// io_uring where the kernel allows it, else epoll.
        Auto = "auto",
        /// io_uring, or an error at start.
        IoUring = "io_uring",
        /// epoll.
        Epoll = "epoll",
    }
}

choice! {
    /// RDB versions that are accepted.
    VersionCheck {
        /// Known versions.
        Strict = "strict",
        /// All versions.
        Relaxed = "relaxed",
    }
}

choice! {
    /// Choice of a dialect.
    DialectChoice {
        /// Decided by another parameter or the program's name.
        Auto = "auto",
        /// Redis's.
        Redis = "redis",
        /// Valkey's.
        Valkey = "valkey",
    }
}

choice! {
    /// Whether clients show certificates.
    AuthClients {
        /// No certificate is requested.
        No = "no",
        /// A certificate is required.
        Yes = "yes",
        /// A certificate is optional.
        Optional = "optional",
    }
}

choice! {
    /// Field of a client's certificate with the name of its user.
    IdentityField {
        /// The common name of the subject.
        Cn = "CN",
        /// The first URI among the alternative names that is a user's.
        Uri = "URI",
        /// Nothing.
        Off = "off",
    }
}

choice! {
    /// Yes, no, or as the host allows.
    Auto {
        /// As the host allows.
        Auto = "auto",
        /// Required.
        Yes = "yes",
        /// Off.
        No = "no",
    }
}

choice! {
    /// Supervisor to notify when the server is ready.
    Supervised {
        /// upstart: the process stops itself with SIGSTOP.
        Upstart = "upstart",
        /// systemd: READY=1 on the notification socket.
        Systemd = "systemd",
        /// Whichever the environment shows.
        Auto = "auto",
        /// None.
        No = "no",
    }
}

impl Permission {
    /// Whether a client may, given whether it is on a Unix socket or the loopback address.
    pub fn allows(self, client_is_local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Local => client_is_local,
        }
    }
}

/// The addresses to listen on; at most [`BindAddresses::MAX`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BindAddresses(Vec<BindAddress>);

/// Address to listen on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BindAddress {
    /// Whether the server starts without it where the host does not have it.
    pub optional: bool,
    /// A host name, an IPv4 or IPv6 address, `*` for all of IPv4, `::*` for all of IPv6.
    pub address: String,
}

impl BindAddresses {
    /// Most addresses in one list, as in Redis.
    pub const MAX: usize = 16;

    /// The addresses in the order given.
    pub fn iter(&self) -> std::slice::Iter<'_, BindAddress> {
        self.0.iter()
    }

    /// Whether there are none, so that nothing listens on TCP.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Value for BindAddresses {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        if args.len() > Self::MAX {
            return Err(Invalid::new("Too many bind addresses specified."));
        }
        let words = args.iter().filter(|arg| !arg.is_empty());
        let addresses = words.map(|arg| {
            let text = std::str::from_utf8(arg).ok().filter(|text| {
                !text.chars().any(|c| c.is_whitespace() || c.is_control()) && *text != "-"
            });
            let text = text.ok_or(Invalid::new("Invalid bind address."))?;
            let (optional, address) = match text.strip_prefix('-') {
                Some(address) => (true, address),
                None => (false, text),
            };
            Ok(BindAddress { optional, address: address.to_owned() })
        });
        addresses.collect::<Result<_, _>>().map(Self)
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        or_empty(self.0.iter().map(|a| a.to_string().into_bytes()))
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.optional { "-" } else { "" }, self.address)
    }
}

/// Limit for the memory of all clients: `maxmemory-clients`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientMemory {
    /// Limit in bytes; 0 is no limit.
    Bytes(u64),
    /// Limit in percent of `maxmemory`; 0 is no limit.
    PercentOfMaxmemory(u8),
}

impl ClientMemory {
    /// The limit in bytes, if there is one. A percentage without `maxmemory` is no limit.
    pub fn limit_bytes(self, maxmemory: u64) -> Option<u64> {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            // The product of a u64 and at most 100, divided by 100, is a u64 again.
            Self::PercentOfMaxmemory(percent) => {
                (u128::from(maxmemory) * u128::from(percent) / 100) as u64
            }
        };
        (bytes != 0).then_some(bytes)
    }
}

impl Value for ClientMemory {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        const NEITHER: Invalid = Invalid::new("argument must be a memory or percent value");
        let text = single(args)?;
        let Some(percent) = text.strip_suffix(b"%") else {
            return parse_memory(text).map(Self::Bytes).ok_or(NEITHER);
        };
        match parse_decimal(percent) {
            Ok(percent @ 0..=100) => Ok(Self::PercentOfMaxmemory(percent as u8)),
            Ok(101..) => Err(Invalid::new("percentage argument must be less or equal to 100")),
            _ => Err(NEITHER),
        }
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![match self {
            Self::Bytes(bytes) => memory_text(*bytes).into(),
            Self::PercentOfMaxmemory(percent) => format!("{percent}%").into(),
        }]
    }

    fn text(&self, rule: &Rule) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.to_string().into(),
            Self::PercentOfMaxmemory(_) => self.arguments(rule).concat(),
        }
    }
}

/// A number between 0 and 1, neither of which it can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl Value for Share {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        let number = std::str::from_utf8(single(args)?).ok().and_then(|text| text.parse().ok());
        let share = number.filter(|&number: &f64| number > 0.0 && number < 1.0);
        share.map(Self).ok_or(Invalid::new("argument must be a number between 0 and 1"))
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.0.to_string().into()]
    }
}

/// Limit for the unsent replies of a client.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OutputBufferLimit {
    /// Bytes at which the client is closed at once; 0 is no limit.
    pub hard_bytes: u64,
    /// Bytes at which it is closed when it stays there for `soft_seconds`; 0 is no limit.
    pub soft_bytes: u64,
    /// Seconds that it may stay above `soft_bytes`.
    pub soft_seconds: u64,
}

/// The limits of the three classes of clients. A directive changes only the classes it names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OutputBufferLimits {
    /// Ordinary clients.
    pub normal: OutputBufferLimit,
    /// Replicas; `slave` in Redis's own output.
    pub replica: OutputBufferLimit,
    /// Clients subscribed to a channel or pattern.
    pub pubsub: OutputBufferLimit,
}

impl OutputBufferLimits {
    fn texts(&self, bytes: fn(u64) -> String) -> Vec<Vec<u8>> {
        let classes = [("normal", self.normal), ("slave", self.replica), ("pubsub", self.pubsub)];
        let words = classes.map(|(name, limit)| {
            [
                name.to_owned(),
                bytes(limit.hard_bytes),
                bytes(limit.soft_bytes),
                limit.soft_seconds.to_string(),
            ]
        });
        words.into_iter().flatten().map(String::into_bytes).collect()
    }
}

impl Value for OutputBufferLimits {
    fn parse(rule: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        let mut limits = Self::default();
        limits.update(rule, args)?;
        Ok(limits)
    }

    fn update(&mut self, _: &Rule, args: &[Vec<u8>]) -> Result<(), Invalid> {
        let (quadruples, rest) = args.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(Invalid::new("Wrong number of arguments in buffer limit configuration."));
        }
        let mut limits = *self;
        for [class, hard, soft, seconds] in quadruples {
            let slot = match class.to_ascii_lowercase().as_slice() {
                b"normal" => &mut limits.normal,
                b"replica" | b"slave" => &mut limits.replica,
                b"pubsub" => &mut limits.pubsub,
                _ => {
                    return Err(Invalid::new(
                        "Invalid client class specified in buffer limit configuration.",
                    ));
                }
            };
            *slot = parse_limit(hard, soft, seconds).ok_or(Invalid::new(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
            ))?;
        }
        *self = limits;
        Ok(())
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        self.texts(memory_text)
    }

    fn text(&self, _: &Rule) -> Vec<u8> {
        self.texts(|bytes| bytes.to_string()).join(&b' ')
    }
}

fn parse_limit(hard: &[u8], soft: &[u8], seconds: &[u8]) -> Option<OutputBufferLimit> {
    Some(OutputBufferLimit {
        hard_bytes: parse_memory(hard)?,
        soft_bytes: parse_memory(soft)?,
        soft_seconds: parse_decimal(seconds).ok()?.try_into().ok()?,
    })
}

/// Percentiles, each from 0 to 100; at most [`Percentiles::MAX`].
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles(Vec<f64>);

impl Percentiles {
    /// Most percentiles in one list.
    pub const MAX: usize = 64;

    /// The percentiles in the order given.
    pub fn iter(&self) -> std::slice::Iter<'_, f64> {
        self.0.iter()
    }
}

impl Value for Percentiles {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        const INVALID: Invalid =
            Invalid::new("Invalid latency-tracking-info-percentiles parameters");
        if args.len() > Self::MAX {
            return Err(INVALID);
        }
        let words = args.iter().filter(|arg| !arg.is_empty());
        let percentiles = words.map(|arg| {
            let number: Option<f64> = std::str::from_utf8(arg).ok().and_then(|t| t.parse().ok());
            let number = number.filter(|n| !n.is_nan()).ok_or(INVALID)?;
            match (0.0..=100.0).contains(&number) {
                // Round to the six decimals that are shown and written.
                true => Ok((number * 1e6).round() / 1e6),
                false => Err(Invalid::new(
                    "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
                )),
            }
        });
        percentiles.collect::<Result<_, _>>().map(Self)
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        or_empty(self.0.iter().map(|percentile| (percentile.abs()).to_string().into_bytes()))
    }
}

/// The value of a parameter that can only have one: of a feature that is not there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fixed(&'static str);

impl Value for Fixed {
    fn parse(rule: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        let Rule::Only(words, why) = *rule else {
            return Err(Invalid::new("not a fixed value"));
        };
        let text = args.join(&b' ');
        let found = words.iter().find(|word| word.as_bytes().eq_ignore_ascii_case(&text));
        found.map(|word| Self(word)).ok_or_else(|| {
            let shown: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
            Invalid::from(format!("{why}; it can only be {}", shown.join(" or ")))
        })
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.0.into()]
    }
}

/// A word allowed by the parameter's rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Word(&'static str);

impl Word {
    /// Whether it is this word.
    pub fn is(self, word: &str) -> bool {
        self.0 == word
    }

    /// The word.
    pub fn word(self) -> &'static str {
        self.0
    }
}

impl Value for Word {
    fn parse(rule: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        let Rule::OneOf(words) = *rule else { return Err(Invalid::new("not a word")) };
        let text = single(args)?;
        let found = words.iter().find(|word| word.as_bytes().eq_ignore_ascii_case(text));
        found.map(|word| Self(word)).ok_or_else(|| not_among(words))
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.0.into()]
    }
}

pub(super) fn not_among(words: &[&str]) -> Invalid {
    Invalid::from(format!("argument(s) must be one of the following: {}", words.join(", ")))
}

/// The scores of `oom-score-adj-values`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OomScores([i16; 3]);

choice! {
    /// Adjustment of the process's OOM score.
    OomAdjustment {
        /// Unchanged.
        No = "no",
        /// A number is added to it.
        Yes = "yes",
        /// A number is added to it.
        Relative = "relative",
        /// Set to a number.
        Absolute = "absolute",
    }
}

impl OomScores {
    /// Score of a server that is no replica.
    pub fn of_primary(&self) -> i16 {
        self.0[0]
    }
}

impl Value for OomScores {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        let args: &[Vec<u8>; 3] =
            args.try_into().map_err(|_| Invalid::new("wrong number of arguments"))?;
        let mut scores = [0; 3];
        for (score, arg) in scores.iter_mut().zip(args) {
            let number = parse_decimal(arg).ok().filter(|n| (-2000..=2000).contains(n));
            *score = number.ok_or(Invalid::new(
                "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
            ))? as i16;
        }
        Ok(Self(scores))
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        self.0.iter().map(|score| score.to_string().into_bytes()).collect()
    }
}

/// Bytes that mean nothing here.
#[derive(Clone, Debug, Eq, PartialEq, Default)]
pub struct Text(Vec<u8>);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text(text.into())
    }
}

impl Text {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, with a mark where it is no UTF-8.
    pub fn lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Value for Text {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        Ok(Self(single(args)?.to_vec()))
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.0.clone()]
    }
}

/// Names that a peer's certificate may have, separated by spaces.
#[derive(Clone, Debug, Eq, PartialEq, Default)]
pub struct PeerNames(String);

impl PeerNames {
    /// The names; none accepts any certificate.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').filter(|name| !name.is_empty())
    }
}

impl Value for PeerNames {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        const SPACES: Invalid = Invalid::new(
            "tls-expected-peer-name must not contain whitespace other than spaces separating \
             names; use an empty string to disable it",
        );
        const NONE: Invalid = Invalid::new(
            "tls-expected-peer-name contains no usable name; use an empty string to disable it",
        );
        let text = std::str::from_utf8(single(args)?).map_err(|_| NONE)?;
        if text.bytes().any(|byte| matches!(byte, b'\t'..=b'\r')) {
            return Err(SPACES);
        }
        let names = PeerNames(text.to_owned());
        if !text.is_empty() && names.names().next().is_none() {
            return Err(NONE);
        }
        Ok(names)
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.0.clone().into_bytes()]
    }
}

/// File to start from.
#[derive(Clone, Debug, Eq, PartialEq, Default)]
pub enum PreloadFile {
    /// None.
    #[default]
    None,
    /// A snapshot.
    Rdb(PathBuf),
    /// The manifest of a log.
    Aof(PathBuf),
}

impl Value for PreloadFile {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        const FORM: Invalid = Invalid::new("argument must be in the format '[aof|rdb]:[filename]'");
        let text = single(args)?;
        let (make, path): (fn(PathBuf) -> Self, _) = match text {
            [] => return Ok(PreloadFile::None),
            [b'r', b'd', b'b', b':', path @ ..] => (PreloadFile::Rdb, path),
            [b'a', b'o', b'f', b':', path @ ..] => (PreloadFile::Aof, path),
            _ => return Err(FORM),
        };
        let [b'/', parts @ ..] = path else { return Err(FORM) };
        let is_bad = |part: &[u8]| matches!(part, b"" | b"." | b"..") || part.contains(&0);
        if parts.split(|byte| *byte == b'/').any(is_bad) {
            let text = "preload-file path must be a normalized absolute file path";
            return Err(Invalid::new(text));
        }
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        if path.extension().is_none_or(|extension| extension.is_empty()) {
            return Err(Invalid::new("preload-file must end with an extension"));
        }
        Ok(make(path))
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        let of = |kind: &[u8], path: &PathBuf| vec![[kind, path.as_os_str().as_bytes()].concat()];
        match self {
            PreloadFile::None => vec![Vec::new()],
            PreloadFile::Rdb(path) => of(b"rdb:", path),
            PreloadFile::Aof(path) => of(b"aof:", path),
        }
    }
}

/// A process title with variables in braces.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcTitleTemplate(String);

impl ProcTitleTemplate {
    /// The variables that a template may use.
    pub const VARIABLES: [&'static str; 7] =
        ["title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"];

    /// The title, with each variable replaced by what `lookup` says for its name.
    pub fn render(&self, lookup: impl Fn(&str) -> String) -> String {
        let mut title = String::new();
        let mut rest = self.0.as_str();
        while let Some((before, name, after)) = next_variable(rest) {
            title.push_str(before);
            title.push_str(&lookup(name));
            rest = after;
        }
        title.push_str(rest);
        title.trim().to_owned()
    }
}

impl Value for ProcTitleTemplate {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        const INVALID: Invalid =
            Invalid::new("template format is invalid or contains unknown variables");
        let text = std::str::from_utf8(single(args)?).map_err(|_| INVALID)?;
        if text.len() > PROC_TITLE_BYTES_MAX || text.contains('\0') {
            return Err(INVALID);
        }
        let mut rest = text;
        while let Some((_, name, after)) = next_variable(rest) {
            if !Self::VARIABLES.contains(&name) {
                return Err(INVALID);
            }
            rest = after;
        }
        match rest.contains('{') {
            true => Err(INVALID),
            false => Ok(Self(text.to_owned())),
        }
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.0.clone().into()]
    }
}

/// Splits at the first `{name}`: the text before, the name, the text after.
fn next_variable(text: &str) -> Option<(&str, &str, &str)> {
    let (before, behind) = text.split_once('{')?;
    let (name, after) = behind.split_once('}')?;
    Some((before, name, after))
}

/// A list as arguments; an empty one is the single argument `""`.
fn or_empty(words: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let words: Vec<_> = words.collect();
    if words.is_empty() { vec![Vec::new()] } else { words }
}

const PROC_TITLE_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: Rule = Rule::List("");

    fn args(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').filter(|word| !word.is_empty()).map(|word| word.into()).collect()
    }

    fn shown<T: Value>(value: &T) -> String {
        String::from_utf8(value.text(&LIST)).unwrap()
    }

    #[test]
    fn addresses_may_be_optional() {
        let bind = BindAddresses::parse(&LIST, &args("127.0.0.1 -::1")).unwrap();
        let optional: Vec<_> = bind.iter().map(|a| (a.optional, a.address.as_str())).collect();
        assert_eq!(optional, [(false, "127.0.0.1"), (true, "::1")]);
        assert_eq!(shown(&bind), "127.0.0.1 -::1");
        assert!(BindAddresses::parse(&LIST, &[Vec::new()]).unwrap().is_empty());
        assert!(BindAddresses::parse(&LIST, &args("-")).is_err());
        assert!(BindAddresses::parse(&LIST, &vec![b"::".to_vec(); 16]).is_ok());
        assert!(BindAddresses::parse(&LIST, &vec![b"::".to_vec(); 17]).is_err());
    }

    #[test]
    fn a_limit_on_client_memory_may_follow_maxmemory() {
        let parse = |text: &str| ClientMemory::parse(&LIST, &args(text)).unwrap();
        assert_eq!(parse("10%").limit_bytes(1000), Some(100));
        assert_eq!(parse("100%").limit_bytes(u64::MAX), Some(u64::MAX));
        assert_eq!(parse("10%").limit_bytes(0), None);
        assert_eq!(parse("1kb").limit_bytes(0), Some(1024));
        assert_eq!(parse("0").limit_bytes(1000), None);
        assert_eq!((shown(&parse("5%")), shown(&parse("1mb"))), ("5%".into(), "1048576".into()));
    }

    #[test]
    fn output_limits_change_only_the_classes_named() {
        let mut limits = OutputBufferLimits::default();
        limits.update(&LIST, &args("normal 1mb 2kb 3 Replica 4 5 6")).unwrap();
        limits.update(&LIST, &args("normal 7 8 9")).unwrap();
        assert_eq!(shown(&limits), "normal 7 8 9 slave 4 5 6 pubsub 0 0 0");
        let before = limits;
        assert!(limits.update(&LIST, &args("normal 0 0 0 pubsub 1 2 x")).is_err());
        assert_eq!(limits, before);
    }

    #[test]
    fn percentiles_show_at_most_six_decimals() {
        let text = "99.99999 0.0 50.10 12.123456789 1e1 -0";
        let percentiles = Percentiles::parse(&LIST, &args(text)).unwrap();
        assert_eq!(shown(&percentiles), "99.99999 0 50.1 12.123457 10 0");
        for bad in ["101", "-1", "abc", "nan", "inf"] {
            assert!(Percentiles::parse(&LIST, &args(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_title_knows_its_variables() {
        let parse = |text: &str| ProcTitleTemplate::parse(&LIST, &[text.into()]);
        let template = parse("{title} on {port}{unixsocket}").unwrap();
        let title = template.render(|name| match name {
            "unixsocket" => String::new(),
            other => other.to_uppercase(),
        });
        assert_eq!(title, "TITLE on PORT");
        for bad in ["{foo}", "{title", "{}", "a{{title}}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn permissions() {
        let allowed = |p: Permission| (p.allows(true), p.allows(false));
        assert_eq!(allowed(Permission::No), (false, false));
        assert_eq!(allowed(Permission::Local), (true, false));
        assert_eq!(allowed(Permission::Yes), (true, true));
    }
}
