//! A number of things, in the words of the log.

use std::fmt;

/// A number with its noun, which gets an `s` unless the number is one.
#[derive(Clone, Copy, Debug)]
pub struct Pluralized<'n>(pub u64, pub &'n str);

impl fmt::Display for Pluralized<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pluralized(number, name) = self;
        write!(f, "{number} {name}{}", if *number == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let shown = [0, 1, 2].map(|number| Pluralized(number, "key").to_string());
        assert_eq!(shown, ["0 keys", "1 key", "2 keys"]);
    }
}
