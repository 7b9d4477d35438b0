//! Times: seconds since 1970 in UTC, their parts and their texts.

use super::error::EvalError;
use super::functions::{Function, TEXT_MAX};
use crate::aggregate::value::Value;

const DAY_S: i64 = 86_400;
/// Times are within this many years.
const YEARS_MAX: i64 = i32::MAX as i64;
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A date and a time of day.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    year: i64,
    /// 0 to 11.
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

/// Days from 1970 to the first day of a month; months beyond 11 are those of later years.
fn days_before(year: i64, month: i64) -> i64 {
    let (year, month) = (year + month.div_euclid(12), month.rem_euclid(12));
    // Years begin in March, so that the leap day is the last one.
    let shifted = if month < 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 10) % 12) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

impl Moment {
    fn of(seconds: i64) -> Option<Self> {
        let (days, rest) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
        let shifted = days.checked_add(719_468)?;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = (shifted_month + 2) % 12;
        let year = era.checked_mul(400)? + year_of_era + i64::from(month < 2);
        if year.abs() > YEARS_MAX {
            return None;
        }
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        Some(Moment { year, month, day, hour, minute, second })
    }

    fn seconds(self) -> i64 {
        let days = days_before(self.year, self.month) + self.day - 1;
        days * DAY_S + self.hour * 3600 + self.minute * 60 + self.second
    }

    /// Day of the year, from 0.
    fn day_of_year(self) -> i64 {
        days_before(self.year, self.month) + self.day - 1 - days_before(self.year, 0)
    }

    /// 0 for Sunday.
    fn weekday(self) -> i64 {
        (days_before(self.year, self.month) + self.day - 1 + 4).rem_euclid(7)
    }

    /// Year and week of ISO 8601.
    fn iso_week(self) -> (i64, i64) {
        let monday_based = (self.weekday() + 6) % 7;
        let week = (self.day_of_year() - monday_based + 10) / 7;
        let weeks_in = |year: i64| {
            let first = Moment { year, day: 1, ..Moment::default() }.weekday();
            let is_leap = days_before(year + 1, 0) - days_before(year, 0) == 366;
            if first == 4 || first == 3 && is_leap { 53 } else { 52 }
        };
        match week {
            0 => (self.year - 1, weeks_in(self.year - 1)),
            _ if week > weeks_in(self.year) => (self.year + 1, 1),
            _ => (self.year, week),
        }
    }
}

/// The seconds of a value, none if it is no number or out of range.
fn seconds(value: &Value) -> Option<i64> {
    let number = value.number()?;
    // Beyond, the cast would be wrong.
    (number.is_finite() && number.abs() < 9.2e18).then_some(number as i64)
}

/// A part of a time; NULL for values that are no times, and before 1970.
pub(super) fn part(function: Function, value: &Value) -> Value {
    if value.number().is_none_or(|number| number < 0.0) {
        return Value::Null;
    }
    let Some(seconds) = seconds(value) else { return Value::Null };
    let Some(moment) = Moment::of(seconds) else { return Value::Null };
    Value::Number(match function {
        Function::Day => seconds - seconds % DAY_S,
        Function::Hour => seconds - seconds % 3600,
        Function::Minute => seconds - seconds % 60,
        Function::Month => days_before(moment.year, moment.month) * DAY_S,
        Function::Year => moment.year,
        Function::DayOfWeek => moment.weekday(),
        Function::DayOfMonth => moment.day,
        Function::DayOfYear => moment.day_of_year(),
        _ => moment.month,
    } as f64)
}

/// `timefmt(time, format)`; NULL if the value is no time, or the text would be empty.
pub(super) fn print(arguments: &[Value]) -> Result<Value, EvalError> {
    let format = match arguments.get(1) {
        None => &b"%FT%TZ"[..],
        Some(Value::Text(format)) => format,
        other => {
            return Err(Function::TimeFmt.bad_type(other, 1, "TYPE(v, RSValue_String)"));
        }
    };
    let moment = seconds(&arguments[0]).and_then(Moment::of);
    let Some(moment) = moment else { return Ok(Value::Null) };
    let mut text = Vec::new();
    print_format(&mut text, format, moment);
    match text.is_empty() || text.len() > TEXT_MAX {
        true => Ok(Value::Null),
        false => Ok(Value::text(&text)),
    }
}

fn print_format(text: &mut Vec<u8>, format: &[u8], moment: Moment) {
    let mut bytes = format.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            text.push(byte);
            continue;
        }
        match bytes.next() {
            None => text.push(b'%'),
            Some(&specifier) => print_specifier(text, specifier, moment),
        }
        if text.len() > TEXT_MAX {
            return;
        }
    }
}

