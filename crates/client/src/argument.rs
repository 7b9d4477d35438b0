//! [`ToArg`]: what can be an argument of a command, and [`ArgWriter`], which takes it.

use bytes::Bytes;
use petrel_resp::DoubleBuffer;

/// Takes the bytes of arguments, each behind its RESP header.
#[derive(Debug)]
pub struct ArgWriter<'a>(pub(crate) &'a mut crate::buffer::CommandBuffer);

impl ArgWriter<'_> {
    /// Appends one argument.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.push_argument(bytes);
    }
}

/// A value that is one argument of a command: strings and bytes as they are, numbers in decimal.
pub trait ToArg {
    /// Writes the argument by exactly one call of [`ArgWriter::write`].
    fn write_arg(&self, to: &mut ArgWriter<'_>);

    /// The argument's bytes, if the value has them as they are written.
    #[inline]
    fn as_bytes(&self) -> Option<&[u8]> {
        None
    }
}

impl<T: ToArg + ?Sized> ToArg for &T {
    #[inline]
    fn write_arg(&self, to: &mut ArgWriter<'_>) {
        (**self).write_arg(to);
    }

    #[inline]
    fn as_bytes(&self) -> Option<&[u8]> {
        (**self).as_bytes()
    }
}

macro_rules! bytes_arguments {
    ($($kind:ty),*) => { $(
        impl ToArg for $kind {
            #[inline]
            fn write_arg(&self, to: &mut ArgWriter<'_>) {
                to.write(AsRef::<[u8]>::as_ref(self));
            }

            #[inline]
            fn as_bytes(&self) -> Option<&[u8]> {
                Some(AsRef::<[u8]>::as_ref(self))
            }
        }
    )* };
}
bytes_arguments!(str, String, [u8], Vec<u8>, Bytes, Box<[u8]>);

impl<const N: usize> ToArg for [u8; N] {
    fn write_arg(&self, to: &mut ArgWriter<'_>) {
        to.write(self);
    }

    #[inline]
    fn as_bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

macro_rules! integer_arguments {
    ($($kind:ty),*) => { $(
        impl ToArg for $kind {
            fn write_arg(&self, to: &mut ArgWriter<'_>) {
                to.write(itoa::Buffer::new().format(*self).as_bytes());
            }
        }
    )* };
}
integer_arguments!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl ToArg for f64 {
    fn write_arg(&self, to: &mut ArgWriter<'_>) {
        to.write(DoubleBuffer::new().format(*self));
    }
}
