//! SHA-1, by which scripts are known.

use sha1_smol::Sha1;

/// A SHA-1 sum.
pub type Sha = [u8; 20];

/// The sum of `text`.
pub fn sha1(text: &[u8]) -> Sha {
    Sha1::from(text).digest().bytes()
}

/// The sum of `text`, before each piece of which `before` is asked with its length.
///
/// # Errors
/// That of `before`.
pub(crate) fn sha1_in_pieces<E>(
    text: &[u8],
    mut before: impl FnMut(usize) -> Result<(), E>,
) -> Result<Sha, E> {
    let mut sum = Sha1::new();
    for piece in text.chunks(crate::interrupt::PIECE) {
        before(piece.len())?;
        sum.update(piece);
    }
    Ok(sum.digest().bytes())
}

/// A sum as 40 hexadecimal digits.
pub fn hex(sum: &Sha) -> [u8; 40] {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
    std::array::from_fn(
        |i| if i % 2 == 0 { digit(sum[i / 2] >> 4) } else { digit(sum[i / 2] & 15) },
    )
}
