//! The machine's `long double`, in which Redis calculates `INCRBYFLOAT`, `HINCRBYFLOAT` and
//! timeouts: 64 bits of mantissa on x86, 113 on 64-bit Arm with Linux, as many as a double's
//! elsewhere. The arithmetic is in `long_double.c`.

use std::cmp::Ordering;
use std::ffi::c_int;

/// A number other than NaN.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(crate) struct Extended([u8; 16]);

/// A text that ends with a zero byte. It has room for all digits of the largest number of x86, and
/// is as long as Redis's.
type Text = [u8; 5 * 1024];

// SAFETY: `long_double.c` defines these functions. They access nothing but their arguments, read a
// text up to its zero byte, and write no more than `size` bytes of one.
unsafe extern "C" {
    safe fn petrel_ld_parse(n: &mut Extended, text: &Text, len: usize, quick: bool) -> bool;
    safe fn petrel_ld_print(n: &Extended, text: &mut Text, size: usize, quick: bool) -> c_int;
    safe fn petrel_ld_millis(seconds: &Extended, millis: &mut i64) -> bool;
    safe fn petrel_ld_from_int(number: &mut Extended, value: i64);
    safe fn petrel_ld_limit(number: &mut Extended, sign: c_int);
    safe fn petrel_ld_add(number: &mut Extended, other: &Extended, sign: c_int);
    safe fn petrel_ld_compare(a: &Extended, b: &Extended) -> c_int;
    safe fn petrel_ld_is_finite(number: &Extended) -> bool;
    safe fn petrel_ld_to_double(number: &Extended) -> f64;
}

impl Extended {
    /// Parses numbers like C's `strtold`: decimal, hexadecimal and infinity, without anything
    /// before or after. `None` also for NaN, and for numbers too large or too close to 0.
    pub fn parse(text: &[u8]) -> Option<Self> {
        Self::parse_by(text, true)
    }

    fn parse_by(text: &[u8], quick: bool) -> Option<Self> {
        let mut copy: Text = [0; _];
        if text.len() >= copy.len() || text.first().is_none_or(|&byte| byte <= b' ') {
            return None;
        }
        copy[..text.len()].copy_from_slice(text);
        let mut number = Self([0; 16]);
        petrel_ld_parse(&mut number, &copy, text.len(), quick).then_some(number)
    }

    /// The greatest finite number, or the least.
    pub fn limit(negative: bool) -> Self {
        let mut number = Self([0; 16]);
        petrel_ld_limit(&mut number, if negative { -1 } else { 1 });
        number
    }

    /// The nearest double; `None` if that is 0 although the number is not.
    pub fn to_double(self) -> Option<f64> {
        let value = petrel_ld_to_double(&self);
        (value != 0.0 || self.compare(Self::from(0)).is_eq()).then_some(value)
    }

    /// The sum, which is infinite or NaN if either number is infinite or both are too large.
    pub fn add(mut self, other: Self) -> Self {
        petrel_ld_add(&mut self, &other, 1);
        self
    }

    /// The difference; like [`Self::add`] it may be infinite or NaN.
    pub fn subtract(mut self, other: Self) -> Self {
        petrel_ld_add(&mut self, &other, -1);
        self
    }

    /// Whether it is neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        petrel_ld_is_finite(&self)
    }

    /// Compares two numbers; 0 equals -0.
    pub fn compare(self, other: Self) -> Ordering {
        petrel_ld_compare(&self, &other).cmp(&0)
    }

    /// Prints all digits before the point and up to 17 after it, without trailing zeros. `None` if
    /// it is not finite.
    pub fn print(self) -> Option<Vec<u8>> {
        self.print_by(true)
    }

    fn print_by(self, quick: bool) -> Option<Vec<u8>> {
        if !self.is_finite() {
            return None;
        }
        let mut text: Text = [0; _];
        let len = petrel_ld_print(&self, &mut text, size_of::<Text>(), quick);
        let mut digits = &text[..usize::try_from(len).ok()?];
        while let [rest @ .., b'0'] = digits {
            digits = rest;
        }
        let digits = digits.strip_suffix(b".").unwrap_or(digits);
        Some(if digits == b"-0" { b"0".to_vec() } else { digits.to_vec() })
    }

    /// The milliseconds of this many seconds, rounded up; `None` beyond 64 bits.
    pub fn millis(self) -> Option<i64> {
        let mut millis = 0;
        petrel_ld_millis(&self, &mut millis).then_some(millis)
    }
}

