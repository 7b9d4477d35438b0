//! The options of the library `cjson`.

/// Digits of numbers at most.
pub(super) const PRECISION_MAX: i32 = 14;

/// Treatment of numbers that JSON cannot express, such as NaN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Invalid {
    Refused,
    Written,
    Null,
}

/// The options of the library.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) sparse_convert: bool,
    pub(super) sparse_ratio: i32,
    pub(super) sparse_safe: i32,
    pub(super) encode_max_depth: i32,
    pub(super) decode_max_depth: i32,
    pub(super) encode_invalid: Invalid,
    pub(super) decode_invalid: bool,
    pub(super) precision: i32,
    pub(super) keep_buffer: bool,
    pub(super) mark_arrays: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_max_depth: 1000,
            decode_max_depth: 1000,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
            precision: PRECISION_MAX,
            keep_buffer: true,
            mark_arrays: false,
        }
    }
}
