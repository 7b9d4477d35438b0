//! Sparse registers: runs of equal values, used while most are 0.
//!
//! ```text
//! 00nnnnnn           n + 1 registers (1 to 64) are 0
//! 01nnnnnn nnnnnnnn  n + 1 registers (1 to 16384) are 0
//! 1vvvvvnn           n + 1 registers (1 to 4) are v + 1 (1 to 32)
//! ```
//!
//! The division into runs depends on the order in which registers were raised. A run is split where
//! one of its registers is raised; around it, adjacent runs of equal value are joined if the result
//! fits one run.

use super::sketch::{REGISTERS, Registers};

/// Maximum value of a run.
pub(super) const VALUE_MAX: u8 = 32;
/// Encoding of all registers 0.
pub(super) const EMPTY: [u8; 2] = [0x40 | ((REGISTERS - 1) >> 8) as u8, (REGISTERS - 1) as u8];

const SHORT_ZEROS_MAX: usize = 64;
const VALUES_MAX: usize = 4;
/// Number of runs around a raised register that are considered for joining: the one before it, up
/// to three that it was split into, and the one after it.
const JOINED_STEPS: usize = 5;

/// Error: the runs do not add up to all registers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Corrupted;

/// Consecutive registers with one value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Run {
    pub value: u8,
    pub len: usize,
    /// Encoded size in bytes.
    pub size: usize,
}

impl Run {
    /// Decodes the run at the beginning of `bytes`.
    fn read(bytes: &[u8]) -> Option<Self> {
        let first = usize::from(*bytes.first()?);
        Some(match first >> 6 {
            0b00 => Run { value: 0, len: (first & 0x3f) + 1, size: 1 },
            0b01 => {
                let second = usize::from(*bytes.get(1)?);
                Run { value: 0, len: ((first & 0x3f) << 8 | second) + 1, size: 2 }
            }
            _ => Run { value: (first >> 2 & 0x1f) as u8 + 1, len: (first & 0b11) + 1, size: 1 },
        })
    }
}

/// The runs in order. Ends early if a byte is missing.
pub(super) fn runs(mut bytes: &[u8]) -> impl Iterator<Item = Run> {
    std::iter::from_fn(move || {
        let run = Run::read(bytes)?;
        bytes = &bytes[run.size..];
        Some(run)
    })
}

/// Checks that the runs add up to all registers.
pub(super) fn check(bytes: &[u8]) -> Result<(), Corrupted> {
    let (registers, size) =
        runs(bytes).fold((0, 0), |(len, size), run| (len + run.len, size + run.size));
    if registers == REGISTERS && size == bytes.len() { Ok(()) } else { Err(Corrupted) }
}

/// Raises each of `registers` to its value here if that is higher.
pub(super) fn raise_all(registers: &mut Registers, bytes: &[u8]) -> Result<(), Corrupted> {
    check(bytes)?;
    let mut rest = &mut registers[..];
    for run in runs(bytes) {
        let (these, others) = rest.split_at_mut(run.len);
        if run.value > 0 {
            these.iter_mut().for_each(|value| *value = (*value).max(run.value));
        }
        rest = others;
    }
    Ok(())
}

/// The value of a register.
pub(super) fn get(bytes: &[u8], register: usize) -> Result<u8, Corrupted> {
    let mut end = 0;
    let covering = runs(bytes).find(|run| {
        end += run.len;
        register < end
    });
    covering.map(|run| run.value).ok_or(Corrupted)
}

/// Result of raising a register.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Raised {
    /// The register was at least as high.
    Not,
    Done,
    /// The runs would be too long, or the value exceeds [`VALUE_MAX`].
    Refused,
}

/// A run and the number of registers before it, where the search for a register begins. It saves
/// searching from the first run if registers are raised in ascending order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunPosition {
    at: usize,
    register: usize,
}

/// Raises a register to `value` if it is lower. The runs begin at `start` in `bytes`, which does
/// not grow beyond `len_max`.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    start: usize,
    place: &mut RunPosition,
    register: usize,
    value: u8,
    len_max: usize,
) -> Result<Raised, Corrupted> {
    if value > VALUE_MAX {
        return Ok(Raised::Refused);
    }
    if place.register > register || place.at < start {
        *place = RunPosition { at: start, register: 0 };
    }
    // The current run and the two before it.
    let mut trail = [*place; 3];
    let run = loop {
        let run = Run::read(&bytes[trail[0].at..]).ok_or(Corrupted)?;
        let here = trail[0];
        if register < here.register + run.len {
            break run;
        }
        let next = RunPosition { at: here.at + run.size, register: here.register + run.len };
        trail = [next, here, trail[1]];
    };
    let [here, before, farther] = trail;
    *place = farther;
    if run.value >= value {
        return Ok(Raised::Not);
    }
    let (mut replaced, mut len) = ([0; 5], 0);
    let left = register - here.register;
    push(&mut replaced, &mut len, run.value, left);
    push(&mut replaced, &mut len, value, 1);
    push(&mut replaced, &mut len, run.value, run.len - left - 1);
    if len > run.size && bytes.len() + len - run.size > len_max {
        return Ok(Raised::Refused);
    }
    bytes.splice(here.at..here.at + run.size, replaced[..len].iter().copied());
    join(bytes, before.at);
    Ok(Raised::Done)
}

