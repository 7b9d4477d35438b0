//! Regular expressions of `ARGREP`: those of POSIX with TRE's escapes, of bytes.
//!
//! A pattern is translated for a lazy DFA. It is stepped byte by byte, so that the work is counted
//! and a search can end. Its states are bounded in memory: when they fill it they are dropped, and
//! made again when they are needed, each in time by the size of the pattern. There are no
//! backreferences, hence no pattern that takes more than the product of its size and the text's.

use crate::fail::{Fail, Outcome};
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::start;
use regex_automata::util::syntax;
use regex_automata::{Anchored, hybrid};
use std::fmt::Write;

/// Longest pattern, in bytes, as in Redis.
const PATTERN_MAX: usize = 2048;

/// Bytes of a compiled pattern at most.
const NFA_BYTES_MAX: usize = 1 << 20;

/// Bytes of the states of a lazy DFA at most.
const CACHE_BYTES_MAX: usize = 128 << 10;

/// Bytes of the states of all lazy DFAs of a call.
const CACHE_BYTES_ALL: usize = 4 << 20;

/// Most repetitions of a bound, as in TRE.
const REPETITIONS_MAX: u32 = 255;

/// Bytes that are stepped over between two counts of work.
const STRIDE: usize = 4096;

/// Bytes that are stepped over in a unit of work.
const BYTES_PER_UNIT: usize = 4;

/// Bytes of states that are made in a unit of work.
const STATE_BYTES_PER_UNIT: usize = 4;

/// A pattern that takes too much memory.
pub(super) const TOO_LARGE: Fail = Fail::fixed("ERR invalid regular expression: Out of memory");

/// TRE's texts.
mod fault {
    pub const PATTERN: &str = "Invalid regexp";
    pub const COLLATING: &str = "Unknown collating element";
    pub const CLASS: &str = "Unknown character class name";
    pub const ESCAPE: &str = "Trailing backslash";
    pub const BRACKET: &str = "Missing ']'";
    pub const GROUP: &str = "Missing ')'";
    pub const BRACE: &str = "Missing '}'";
    pub const BOUND: &str = "Invalid contents of {}";
    pub const RANGE: &str = "Invalid character range";
    pub const REPEAT: &str = "Invalid use of repetition operators";
}

/// Names of character classes.
const CLASSES: [&[u8]; 12] = [
    b"alnum", b"alpha", b"blank", b"cntrl", b"digit", b"graph", b"lower", b"print", b"punct",
    b"space", b"upper", b"xdigit",
];

/// A compiled pattern.
pub(super) struct Regex {
    dfa: DFA,
    cache: Cache,
    /// Bytes of the pattern.
    bytes: usize,
    /// Bytes of states at most.
    cache_bytes: usize,
}

/// Result of a search.
pub(super) enum Searched {
    /// Whether a part of the text matches.
    Found(bool),
    /// The search was ended.
    Ended(Fail),
}

