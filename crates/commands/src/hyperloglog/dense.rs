//! Dense registers: six bits each, packed from the lowest bit of the first byte on.

use super::sketch::{REGISTERS, Registers};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Size of all registers in bytes.
pub(super) const LEN: usize = REGISTERS * BITS / 8;

const BITS: usize = 6;
const MASK: u16 = 0x3f;
/// Eight registers take six bytes.
const GROUP: usize = 6;

/// Whether eight registers are unpacked at a time; `PFDEBUG SIMD OFF` unpacks them one by one.
pub(super) static BY_WORD: AtomicBool = AtomicBool::new(true);

/// Value of a register.
pub(super) fn get(packed: &[u8], register: usize) -> u8 {
    let (at, shift) = (register * BITS / 8, register * BITS % 8);
    ((pair(packed, at) >> shift) & MASK) as u8
}

/// The bytes that change if a register is set to a value: their offset, content and number.
pub(super) fn patch(packed: &[u8], register: usize, value: u8) -> (usize, [u8; 2], usize) {
    let (at, shift) = (register * BITS / 8, register * BITS % 8);
    let pair = pair(packed, at) & !(MASK << shift) | u16::from(value) << shift;
    (at, pair.to_le_bytes(), if shift + BITS > 8 { 2 } else { 1 })
}

/// The two bytes at `at`, which contain a register. The last register is in a single byte.
fn pair(packed: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([packed[at], packed.get(at + 1).copied().unwrap_or(0)])
}

/// Raises each register to its packed value if that is higher.
pub(super) fn raise(registers: &mut Registers, packed: &[u8]) {
    if !BY_WORD.load(Relaxed) {
        for (register, value) in registers.iter_mut().enumerate() {
            *value = (*value).max(get(packed, register));
        }
        return;
    }
    let (groups, _) = packed.as_chunks::<GROUP>();
    let (eights, _) = registers.as_chunks_mut::<8>();
    for (eight, group) in eights.iter_mut().zip(groups) {
        let unpacked = spread(group);
        eight.iter_mut().zip(unpacked).for_each(|(old, new)| *old = (*old).max(new));
    }
}

/// Packs all registers.
pub(super) fn pack(registers: &Registers) -> [u8; LEN] {
    let mut packed = [0; LEN];
    let (groups, _) = packed.as_chunks_mut::<GROUP>();
    let (eights, _) = registers.as_chunks::<8>();
    for (group, eight) in groups.iter_mut().zip(eights) {
        let bits = eight.iter().rev().fold(0u64, |bits, value| bits << BITS | u64::from(*value));
        group.copy_from_slice(&bits.to_le_bytes()[..GROUP]);
    }
    packed
}

/// Unpacks eight registers into a byte each.
fn spread(group: &[u8; GROUP]) -> [u8; 8] {
    let [a, b, c, d, e, f] = *group;
    let bits = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    // Four registers to each half, two to each quarter, one to each byte.
    let halves = bits & 0xff_ffff | (bits & 0xffff_ff00_0000) << 8;
    let quarters = halves & 0x0fff_0000_0fff | (halves & 0x00ff_f000_00ff_f000) << 4;
    let bytes = quarters & 0x003f_003f_003f_003f | (quarters & 0x0fc0_0fc0_0fc0_0fc0) << 2;
    bytes.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_read_as_they_were_packed() {
        let mut registers = [0; REGISTERS];
        for (i, value) in registers.iter_mut().enumerate() {
            *value = (i * 37 % 64) as u8;
        }
        let packed = pack(&registers);
        let mut unpacked = [0; REGISTERS];
        raise(&mut unpacked, &packed);
        assert!(unpacked == registers);
        assert!((0..REGISTERS).all(|i| get(&packed, i) == registers[i]));
        raise(&mut unpacked, &[0; LEN]);
        assert!(unpacked == registers);
    }

    #[test]
    fn a_patch_changes_one_register() {
        let registers = [0x2a; REGISTERS];
        for register in [0, 1, 2, 3, 4, REGISTERS - 2, REGISTERS - 1] {
            let mut packed = pack(&registers);
            let (at, bytes, len) = patch(&packed, register, 0x15);
            packed[at..at + len].copy_from_slice(&bytes[..len]);
            let mut expected = registers;
            expected[register] = 0x15;
            assert!(packed == pack(&expected), "{register}");
        }
    }
}
