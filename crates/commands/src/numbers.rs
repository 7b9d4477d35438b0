//! Numbers as commands read and write them: doubles as Redis prints them, and the x86 long double
//! of INCRBYFLOAT and HINCRBYFLOAT.

pub(crate) mod big_uint;
pub(crate) mod double;
pub(crate) mod extended;
