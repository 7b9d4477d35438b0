//! Products and squared distances of vectors of floats of 16, 32 and 64 bits.
//!
//! Vectors are little-endian bytes without alignment. Components of 16 and 32 bits are summed up in
//! 32 bits. The portable code is compiled once more for AVX2, which the compiler vectorises.
//! Products are rounded before they are added, so the results of all processors are the same.

use std::ops::{Add, Mul, Sub};

/// Number of sums of a kernel: four registers.
const LANES: usize = 32;

/// Formats of a component.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Element {
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
    /// 16 bits, of which 5 are the exponent.
    F16,
    /// The upper half of 32 bits.
    Bf16,
}

/// Numbers that are summed up.
trait Number:
    Copy + Default + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Into<f64>
{
}

impl Number for f32 {}
impl Number for f64 {}

/// Converts the bits of a 16-bit float, without a branch.
#[inline(always)]
fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff) << 13;
    // The exponent's bias differs by 112; the product is exact for subnormal numbers too.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let is_special = magnitude >= 0x0f80_0000;
    let value = if is_special { magnitude | 0x7f80_0000 } else { scaled };
    f32::from_bits(value | u32::from(bits & 0x8000) << 16)
}

/// Rounds to a 16-bit float, halves to even.
fn f32_to_f16(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude >= 0x7f80_0000 {
        let is_nan = magnitude > 0x7f80_0000;
        return sign | 0x7c00 | u16::from(is_nan) << 9;
    }
    if magnitude >= 0x4780_0000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Subnormal: the sum with 0.5 rounds at the last of its bits.
        let rounded = f32::from_bits(magnitude) + 0.5;
        return sign | (rounded.to_bits() - 0x3f00_0000) as u16;
    }
    let is_odd = magnitude >> 13 & 1;
    let rounded = (magnitude + 0x0fff + is_odd) >> 13;
    sign | (rounded - (112 << 10)) as u16
}

/// Rounds to the upper half of a 32-bit float, halves to even.
fn f32_to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    if number.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let is_odd = bits >> 16 & 1;
    ((bits + 0x7fff + is_odd) >> 16) as u16
}

#[inline(always)]
fn read_f32(bytes: &[u8; 4]) -> f32 {
    f32::from_le_bytes(*bytes)
}

#[inline(always)]
fn read_f64(bytes: &[u8; 8]) -> f64 {
    f64::from_le_bytes(*bytes)
}

#[inline(always)]
fn read_f16(bytes: &[u8; 2]) -> f32 {
    f16_to_f32(u16::from_le_bytes(*bytes))
}

#[inline(always)]
fn read_bf16(bytes: &[u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16)
}

/// The sum of a term of each pair of components.
#[inline(always)]
fn sum<const N: usize, S: Number>(
    (a, b): (&[u8], &[u8]),
    read: impl Fn(&[u8; N]) -> S,
    term: impl Fn(S, S) -> S,
) -> f64 {
    let (a, b) = (a.as_chunks::<N>().0, b.as_chunks::<N>().0);
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [S::default(); LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] = sums[lane] + term(read(&a[lane]), read(&b[lane]));
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] = sums[lane] + sums[lane + width];
        }
        width /= 2;
    }
    let rest = a_rest.iter().zip(b_rest);
    rest.fold(sums[0], |sum, (a, b)| sum + term(read(a), read(b))).into()
}

#[inline(always)]
fn product_of<const N: usize, S: Number>(
    pair: (&[u8], &[u8]),
    read: impl Fn(&[u8; N]) -> S,
) -> f64 {
    sum(pair, read, |a, b| a * b)
}

#[inline(always)]
fn square_of<const N: usize, S: Number>(pair: (&[u8], &[u8]), read: impl Fn(&[u8; N]) -> S) -> f64 {
    sum(pair, read, |a, b| (a - b) * (a - b))
}

/// Kernels for all formats.
macro_rules! kernels {
    ($($features:literal)?) => {
        use super::*;

        $(#[target_feature(enable = $features)])?
        pub fn product(element: Element, pair: (&[u8], &[u8])) -> f64 {
            match element {
                Element::F32 => product_of(pair, read_f32),
                Element::F64 => product_of(pair, read_f64),
                Element::F16 => product_of(pair, read_f16),
                Element::Bf16 => product_of(pair, read_bf16),
            }
        }

        $(#[target_feature(enable = $features)])?
        pub fn square(element: Element, pair: (&[u8], &[u8])) -> f64 {
            match element {
                Element::F32 => square_of(pair, read_f32),
                Element::F64 => square_of(pair, read_f64),
                Element::F16 => square_of(pair, read_f16),
                Element::Bf16 => square_of(pair, read_bf16),
            }
        }
    };
}

mod portable {
    kernels!();
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    kernels!("avx2");
}

impl Element {
    /// Bytes of a component.
    pub const fn bytes(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::F64 => 8,
            Element::F16 | Element::Bf16 => 2,
        }
    }

    /// Sum of the products of two vectors of the same length.
    #[inline]
    pub fn product(self, a: &[u8], b: &[u8]) -> f64 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { avx2::product(self, (a, b)) };
        }
        portable::product(self, (a, b))
    }

    /// Square of the Euclidean distance of two vectors of the same length.
    #[inline]
    pub fn square_distance(self, a: &[u8], b: &[u8]) -> f64 {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { avx2::square(self, (a, b)) };
        }
        portable::square(self, (a, b))
    }

    /// Divides a vector by its length. Components of a zero vector become NaN.
    pub fn normalise(self, vector: &mut [u8]) {
        let norm = match self {
            Element::F64 => self.product(vector, vector).sqrt(),
            _ => f64::from((self.product(vector, vector) as f32).sqrt()),
        };
        match self {
            Element::F32 => {
                each(vector, |bytes| *bytes = (read_f32(bytes) / norm as f32).to_le_bytes())
            }
            Element::F64 => each(vector, |bytes| *bytes = (read_f64(bytes) / norm).to_le_bytes()),
            Element::F16 => each(vector, |bytes| {
                *bytes = f32_to_f16(read_f16(bytes) / norm as f32).to_le_bytes();
            }),
            Element::Bf16 => each(vector, |bytes| {
                *bytes = f32_to_bf16(read_bf16(bytes) / norm as f32).to_le_bytes();
            }),
        }
    }

    /// The components in 32 bits.
    pub fn floats(self, vector: &[u8]) -> Vec<f32> {
        match self {
            Element::F32 => vector.as_chunks().0.iter().map(read_f32).collect(),
            Element::F64 => vector.as_chunks().0.iter().map(|it| read_f64(it) as f32).collect(),
            Element::F16 => vector.as_chunks().0.iter().map(read_f16).collect(),
            Element::Bf16 => vector.as_chunks().0.iter().map(read_bf16).collect(),
        }
    }
}

