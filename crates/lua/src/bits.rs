//! Numbers as C prints them.

/// `%.17g`, whose digits always read back as the same number.
pub(crate) fn print_17_digits(number: f64, text: &mut [u8; 40]) -> &[u8] {
    print(number, c"%.17g", text)
}

/// `%.*g` with any precision.
pub(crate) fn print<'t>(number: f64, format: &std::ffi::CStr, text: &'t mut [u8; 40]) -> &'t [u8] {
    // SAFETY: the format asks for one double, and the buffer's length is passed.
    let len =
        unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), number) };
    let len = (len.max(0) as usize).min(text.len() - 1);
    &text[..len]
}
