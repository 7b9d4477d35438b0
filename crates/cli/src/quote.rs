//! Bytes as quoted text, in the form that [`petrel_resp::split_words`] reads back.

/// Appends `bytes` in double quotes; bytes that are not printable ASCII become escapes.
pub fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    out.push(b'"');
}

/// Returns `bytes` in double quotes.
pub fn quoted(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() + 2);
    quote(bytes, &mut out);
    String::from_utf8(out).expect("quoted text is ASCII")
}

/// Appends `bytes` as a JSON string. Bytes outside of ASCII are copied: they are UTF-8 if the value
/// is.
pub fn json_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x08 => out.extend(b"\\b"),
            0x0c => out.extend(b"\\f"),
            0..=0x1f | 0x7f => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        let words = petrel_resp::split_words(quoted(&all).as_bytes()).unwrap();
        assert_eq!(words, [all]);
        assert_eq!(quoted(b"a\"\\\n\x00\xff"), r#""a\"\\\n\x00\xff""#);
    }

    #[test]
    fn strings_of_json() {
        let mut out = Vec::new();
        json_string("\u{1}\"é\x0c".as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "\"\\u0001\\\"é\\f\"");
    }
}
