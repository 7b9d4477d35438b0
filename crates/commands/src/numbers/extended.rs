//! Numbers of the extended format of x86 (64 bits of mantissa, 15 of exponent): the `long double`
//! in which Redis does `INCRBYFLOAT`. Reading, adding and printing round to nearest, ties to even,
//! so results equal Redis's on x86-64 to the last digit, on every processor.

use crate::numbers::big_uint::BigUint;
use std::cmp::Ordering;

/// Maximum length of a number's text, as in Redis.
const TEXT_LEN_MAX: usize = 5 * 1024 - 1;
const MANTISSA_BITS: i32 = 64;
/// Exponent of the lowest bit of the smallest subnormal number.
const EXPONENT_MIN: i32 = -16445;
/// Numbers are below two to this power.
const MAGNITUDE_MAX: i32 = 16384;
/// Numbers with more digits before the decimal point are infinite; numbers with the first digit
/// farther behind the point are 0.
const DECIMAL_EXPONENT_MAX: i64 = 4934;
const DECIMAL_EXPONENT_MIN: i64 = -4970;
/// Maximum number of digits printed after the point.
const DECIMALS: usize = 17;
const DECIMALS_SCALE: u128 = 10u128.pow(DECIMALS as u32);

/// A number other than NaN.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extended {
    /// `mantissa` times two to the power of `exponent`.
    Finite {
        /// The sign, of zero too.
        negative: bool,
        /// Not normalised.
        mantissa: u64,
        /// At least [`EXPONENT_MIN`].
        exponent: i32,
    },
    /// Beyond every number.
    Infinite {
        /// The sign.
        negative: bool,
    },
}

impl Extended {
    /// The greatest number; the least is its opposite.
    pub const MAX: Self = Extended::Finite {
        negative: false,
        mantissa: u64::MAX,
        exponent: MAGNITUDE_MAX - MANTISSA_BITS,
    };

