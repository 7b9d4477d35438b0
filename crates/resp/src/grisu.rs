//! Decimal digits of a double by Grisu2 (Loitsch, "Printing Floating-Point Numbers Quickly and
//! Accurately with Integers", 2010), with the powers of ten that Redis and Valkey scale by: the
//! digits are theirs, which for about one double in a thousand are not the shortest.

/// Most digits that a double has.
const DIGITS_MAX: usize = 18;

/// Exponent of the first of [`POWERS`], and the step from one to the next.
const POWER_FIRST: i32 = -348;
const POWER_STEP: i32 = 8;

/// Bounds of the binary exponent of a scaled double, so that its whole part has 32 bits at most.
const SCALED_MIN: i32 = -60;
const SCALED_MAX: i32 = -32;

/// Decimal digits and the power of ten to scale them by.
pub(crate) struct Decimal {
    digits: [u8; DIGITS_MAX],
    len: usize,
    /// The power of ten.
    pub exponent: i32,
}

/// A number `fraction * 2^exponent`.
#[derive(Clone, Copy)]
struct Scaled {
    fraction: u64,
    exponent: i32,
}

impl Scaled {
    fn new(fraction: u64, exponent: i32) -> Self {
        Scaled { fraction, exponent }
    }

    /// Returns the number with the top bit of the fraction set.
    fn normalized(self) -> Self {
        let shift = self.fraction.leading_zeros();
        Scaled::new(self.fraction << shift, self.exponent - shift as i32)
    }

    /// The product, its fraction rounded to 64 bits.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.fraction) * u128::from(other.fraction);
        let fraction = ((product + (1 << 63)) >> 64) as u64;
        Scaled::new(fraction, self.exponent + other.exponent + 64)
    }
}

impl Decimal {
    /// The digits of a positive, finite double.
    pub fn of(value: f64) -> Self {
        const FRACTION_BITS: u32 = 52;
        const HIDDEN: u64 = 1 << FRACTION_BITS;
        let (bits, biased) = (value.to_bits() & (HIDDEN - 1), value.to_bits() >> FRACTION_BITS);
        let value = match biased as i32 {
            0 => Scaled::new(bits, -1074),
            biased => Scaled::new(bits | HIDDEN, biased - 1075),
        };
        // Half way to the doubles above and below.
        let above = Scaled::new((value.fraction << 1) + 1, value.exponent - 1).normalized();
        // The doubles below a power of two are half as far apart.
        let closer = i32::from(value.fraction == HIDDEN);
        let lower = Scaled::new((value.fraction << (1 + closer)) - 1, value.exponent - 1 - closer);
        let shift = lower.exponent - above.exponent;
        let below = Scaled::new(lower.fraction << shift, above.exponent);
        let (power, power_exponent) = power_for(above.exponent);
        let (above, below) = (above.times(power), below.times(power));
        // The products are off by one at most: numbers between these are in the interval for sure.
        let (high, low) = (above.fraction - 1, below.fraction + 1);
        let target = value.normalized().times(power);
        let mut decimal = Decimal { digits: [0; DIGITS_MAX], len: 0, exponent: -power_exponent };
        decimal.generate(high, -above.exponent, high - low, high - target.fraction);
        decimal
    }

