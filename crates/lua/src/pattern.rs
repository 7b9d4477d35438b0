//! Lua's patterns ("Patterns" in the manual of Lua 5.1), matched by backtracking that counts its
//! steps: a pattern may take time that grows with a power of the text's length, and the server that
//! runs the script must be able to end it.
//!
//! A pattern ends at its first byte of zero, as it does in Lua 5.1.

use crate::interrupt::BYTES_PER_STEP;

/// Captures of one match, at most.
pub(crate) const CAPTURES_MAX: usize = 32;

/// Bytes of a pattern, at most: matching nests once for each item of it, on the thread's stack.
pub(crate) const PATTERN_LEN_MAX: usize = 4096;

const ESCAPE: u8 = b'%';

/// Reason to abandon a match.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stop {
    /// The pattern is wrong: what Lua says of it.
    Malformed(&'static str),
    /// The script is to end.
    Interrupted,
}

/// A capture of a match.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Capture {
    /// Start of a capture that has not ended yet.
    Open(usize),
    /// From here on, this many bytes.
    Text(usize, usize),
    /// The place itself: `()`.
    Position(usize),
}

/// A value that a match yields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Captured<'t> {
    /// A part of the text.
    Text(&'t [u8]),
    /// A place in it, from 1.
    Position(usize),
}

/// Position and captures of a match. Owns nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    /// Offsets of the first byte, and behind the last.
    pub begin: usize,
    pub end: usize,
    captures: [Capture; CAPTURES_MAX],
    level: usize,
}

impl Match {
    /// Number of values that the match yields: its captures, or 1 (the whole match) if there are
    /// none.
    pub fn values(&self) -> usize {
        self.level.max(1)
    }

    /// Number of captures in the pattern.
    pub fn captures(&self) -> usize {
        self.level
    }

    /// A value that it yields, from 0.
    pub fn value<'t>(&self, text: &'t [u8], at: usize) -> Result<Captured<'t>, Stop> {
        match self.captures[..self.level].get(at) {
            None if at == 0 => Ok(Captured::Text(&text[self.begin..self.end])),
            None => Err(Stop::Malformed("invalid capture index")),
            Some(&Capture::Text(begin, len)) => Ok(Captured::Text(&text[begin..begin + len])),
            Some(&Capture::Position(at)) => Ok(Captured::Position(at + 1)),
            Some(Capture::Open(_)) => Err(Stop::Malformed("unfinished capture")),
        }
    }
}

/// Counts steps, and asks now and then whether to go on.
pub(crate) struct Steps<'a> {
    /// Steps until it is asked.
    pub left: u32,
    /// Whether to go on, and then for how many steps.
    pub ask: &'a mut dyn FnMut() -> Option<u32>,
}

impl Steps<'_> {
    #[inline]
    fn count(&mut self, steps: usize) -> Result<(), Stop> {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        if let Some(left) = self.left.checked_sub(steps) {
            self.left = left;
            return Ok(());
        }
        self.left = (self.ask)().ok_or(Stop::Interrupted)?;
        Ok(())
    }
}

/// A text, and the pattern that is looked for in it.
pub(crate) struct Matcher<'t, 's, 'a> {
    text: &'t [u8],
    pattern: &'t [u8],
    steps: &'s mut Steps<'a>,
    captures: [Capture; CAPTURES_MAX],
    level: usize,
}

/// The part of a pattern that C would see.
pub(crate) fn until_zero(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|&byte| byte == 0).unwrap_or(pattern.len());
    &pattern[..end]
}

/// Whether a pattern is a plain text.
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    !until_zero(pattern).iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

/// Whether a pattern matches at the beginning alone, and what follows the sign that says so.
pub(crate) fn anchored(pattern: &[u8]) -> (bool, &[u8]) {
    match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    }
}

impl<'t, 's, 'a> Matcher<'t, 's, 'a> {
    pub fn new(text: &'t [u8], pattern: &'t [u8], steps: &'s mut Steps<'a>) -> Self {
        let pattern = until_zero(pattern);
        Matcher { text, pattern, steps, captures: [Capture::Open(0); CAPTURES_MAX], level: 0 }
    }

    /// The match that begins here, if there is one.
    pub fn at(&mut self, begin: usize) -> Result<Option<Match>, Stop> {
        self.level = 0;
        let end = self.run(begin, 0)?;
        Ok(end.map(|end| Match { begin, end, captures: self.captures, level: self.level }))
    }

