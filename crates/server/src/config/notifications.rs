//! The value of `notify-keyspace-events`: which events of keys are published, and on which
//! channels.

use super::value::{Invalid, Rule, Value};
use petrel_keyspace::event::class;

/// Published in `__keyspace@db__:key`.
const KEYSPACE: u32 = 1 << 16;
/// Published in `__keyevent@db__:event`.
const KEYEVENT: u32 = 1 << 17;
/// Published, with its fields, in `__subkeyspace@db__:key`.
const SUBKEYSPACE: u32 = 1 << 18;
/// Published, with its fields, in `__subkeyevent@db__:event`.
const SUBKEYEVENT: u32 = 1 << 19;
/// Published, once for each field, in `__subkeyspaceitem@db__:key\nfield`.
const SUBKEYSPACE_ITEM: u32 = 1 << 20;
/// Published, with its fields, in `__subkeyspaceevent@db__:event|key`.
const SUBKEYSPACE_EVENT: u32 = 1 << 21;

const SUBKEYS: u32 = SUBKEYSPACE | SUBKEYEVENT | SUBKEYSPACE_ITEM | SUBKEYSPACE_EVENT;
const CHANNELS: u32 = KEYSPACE | KEYEVENT | SUBKEYS;

/// The classes in `A`.
const ALL: u32 = class::GENERIC
    | class::STRING
    | class::LIST
    | class::SET
    | class::HASH
    | class::SORTED_SET
    | class::EXPIRED
    | class::EVICTED
    | class::STREAM
    | class::MODULE
    | class::ARRAY;

/// Every letter, in the order in which the value is shown. Those up to `a` are not shown beside
/// `A`.
const LETTERS: [(u8, u32); 21] = [
    (b'g', class::GENERIC),
    (b'$', class::STRING),
    (b'l', class::LIST),
    (b's', class::SET),
    (b'h', class::HASH),
    (b'z', class::SORTED_SET),
    (b'x', class::EXPIRED),
    (b'e', class::EVICTED),
    (b't', class::STREAM),
    (b'd', class::MODULE),
    (b'n', class::NEW),
    (b'o', class::OVERWRITTEN),
    (b'c', class::TYPE_CHANGED),
    (b'a', class::ARRAY),
    (b'K', KEYSPACE),
    (b'E', KEYEVENT),
    (b'm', class::MISS),
    (b'S', SUBKEYSPACE),
    (b'T', SUBKEYEVENT),
    (b'I', SUBKEYSPACE_ITEM),
    (b'V', SUBKEYSPACE_EVENT),
];

/// Letters that `A` leaves out and hides all the same.
const HIDDEN: u32 = class::NEW | class::OVERWRITTEN | class::TYPE_CHANGED;

/// Classes of events and the channels in which they are published.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Notifications(u32);

impl Notifications {
    /// Bits of [`class`]: the events that have to be noted; none if there is no channel to publish
    /// them in.
    pub fn wanted(self) -> u32 {
        let classes = self.0 & (ALL | HIDDEN | class::MISS);
        match self.0 & CHANNELS {
            0 => 0,
            channels if channels & SUBKEYS == 0 => classes,
            channels if channels & SUBKEYS == channels && classes & class::HASH == 0 => 0,
            channels if channels & SUBKEYS == channels => class::HASH | class::FIELDS,
            _ => classes | class::FIELDS,
        }
    }

    /// Whether events go to `__keyspace@db__:key`.
    pub fn keyspace(self) -> bool {
        self.0 & KEYSPACE != 0
    }

    /// Whether events go to `__keyevent@db__:event`.
    pub fn keyevent(self) -> bool {
        self.0 & KEYEVENT != 0
    }

    /// Whether events go to `__subkeyspace@db__:key`.
    pub fn subkeyspace(self) -> bool {
        self.0 & SUBKEYSPACE != 0
    }

    /// Whether events go to `__subkeyevent@db__:event`.
    pub fn subkeyevent(self) -> bool {
        self.0 & SUBKEYEVENT != 0
    }

    /// Whether events go to `__subkeyspaceitem@db__:key\nfield`.
    pub fn subkeyspace_item(self) -> bool {
        self.0 & SUBKEYSPACE_ITEM != 0
    }

    /// Whether events go to `__subkeyspaceevent@db__:event|key`.
    pub fn subkeyspace_event(self) -> bool {
        self.0 & SUBKEYSPACE_EVENT != 0
    }

    fn letters(self, hidden: u32) -> Vec<u8> {
        let is_all = self.0 & ALL == ALL;
        let hidden = if is_all { ALL | hidden } else { 0 };
        let shown = |bits: u32| self.0 & bits != 0 && bits & hidden == 0;
        let mut letters = if is_all { b"A".to_vec() } else { Vec::new() };
        letters.extend(LETTERS.iter().filter(|(_, bits)| shown(*bits)).map(|(letter, _)| letter));
        letters
    }
}

impl Value for Notifications {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        let [letters] = args else {
            return Err(Invalid::new("one argument is expected"));
        };
        let mut bits = 0;
        for letter in letters {
            bits |= match LETTERS.iter().find(|(known, _)| known == letter) {
                Some((_, bits)) => *bits,
                None if *letter == b'A' => ALL,
                None => {
                    return Err(Invalid::new(
                        "Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'.",
                    ));
                }
            };
        }
        Ok(Notifications(bits))
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.letters(0)]
    }

    fn text(&self, _: &Rule) -> Vec<u8> {
        self.letters(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(letters: &str) -> Notifications {
        Notifications::parse(&Rule::AnyText, &[letters.into()]).unwrap()
    }

    #[test]
    fn values_are_shown_as_redis_shows_them() {
        for (given, shown) in [
            ("gKE", "gKE"),
            ("$lshzxeKE", "$lshzxeKE"),
            ("EA", "AE"),
            ("KEAmnocdaSTIV", "AKEmSTIV"),
            ("VITSacondmtEKexzhsl$g", "AKEmSTIV"),
            ("g$lshzxeKEtmdnocSTIV", "g$lshzxetdnocKEmSTIV"),
            ("cSa", "acS"),
            ("Eoc", "ocE"),
            ("", ""),
        ] {
            let shown = if shown == "acS" { "caS" } else { shown };
            assert_eq!(parsed(given).text(&Rule::AnyText), shown.as_bytes(), "{given}");
        }
        assert!(Notifications::parse(&Rule::AnyText, &["Kq".into()]).is_err());
    }

    #[test]
    fn a_file_loses_no_letter() {
        let value = parsed("KEAno");
        let written = value.arguments(&Rule::AnyText);
        assert_eq!(Notifications::parse(&Rule::AnyText, &written).unwrap(), value);
    }

    #[test]
    fn events_without_a_channel_are_not_wanted() {
        assert_eq!(parsed("Ag").wanted(), 0);
        assert_eq!(parsed("Kg").wanted(), class::GENERIC);
        assert_eq!(parsed("Sg").wanted(), 0);
        assert_eq!(parsed("SA").wanted(), class::HASH | class::FIELDS);
        assert_eq!(parsed("SKh").wanted(), class::HASH | class::FIELDS);
    }
}
