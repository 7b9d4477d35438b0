//! Reading and writing the value of one parameter: the rules, and the plain types.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A type that a parameter can have.
pub trait Value: Clone + PartialEq + Sized {
    /// Reads the value from the arguments of a directive; `args` may be empty for lists only.
    fn parse(rule: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid>;

    /// The arguments of a directive of a configuration file that gives this value.
    fn arguments(&self, rule: &Rule) -> Vec<Vec<u8>>;

    /// Applies a directive to the present value; on an error the value is as before.
    fn update(&mut self, rule: &Rule, args: &[Vec<u8>]) -> Result<(), Invalid> {
        *self = Self::parse(rule, args)?;
        Ok(())
    }

    /// The value as CONFIG GET shows it.
    fn text(&self, rule: &Rule) -> Vec<u8> {
        self.arguments(rule).join(&b' ')
    }
}

/// Values that a parameter accepts. Bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// `yes` or `no`.
    YesNo,
    /// Only these words, of which the first is the default: other values are refused for the given
    /// reason.
    Only(&'static [&'static str], &'static str),
    /// Pairs of seconds and changes; several directives of a configuration add up.
    Points,
    /// Flags of a shutdown.
    Flags,
    /// The name of a file, without a directory.
    FileName,
    /// The name of a directory in the working directory.
    DirectoryName,
    /// Any bytes.
    AnyText,
    /// Names, separated by spaces; empty is none.
    Names,
    /// Letters for events of keys.
    EventLetters,
    /// An integer within bounds.
    Number {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// An integer that is moved to the nearer bound when outside.
    Clamped {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// Zero or a power of two.
    PowerOfTwo {
        /// Largest.
        max: i64,
    },
    /// A number between 0 and 1, neither of which it can be.
    Fraction,
    /// A file mode, from zero.
    Octal {
        /// Largest.
        max: u32,
    },
    /// Bytes, with an optional unit.
    Memory {
        /// Smallest, in bytes.
        min: u64,
        /// Largest, in bytes.
        max: u64,
    },
    /// Bytes, or a percentage.
    MemoryOrPercent,
    /// `all`, or a number from 1 on.
    AllOr {
        /// Largest.
        max: u16,
    },
    /// Any of these words, in any case.
    OneOf(&'static [&'static str]),
    /// A path; empty is none.
    Path,
    /// A path that a Unix socket can have; empty is none.
    SocketPath,
    /// A directory that exists.
    Directory,
    /// `rdb:` or `aof:` with an absolute path; empty is none.
    Preload,
    /// Any bytes, kept out of messages.
    Password,
    /// A process title with variables.
    Template,
    /// Several arguments, or one holding them all; described by the words given.
    List(&'static str),
}

/// Reason that a value is invalid, as shown by CONFIG SET.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Invalid(Cow<'static, str>);

/// Bytes that are never shown by `Debug`.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(Vec<u8>);

impl Invalid {
    pub(super) const fn new(reason: &'static str) -> Self {
        Self(Cow::Borrowed(reason))
    }
}

impl From<String> for Invalid {
    fn from(reason: String) -> Self {
        Self(Cow::Owned(reason))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Secret {
    /// Whether it holds anything.
    pub fn is_set(&self) -> bool {
        !self.0.is_empty()
    }

    /// The bytes, for code that opens something with them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `given` is the secret, in a time that tells nothing but a difference in length.
    pub fn matches(&self, given: &[u8]) -> bool {
        let differing = self.0.iter().zip(given).fold(0, |acc, (a, b)| acc | (a ^ b));
        std::hint::black_box(differing) == 0 && self.0.len() == given.len()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "(set)" } else { "(not set)" })
    }
}

impl Rule {
    /// Whether a directive may have several arguments.
    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::Only(..) | Self::Points | Self::Flags)
    }

    /// Describes the accepted values in a few words.
    pub fn describe(&self) -> String {
        match *self {
            Self::YesNo => "yes, no".into(),
            Self::Only(words, _) => {
                let shown = words.iter().map(|word| if word.is_empty() { "empty" } else { word });
                format!("only {}", shown.collect::<Vec<_>>().join(" or "))
            }
            Self::Points => "pairs of seconds and changes".into(),
            Self::Flags => "default, save, nosave, now, force".into(),
            Self::Number { min, max } | Self::Clamped { min, max } => describe_bounds(min, max),
            Self::PowerOfTwo { max } => format!("0 or a power of two up to {max}"),
            Self::Fraction => "between 0 and 1".into(),
            Self::Octal { max } => format!("octal, 0 to {max:o}"),
            Self::Memory { min: 0 | 1, .. } => "bytes".into(),
            Self::Memory { min, .. } => format!("bytes, {} or more", memory_text(min)),
            Self::MemoryOrPercent => "bytes or percent".into(),
            Self::AllOr { max } => format!("all, or 1 to {max}"),
            Self::OneOf(words) => words.join(", "),
            Self::Path | Self::SocketPath => "path".into(),
            Self::Directory => "directory".into(),
            Self::FileName => "file name".into(),
            Self::DirectoryName => "directory name".into(),
            Self::Preload => "rdb:/PATH, aof:/PATH".into(),
            Self::Names => "names".into(),
            Self::Password | Self::Template | Self::AnyText => "text".into(),
            Self::EventLetters => "letters of Ag$lshzxeKEtmdnocaSTIV".into(),
            Self::List(words) => words.into(),
        }
    }