    /// Parses numbers like C's `strtold`: decimal, hexadecimal and infinity, without anything
    /// before or after. `None` also for NaN, and for numbers too large or too close to 0.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_LEN_MAX {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Extended::Infinite { negative });
        }
        let number = match rest {
            [b'0', b'x' | b'X', digits @ ..] => parse_hexadecimal(negative, digits),
            digits => parse_decimal(negative, digits),
        }?;
        matches!(number, Extended::Finite { .. }).then_some(number)
    }

    /// The nearest double; `None` if that is 0 although the number is not.
    pub fn to_double(self) -> Option<f64> {
        match self {
            Extended::Finite { negative, mantissa, exponent } => {
                // In two steps: a power of two may be too small for one double.
                let half = exponent / 2;
                let magnitude = mantissa as f64 * 2f64.powi(half) * 2f64.powi(exponent - half);
                let lost = magnitude == 0.0 && mantissa != 0;
                (!lost).then_some(if negative { -magnitude } else { magnitude })
            }
            Extended::Infinite { negative: false } => Some(f64::INFINITY),
            Extended::Infinite { negative: true } => Some(f64::NEG_INFINITY),
        }
    }

    /// The sum; `None` if it is not finite.
    pub fn add(self, other: Self) -> Option<Self> {
        let (Some(a), Some(b)) = (self.normalised(), other.normalised()) else { return None };
        let (large, small) =
            if (a.exponent, a.mantissa) >= (b.exponent, b.mantissa) { (a, b) } else { (b, a) };
        // The larger mantissa lies below the top bit, which takes the carry. The bits shifted out
        // of the smaller one are kept as one sticky bit: it only decides rounding, since at least
        // 60 zeros are in between.
        const SPARE: u32 = 62;
        let distance = large.exponent.abs_diff(small.exponent);
        let top = u128::from(large.mantissa) << SPARE;
        let wide = u128::from(small.mantissa) << SPARE;
        let bottom = wide.checked_shr(distance).unwrap_or(0);
        let lost = bottom.checked_shl(distance).unwrap_or(0) != wide;
        let exponent = large.exponent - SPARE as i32;
        let sum = if large.negative == small.negative {
            round(large.negative, top + bottom, exponent, lost)
        } else {
            let difference = top - bottom - u128::from(lost);
            round(large.negative && difference > 0, difference, exponent, lost)
        };
        matches!(sum, Extended::Finite { .. }).then_some(sum)
    }

    /// The number with the opposite sign.
    pub fn opposite(self) -> Self {
        match self {
            Extended::Finite { negative, mantissa, exponent } => {
                Extended::Finite { negative: !negative, mantissa, exponent }
            }
            Extended::Infinite { negative } => Extended::Infinite { negative: !negative },
        }
    }

    /// Whether it is below 0, -0 included.
    pub fn is_negative(self) -> bool {
        match self {
            Extended::Finite { negative, .. } | Extended::Infinite { negative } => negative,
        }
    }

    /// Whether it is infinite.
    pub fn is_infinite(self) -> bool {
        matches!(self, Extended::Infinite { .. })
    }

    /// Compares two numbers; 0 equals -0.
    pub fn compare(self, other: Self) -> Ordering {
        // Sign, exponent and mantissa of numbers other than 0 are in numerical order.
        let magnitude = |number: Self| match number.normalised() {
            None => (i32::MAX, 0),
            Some(Normalised { exponent, mantissa, .. }) => (exponent, mantissa),
        };
        let is_zero = |number: Self| magnitude(number).1 == 0 && !number.is_infinite();
        match (is_zero(self), is_zero(other)) {
            (true, true) => Ordering::Equal,
            (true, false) if other.is_negative() => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, true) if self.is_negative() => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => match (self.is_negative(), other.is_negative()) {
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (false, false) => magnitude(self).cmp(&magnitude(other)),
                (true, true) => magnitude(other).cmp(&magnitude(self)),
            },
        }
    }

    /// Prints all digits before the point and up to 17 after it, without trailing zeros. `None` if
    /// infinite.
    pub fn print(self) -> Option<Vec<u8>> {
        let Extended::Finite { negative, mantissa, exponent } = self else { return None };
        let mut text = if exponent >= 0 {
            let mut integer = BigUint::from(u128::from(mantissa));
            integer.shift_left(exponent as usize);
            integer.to_decimal()
        } else {
            let scaled = u128::from(mantissa) * DECIMALS_SCALE;
            print_scaled(shift_right_rounding(scaled, exponent.unsigned_abs(), false))
        };
        if negative && text != b"0" {
            text.insert(0, b'-');
        }
        Some(text)
    }

    /// The milliseconds of this many seconds, rounded up; none beyond 64 bits.
    pub fn millis(self) -> Option<i64> {
        let Extended::Finite { negative, mantissa, exponent } = self else { return None };
        let product = round(negative, u128::from(mantissa) * 1000, exponent, false);
        let Extended::Finite { mantissa, exponent, .. } = product else { return None };
        let mantissa = u128::from(mantissa);
        let magnitude = if mantissa == 0 || exponent >= 0 {
            let shift = if mantissa == 0 { 0 } else { exponent.unsigned_abs() };
            if shift > i64::BITS { None } else { Some(mantissa << shift) }
        } else {
            let shift = exponent.unsigned_abs();
            let whole = mantissa.checked_shr(shift).unwrap_or(0);
            let is_whole = whole.checked_shl(shift).unwrap_or(0) == mantissa;
            Some(whole + u128::from(!negative && !is_whole))
        };
        let magnitude = i64::try_from(magnitude?).ok()?;
        Some(if negative { -magnitude } else { magnitude })
    }

    /// With the top bit of the mantissa set, and the exponent as low as it takes; 0 has the lowest
    /// exponent.
    fn normalised(self) -> Option<Normalised> {
        let Extended::Finite { negative, mantissa, exponent } = self else { return None };
        if mantissa == 0 {
            return Some(Normalised { negative, mantissa, exponent: i32::MIN / 2 });
        }
        let shift = mantissa.leading_zeros();
        Some(Normalised {
            negative,
            mantissa: mantissa << shift,
            exponent: exponent - shift as i32,
        })
    }
}

impl From<i64> for Extended {
    fn from(n: i64) -> Self {
        Extended::Finite { negative: n < 0, mantissa: n.unsigned_abs(), exponent: 0 }
    }
}