impl From<i64> for Extended {
    fn from(n: i64) -> Self {
        let mut number = Self([0; 16]);
        petrel_ld_from_int(&mut number, n);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let sum = Extended::parse(a.as_bytes())?.add(Extended::parse(b.as_bytes())?);
        String::from_utf8(sum.print()?).ok()
    }

    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "the sums are those of x86's long double")]
    fn sums_are_those_of_redis() {
        for line in include_str!("extended/sums.tsv").lines() {
            let mut fields = line.split('\t');
            let (a, b, expected) = (fields.next(), fields.next(), fields.next());
            let (a, b, expected) = (a.unwrap(), b.unwrap(), expected.unwrap());
            let expected = (expected != "refused").then(|| expected.to_owned());
            assert_eq!(sum(a, b), expected, "{a} + {b}");
        }
    }

    #[test]
    fn numbers_are_in_order() {
        let texts = [
            "-inf", "-1e4932", "-1.5", "-1e-4950", "0", "1e-4950", "0.1", "1", "1.5", "2",
            "1e4932", "inf",
        ];
        let numbers = texts.map(|text| Extended::parse(text.as_bytes()).unwrap());
        for (i, a) in numbers.iter().enumerate() {
            for (j, b) in numbers.iter().enumerate() {
                assert_eq!(a.compare(*b), i.cmp(&j), "{} and {}", texts[i], texts[j]);
                let zero = Extended::from(0);
                assert_eq!(zero.subtract(*b).compare(zero.subtract(*a)), i.cmp(&j));
            }
        }
        let (zero, max) = (Extended::from(0), Extended::limit(false));
        assert_eq!(zero.compare(Extended::parse(b"-0").unwrap()), Ordering::Equal);
        assert_eq!(max.compare(numbers[10]), Ordering::Greater);
        assert_eq!(max.compare(numbers[11]), Ordering::Less);
        assert_eq!(Extended::limit(true).compare(numbers[0]), Ordering::Greater);
        assert!(max.is_finite() && !max.add(max).is_finite());
        assert!(max.add(max).print().is_none());
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            "-",
            "+",
            ".",
            "e5",
            "1e",
            "1e+",
            "0x",
            "0x.p1",
            "1.2.3",
            " 1",
            "1 ",
            "1\0",
            "nan",
            "-nan",
            "nan(1)",
            "infi",
            "--1",
            "1e5000",
            "-1e5000",
            "1e-5000",
            "1e99999999999999999999",
            "0x1p99999999999",
            "0x1p-99999999999",
            "1_0",
        ] {
            assert!(Extended::parse(text.as_bytes()).is_none(), "{text:?}");
        }
        assert!(Extended::parse(&[b'0'; size_of::<Text>()]).is_none());
        assert!(Extended::parse(&[b'0'; size_of::<Text>() - 1]).is_some());
        assert!(Extended::parse(b"0e99999999999999999999").is_some());
    }

    #[test]
    fn seconds_become_milliseconds() {
        let millis = |text: &str| Extended::parse(text.as_bytes()).and_then(Extended::millis);
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("1", Some(1000)),
            ("0.001", Some(1)),
            ("0.1", Some(100)),
            ("1.5", Some(1500)),
            ("0.0011", Some(2)),
            ("1e-100", Some(1)),
            ("-0.00001", Some(0)),
            ("-1.5", Some(-1500)),
            ("0x1p10", Some(1_024_000)),
            ("9007199254740992", Some(9_007_199_254_740_992_000)),
            ("9223372036854775", Some(9_223_372_036_854_775_000)),
            ("9223372036854776", None),
            ("1e400", None),
            ("inf", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }

    #[test]
    fn common_numbers_are_read_and_printed_as_all_are() {
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            random >> 16
        };
        for _ in 0..20_000 {
            let sign = ["", "-", "+"][next() as usize % 3];
            let whole = (next() << 16 >> (next() % 64)).to_string();
            let fraction = format!("{:09}{:09}", next() % 1_000_000_000, next() % 1_000_000_000);
            let fraction = &fraction[..next() as usize % 19];
            let text = format!("{sign}{whole}.{fraction}");
            let text = &text[..text.len().min(1 + next() as usize % 24)];
            let bits = |number: Option<Extended>| number.map(|number| number.0[..10].to_vec());
            let (quick, slow) =
                [true, false].map(|q| Extended::parse_by(text.as_bytes(), q)).into();
            assert_eq!(bits(quick), bits(slow), "{text}");
            let Some(number) = slow else { continue };
            let tenth = Extended::parse(b"1e-9").unwrap();
            for number in [number, number.add(tenth), tenth.subtract(number)] {
                assert_eq!(number.print_by(true), number.print_by(false), "{text}");
            }
        }
        for text in ["0.5", "-0.5", "0.000000000000000005", "0.000000000000000015", "1e-4950"] {
            let number = Extended::parse(text.as_bytes()).unwrap();
            assert_eq!(number.print_by(true), number.print_by(false), "{text}");
        }
    }

    #[test]
    fn integers_are_exact() {
        for n in [0, 1, -1, i64::MAX, i64::MIN] {
            let number = Extended::from(n);
            assert_eq!(number.print().unwrap(), n.to_string().into_bytes());
            assert_eq!(sum(&n.to_string(), "0").unwrap(), n.to_string());
        }
    }
}
