//! Documents in CBOR (RFC 8949), as RedisJSON 8.8 and later write them to files: arrays of numbers
//! are typed arrays (RFC 8746), of little endian.
//!
//! Values are converted to text. The text's parser has the limits and handles duplicate names.

use crate::float::FloatType;
use crate::number::Number;
use crate::parse::DEPTH_MAX;
use crate::print::{print_number, print_string};
use half::{bf16, f16};

/// bfloat16 has no tag of its own in RFC 8746: this is RedisJSON's.
const BFLOAT16: u64 = 0x1_0000;

/// Head of an item: its major type and its argument.
struct Head {
    major: u8,
    /// The low five bits of the first byte.
    info: u8,
    argument: u64,
}

/// Bytes that are being read.
struct Reader<'b> {
    rest: &'b [u8],
    out: Vec<u8>,
}

/// The text of a document in CBOR; none if it is broken, or has what JSON has not.
pub fn text_of_cbor(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader { rest: bytes, out: Vec::with_capacity(bytes.len()) };
    reader.item(0)?;
    reader.rest.is_empty().then_some(reader.out)
}

impl<'b> Reader<'b> {
    fn take(&mut self, len: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn head(&mut self) -> Option<Head> {
        let first = self.take(1)?[0];
        let (major, info) = (first >> 5, first & 31);
        let argument = match info {
            0..24 => u64::from(info),
            24..28 => {
                let bytes = self.take(1 << (info - 24))?;
                bytes.iter().fold(0, |argument, byte| argument << 8 | u64::from(*byte))
            }
            _ => return None,
        };
        Some(Head { major, info, argument })
    }

    fn item(&mut self, depth: usize) -> Option<()> {
        let head = self.head()?;
        match head.major {
            0 => self.number(unsigned(head.argument)),
            1 => self.number(Number::Integer(-1 - i64::try_from(head.argument).ok()?)),
            3 => self.string(head.argument)?,
            4 | 5 if depth > DEPTH_MAX => return None,
            4 => self.array(head.argument, depth)?,
            5 => self.object(head.argument, depth)?,
            6 => self.typed_array(head.argument)?,
            7 => self.simple(&head)?,
            _ => return None,
        }
        Some(())
    }

    fn number(&mut self, number: Number) {
        print_number(number, &mut self.out);
    }

    fn string(&mut self, len: u64) -> Option<()> {
        let text = str::from_utf8(self.take(len)?).ok()?;
        print_string(text.as_bytes(), &mut self.out);
        Some(())
    }

    fn array(&mut self, count: u64, depth: usize) -> Option<()> {
        self.out.push(b'[');
        self.separated(count, |reader| reader.item(depth + 1))?;
        self.out.push(b']');
        Some(())
    }

    fn object(&mut self, count: u64, depth: usize) -> Option<()> {
        self.out.push(b'{');
        self.separated(count, |reader| {
            let name = reader.head().filter(|head| head.major == 3)?;
            reader.string(name.argument)?;
            reader.out.push(b':');
            reader.item(depth + 1)
        })?;
        self.out.push(b'}');
        Some(())
    }

    /// Writes `count` parts with commas between them.
    fn separated(&mut self, count: u64, part: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        for index in 0..count {
            if index > 0 {
                self.out.push(b',');
            }
            part(self)?;
        }
        Some(())
    }

    fn typed_array(&mut self, tag: u64) -> Option<()> {
        let bytes = self.head().filter(|head| head.major == 2)?;
        let bytes = self.take(bytes.argument)?;
        match tag {
            64 => self.numbers(bytes, |[byte]| unsigned(byte.into())),
            69 => self.numbers(bytes, |it| unsigned(u16::from_le_bytes(it).into())),
            70 => self.numbers(bytes, |it| unsigned(u32::from_le_bytes(it).into())),
            71 => self.numbers(bytes, |it| unsigned(u64::from_le_bytes(it))),
            72 => self.numbers(bytes, |it| Number::Integer(i8::from_le_bytes(it).into())),
            77 => self.numbers(bytes, |it| Number::Integer(i16::from_le_bytes(it).into())),
            78 => self.numbers(bytes, |it| Number::Integer(i32::from_le_bytes(it).into())),
            79 => self.numbers(bytes, |it| Number::Integer(i64::from_le_bytes(it))),
            84 => self.floats(bytes, FloatType::Fp16, |it| f16::from_le_bytes(it).into()),
            85 => self.floats(bytes, FloatType::Fp32, |it| f32::from_le_bytes(it).into()),
            86 => self.floats(bytes, FloatType::Fp64, f64::from_le_bytes),
            BFLOAT16 => self.floats(bytes, FloatType::Bf16, |it| bf16::from_le_bytes(it).into()),
            _ => None,
        }
    }

    fn numbers<const N: usize>(&mut self, bytes: &[u8], of: fn([u8; N]) -> Number) -> Option<()> {
        self.elements(bytes, |bytes| Some(of(bytes)))
    }

    /// Floats have the shortest decimals that their type tells apart.
    fn floats<const N: usize>(
        &mut self,
        bytes: &[u8],
        of: FloatType,
        value: fn([u8; N]) -> f64,
    ) -> Option<()> {
        self.elements(bytes, |bytes| of.round(value(bytes)).map(Number::Double))
    }

    fn elements<const N: usize>(
        &mut self,
        bytes: &[u8],
        of: impl Fn([u8; N]) -> Option<Number>,
    ) -> Option<()> {
        let (elements, rest) = bytes.as_chunks::<N>();
        self.out.push(b'[');
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.number(of(*element)?);
        }
        self.out.push(b']');
        rest.is_empty().then_some(())
    }