    /// The digits, each 0 to 9 in ASCII.
    pub fn digits(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    /// Appends digits of `high`, with `point` bits of fraction, until the remainder is at
    /// most `delta`; then lowers the last digit while that comes nearer to `high - distance`.
    fn generate(&mut self, high: u64, point: i32, delta: u64, distance: u64) {
        let one = 1 << point;
        let (mut whole, mut fraction) = (high >> point, high & (one - 1));
        let mut unit = 1_000_000_000_u64;
        for places in (0..10).rev() {
            self.push(whole / unit);
            whole %= unit;
            let rest = (whole << point) + fraction;
            if rest <= delta {
                self.exponent += places;
                return self.round(delta, rest, unit << point, distance);
            }
            unit /= 10;
        }
        let (mut delta, mut distance) = (delta, distance);
        for places in 1.. {
            fraction = fraction.wrapping_mul(10);
            delta = delta.wrapping_mul(10);
            distance = distance.wrapping_mul(10);
            self.push(fraction >> point);
            fraction &= one - 1;
            if fraction < delta || self.len == DIGITS_MAX {
                self.exponent -= places;
                return self.round(delta, fraction, one, distance);
            }
        }
    }

    /// Appends a digit, unless it would be a leading zero.
    fn push(&mut self, digit: u64) {
        if digit > 0 || self.len > 0 {
            self.digits[self.len] = b'0' + digit as u8;
            self.len += 1;
        }
    }

    fn round(&mut self, delta: u64, mut rest: u64, unit: u64, distance: u64) {
        let Some(last) = self.digits[..self.len].last_mut() else { return };
        while rest < distance
            && delta - rest >= unit
            && (rest + unit < distance || distance - rest > rest + unit - distance)
        {
            *last -= 1;
            rest += unit;
        }
    }
}

/// A power of ten that scales a number of this exponent and 64 bits as [`SCALED_MIN`] and
/// [`SCALED_MAX`] say, and its exponent.
fn power_for(exponent: i32) -> (Scaled, i32) {
    const LOG10_OF_2: f64 = std::f64::consts::LOG10_2;
    // Two powers fit some numbers: this guess decides, and so some digits.
    let guess = -f64::from(exponent + POWERS.len() as i32) * LOG10_OF_2 - f64::from(POWER_FIRST);
    let mut at = (guess / f64::from(POWER_STEP)) as usize;
    loop {
        let power = POWER_FIRST + POWER_STEP * at as i32;
        let scale = Scaled::new(POWERS[at], binary_exponent(power));
        match exponent + scale.exponent + 64 {
            ..SCALED_MIN => at += 1,
            SCALED_MIN..=SCALED_MAX => return (scale, power),
            _ => at -= 1,
        }
    }
}

/// The binary exponent of a power of ten with a fraction of 64 bits.
fn binary_exponent(power: i32) -> i32 {
    const LOG2_OF_10_16: i32 = 217_706;
    ((power * LOG2_OF_10_16) >> 16) - 63
}

/// The fractions of 10^-348, 10^-340 ... 10^340, rounded to 64 bits.
#[rustfmt::skip]
const POWERS: [u64; 87] = [
    0xfa8f_d5a0_081c_0288, 0xbaae_e17f_a23e_bf76, 0x8b16_fb20_3055_ac76, 0xcf42_894a_5dce_35ea,
    0x9a6b_b0aa_5565_3b2d, 0xe61a_cf03_3d1a_45df, 0xab70_fe17_c79a_c6ca, 0xff77_b1fc_bebc_dc4f,
    0xbe56_91ef_416b_d60c, 0x8dd0_1fad_907f_fc3c, 0xd351_5c28_3155_9a83, 0x9d71_ac8f_ada6_c9b5,
    0xea9c_2277_23ee_8bcb, 0xaecc_4991_4078_536d, 0x823c_1279_5db6_ce57, 0xc210_9436_4dfb_5637,
    0x9096_ea6f_3848_984f, 0xd774_85cb_2582_3ac7, 0xa086_cfcd_97bf_97f4, 0xef34_0a98_172a_ace5,
    0xb238_67fb_2a35_b28e, 0x84c8_d4df_d2c6_3f3b, 0xc5dd_4427_1ad3_cdba, 0x936b_9fce_bb25_c996,
    0xdbac_6c24_7d62_a584, 0xa3ab_6658_0d5f_daf6, 0xf3e2_f893_dec3_f126, 0xb5b5_ada8_aaff_80b8,
    0x8762_5f05_6c7c_4a8b, 0xc9bc_ff60_34c1_3053, 0x964e_858c_91ba_2655, 0xdff9_7724_7029_7ebd,
    0xa6df_bd9f_b8e5_b88f, 0xf8a9_5fcf_8874_7d94, 0xb944_7093_8fa8_9bcf, 0x8a08_f0f8_bf0f_156b,
    0xcdb0_2555_6531_31b6, 0x993f_e2c6_d07b_7fac, 0xe45c_10c4_2a2b_3b06, 0xaa24_2499_6973_92d3,
    0xfd87_b5f2_8300_ca0e, 0xbce5_0864_9211_1aeb, 0x8cbc_cc09_6f50_88cc, 0xd1b7_1758_e219_652c,
    0x9c40_0000_0000_0000, 0xe8d4_a510_0000_0000, 0xad78_ebc5_ac62_0000, 0x813f_3978_f894_0984,
    0xc097_ce7b_c907_15b3, 0x8f7e_32ce_7bea_5c70, 0xd5d2_38a4_abe9_8068, 0x9f4f_2726_179a_2245,
    0xed63_a231_d4c4_fb27, 0xb0de_6538_8cc8_ada8, 0x83c7_088e_1aab_65db, 0xc45d_1df9_4271_1d9a,
    0x924d_692c_a61b_e758, 0xda01_ee64_1a70_8dea, 0xa26d_a399_9aef_774a, 0xf209_787b_b47d_6b85,
    0xb454_e4a1_79dd_1877, 0x865b_8692_5b9b_c5c2, 0xc835_53c5_c896_5d3d, 0x952a_b45c_fa97_a0b3,
    0xde46_9fbd_99a0_5fe3, 0xa59b_c234_db39_8c25, 0xf6c6_9a72_a398_9f5c, 0xb7dc_bf53_54e9_bece,
    0x88fc_f317_f222_41e2, 0xcc20_ce9b_d35c_78a5, 0x9816_5af3_7b21_53df, 0xe2a0_b5dc_971f_303a,
    0xa8d9_d153_5ce3_b396, 0xfb9b_7cd9_a4a7_443c, 0xbb76_4c4c_a7a4_4410, 0x8bab_8eef_b640_9c1a,
    0xd01f_ef10_a657_842c, 0x9b10_a4e5_e991_3129, 0xe710_9bfb_a19c_0c9d, 0xac28_20d9_623b_f429,
    0x8044_4b5e_7aa7_cf85, 0xbf21_e440_03ac_dd2d, 0x8e67_9c2f_5e44_ff8f, 0xd433_179d_9c8c_b841,
    0x9e19_db92_b4e3_1ba9, 0xeb96_bf6e_badf_77d9, 0xaf87_023b_9bf0_ee6b,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The top 64 bits of a power of ten, rounded, by long arithmetic.
    fn exact(power: i32) -> u64 {
        // Words of 32 bits, the lowest first.
        let mut number = vec![1_u32];
        let scale = |number: &mut Vec<u32>, by: u64| {
            let mut carry = 0;
            for word in number.iter_mut() {
                carry += u64::from(*word) * by;
                *word = carry as u32;
                carry >>= 32;
            }
            number.push(carry as u32);
        };
        let bit = |number: &[u32], at: usize| number[at / 32] >> (at % 32) & 1;
        if power >= 0 {
            // Bits below the point, to round by.
            number.splice(..0, [0; 3]);
            (0..power).for_each(|_| scale(&mut number, 10));
        } else {
            // 2^2400 / 10^-power.
            number.splice(..0, [0; 75]);
            for _ in power..0 {
                let mut rest = 0;
                for word in number.iter_mut().rev() {
                    rest = rest << 32 | u64::from(*word);
                    *word = (rest / 10) as u32;
                    rest %= 10;
                }
            }
        }
        let top = (0..32 * number.len()).rev().find(|&at| bit(&number, at) == 1).unwrap();
        let fraction =
            (top - 63..=top).rev().fold(0, |sum, at| sum << 1 | u64::from(bit(&number, at)));
        fraction + u64::from(bit(&number, top - 64))
    }

    #[test]
    fn powers_are_those_of_ten() {
        for (at, &fraction) in POWERS.iter().enumerate() {
            let power = POWER_FIRST + POWER_STEP * at as i32;
            assert_eq!(fraction, exact(power), "10^{power}");
            let log2 = f64::from(power) * std::f64::consts::LOG2_10;
            assert_eq!(binary_exponent(power), log2.floor() as i32 - 63, "10^{power}");
        }
    }

    proptest! {
        #[test]
        fn digits_read_back_the_same(bits in 1..0x7ff0_0000_0000_0000_u64) {
            let value = f64::from_bits(bits);
            let decimal = Decimal::of(value);
            let digits = str::from_utf8(decimal.digits()).unwrap();
            let back: f64 = format!("{digits}e{}", decimal.exponent).parse().unwrap();
            prop_assert_eq!(back.to_bits(), bits);
            prop_assert!((1..=17).contains(&digits.len()), "{}", digits);
        }
    }
}
