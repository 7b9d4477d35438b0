//! Functions of expressions: their names, and errors of their arguments.

use super::error::EvalError;
use crate::aggregate::value::Value;

/// Maximum bytes of a text that a function makes.
pub(super) const TEXT_MAX: usize = 16 << 20;

type Result<T> = std::result::Result<T, EvalError>;

macro_rules! functions {
    ($($variant:ident = $name:literal, $error_name:literal, $least:literal..=$most:literal, $what:literal;)*) => {
        /// Functions.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Function {
            $(#[doc = $what] $variant,)*
        }

        impl Function {
            /// Every function.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name in expressions.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Name in errors.
            fn error_name(self) -> &'static str {
                match self { $(Self::$variant => $error_name,)* }
            }

            pub(super) fn takes(self, arguments: usize) -> bool {
                match self { $(Self::$variant => ($least..=$most).contains(&arguments),)* }
            }
        }
    };
}

functions! {
    Log = "log", "log", 1..=1, "Natural logarithm.";
    Log2 = "log2", "log2", 1..=1, "Logarithm to base 2.";
    Exp = "exp", "exp", 1..=1, "Power of e.";
    Ceil = "ceil", "ceil", 1..=1, "Least integer that is not below.";
    Floor = "floor", "floor", 1..=1, "Greatest integer that is not above.";
    Abs = "abs", "fabs", 1..=1, "Magnitude.";
    Sqrt = "sqrt", "sqrt", 1..=1, "Square root.";
    Upper = "upper", "upper", 1..=1, "Text in upper case.";
    Lower = "lower", "lower", 1..=1, "Text in lower case.";
    StartsWith = "startswith", "startswith", 2..=2, "Whether a text begins with another.";
    Contains = "contains", "contains", 2..=2, "Number of places of a text in another.";
    StrLen = "strlen", "strlen", 1..=1, "Number of bytes.";
    Substr = "substr", "substr", 3..=3, "Part of a text: offset, length.";
    Format = "format", "format", 1..=65536, "Text with values in place of `%s`.";
    Split = "split", "split", 1..=3, "Parts of a text: separators, characters to strip.";
    MatchedTerms = "matched_terms", "matched_terms", 0..=65536, "Terms of the query that match.";
    ToNumber = "to_number", "to_number", 1..=1, "Number of a text.";
    ToStr = "to_str", "to_str", 1..=1, "Text of a number.";
    TimeFmt = "timefmt", "time", 1..=2, "Text of a time.";
    ParseTime = "parsetime", "parsetime", 2..=2, "Time of a text.";
    Day = "day", "day", 1..=1, "Beginning of the day.";
    Hour = "hour", "hour", 1..=1, "Beginning of the hour.";
    Minute = "minute", "minute", 1..=1, "Beginning of the minute.";
    Month = "month", "month", 1..=1, "Beginning of the month.";
    Year = "year", "year", 1..=1, "Number of the year.";
    DayOfWeek = "dayofweek", "dayofweek", 1..=1, "0 for Sunday to 6.";
    DayOfMonth = "dayofmonth", "dayofmonth", 1..=1, "1 to 31.";
    DayOfYear = "dayofyear", "dayofyear", 1..=1, "0 to 365.";
    MonthOfYear = "monthofyear", "monthofyear", 1..=1, "0 to 11.";
    GeoDistance = "geodistance", "geodistance", 2..=4, "Metres between two places.";
    Exists = "exists", "exists", 1..=1, "Whether a property has a value.";
    Case = "case", "case", 3..=3, "One of two values, by a condition.";
}

impl Function {
    /// The function of a name, in upper or lower case.
    pub fn of(name: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|function| function.name().as_bytes().eq_ignore_ascii_case(name))
    }

    pub(super) fn bad_count(self) -> EvalError {
        EvalError::new(match self {
            Self::Log
            | Self::Log2
            | Self::Exp
            | Self::Ceil
            | Self::Floor
            | Self::Abs
            | Self::Sqrt
            | Self::Split => {
                format!("Invalid number of arguments for {}", self.error_name())
            }
            Self::Format => "Need at least one argument for format".to_string(),
            _ => format!("Invalid arguments for function '{}'", self.error_name()),
        })
    }

    /// The bytes of a text argument.
    pub(super) fn text(self, arguments: &[Value], at: usize) -> Result<&[u8]> {
        match arguments.get(at) {
            Some(Value::Text(text)) => Ok(text),
            other => Err(self.bad_type(other, at, &format!("STRING(v, {at})"))),
        }
    }

    pub(super) fn bad_type(self, value: Option<&Value>, at: usize, test: &str) -> EvalError {
        // Numbers of types, as Redis shows them.
        let kind = match value {
            Some(Value::Number(_)) => 1,
            Some(Value::Text(_)) => 3,
            Some(Value::Array(_)) => 6,
            Some(Value::Null | Value::Several(_)) | None => 4,
        };
        let name = self.error_name();
        EvalError::new(format!(
            "Invalid type ({kind}) for argument {at} in function '{name}'. \
             VALIDATE_ARG__{test} was false."
        ))
    }
}