fn print_specifier(text: &mut Vec<u8>, specifier: u8, moment: Moment) {
    let weekday = WEEKDAYS[moment.weekday() as usize % 7];
    let month = MONTHS[moment.month as usize % 12];
    let twelve = if moment.hour % 12 == 0 { 12 } else { moment.hour % 12 };
    let printed = match specifier {
        b'a' => weekday[..3].to_string(),
        b'A' => weekday.to_string(),
        b'b' | b'h' => month[..3].to_string(),
        b'B' => month.to_string(),
        b'C' => format!("{:02}", moment.year.div_euclid(100)),
        b'd' => format!("{:02}", moment.day),
        b'e' => format!("{:2}", moment.day),
        b'g' => format!("{:02}", moment.iso_week().0.rem_euclid(100)),
        b'G' => moment.iso_week().0.to_string(),
        b'H' => format!("{:02}", moment.hour),
        b'I' => format!("{twelve:02}"),
        b'j' => format!("{:03}", moment.day_of_year() + 1),
        b'k' => format!("{:2}", moment.hour),
        b'l' => format!("{twelve:2}"),
        b'm' => format!("{:02}", moment.month + 1),
        b'M' => format!("{:02}", moment.minute),
        b'n' => "\n".to_string(),
        b'p' => (if moment.hour < 12 { "AM" } else { "PM" }).to_string(),
        b'P' => (if moment.hour < 12 { "am" } else { "pm" }).to_string(),
        b's' => moment.seconds().to_string(),
        b'S' => format!("{:02}", moment.second),
        b't' => "\t".to_string(),
        b'u' => (if moment.weekday() == 0 { 7 } else { moment.weekday() }).to_string(),
        b'U' => format!("{:02}", (moment.day_of_year() + 7 - moment.weekday()) / 7),
        b'V' => format!("{:02}", moment.iso_week().1),
        b'w' => moment.weekday().to_string(),
        b'W' => {
            let monday_based = (moment.weekday() + 6) % 7;
            format!("{:02}", (moment.day_of_year() + 7 - monday_based) / 7)
        }
        b'y' => format!("{:02}", moment.year.rem_euclid(100)),
        b'Y' => moment.year.to_string(),
        b'z' => "+0000".to_string(),
        b'Z' => "GMT".to_string(),
        b'%' => "%".to_string(),
        b'c' => return print_format(text, b"%a %b %e %H:%M:%S %Y", moment),
        b'D' | b'x' => return print_format(text, b"%m/%d/%y", moment),
        b'F' => return print_format(text, b"%Y-%m-%d", moment),
        b'r' => return print_format(text, b"%I:%M:%S %p", moment),
        b'R' => return print_format(text, b"%H:%M", moment),
        b'T' | b'X' => return print_format(text, b"%H:%M:%S", moment),
        _ => return text.extend_from_slice(&[b'%', specifier]),
    };
    text.extend_from_slice(printed.as_bytes());
}

/// `parsetime(text, format)`; NULL if the text does not follow the format.
pub(super) fn parse(arguments: &[Value]) -> Result<Value, EvalError> {
    let text = Function::ParseTime.text(arguments, 0)?;
    let format = Function::ParseTime.text(arguments, 1)?;
    // As in C, nothing is set at first: the 0th of January 1900.
    let mut parsed =
        Parsed { moment: Moment { year: 1900, ..Moment::default() }, ..Parsed::default() };
    let mut rest = text;
    match parse_format(&mut parsed, &mut rest, format) {
        None => Ok(Value::Null),
        Some(()) => Ok(Value::Number(parsed.seconds() as f64)),
    }
}

/// Fields that a format has read.
#[derive(Clone, Copy, Debug, Default)]
struct Parsed {
    moment: Moment,
    twelve: Option<i64>,
    is_afternoon: bool,
    seconds: Option<i64>,
}

impl Parsed {
    fn seconds(self) -> i64 {
        let mut moment = self.moment;
        if let Some(hour) = self.twelve {
            moment.hour = hour % 12 + if self.is_afternoon { 12 } else { 0 };
        }
        self.seconds.unwrap_or_else(|| moment.seconds())
    }
}

fn parse_format(parsed: &mut Parsed, text: &mut &[u8], format: &[u8]) -> Option<()> {
    let mut bytes = format.iter();
    while let Some(&byte) = bytes.next() {
        if byte.is_ascii_whitespace() {
            *text = text.trim_ascii_start();
        } else if byte != b'%' {
            *text = text.strip_prefix(&[byte])?;
        } else {
            parse_specifier(parsed, text, *bytes.next()?)?;
        }
    }
    Some(())
}

