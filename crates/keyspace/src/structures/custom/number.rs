//! Numbers of varying length: seven bits a byte, the lowest first, the highest bit set in all bytes
//! but the last (LEB128). Signed ones are folded so that those near 0 are short.

/// Bytes that are not what belongs there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Malformed;

/// Appends a number.
#[inline]
pub fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a signed number.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, n: i64) {
    put(out, (n << 1 ^ n >> 63) as u64);
}

/// Appends bytes behind their number.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes that are taken from their beginning.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// Takes the next byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (&byte, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(byte)
    }

    /// This many bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number of eight bytes.
    pub fn fixed(&mut self) -> Result<u64, Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*taken))
    }

    /// A number.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(Malformed)
    }

    /// A signed number.
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let n = self.number()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// A number that is a size in memory.
    ///
    /// # Errors
    /// If there is none.
    #[inline]
    pub fn size(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.number()?).map_err(|_| Malformed)
    }

    /// Nothing: all was taken.
    ///
    /// # Errors
    /// If bytes are left.
    #[inline]
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    /// Bytes behind their number.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written() {
        let mut out = Vec::new();
        let numbers = [0, 1, 127, 128, 16383, 16384, u64::MAX / 2, u64::MAX];
        let signed = [0, -1, 1, 63, -64, 64, i64::MIN, i64::MAX];
        numbers.iter().for_each(|&n| put(&mut out, n));
        signed.iter().for_each(|&n| put_signed(&mut out, n));
        put_bytes(&mut out, b"abc");
        let mut bytes = Bytes(&out);
        numbers.iter().for_each(|&n| assert_eq!(bytes.number(), Ok(n)));
        signed.iter().for_each(|&n| assert_eq!(bytes.signed(), Ok(n)));
        assert_eq!(bytes.bytes(), Ok(&b"abc"[..]));
        assert_eq!(bytes.byte(), Err(Malformed));
        assert_eq!(Bytes(&[0x80]).number(), Err(Malformed));
        assert_eq!(Bytes(&[0xff; 11]).number(), Err(Malformed));
        assert_eq!(Bytes(&[5, b'a']).bytes(), Err(Malformed));
        let mut beyond = [0x80; 10];
        beyond[9] = 2;
        assert_eq!(Bytes(&beyond).number(), Err(Malformed));
    }
}