    fn parse_integer(&self, text: &[u8]) -> Result<i128, Invalid> {
        match *self {
            Self::Clamped { min, max } => {
                Ok(parse_decimal(text)?.clamp(i128::from(min), i128::from(max)))
            }
            Self::PowerOfTwo { max } => {
                let number = bounded(parse_decimal(text)?, 0, max.into())?;
                match number == 0 || number & (number - 1) == 0 {
                    true => Ok(number),
                    false => Err(Invalid::new("argument must be 0 or a power of two")),
                }
            }
            Self::Octal { max } => parse_octal(text, max),
            Self::Memory { min, max } => {
                let bytes = parse_memory(text).ok_or(NOT_MEMORY)?;
                bounded(bytes.into(), min.into(), max.into())
            }
            Self::Number { min, max } => bounded(parse_decimal(text)?, min.into(), max.into()),
            _ => parse_decimal(text),
        }
    }

    fn integer_text(&self, number: i128) -> String {
        match self {
            Self::Octal { .. } => format!("{number:o}"),
            _ => number.to_string(),
        }
    }
}

macro_rules! integer_value {
    ($($ty:ty),*) => { $(
        impl Value for $ty {
            fn parse(rule: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
                rule.parse_integer(single(args)?)?.try_into().map_err(|_| NOT_INTEGER)
            }

            fn arguments(&self, rule: &Rule) -> Vec<Vec<u8>> {
                vec![match rule {
                    Rule::Memory { .. } => memory_text(*self as u64).into_bytes(),
                    _ => rule.integer_text((*self).into()).into_bytes(),
                }]
            }

            fn text(&self, rule: &Rule) -> Vec<u8> {
                rule.integer_text((*self).into()).into_bytes()
            }
        }
    )* };
}

integer_value!(u16, u32, u64, i32, i64);

impl Value for bool {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        match single(args)? {
            text if text.eq_ignore_ascii_case(b"yes") => Ok(true),
            text if text.eq_ignore_ascii_case(b"no") => Ok(false),
            _ => Err(Invalid::new("argument must be 'yes' or 'no'")),
        }
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![if *self { b"yes".to_vec() } else { b"no".to_vec() }]
    }
}

impl Value for Secret {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        Ok(Self(single(args)?.to_vec()))
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.0.clone()]
    }
}

impl Value for PathBuf {
    fn parse(rule: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        match single(args)? {
            text if *rule == Rule::FileName && (text.is_empty() || text.contains(&b'/')) => {
                Err(Invalid::new("dbfilename can't be a path, just a filename"))
            }
            text if *rule == Rule::DirectoryName
                && (text.contains(&b'/') || matches!(text, b"" | b"." | b"..")) =>
            {
                Err(Invalid::new("backupdirname can't be a path, just a directory name"))
            }
            [] => Err(Invalid::new("No such file or directory")),
            text if text.contains(&0) => Err(PATH_WITH_ZERO),
            text => Ok(OsString::from_vec(text.to_vec()).into()),
        }
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.as_os_str().as_bytes().to_vec()]
    }
}

impl Value for Option<PathBuf> {
    fn parse(rule: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        match single(args)? {
            [] => Ok(None),
            text if *rule == Rule::SocketPath && text.len() > SOCKET_PATH_BYTES_MAX => {
                Err(Invalid::from(format!(
                    "the path of a Unix socket has at most {SOCKET_PATH_BYTES_MAX} bytes"
                )))
            }
            _ => PathBuf::parse(rule, args).map(Some),
        }
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.as_ref().map_or_else(Vec::new, |path| path.as_os_str().as_bytes().to_vec())]
    }
}

/// The argument of a parameter that is no list.
pub(super) fn single(args: &[Vec<u8>]) -> Result<&[u8], Invalid> {
    match args {
        [one] => Ok(one),
        _ => Err(Invalid::new("wrong number of arguments")),
    }
}

/// Reads an integer as Redis does: no sign but a minus, no leading zeros, no blanks.
pub(super) fn parse_decimal(text: &[u8]) -> Result<i128, Invalid> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [first, ..] => (b'1'..=b'9').contains(first) && digits.iter().all(u8::is_ascii_digit),
        [] => false,
    };
    let number = std::str::from_utf8(text).ok().filter(|_| canonical);
    number.and_then(|n| n.parse::<i64>().ok()).map(i128::from).ok_or(NOT_INTEGER)
}