struct Normalised {
    negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// The number nearest to `bits` (and a little more, if `sticky`) times two to the power of
/// `exponent`. With `sticky`, `bits` has at least 66 significant bits, or the result is far below
/// the smallest number.
fn round(negative: bool, bits: u128, exponent: i32, sticky: bool) -> Extended {
    let len = (u128::BITS - bits.leading_zeros()) as i32;
    let shift = (len - MANTISSA_BITS).max(EXPONENT_MIN - exponent).max(0);
    let rounded = shift_right_rounding(bits, shift as u32, sticky);
    let mut exponent = exponent + shift;
    // Rounding up may have carried into a 65th bit; the others are then 0.
    let mantissa = u64::try_from(rounded).unwrap_or_else(|_| {
        exponent += 1;
        1 << (MANTISSA_BITS - 1)
    });
    let magnitude = exponent + MANTISSA_BITS - mantissa.leading_zeros() as i32;
    if mantissa == 0 {
        Extended::Finite { negative, mantissa: 0, exponent: 0 }
    } else if magnitude > MAGNITUDE_MAX {
        Extended::Infinite { negative }
    } else {
        Extended::Finite { negative, mantissa, exponent }
    }
}

/// `bits >> shift`, rounded to nearest, ties to even; with `sticky`, `bits` stands for a little
/// more.
fn shift_right_rounding(bits: u128, shift: u32, sticky: bool) -> u128 {
    if shift == 0 {
        return bits;
    }
    let kept = bits.checked_shr(shift).unwrap_or(0);
    let Some(half) = 1u128.checked_shl(shift - 1) else { return 0 };
    let rest = bits & (half | (half - 1));
    let up = rest > half || rest == half && (sticky || kept % 2 == 1);
    kept + u128::from(up)
}

fn print_scaled(scaled: u128) -> Vec<u8> {
    let mut text = (scaled / DECIMALS_SCALE).to_string().into_bytes();
    let decimals = format!("{:0DECIMALS$}", scaled % DECIMALS_SCALE);
    let decimals = decimals.trim_end_matches('0');
    if !decimals.is_empty() {
        text.push(b'.');
        text.extend_from_slice(decimals.as_bytes());
    }
    text
}

/// Digits with a point somewhere and an exponent behind.
struct Scientific {
    /// Values of the digits, without leading zeros.
    digits: Vec<u8>,
    /// Number of digits, or of omitted zeros, after the point.
    behind_point: i64,
    exponent: i64,
}

impl Scientific {
    fn parse(text: &[u8], radix: u32, exponent_mark: u8) -> Option<Self> {
        let (mut digits, mut behind_point, mut any, mut point) = (Vec::new(), 0, false, false);
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            if let Some(digit) = char::from(byte).to_digit(radix) {
                any = true;
                behind_point += i64::from(point);
                if digit != 0 || !digits.is_empty() {
                    digits.push(digit as u8);
                }
            } else if byte == b'.' && !point {
                point = true;
            } else {
                break;
            }
            at += 1;
        }
        let exponent = match &text[at..] {
            [] => 0,
            [mark, exponent @ ..] if mark.to_ascii_lowercase() == exponent_mark => {
                parse_exponent(exponent)?
            }
            _ => return None,
        };
        any.then_some(Scientific { digits, behind_point, exponent })
    }
}

/// An exponent; one beyond all reason is cut to a size that can be calculated with.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    const LIMIT: i64 = 1 << 40;
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut magnitude = 0i64;
    for &byte in digits {
        let digit = char::from(byte).to_digit(10)?;
        magnitude = (magnitude * 10 + i64::from(digit)).min(LIMIT);
    }
    Some(if negative { -magnitude } else { magnitude })
}

fn parse_decimal(negative: bool, text: &[u8]) -> Option<Extended> {
    let mut number = Scientific::parse(text, 10, b'e')?;
    let mut exponent = number.exponent - number.behind_point;
    while number.digits.last() == Some(&0) {
        number.digits.pop();
        exponent += 1;
    }
    if number.digits.is_empty() {
        return Some(Extended::Finite { negative, mantissa: 0, exponent: 0 });
    }
    let magnitude = number.digits.len() as i64 + exponent;
    if !(DECIMAL_EXPONENT_MIN..=DECIMAL_EXPONENT_MAX).contains(&magnitude) {
        return None;
    }
    let result = small_decimal(negative, &number.digits, exponent)
        .unwrap_or_else(|| large_decimal(negative, &number.digits, exponent));
    not_zero(result)
}

