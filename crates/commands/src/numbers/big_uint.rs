//! Natural numbers of any size, with the operations that [`crate::numbers::extended`] needs.

/// A natural number.
#[derive(Clone, Debug)]
pub(crate) struct BigUint {
    /// Least significant first; the last is not 0.
    limbs: Vec<u32>,
}

/// The largest power of ten that a limb holds.
const LIMB_POWER: u32 = 1_000_000_000;
const LIMB_DIGITS: usize = 9;

impl From<u128> for BigUint {
    fn from(n: u128) -> Self {
        let limbs = (0..4).map(|i| (n >> (32 * i)) as u32).collect();
        BigUint { limbs }.trimmed()
    }
}

impl BigUint {
    /// Creates a number from decimal digits, most significant first.
    pub fn from_digits(digits: &[u8]) -> Self {
        let mut number = BigUint { limbs: Vec::new() };
        for chunk in digits.chunks(LIMB_DIGITS) {
            let value = chunk.iter().fold(0, |n, &digit| n * 10 + u32::from(digit));
            number.multiply_add(10u32.pow(chunk.len() as u32), value);
        }
        number
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    /// Number of significant bits.
    pub fn bits(&self) -> usize {
        self.limbs.last().map_or(0, |top| self.limbs.len() * 32 - top.leading_zeros() as usize)
    }

    /// Multiplies by ten to the power of `exponent`.
    pub fn multiply_power_of_ten(&mut self, exponent: usize) {
        for _ in 0..exponent / LIMB_DIGITS {
            self.multiply_add(LIMB_POWER, 0);
        }
        self.multiply_add(10u32.pow((exponent % LIMB_DIGITS) as u32), 0);
    }

    /// Multiplies by two to the power of `shift`.
    pub fn shift_left(&mut self, shift: usize) {
        if self.is_zero() {
            return;
        }
        let bits = (shift % 32) as u32;
        if bits > 0 {
            let mut carry = 0;
            for limb in &mut self.limbs {
                let wide = u64::from(*limb) << bits | carry;
                *limb = wide as u32;
                carry = wide >> 32;
            }
            if carry > 0 {
                self.limbs.push(carry as u32);
            }
        }
        self.limbs.splice(0..0, std::iter::repeat_n(0, shift / 32));
    }

    /// Divides by `divisor`, which is not 0; keeps the remainder. The quotient has at most `bits`
    /// bits, at most 128.
    pub fn divide_small_quotient(&mut self, mut divisor: Self, bits: usize) -> u128 {
        divisor.shift_left(bits);
        let mut quotient = 0;
        for _ in 0..=bits {
            quotient <<= 1;
            if self.subtract_if_possible(&divisor) {
                quotient |= 1;
            }
            divisor.halve();
        }
        quotient
    }

    /// The decimal digits.
    pub fn to_decimal(&self) -> Vec<u8> {
        let mut chunks = Vec::new();
        let mut rest = self.clone();
        while !rest.is_zero() {
            chunks.push(rest.divide_limb(LIMB_POWER));
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:0LIMB_DIGITS$}"));
        }
        text.into_bytes()
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.limbs {
            let wide = u64::from(*limb) * u64::from(factor) + carry;
            *limb = wide as u32;
            carry = wide >> 32;
        }
        if carry > 0 {
            self.limbs.push(carry as u32);
        }
    }

    /// Divides and returns the remainder.
    fn divide_limb(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for limb in self.limbs.iter_mut().rev() {
            let wide = rest << 32 | u64::from(*limb);
            *limb = (wide / u64::from(divisor)) as u32;
            rest = wide % u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for limb in self.limbs.iter_mut().rev() {
            let low = *limb & 1;
            *limb = *limb >> 1 | carry << 31;
            carry = low;
        }
        self.trim();
    }

    fn subtract_if_possible(&mut self, other: &Self) -> bool {
        let lengths = self.limbs.len().cmp(&other.limbs.len());
        if lengths.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev())).is_lt() {
            return false;
        }
        let mut borrow = false;
        for (i, limb) in self.limbs.iter_mut().enumerate() {
            let subtrahend = other.limbs.get(i).copied().unwrap_or(0);
            let (difference, first) = limb.overflowing_sub(subtrahend);
            let (difference, second) = difference.overflowing_sub(u32::from(borrow));
            *limb = difference;
            borrow = first || second;
        }
        self.trim();
        true
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    fn trimmed(mut self) -> Self {
        self.trim();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_back() {
        for digits in ["0", "7", "4294967296", "1000000000000000000000000000000000000000000001"] {
            let values: Vec<u8> = digits.bytes().map(|c| c - b'0').collect();
            assert_eq!(BigUint::from_digits(&values).to_decimal(), digits.as_bytes());
        }
    }

    #[test]
    fn shifting_and_dividing_undo_multiplying() {
        let n = 0x1234_5678_9abc_def0_1357_u128;
        let mut number = BigUint::from(n);
        number.multiply_power_of_ten(40);
        number.shift_left(97);
        let mut divisor = BigUint::from(1);
        divisor.multiply_power_of_ten(40);
        divisor.shift_left(97);
        assert_eq!(BigUint::from(1 << 97).bits(), 98);
        number.multiply_add(1, 5);
        assert_eq!(number.divide_small_quotient(divisor, 80), n);
        assert_eq!(number.to_decimal(), b"5");
    }
}