/// Reads bytes with an optional unit: k, m, g count in thousands, kb, mb, gb in 1,024s.
pub fn parse_memory(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let unit = match text[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    std::str::from_utf8(&text[..digits]).ok()?.parse::<u64>().ok()?.checked_mul(unit)
}

/// Bytes in the largest unit that leaves no remainder.
pub(super) fn memory_text(bytes: u64) -> String {
    for (shift, unit) in [(30, "gb"), (20, "mb"), (10, "kb")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

fn parse_octal(text: &[u8], max: u32) -> Result<i128, Invalid> {
    let octal = !text.is_empty() && text.iter().all(|b| (b'0'..=b'7').contains(b));
    let digits = std::str::from_utf8(text).ok().filter(|_| octal);
    let mode = digits
        .and_then(|d| u32::from_str_radix(d, 8).ok())
        .ok_or(Invalid::new("argument couldn't be parsed as an octal number"))?;
    match mode <= max {
        true => Ok(mode.into()),
        false => Err(Invalid::from(format!("argument must be between 0 and {max:o} inclusive"))),
    }
}

fn bounded(number: i128, min: i128, max: i128) -> Result<i128, Invalid> {
    match (min..=max).contains(&number) {
        true => Ok(number),
        false => Err(Invalid::from(format!("argument must be between {min} and {max} inclusive"))),
    }
}

fn describe_bounds(min: i64, max: i64) -> String {
    match max {
        i64::MAX => format!("{min} or more"),
        _ if min == i64::from(i32::MIN) => "an integer".into(),
        _ if max == i64::from(i32::MAX) || max == i64::from(u32::MAX) => format!("{min} or more"),
        _ => format!("{min} to {max}"),
    }
}

/// `sun_path` has 108 bytes and ends in a zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;
const NOT_INTEGER: Invalid = Invalid::new("argument couldn't be parsed into an integer");
const NOT_MEMORY: Invalid = Invalid::new("argument must be a memory value");
const PATH_WITH_ZERO: Invalid = Invalid::new("a path cannot contain a zero byte");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_redis_reads_them() {
        for good in ["0", "-1", "10", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(parse_decimal(good.as_bytes()).unwrap().to_string(), good);
        }
        for bad in ["", "-", "-0", "+1", "010", " 1", "1 ", "7.5", "0x10", "9223372036854775808"] {
            assert_eq!(parse_decimal(bad.as_bytes()), Err(NOT_INTEGER), "{bad:?}");
        }
    }

    #[test]
    fn memory_units() {
        let cases = [
            ("0", 0),
            ("17b", 17),
            ("1k", 1000),
            ("1Kb", 1024),
            ("3m", 3_000_000),
            ("3MB", 3 << 20),
            ("2g", 2_000_000_000),
            ("2gB", 2 << 30),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_memory(text.as_bytes()), Some(bytes), "{text}");
        }
        for bad in ["", "b", "-1", "+1", " 1", "1 gb", "1.5gb", "1q", "17179869184gb"] {
            assert_eq!(parse_memory(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn memory_is_written_in_the_largest_exact_unit() {
        for (bytes, text) in [(0, "0"), (1000, "1000"), (1 << 10, "1kb"), (3 << 29, "1536mb")] {
            assert_eq!(memory_text(bytes), text);
            assert_eq!(parse_memory(text.as_bytes()), Some(bytes));
        }
    }

    #[test]
    fn octal_modes() {
        assert_eq!(parse_octal(b"0700", 0o777), Ok(0o700));
        for (text, error) in [
            ("999", "argument couldn't be parsed as an octal number"),
            ("", "argument couldn't be parsed as an octal number"),
            ("1777", "argument must be between 0 and 777 inclusive"),
        ] {
            assert_eq!(parse_octal(text.as_bytes(), 0o777).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn a_secret_matches_only_itself_and_is_not_printed() {
        let secret = Secret(b"hunter2".to_vec());
        assert!(secret.matches(b"hunter2"));
        for wrong in [&b"hunter3"[..], b"hunter", b"hunter22", b""] {
            assert!(!secret.matches(wrong));
        }
        assert_eq!(format!("{secret:?}"), "(set)");
    }

    #[test]
    fn a_socket_path_must_fit_the_kernel() {
        let rule = Rule::SocketPath;
        assert!(Option::<PathBuf>::parse(&rule, &[vec![b'a'; 107]]).is_ok());
        assert!(Option::<PathBuf>::parse(&rule, &[vec![b'a'; 108]]).is_err());
        assert!(Option::<PathBuf>::parse(&rule, &[b"a\0b".to_vec()]).is_err());
    }
}
