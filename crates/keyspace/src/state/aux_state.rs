//! Auxiliary state: state of the server that is no key, such as its function libraries. Effects
//! carry it by name, always in its whole form; the keyspace does not interpret it.

use crate::structures::custom::number::{Bytes, Malformed, put, put_bytes};

/// Name of the function libraries.
pub const FUNCTIONS: &[u8] = b"functions";

/// Maximum length of a name in bytes.
pub const NAME_MAX: usize = 255;

/// Name and whole form of a state.
pub type NamedForm = (Vec<u8>, Vec<u8>);

/// Whether auxiliary state can have this name.
pub fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len())
}

/// The whole form of the function libraries: the number of source texts, and each of them.
pub fn put_texts<T: AsRef<[u8]>>(texts: &[T]) -> Vec<u8> {
    let mut form = Vec::new();
    put(&mut form, texts.len() as u64);
    texts.iter().for_each(|text| put_bytes(&mut form, text.as_ref()));
    form
}

/// The source texts in the whole form of the function libraries; none in an empty form.
///
/// # Errors
/// If it is no such form.
pub fn texts(form: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    let (mut bytes, mut texts) = (Bytes(form), Vec::new());
    if form.is_empty() {
        return Ok(texts);
    }
    // Memory grows with the bytes that are there, whatever their number claims.
    for _ in 0..bytes.number()? {
        texts.push(bytes.bytes()?);
    }
    bytes.end()?;
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_as_they_were_put() {
        let sources: [&[u8]; 3] = [b"one", b"", &[b'x'; 300]];
        let form = put_texts(&sources);
        assert_eq!(texts(&form).unwrap(), sources);
        for len in 1..form.len() {
            assert_eq!(texts(&form[..len]), Err(Malformed), "{len}");
        }
        assert_eq!(texts(&[form, vec![0]].concat()), Err(Malformed));
        assert_eq!(texts(&[0xff; 9]), Err(Malformed));
        assert!(texts(b"").unwrap().is_empty() && texts(&[0]).unwrap().is_empty());
    }
}