fn parse_specifier(parsed: &mut Parsed, text: &mut &[u8], specifier: u8) -> Option<()> {
    let moment = &mut parsed.moment;
    match specifier {
        b'a' | b'A' => {
            name(text, &WEEKDAYS)?;
        }
        b'b' | b'B' | b'h' => moment.month = name(text, &MONTHS)?,
        b'd' | b'e' => moment.day = number(text, 2, 1..=31)?,
        b'm' => moment.month = number(text, 2, 1..=12)? - 1,
        b'Y' => moment.year = number(text, 4, 0..=9999)?,
        b'y' => {
            let year = number(text, 2, 0..=99)?;
            moment.year = if year < 69 { 2000 + year } else { 1900 + year };
        }
        b'H' | b'k' => moment.hour = number(text, 2, 0..=23)?,
        b'I' | b'l' => parsed.twelve = Some(number(text, 2, 1..=12)?),
        b'M' => moment.minute = number(text, 2, 0..=59)?,
        b'S' => moment.second = number(text, 2, 0..=61)?,
        b'j' => {
            // Without a month and a day of it.
            let day = number(text, 3, 1..=366)?;
            (moment.month, moment.day) = (0, day);
        }
        b'p' | b'P' => parsed.is_afternoon = name(text, &["AM", "PM"])? == 1,
        b's' => parsed.seconds = Some(number(text, 18, 0..=i64::MAX)?),
        b'n' | b't' => *text = text.trim_ascii_start(),
        b'%' => *text = text.strip_prefix(b"%")?,
        b'c' => return parse_format(parsed, text, b"%a %b %e %H:%M:%S %Y"),
        b'D' | b'x' => return parse_format(parsed, text, b"%m/%d/%y"),
        b'F' => return parse_format(parsed, text, b"%Y-%m-%d"),
        b'r' => return parse_format(parsed, text, b"%I:%M:%S %p"),
        b'R' => return parse_format(parsed, text, b"%H:%M"),
        b'T' | b'X' => return parse_format(parsed, text, b"%H:%M:%S"),
        _ => return None,
    }
    Some(())
}

/// Reads up to `width` digits, with blanks before them.
fn number(text: &mut &[u8], width: usize, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    *text = text.trim_ascii_start();
    let len = text.iter().take(width).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&text[..len]).ok()?;
    let number = digits.parse().ok().filter(|number| range.contains(number))?;
    *text = &text[len..];
    Some(number)
}

/// Reads a name, whole or its first three letters.
fn name(text: &mut &[u8], names: &[&str]) -> Option<i64> {
    *text = text.trim_ascii_start();
    for (number, name) in names.iter().enumerate() {
        for len in [name.len(), name.len().min(3)] {
            let found = text
                .get(..len)
                .is_some_and(|start| start.eq_ignore_ascii_case(&name.as_bytes()[..len]));
            if found {
                *text = &text[len..];
                return Some(number as i64);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_comes_back() {
        for day in (-1_000_000..1_000_000).step_by(97) {
            let seconds = day * DAY_S + 12_345;
            let moment = Moment::of(seconds).expect("near");
            assert_eq!(moment.seconds(), seconds);
            assert_eq!(moment.weekday(), (day + 4).rem_euclid(7));
            assert!((1..=31).contains(&moment.day) && (0..12).contains(&moment.month));
        }
        for far in [i64::MIN, i64::MAX, i64::MAX - 719_468 * DAY_S] {
            assert!(Moment::of(far).is_none());
        }
    }

    #[test]
    fn texts_of_times() {
        let print = |seconds: f64, format: &str| {
            let arguments = [Value::Number(seconds), Value::text(format.as_bytes())];
            match super::print(&arguments).expect("a format") {
                Value::Text(text) => String::from_utf8(text.to_vec()).expect("ASCII"),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(
            print(1_700_000_000.0, "%A %B %d %j %U %w %y %Z %z %s %% %e %I %p %V %G %C %l %Q"),
            "Tuesday November 14 318 46 2 23 GMT +0000 1700000000 % 14 10 PM 46 2023 20 10 %Q"
        );
        assert_eq!(print(-1.0, "%FT%TZ"), "1969-12-31T23:59:59Z");
        assert_eq!(print(1e20, "%F"), "Null");
        assert_eq!(print(0.0, ""), "Null");
    }

    #[test]
    fn times_of_texts() {
        let parse = |text: &str, format: &str| {
            let arguments = [Value::text(text.as_bytes()), Value::text(format.as_bytes())];
            super::parse(&arguments).expect("two texts").number()
        };
        assert_eq!(parse("2023-11-14T22:13:20Z", "%FT%TZ"), Some(1_700_000_000.0));
        assert_eq!(parse("2023", "%Y"), Some(1_672_444_800.0));
        assert_eq!(parse("", ""), Some(-2_209_075_200.0));
        assert_eq!(parse("Tue Nov 14 2023", "%a %b %d %Y"), Some(1_699_920_000.0));
        assert_eq!(parse("2023-13-14", "%F"), None);
        assert_eq!(parse("abc", "%"), None);
    }
}