fn each<const N: usize>(vector: &mut [u8], change: impl Fn(&mut [u8; N])) {
    vector.as_chunks_mut::<N>().0.iter_mut().for_each(change);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn floats_of_16_bits_are_those_of_the_standard() {
        let cases: [(u16, f32); 10] = [
            (0x0000, 0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3555, 0.333_251_95),
            (0x3c00, 1.0),
            (0x7bff, 65_504.0),
            (0x7c00, f32::INFINITY),
            (0xc000, -2.0),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (bits, number) in cases {
            assert_eq!((f16_to_f32(bits), f32_to_f16(number)), (number, bits));
        }
        assert!(f16_to_f32(0x7e00).is_nan() && f16_to_f32(f32_to_f16(f32::NAN)).is_nan());
        for bits in (0..=u16::MAX).filter(|bits| bits & 0x7c00 != 0x7c00) {
            assert_eq!(f32_to_f16(f16_to_f32(bits)), bits);
        }
        // Halves are rounded to even, and what is too large to infinity.
        for (number, bits) in [
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (65_519.0, 0x7bff),
            (65_520.0, 0x7c00),
            (1e9, 0x7c00),
            (2.980_232_2e-8, 0),
            (8.940_697e-8, 2),
        ] {
            assert_eq!(f32_to_f16(number), bits, "{number}");
        }
        assert_eq!(f32_to_bf16(1.0 + 1.0 / 256.0), 0x3f80);
        assert_eq!(f32_to_bf16(1.0 + 3.0 / 256.0), 0x3f82);
        assert!(read_bf16(&f32_to_bf16(f32::NAN).to_le_bytes()).is_nan());
    }

    fn encoded(element: Element, numbers: &[i8]) -> Vec<u8> {
        let each = numbers.iter().map(|&number| f32::from(number));
        match element {
            Element::F32 => each.flat_map(f32::to_le_bytes).collect(),
            Element::F64 => each.flat_map(|number| f64::from(number).to_le_bytes()).collect(),
            Element::F16 => each.flat_map(|number| f32_to_f16(number).to_le_bytes()).collect(),
            Element::Bf16 => each.flat_map(|number| f32_to_bf16(number).to_le_bytes()).collect(),
        }
    }

    proptest! {
        #[test]
        fn sums_are_exact_for_small_integers(
            pairs in prop::collection::vec((any::<i8>(), any::<i8>()), 0..150),
        ) {
            let (a, b): (Vec<i8>, Vec<i8>) = pairs.iter().copied().unzip();
            let product: i64 = pairs.iter().map(|&(a, b)| i64::from(a) * i64::from(b)).sum();
            let square: i64 =
                pairs.iter().map(|&(a, b)| (i64::from(a) - i64::from(b)).pow(2)).sum();
            for element in [Element::F32, Element::F64, Element::F16, Element::Bf16] {
                let (x, y) = (encoded(element, &a), encoded(element, &b));
                prop_assert_eq!(element.product(&x, &y), product as f64);
                prop_assert_eq!(element.square_distance(&x, &y), square as f64);
                let floats: Vec<f32> = a.iter().map(|&a| f32::from(a)).collect();
                prop_assert_eq!(element.floats(&x), floats);
            }
        }
    }

    proptest! {
        #[test]
        fn results_do_not_depend_on_the_processor(
            bytes in prop::collection::vec(any::<(u8, u8)>(), 0..600),
        ) {
            let (a, b): (Vec<u8>, Vec<u8>) = bytes.into_iter().unzip();
            for element in [Element::F32, Element::F64, Element::F16, Element::Bf16] {
                let products = [element.product(&a, &b), portable::product(element, (&a, &b))];
                let squares =
                    [element.square_distance(&a, &b), portable::square(element, (&a, &b))];
                for [fast, slow] in [products, squares] {
                    prop_assert!(fast == slow || fast.is_nan() && slow.is_nan());
                }
            }
        }
    }

    #[test]
    fn normalised_vectors_have_length_one() {
        for element in [Element::F32, Element::F64, Element::F16, Element::Bf16] {
            let mut vector = encoded(element, &[3, -4]);
            element.normalise(&mut vector);
            let length = element.product(&vector, &vector);
            assert!((length - 1.0).abs() < 0.01, "{element:?} {length}");
            let mut zero = encoded(element, &[0, 0]);
            element.normalise(&mut zero);
            assert!(element.product(&zero, &zero).is_nan());
        }
    }
}
