//! Triggers of snapshots: the save points, and options of a shutdown by signal.

use super::types::not_among;
use super::value::{Invalid, Rule, Value, parse_decimal};

/// Save point: `save SECONDS CHANGES`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SavePoint {
    /// More seconds than this have passed since the last.
    pub seconds: i64,
    /// Number of changes since the last snapshot.
    pub changes: u64,
}

/// All of them: each alone makes a snapshot due; without any, none ever is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SavePoints(Vec<SavePoint>);

impl SavePoints {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a snapshot is due after this many seconds and changes.
    pub fn are_met(&self, seconds: i64, changes: u64) -> bool {
        self.0.iter().any(|point| changes >= point.changes && seconds > point.seconds)
    }

    /// These, and behind them others.
    pub(super) fn and(&self, others: &Self) -> Self {
        Self([&self.0[..], &others.0[..]].concat())
    }

    /// Returns a directive for each save point, as required by versions before Redis 7; an empty
    /// one if there are none.
    pub(super) fn directives(&self) -> Vec<Vec<Vec<u8>>> {
        match self.is_empty() {
            true => vec![vec![Vec::new()]],
            false => self.0.iter().map(SavePoint::arguments).collect(),
        }
    }
}

impl SavePoint {
    fn parse(seconds: &[u8], changes: &[u8]) -> Option<Self> {
        let number = |text| parse_decimal(text).ok().and_then(|number| i32::try_from(number).ok());
        let seconds = number(seconds).filter(|&seconds| seconds >= 1)?;
        let changes = number(changes).filter(|&changes| changes >= 0)?;
        Some(SavePoint { seconds: seconds.into(), changes: changes.unsigned_abs().into() })
    }

    fn arguments(&self) -> Vec<Vec<u8>> {
        vec![self.seconds.to_string().into_bytes(), self.changes.to_string().into_bytes()]
    }
}

impl Value for SavePoints {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        // Given as one argument, they are parted by one blank each.
        let words: Vec<&[u8]> = match args {
            [one] if one.is_empty() => Vec::new(),
            [one] => one.split(|&byte| byte == b' ').collect(),
            args => args.iter().map(Vec::as_slice).collect(),
        };
        let (pairs, rest) = words.as_chunks::<2>();
        let points = pairs.iter().map(|[seconds, changes]| SavePoint::parse(seconds, changes));
        match points.collect::<Option<Vec<_>>>() {
            Some(points) if rest.is_empty() => Ok(Self(points)),
            _ => Err(Invalid::new("Invalid save parameters")),
        }
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        match self.is_empty() {
            true => vec![Vec::new()],
            false => self.0.iter().flat_map(SavePoint::arguments).collect(),
        }
    }
}

/// Options of a shutdown by signal.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ShutdownFlags(Vec<&'static str>);

impl ShutdownFlags {
    const WORDS: [&'static str; 5] = ["default", "save", "nosave", "now", "force"];

    /// Whether the data is saved at the end: if the flags do not say, it is where there are save
    /// points.
    pub fn saves(&self, points: &SavePoints) -> bool {
        self.has("save") || !self.has("nosave") && !points.is_empty()
    }

    /// Whether the server stops though the data cannot be saved.
    pub fn forces(&self) -> bool {
        self.has("force")
    }

    /// Whether replicas are not waited for.
    pub fn is_at_once(&self) -> bool {
        self.has("now")
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }
}

impl Value for ShutdownFlags {
    fn parse(_: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        let is = |word: &&str| args.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        let is_known = |arg: &Vec<u8>| {
            Self::WORDS.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes()))
        };
        let said: Vec<&'static str> = Self::WORDS.into_iter().filter(is).collect();
        let has = |word| said.contains(&word);
        if said.is_empty() || !args.iter().all(is_known) || has("default") && args.len() > 1 {
            return Err(not_among(&Self::WORDS));
        }
        if has("save") && has("nosave") {
            return Err(Invalid::new("Invalid combination of SAVE and NOSAVE flags."));
        }
        Ok(Self(said.into_iter().filter(|&word| word != "default").collect()))
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        match self.0.is_empty() {
            true => vec![b"default".to_vec()],
            false => self.0.iter().map(|word| word.as_bytes().to_vec()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    fn shown(value: &impl Value, rule: &Rule) -> String {
        String::from_utf8(value.text(rule)).unwrap()
    }

    #[test]
    fn save_points_are_pairs_of_seconds_and_changes() {
        let parse = |args: &[Vec<u8>]| SavePoints::parse(&Rule::Points, args);
        for (text, expected) in [
            ("900 1", "900 1"),
            ("900 1 60 10000", "900 1 60 10000"),
            ("1 0", "1 0"),
            ("900 1 900 1", "900 1 900 1"),
        ] {
            let points = parse(&words(text)).unwrap();
            assert_eq!(shown(&points, &Rule::Points), expected);
            assert_eq!(parse(&[text.into()]).unwrap(), points);
        }
        assert!(parse(&[Vec::new()]).unwrap().is_empty());
        for bad in ["900", "0 1", "900 x", "1 -1", "10 1 100", "99999999999 1"] {
            assert_eq!(parse(&words(bad)).unwrap_err().to_string(), "Invalid save parameters");
        }
        for bad in [" 1 1", "1  1", " "] {
            assert!(parse(&[bad.into()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn any_point_makes_a_snapshot_due() {
        let points = SavePoints::parse(&Rule::Points, &words("100 2 10 50")).unwrap();
        for (seconds, changes, due) in [
            (100, 2, false),
            (101, 2, true),
            (1000, 1, false),
            (11, 49, false),
            (11, 50, true),
            (10, 500, false),
        ] {
            assert_eq!(points.are_met(seconds, changes), due, "{seconds} {changes}");
        }
        assert!(!SavePoints(Vec::new()).are_met(1 << 40, 1 << 40));
    }

    #[test]
    fn flags_of_a_shutdown_are_put_in_order() {
        let parse = |text| ShutdownFlags::parse(&Rule::Flags, &words(text));
        let points = |text| SavePoints::parse(&Rule::Points, &[text]).unwrap();
        let (none, some) = (points(Vec::new()), points(b"1 1".to_vec()));
        for (text, expected, saves, forces) in [
            ("FORCE nosave", "nosave force", [false, false], true),
            ("default", "default", [false, true], false),
            ("now save", "save now", [true, true], false),
            ("now", "now", [false, true], false),
        ] {
            let flags = parse(text).unwrap();
            assert_eq!(shown(&flags, &Rule::Flags), expected);
            assert_eq!([flags.saves(&none), flags.saves(&some)], saves, "{text}");
            assert_eq!(flags.forces(), forces, "{text}");
        }
        for bad in ["", "x", "default now", "save x"] {
            assert!(parse(bad).unwrap_err().to_string().starts_with("argument(s) must be one"));
        }
        assert!(parse("save nosave").is_err());
    }
}