    fn simple(&mut self, head: &Head) -> Option<()> {
        let float = match head.info {
            25 => f16::from_bits(head.argument as u16).into(),
            26 => f32::from_bits(head.argument as u32).into(),
            27 => f64::from_bits(head.argument),
            _ => {
                let text: &[u8] = match head.argument {
                    20 => b"false",
                    21 => b"true",
                    22 => b"null",
                    _ => return None,
                };
                self.out.extend_from_slice(text);
                return Some(());
            }
        };
        match f64::is_finite(float) {
            true => self.number(Number::Double(float)),
            false => self.out.extend_from_slice(b"null"),
        }
        Some(())
    }
}

fn unsigned(number: u64) -> Number {
    i64::try_from(number).map_or(Number::Unsigned(number), Number::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(hex: &str) -> Option<String> {
        let digits: Vec<u8> =
            hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        text_of_cbor(&bytes).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn documents_of_redisjson_are_read() {
        let cases = [
            ("a2 6161 d848 43 010203 6162 6178", r#"{"a":[1,2,3],"b":"x"}"#),
            ("86 f6 01 f5 f93e00 6178 20", r#"[null,1,true,1.5,"x",-1]"#),
            ("1b ffffffffffffffff", "18446744073709551615"),
            ("d847 48 ffffffffffffffff", "[18446744073709551615]"),
            ("d84d 44 d4fe0100", "[-300,1]"),
            ("d84e 44 70110100", "[70000]"),
            ("d854 42 662e", "[0.1]"),
            ("da00010000 44 c03f2040", "[1.5,2.5]"),
            ("d855 44 cdcccc3d", "[0.1]"),
            ("d856 48 9a9999999999b93f", "[0.1]"),
            ("f93c00", "1.0"),
            ("f97c00", "null"),
            ("a0", "{}"),
            ("80", "[]"),
        ];
        for (hex, expected) in cases {
            assert_eq!(text(hex).as_deref(), Some(expected), "{hex}");
        }
    }

    #[test]
    fn what_is_broken_is_refused() {
        let broken = [
            "",
            "8201",
            "01 01",
            "9bffffffffffffffff",
            "7bffffffffffffffff",
            "61ff",
            "a10102",
            "a1",
            "41ff",
            "c1 01",
            "d84d 43 d4fe01",
            "d854 42 007c",
            "9f ff",
            "f7",
            "3b ffffffffffffffff",
        ];
        for hex in broken {
            assert_eq!(text(hex), None, "{hex}");
        }
        assert_eq!(text(&"81".repeat(100_000)), None);
    }
}