impl Regex {
    /// Compiles a pattern, one of `count` of a call.
    ///
    /// # Errors
    /// If it is none, or too large.
    pub fn new(pattern: &[u8], ignores_case: bool, count: usize) -> Result<Self, Fail> {
        if pattern.len() > PATTERN_MAX {
            let text = "ERR regular expression is too long, maximum is 2048 bytes";
            return Err(Fail::fixed(text));
        }
        if pattern.is_empty() {
            return Err(Fail::fixed("ERR regular expression is empty"));
        }
        let invalid = |why: &str| Fail::new(format!("ERR invalid regular expression: {why}"));
        let translated = match translate(pattern) {
            Ok(translated) => translated,
            Err(Fault::Backreference) => {
                let text = "ERR regular expression backreferences are not supported";
                return Err(Fail::fixed(text));
            }
            Err(Fault::Invalid(why)) => return Err(invalid(why)),
        };
        let syntax = syntax::Config::new()
            .utf8(false)
            .unicode(false)
            .dot_matches_new_line(true)
            .case_insensitive(ignores_case);
        let config = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(NFA_BYTES_MAX))
            .which_captures(WhichCaptures::None);
        let nfa = NFA::compiler().configure(config).syntax(syntax).build(&translated);
        let nfa = nfa.map_err(|error| match error.size_limit() {
            Some(_) => TOO_LARGE,
            None => invalid(fault::PATTERN),
        })?;
        let cache_bytes = (CACHE_BYTES_ALL / count.max(1)).min(CACHE_BYTES_MAX);
        let config = Config::new().cache_capacity(cache_bytes).skip_cache_capacity_check(true);
        let bytes = nfa.memory_usage();
        let dfa = hybrid::dfa::Builder::new().configure(config).build_from_nfa(nfa);
        let dfa = dfa.map_err(|_| TOO_LARGE)?;
        let cache = dfa.create_cache();
        Ok(Regex { dfa, cache, bytes, cache_bytes })
    }

    /// Bytes of the compiled pattern.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a part of a text matches. `pace` counts the work.
    pub fn search(&mut self, text: &[u8], pace: &mut dyn FnMut(usize) -> Outcome) -> Searched {
        let (dfa, cache) = (&self.dfa, &mut self.cache);
        let begin = start::Config::new().anchored(Anchored::No);
        let Ok(mut state) = dfa.start_state(cache, &begin) else {
            return Searched::Ended(TOO_LARGE);
        };
        for stride in text.chunks(STRIDE) {
            let before = (cache.memory_usage(), cache.clear_count());
            for &byte in stride {
                let Ok(next) = dfa.next_state(cache, state, byte) else {
                    return Searched::Ended(TOO_LARGE);
                };
                state = next;
                if state.is_tagged() && (state.is_match() || state.is_dead()) {
                    return Searched::Found(state.is_match());
                }
            }
            let fills = cache.clear_count() - before.1;
            let made = cache.memory_usage().saturating_sub(before.0) + fills * self.cache_bytes;
            let units = stride.len() / BYTES_PER_UNIT + made / STATE_BYTES_PER_UNIT;
            if let Err(fail) = pace(1 + units) {
                return Searched::Ended(fail);
            }
        }
        match dfa.next_eoi_state(cache, state) {
            Ok(state) => Searched::Found(state.is_match()),
            Err(_) => Searched::Ended(TOO_LARGE),
        }
    }
}

/// The reason for which a pattern is refused.
#[derive(Debug, PartialEq)]
enum Fault {
    Backreference,
    Invalid(&'static str),
}

/// Translates a pattern of POSIX and TRE into the syntax of the compiler.
fn translate(pattern: &[u8]) -> Result<String, Fault> {
    let mut translator = Translator { rest: pattern, out: String::new(), repeats: false };
    let mut depth = 0usize;
    while let Some((&byte, rest)) = translator.rest.split_first() {
        translator.rest = rest;
        match byte {
            b'(' if rest.first() == Some(&b'?') => return Err(Fault::Invalid(fault::PATTERN)),
            b'(' => {
                depth += 1;
                translator.push("(?:", false);
            }
            b')' => {
                depth = depth.checked_sub(1).ok_or(Fault::Invalid(fault::GROUP))?;
                translator.push(")", true);
            }
            b'|' => translator.push("|", false),
            b'^' => translator.push("(?:^)", true),
            b'$' => translator.push("(?:$)", true),
            b'.' => translator.push(".", true),
            b'[' => translator.bracket()?,
            b'*' | b'+' | b'?' if !translator.repeats => {
                return Err(Fault::Invalid(fault::REPEAT));
            }
            b'*' => translator.push("*", true),
            b'+' => translator.push("+", true),
            b'?' => translator.push("?", true),
            b'{' => translator.bound()?,
            b'\\' => translator.escape()?,
            byte => translator.literal(byte),
        }
    }
    match depth {
        0 => Ok(translator.out),
        _ => Err(Fault::Invalid(fault::GROUP)),
    }
}

struct Translator<'a> {
    rest: &'a [u8],
    out: String,
    /// Whether there is something that can be repeated.
    repeats: bool,
}

