//! Numbers as C prints them.

/// Prints a number as `%.17g` does: its digits always parse to the same number.
pub(crate) fn print_17_digits(number: f64, text: &mut [u8; 40]) -> &[u8] {
    print(number, 17, text)
}

/// `%.*g` with this precision.
pub(crate) fn print(number: f64, precision: i32, text: &mut [u8; 40]) -> &[u8] {
    // SAFETY: the format asks for an int and a double, and the buffer's length is passed.
    let len = unsafe {
        libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%.*g".as_ptr(), precision, number)
    };
    let len = (len.max(0) as usize).min(text.len() - 1);
    &text[..len]
}
