//! Strategies shared by the tests of several types: strings, and numbers for choices.

use proptest::prelude::*;

/// A string described by its construction, so that failures print short.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Drawn {
    Number(i64),
    Word(u16),
    Long(u8, usize),
}

impl Drawn {
    pub fn bytes(&self) -> Vec<u8> {
        match *self {
            Drawn::Number(n) => n.to_string().into_bytes(),
            Drawn::Word(n) => format!("word:{n}").into_bytes(),
            Drawn::Long(byte, len) => vec![byte; len],
        }
    }
}

/// Numbers, most of them nearer to 0 than `near`, some of `words` words, and strings too long to be
/// packed, with these weights.
pub fn drawn(
    [numbers, texts, long]: [u32; 3],
    near: i64,
    words: u16,
) -> impl Strategy<Value = Drawn> {
    prop_oneof![
        numbers => prop_oneof![-near..near, any::<i32>().prop_map(i64::from), any::<i64>()]
            .prop_map(Drawn::Number),
        texts => (0..words).prop_map(Drawn::Word),
        long => (b'a'..b'd', prop_oneof![20usize..40, 100usize..400, 2_000usize..5_000])
            .prop_map(|(byte, len)| Drawn::Long(byte, len)),
    ]
}

/// Numbers for choices, the same in every run (xorshift: Marsaglia 2003).
#[allow(dead_code, reason = "not every type chooses")]
pub fn numbers() -> impl FnMut() -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}