impl Translator<'_> {
    fn push(&mut self, text: &str, repeats: bool) {
        self.out.push_str(text);
        self.repeats = repeats;
    }

    fn literal(&mut self, byte: u8) {
        let _ = write!(self.out, "\\x{byte:02x}");
        self.repeats = true;
    }

    /// A number in decimal, if there is one.
    fn number(&mut self) -> Option<u32> {
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        (len > 0).then(|| str::from_utf8(digits).ok()?.parse().ok()).flatten().or_else(|| {
            // Beyond 32 bits.
            (len > 0).then_some(u32::MAX)
        })
    }

    /// The bound behind `{`.
    fn bound(&mut self) -> Result<(), Fault> {
        let invalid = |why| Err(Fault::Invalid(why));
        if !self.repeats {
            return invalid(fault::REPEAT);
        }
        let least = self.number();
        let is_range = self.rest.first() == Some(&b',');
        let most = if is_range {
            self.rest = &self.rest[1..];
            self.number()
        } else {
            least
        };
        match self.rest.split_first() {
            None => return invalid(fault::BRACE),
            Some((b'}', rest)) => self.rest = rest,
            Some(_) => return invalid(fault::BOUND),
        }
        if least.is_none() && most.is_none() {
            return invalid(fault::BOUND);
        }
        let least = least.unwrap_or(0);
        let is_bad = least > REPETITIONS_MAX
            || most.is_some_and(|most| most > REPETITIONS_MAX || most < least);
        if is_bad {
            return invalid(fault::BOUND);
        }
        let _ = match most {
            Some(most) => write!(self.out, "{{{least},{most}}}"),
            None => write!(self.out, "{{{least},}}"),
        };
        Ok(())
    }

    /// The character behind a backslash.
    fn escape(&mut self) -> Result<(), Fault> {
        let (&byte, rest) = self.rest.split_first().ok_or(Fault::Invalid(fault::ESCAPE))?;
        self.rest = rest;
        match byte {
            b'1'..=b'9' => return Err(Fault::Backreference),
            b'<' => self.push(r"(?:\b{start})", true),
            b'>' => self.push(r"(?:\b{end})", true),
            b'b' => self.push(r"(?:\b)", true),
            b'B' => self.push(r"(?:\B)", true),
            b'd' => self.push(r"\d", true),
            b'D' => self.push(r"\D", true),
            b's' => self.push(r"\s", true),
            b'S' => self.push(r"\S", true),
            b'w' => self.push(r"\w", true),
            b'W' => self.push(r"\W", true),
            b't' => self.literal(b'\t'),
            b'n' => self.literal(b'\n'),
            b'r' => self.literal(b'\r'),
            b'f' => self.literal(0x0c),
            b'a' => self.literal(0x07),
            b'e' => self.literal(0x1b),
            b'x' => self.hexadecimal()?,
            b'Q' => {
                let end = self.rest.windows(2).position(|two| two == b"\\E");
                let (literal, rest) = match end {
                    Some(end) => (&self.rest[..end], &self.rest[end + 2..]),
                    None => (self.rest, &[][..]),
                };
                self.rest = rest;
                literal.iter().for_each(|&byte| self.literal(byte));
            }
            byte => self.literal(byte),
        }
        Ok(())
    }

    /// The digits behind `\x`: up to two, or any in braces.
    fn hexadecimal(&mut self) -> Result<(), Fault> {
        let invalid = Fault::Invalid(fault::BRACE);
        let is_digit = |byte: &&u8| byte.is_ascii_hexdigit();
        let (digits, rest) = if let Some(behind) = self.rest.strip_prefix(b"{") {
            let len = behind.iter().take_while(is_digit).count();
            let rest = behind[len..].strip_prefix(b"}").ok_or(invalid)?;
            (&behind[..len], rest)
        } else {
            self.rest.split_at(self.rest.iter().take(2).take_while(is_digit).count())
        };
        self.rest = rest;
        let digits = str::from_utf8(digits).unwrap_or_default();
        let code = if digits.is_empty() { Ok(0) } else { u8::from_str_radix(digits, 16) };
        self.literal(code.map_err(|_| Fault::Invalid(fault::PATTERN))?);
        Ok(())
    }

    /// The set behind `[`.
    fn bracket(&mut self) -> Result<(), Fault> {
        let invalid = |why| Fault::Invalid(why);
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix(b"^") {
            self.rest = rest;
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let (&byte, rest) = self.rest.split_first().ok_or(invalid(fault::BRACKET))?;
            self.rest = rest;
            match (byte, rest.first()) {
                (b']', _) if !is_first => break,
                (b'[', Some(b':')) => self.class()?,
                (b'[', Some(b'.' | b'=')) => return Err(invalid(fault::COLLATING)),
                _ => {
                    self.literal(byte);
                    if let [b'-', last, rest @ ..] = self.rest
                        && *last != b']'
                    {
                        if *last < byte {
                            return Err(invalid(fault::RANGE));
                        }
                        self.out.push('-');
                        self.rest = rest;
                        self.literal(*last);
                    }
                }
            }
            is_first = false;
        }
        self.push("]", true);
        Ok(())
    }

    /// The class behind `[` of a set: `:alpha:]`.
    fn class(&mut self) -> Result<(), Fault> {
        let name = &self.rest[1..];
        let end = name.windows(2).position(|two| two == b":]");
        let end = end.ok_or(Fault::Invalid(fault::BRACKET))?;
        let known = CLASSES.iter().find(|class| **class == &name[..end]);
        let known = known.ok_or(Fault::Invalid(fault::CLASS))?;
        self.rest = &name[end + 2..];
        let _ = write!(self.out, "[:{}:]", known.escape_ascii());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &[u8], text: &[u8], ignores_case: bool) -> bool {
        let mut regex = Regex::new(pattern, ignores_case, 1).unwrap();
        match regex.search(text, &mut |_| Ok(())) {
            Searched::Found(is_match) => is_match,
            Searched::Ended(_) => panic!("ended"),
        }
    }

    #[test]
    fn patterns_are_those_of_posix_and_tre() {
        for (pattern, text, expected) in [
            (&b"^.*[0-9]{3}$"[..], &b"foo123"[..], true),
            (b"^.*[0-9]{3}$", b"foo12", false),
            (b"foo|bar", b"a bar", true),
            (b"a.c", b"a\nc", true),
            (b"^b", b"a\nb", false),
            (b"a{,2}b$", b"aab", true),
            (b"^a{2,}$", b"a", false),
            (b"[]a]+", b"]", true),
            (b"[^]a]", b"]a", false),
            (b"[\\]", b"\\", true),
            (b"[a&&b]", b"&", true),
            (b"[a-]", b"-", true),
            (b"[[:digit:]x]$", b"7", true),
            (br"\<word\>", b"a word.", true),
            (br"\<word\>", b"swords", false),
            (br"\w+\s\d", b"ab 1", true),
            (br"\x41\x{42}", b"AB", true),
            (br"\Qa.b\E.", b"a.bc", true),
            (br"\.", b"a", false),
            (b"\xff", b"a\xffb", true),
            (b"(a|b)*c", b"ababc", true),
            (b"a**", b"", true),
            (b"-", b"-", true),
            (b"#", b"#", true),
        ] {
            let shown = pattern.escape_ascii();
            assert_eq!(is_match(pattern, text, false), expected, "{shown}");
        }
        assert!(is_match(b"^Foo[x-z]$", b"fOOY", true) && !is_match(b"Foo", b"foo", false));
    }

    #[test]
    fn faults_have_the_texts_of_tre() {
        for (pattern, fault) in [
            (&b"("[..], fault::GROUP),
            (b")", fault::GROUP),
            (b"[a", fault::BRACKET),
            (b"[[:none:]]", fault::CLASS),
            (b"[[.a.]]", fault::COLLATING),
            (b"[b-a]", fault::RANGE),
            (b"a{2", fault::BRACE),
            (b"a{x}", fault::BOUND),
            (b"a{3,2}", fault::BOUND),
            (b"a{256}", fault::BOUND),
            (b"a{99999999999}", fault::BOUND),
            (b"*a", fault::REPEAT),
            (b"(?i)a", fault::PATTERN),
            (b"a\\", fault::ESCAPE),
            (br"\x{1", fault::BRACE),
        ] {
            let shown = pattern.escape_ascii();
            assert_eq!(translate(pattern), Err(Fault::Invalid(fault)), "{shown}");
        }
        assert_eq!(translate(br"(a)\1"), Err(Fault::Backreference));
        let nested = b"(((((a{255}){255}){255}){255}){255})";
        assert_eq!(Regex::new(nested, false, 1).err(), Some(TOO_LARGE));
        assert!(Regex::new(&[b'a'; 2048], true, 250).is_ok());
        assert!(Regex::new(&[b'a'; 2049], true, 1).is_err());
        assert!(Regex::new(&b"(".repeat(1024), true, 1).is_err());
    }

    /// A pattern with more states of its DFA than there is memory for takes time by the product of
    /// both sizes, and its work is counted.
    #[test]
    fn exploding_patterns_are_bounded() {
        let mut regex = Regex::new(b"[ab]*a[ab]{200}c", false, 1).unwrap();
        let mut random = 1u32;
        let text: Vec<u8> = (0..1 << 16)
            .map(|_| {
                random = random.wrapping_mul(1_103_515_245).wrapping_add(12345);
                b'a' + (random >> 30 & 1) as u8
            })
            .collect();
        let mut units = 0;
        let found = regex.search(&text, &mut |more| {
            units += more;
            Ok(())
        });
        assert!(matches!(found, Searched::Found(false)));
        assert!(units > text.len(), "{units}");
        assert!(regex.cache.memory_usage() < 4 * CACHE_BYTES_MAX + (1 << 20));
        let ended = regex.search(&text, &mut |_| Err(Fail::SYNTAX));
        assert!(matches!(ended, Searched::Ended(_)));
    }
}