/// The common case: up to 19 digits and a small exponent need no more than 128 bits.
fn small_decimal(negative: bool, digits: &[u8], exponent: i64) -> Option<Extended> {
    if digits.len() > 19 {
        return None;
    }
    let integer = digits.iter().fold(0u64, |n, &digit| n * 10 + u64::from(digit));
    match exponent {
        0..=19 => {
            let product = u128::from(integer) * 10u128.pow(exponent as u32);
            Some(round(negative, product, 0, false))
        }
        -18..=-1 => {
            let shift = u128::from(integer).leading_zeros();
            let dividend = u128::from(integer) << shift;
            let divisor = u128::from(10u64.pow(exponent.unsigned_abs() as u32));
            let (quotient, rest) = (dividend / divisor, dividend % divisor);
            Some(round(negative, quotient, -(shift as i32), rest != 0))
        }
        _ => None,
    }
}

fn large_decimal(negative: bool, digits: &[u8], exponent: i64) -> Extended {
    let mut dividend = BigUint::from_digits(digits);
    let mut divisor = BigUint::from(1);
    let power = if exponent >= 0 { &mut dividend } else { &mut divisor };
    power.multiply_power_of_ten(exponent.unsigned_abs() as usize);
    // One of the two is shifted so that the quotient has between 67 and 69 bits.
    const QUOTIENT_BITS: i64 = 68;
    let shift = QUOTIENT_BITS - (dividend.bits() as i64 - divisor.bits() as i64);
    if shift >= 0 {
        dividend.shift_left(shift as usize);
    } else {
        divisor.shift_left(shift.unsigned_abs() as usize);
    }
    let quotient = dividend.divide_small_quotient(divisor, QUOTIENT_BITS as usize + 1);
    round(negative, quotient, -shift as i32, !dividend.is_zero())
}

fn parse_hexadecimal(negative: bool, text: &[u8]) -> Option<Extended> {
    const KEPT: usize = 24;
    let number = Scientific::parse(text, 16, b'p')?;
    let kept = &number.digits[..number.digits.len().min(KEPT)];
    let left_out = &number.digits[kept.len()..];
    let bits = kept.iter().fold(0u128, |n, &digit| n << 4 | u128::from(digit));
    if bits == 0 {
        return Some(Extended::Finite { negative, mantissa: 0, exponent: 0 });
    }
    let exponent = number.exponent + 4 * (left_out.len() as i64 - number.behind_point);
    // Far outside of every number either way, and within the range of the calculation.
    let exponent = exponent.clamp(-40_000, 40_000) as i32;
    not_zero(round(negative, bits, exponent, left_out.iter().any(|&digit| digit != 0)))
}

/// None if a number that is not 0 was rounded to 0.
fn not_zero(number: Extended) -> Option<Extended> {
    match number {
        Extended::Finite { mantissa: 0, .. } => None,
        number => Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let sum = Extended::parse(a.as_bytes())?.add(Extended::parse(b.as_bytes())?)?;
        String::from_utf8(sum.print()?).ok()
    }

    #[test]
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
                assert_eq!(b.opposite().compare(a.opposite()), i.cmp(&j));
            }
        }
        let zero = Extended::from(0);
        assert_eq!(zero.compare(zero.opposite()), Ordering::Equal);
        assert_eq!(Extended::MAX.compare(numbers[10]), Ordering::Greater);
        assert_eq!(Extended::MAX.compare(numbers[11]), Ordering::Less);
        assert!(Extended::MAX.add(Extended::MAX).is_none());
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
        assert!(Extended::parse(&[b'1'; TEXT_LEN_MAX + 1]).is_none());
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
    fn integers_are_exact() {
        for n in [0, 1, -1, i64::MAX, i64::MIN] {
            let number = Extended::from(n);
            assert_eq!(number.print().unwrap(), n.to_string().into_bytes());
            assert_eq!(sum(&n.to_string(), "0").unwrap(), n.to_string());
        }
    }

    #[test]
    fn small_and_large_numbers_are_read_alike() {
        for digits in [&[1][..], &[9; 19], &[1, 8, 4, 4, 6, 7, 4, 4, 0, 7], &[3, 3, 3]] {
            for exponent in -18..=19 {
                let small = small_decimal(false, digits, exponent).unwrap().normalised().unwrap();
                let large = large_decimal(false, digits, exponent).normalised().unwrap();
                assert_eq!(
                    (small.mantissa, small.exponent),
                    (large.mantissa, large.exponent),
                    "{digits:?}e{exponent}"
                );
            }
        }
    }
}