/// Encodes a run, unless it is empty.
fn push(bytes: &mut [u8; 5], at: &mut usize, value: u8, len: usize) {
    let Some(more) = len.checked_sub(1) else { return };
    if value > 0 {
        bytes[*at] = values(value, len);
    } else if len <= SHORT_ZEROS_MAX {
        bytes[*at] = more as u8;
    } else {
        bytes[*at] = 0x40 | (more >> 8) as u8;
        bytes[*at + 1] = more as u8;
        *at += 1;
    }
    *at += 1;
}

fn values(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// Joins adjacent runs of equal value, from the run at `at` on.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_STEPS {
        let Some(run) = bytes.get(at..).and_then(Run::read) else { return };
        let next = bytes.get(at + run.size..).and_then(Run::read);
        match next.filter(|next| next.value == run.value && run.value > 0) {
            Some(next) if run.len + next.len <= VALUES_MAX => {
                bytes[at] = values(run.value, run.len + next.len);
                bytes.remove(at + 1);
            }
            _ => at += run.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(bytes: &mut Vec<u8>, register: usize, value: u8) -> Raised {
        raise(bytes, 0, &mut RunPosition::default(), register, value, 3000).unwrap()
    }

    #[test]
    fn a_run_is_split_and_neighbours_are_joined() {
        let mut bytes = EMPTY.to_vec();
        assert_eq!(raised(&mut bytes, 100, 3), Raised::Done);
        assert_eq!(bytes, [0x40, 99, 0x88, 0x40 | (16282u16 >> 8) as u8, 16282u16 as u8]);
        assert_eq!(raised(&mut bytes, 100, 3), Raised::Not);
        assert_eq!(raised(&mut bytes, 101, 3), Raised::Done);
        assert_eq!(runs(&bytes).nth(1), Some(Run { value: 3, len: 2, size: 1 }));
        assert_eq!(raised(&mut bytes, 0, 33), Raised::Refused);
        check(&bytes).unwrap();
    }

    #[test]
    fn what_does_not_add_up_is_corrupted() {
        for bytes in [&[][..], &[0x7f], &[0x7f, 0xfe], &[0x7f, 0xff, 0x00], &[0x7f, 0xff, 0x40]] {
            assert_eq!(check(bytes), Err(Corrupted));
            assert_eq!(raise_all(&mut [0; REGISTERS], bytes), Err(Corrupted));
        }
        assert_eq!(check(&EMPTY), Ok(()));
        assert_eq!(get(&[0x3f], 64), Err(Corrupted));
        let result = raise(&mut vec![0x3f], 0, &mut RunPosition::default(), 64, 1, 3000);
        assert_eq!(result, Err(Corrupted));
    }

    #[test]
    fn registers_are_what_they_were_raised_to_in_any_order() {
        let mut state = 1u64;
        let mut draw = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (state >> 33) as usize % bound
        };
        let (mut bytes, mut expected) = (EMPTY.to_vec(), [0u8; REGISTERS]);
        for _ in 0..1500 {
            let (register, value) = (draw(400), draw(32) as u8 + 1);
            let before = expected[register];
            expected[register] = before.max(value);
            let outcome = raised(&mut bytes, register, value);
            assert_eq!(outcome == Raised::Done, value > before);
        }
        let mut registers = [0; REGISTERS];
        raise_all(&mut registers, &bytes).unwrap();
        assert!(registers == expected);
        assert!((0..REGISTERS).all(|register| get(&bytes, register) == Ok(expected[register])));
    }

    #[test]
    fn a_place_kept_changes_nothing() {
        let (mut one, mut other) = (EMPTY.to_vec(), EMPTY.to_vec());
        for round in 0..4 {
            let mut place = RunPosition::default();
            for register in (0..600).filter(|register| register % (round + 2) != 1) {
                let value = (register * 7 / (round + 1) % 3 + round) as u8 + 1;
                raise(&mut one, 0, &mut place, register, value, 3000).unwrap();
                raise(&mut other, 0, &mut RunPosition::default(), register, value, 3000).unwrap();
            }
        }
        assert_eq!(one, other);
    }
}