    /// The first match that begins here or later; here alone if `anchored`.
    pub fn from(&mut self, begin: usize, anchored: bool) -> Result<Option<Match>, Stop> {
        let last = if anchored { begin } else { self.text.len() };
        for begin in begin..=last {
            if let Some(found) = self.at(begin)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn pattern_at(&self, p: usize) -> Option<u8> {
        self.pattern.get(p).copied()
    }

    /// Matches the pattern from `p` on with the text from `s` on; where the match ends.
    fn run(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>, Stop> {
        loop {
            self.steps.count(1)?;
            let Some(sign) = self.pattern_at(p) else { return Ok(Some(s)) };
            match (sign, self.pattern_at(p + 1)) {
                (b'(', Some(b')')) => return self.capture(Capture::Position(s), s, p + 2),
                (b'(', _) => return self.capture(Capture::Open(s), s, p + 1),
                (b')', _) => return self.end_capture(s, p + 1),
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                (ESCAPE, Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (ESCAPE, Some(b'f')) => match self.frontier(s, p + 2)? {
                    Some(next) => p = next,
                    None => return Ok(None),
                },
                (ESCAPE, Some(digit)) if digit.is_ascii_digit() => match self.repeated(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let after = self.item_end(p)?;
                    self.steps.count((after - p) / BYTES_PER_STEP)?;
                    let fits = self.fits(s, p, after);
                    match self.pattern_at(after) {
                        Some(b'?') => {
                            if fits && let Some(end) = self.run(s + 1, after + 1)? {
                                return Ok(Some(end));
                            }
                            p = after + 1;
                        }
                        Some(b'*') => return self.as_many(s, p, after),
                        Some(b'+') if fits => return self.as_many(s + 1, p, after),
                        Some(b'-') => return self.as_few(s, p, after),
                        _ if !fits => return Ok(None),
                        _ => (s, p) = (s + 1, after),
                    }
                }
            }
        }
    }

    /// Returns the end of the single item at `p`: a byte, a class or a set.
    fn item_end(&self, p: usize) -> Result<usize, Stop> {
        match self.pattern[p] {
            ESCAPE if p + 1 == self.pattern.len() => {
                Err(Stop::Malformed("malformed pattern (ends with '%')"))
            }
            ESCAPE => Ok(p + 2),
            b'[' => self.set_end(p),
            _ => Ok(p + 1),
        }
    }

    /// Behind the bracket that closes the set at `p`; one that comes first is a member.
    fn set_end(&self, p: usize) -> Result<usize, Stop> {
        let missing = Stop::Malformed("malformed pattern (missing ']')");
        let mut at = p + 1;
        if self.pattern_at(at) == Some(b'^') {
            at += 1;
        }
        loop {
            let escapes = self.pattern_at(at).ok_or(missing)? == ESCAPE;
            at += 1;
            if escapes && at < self.pattern.len() {
                at += 1;
            }
            if self.pattern_at(at) == Some(b']') {
                return Ok(at + 1);
            }
        }
    }

    /// Whether the byte at `s` matches the item from `p` to `after`.
    #[inline]
    fn fits(&self, s: usize, p: usize, after: usize) -> bool {
        let Some(&byte) = self.text.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            ESCAPE => is_of_class(byte, self.pattern[p + 1]),
            b'[' => self.is_in_set(byte, p, after - 1),
            literal => literal == byte,
        }
    }

    /// Whether a byte is in the set from `p` to the closing bracket.
    fn is_in_set(&self, byte: u8, p: usize, closing: usize) -> bool {
        let negated = self.pattern[p + 1] == b'^';
        let mut at = p + 1 + usize::from(negated);
        while at < closing {
            let first = self.pattern[at];
            let found = if first == ESCAPE {
                at += 2;
                // A set that ends with the sign has the bracket behind it as its member.
                self.pattern_at(at - 1).is_some_and(|class| is_of_class(byte, class))
            } else if self.pattern[at + 1] == b'-' && at + 2 < closing {
                at += 3;
                (first..=self.pattern[at - 1]).contains(&byte)
            } else {
                at += 1;
                first == byte
            };
            if found {
                return !negated;
            }
        }
        negated
    }

    /// As many of an item as there are from `s` on, then fewer, until the rest matches.
    fn as_many(&mut self, s: usize, p: usize, after: usize) -> Result<Option<usize>, Stop> {
        let mut end = s;
        while self.fits(end, p, after) {
            self.steps.count(1 + (after - p) / BYTES_PER_STEP)?;
            end += 1;
        }
        for end in (s..=end).rev() {
            if let Some(found) = self.run(end, after + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// None of an item, then more, until the rest matches.
    fn as_few(&mut self, mut s: usize, p: usize, after: usize) -> Result<Option<usize>, Stop> {
        loop {
            if let Some(found) = self.run(s, after + 1)? {
                return Ok(Some(found));
            }
            if !self.fits(s, p, after) {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// Goes on with one capture more.
    fn capture(&mut self, capture: Capture, s: usize, p: usize) -> Result<Option<usize>, Stop> {
        let place = self.captures.get_mut(self.level);
        *place.ok_or(Stop::Malformed("too many captures"))? = capture;
        self.level += 1;
        let end = self.run(s, p)?;
        if end.is_none() {
            self.level -= 1;
        }
        Ok(end)
    }

    /// Ends the innermost open capture.
    fn end_capture(&mut self, s: usize, p: usize) -> Result<Option<usize>, Stop> {
        let open = |capture: &Capture| matches!(capture, Capture::Open(_));
        let last = self.captures[..self.level].iter().rposition(open);
        let last = last.ok_or(Stop::Malformed("invalid pattern capture"))?;
        let was = self.captures[last];
        if let Capture::Open(begin) = was {
            self.captures[last] = Capture::Text(begin, s - begin);
        }
        let end = self.run(s, p)?;
        if end.is_none() {
            self.captures[last] = was;
        }
        Ok(end)
    }

    /// `%b()`: from an opening byte to the one that closes it. `p` is where the two are.
    fn balanced(&mut self, s: usize, p: usize) -> Result<Option<usize>, Stop> {
        let (Some(opening), Some(closing)) = (self.pattern_at(p), self.pattern_at(p + 1)) else {
            return Err(Stop::Malformed("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&opening) {
            return Ok(None);
        }
        let mut depth = 1;
        for (at, &byte) in self.text.iter().enumerate().skip(s + 1) {
            self.steps.count(1)?;
            if byte == closing {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == opening {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: between a byte that is not in the set and one that is. Where the pattern goes on.
    fn frontier(&self, s: usize, p: usize) -> Result<Option<usize>, Stop> {
        if self.pattern_at(p) != Some(b'[') {
            return Err(Stop::Malformed("missing '[' after '%f' in pattern"));
        }
        let after = self.set_end(p)?;
        // Both ends of the text count as a byte of zero.
        let before = if s == 0 { 0 } else { self.text[s - 1] };
        let behind = self.text.get(s).copied().unwrap_or(0);
        let is_there =
            !self.is_in_set(before, p, after - 1) && self.is_in_set(behind, p, after - 1);
        Ok(is_there.then_some(after))
    }

    /// Matches the text of an earlier capture again (`%1`).
    fn repeated(&mut self, s: usize, digit: u8) -> Result<Option<usize>, Stop> {
        let at = usize::from(digit).checked_sub(usize::from(b'1'));
        let capture = at.and_then(|at| self.captures[..self.level].get(at));
        match capture {
            None | Some(Capture::Open(_)) => Err(Stop::Malformed("invalid capture index")),
            Some(Capture::Position(_)) => Ok(None),
            Some(&Capture::Text(begin, len)) => {
                self.steps.count(len / BYTES_PER_STEP)?;
                let captured = &self.text[begin..begin + len];
                Ok(self.text[s..].starts_with(captured).then_some(s + len))
            }
        }
    }
}

/// Whether a byte belongs to the class that a letter after `%` denotes. A capital denotes the
/// complement; any other character denotes itself.
fn is_of_class(byte: u8, class: u8) -> bool {
    let belongs = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    belongs != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, pattern: &str) -> Result<Option<(usize, usize)>, Stop> {
        let mut ask = || Some(1000);
        let mut steps = Steps { left: 0, ask: &mut ask };
        let (anchored, pattern) = anchored(pattern.as_bytes());
        let found = Matcher::new(text.as_bytes(), pattern, &mut steps).from(0, anchored)?;
        Ok(found.map(|found| (found.begin, found.end)))
    }

    #[test]
    fn items_match_as_the_manual_says() {
        assert_eq!(find("hello world", "o w"), Ok(Some((4, 7))));
        assert_eq!(find("hello", "l+"), Ok(Some((2, 4))));
        assert_eq!(find("hello", "l-o"), Ok(Some((2, 5))));
        assert_eq!(find("hello", "^l"), Ok(None));
        assert_eq!(find("f(a(b)c)d", "%b()"), Ok(Some((1, 8))));
        assert_eq!(find("THE (quick) fox", "%f[%a]%a+%f[%A]"), Ok(Some((0, 3))));
        assert_eq!(find("x = 'a\"b'", "(['\"])(.-)%1"), Ok(Some((4, 9))));
        assert_eq!(find("a]b", "[]]"), Ok(Some((1, 2))));
        assert_eq!(find("key", "%w$"), Ok(Some((2, 3))));
        assert_eq!(find("a\0b", "a\0c"), Ok(Some((0, 1))));
    }

    #[test]
    fn malformed_patterns_are_told() {
        for (pattern, why) in [
            ("%", "malformed pattern (ends with '%')"),
            ("[a", "malformed pattern (missing ']')"),
            ("[a%", "malformed pattern (missing ']')"),
            ("%f", "missing '[' after '%f' in pattern"),
            ("%b(", "unbalanced pattern"),
            ("%1", "invalid capture index"),
            (")", "invalid pattern capture"),
        ] {
            assert_eq!(find("a", pattern), Err(Stop::Malformed(why)), "{pattern}");
        }
        assert_eq!(find("a", &"()".repeat(33)), Err(Stop::Malformed("too many captures")));
    }

    #[test]
    fn an_endless_match_is_broken_off() {
        let mut asked = 0;
        let mut ask = || {
            asked += 1;
            (asked < 5).then_some(10_000)
        };
        let mut steps = Steps { left: 0, ask: &mut ask };
        let text = "a".repeat(1000);
        let pattern = [&b".-".repeat(20)[..], b"b"].concat();
        let mut matcher = Matcher::new(text.as_bytes(), &pattern, &mut steps);
        assert_eq!(matcher.from(0, false).map(|_| ()), Err(Stop::Interrupted));
    }
}
