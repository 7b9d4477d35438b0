//! Glob patterns as Redis writes them: `*`, `?`, `[a-z]`, `[^a]` and backslash.

/// How letters compare.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Case {
    /// `A` is not `a`.
    Sensitive,
    /// ASCII letters match in either case.
    Insensitive,
}

/// Stars, with something behind each, that a match may take: Redis tries none deeper.
const STARS_MAX: usize = 1000;

/// Whether the whole of `text` matches. Takes time in the product of both lengths at most.
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last star does not match: one byte further in text.
    let mut retry = None;
    let mut stars = 0;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            if pattern.get(p).is_some_and(|&next| next != b'*') {
                stars += 1;
                if stars > STARS_MAX {
                    return false;
                }
            }
            retry = Some((p, t));
            continue;
        }
        let step = match text.get(t) {
            Some(&byte) => match_one(&pattern[p..], byte, case),
            None if p == pattern.len() => return true,
            None => return false,
        };
        match (step, retry) {
            (Some(length), _) => {
                p += length;
                t += 1;
            }
            (None, Some((after_star, from))) => {
                retry = Some((after_star, from + 1));
                (p, t) = (after_star, from + 1);
            }
            (None, None) => return false,
        }
    }
}

/// Whether `text` holds a character that a pattern gives a meaning.
pub fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|b| matches!(b, b'*' | b'?' | b'['))
}

/// The length of the first element of `pattern`, if it matches `byte`.
fn match_one(pattern: &[u8], byte: u8, case: Case) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => match_class(class, byte, case).map(|length| length + 1),
        [b'\\', escaped, ..] => equal(*escaped, byte, case).then_some(2),
        [literal, ..] => equal(*literal, byte, case).then_some(1),
    }
}

/// Reads a class up to its bracket (or the end of the pattern, as Redis does).
fn match_class(class: &[u8], byte: u8, case: Case) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= equal(literal, byte, case);
                at += 2;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (fold(low.min(high), case), fold(low.max(high), case));
                found |= (low..=high).contains(&fold(byte, case));
                at += 3;
            }
            [literal, ..] => {
                found |= equal(literal, byte, case);
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

fn equal(a: u8, b: u8, case: Case) -> bool {
    fold(a, case) == fold(b, case)
}

fn fold(byte: u8, case: Case) -> u8 {
    match case {
        Case::Sensitive => byte,
        Case::Insensitive => byte.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn insensitive(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), Case::Insensitive)
    }

    #[test]
    fn patterns() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "maxmemory"),
            ("MAX*", "maxmemory"),
            ("*mem*y", "maxmemory"),
            ("p?rt", "port"),
            ("[a-m]*[^x]", "maxmemory"),
            ("[z-a]z", "mz"),
            (r"\*", "*"),
            (r"[\]]", "]"),
            ("[abc", "b"),
        ] {
            assert!(insensitive(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "a"), ("a", ""), ("?", ""), ("*a", "ab"), ("[^a]", "a"), ("p?rt", "prt")]
        {
            assert!(!insensitive(pattern, text), "{pattern} {text}");
        }
        assert!(!matches(b"A*", b"ab", Case::Sensitive));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        assert!(!insensitive(&"*a".repeat(200), &"b".repeat(5000)));
        let text = "a".repeat(2000);
        assert!(insensitive(&("**a".repeat(1000) + "*"), &text));
        assert!(!insensitive(&("*a".repeat(1001) + "*"), &text));
    }

    /// Tries everything: the meaning of a pattern, in the time that it takes.
    fn model(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| model(rest, &text[skip..])),
            (_, []) => false,
            (_, [byte, rest @ ..]) => match_one(pattern, *byte, Case::Sensitive)
                .is_some_and(|length| model(&pattern[length..], rest)),
        }
    }

    #[test]
    fn going_back_to_the_last_star_is_enough() {
        let mut random = Random::new(7);
        let mut draw = |alphabet: &[u8], len_max: u64| -> Vec<u8> {
            let len = random.below(len_max + 1);
            (0..len).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect()
        };
        let mut matched = 0;
        for _ in 0..100_000 {
            let (pattern, text) = (draw(br"aab*?[]^-\", 9), draw(b"aab*-", 8));
            let expected = model(&pattern, &text);
            matched += usize::from(expected);
            let context = (pattern.escape_ascii(), text.escape_ascii());
            assert_eq!(matches(&pattern, &text, Case::Sensitive), expected, "{context:?}");
        }
        assert!(matched > 1000, "{matched} matches");
    }
}
