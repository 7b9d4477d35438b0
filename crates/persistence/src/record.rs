//! Declares records: one row gives the encoder, the decoder with its bounds checks, samples for
//! tests and fuzzers, and the line of the format page.
//!
//! A record is a number, flags and fields. A [`Take`] and a [`Put`] of the same codec are the two
//! directions of one field; both use flags of the record for what may be missing. The caller
//! stores the number and the flags.
//!
//! ```
//! use petrel_persistence::record::{Flag, Number, Rest, Source, When};
//!
//! petrel_persistence::records! {
//!     /// A message.
//!     #[derive(Debug, PartialEq)]
//!     pub enum Message<'a> {
//!         /// Says something.
//!         1 Text {
//!             /// Whether it is urgent.
//!             urgent: bool as Flag<0x80>,
//!             /// The text.
//!             text: &'a [u8] as Rest
//!         };
//!         /// Acknowledges messages.
//!         2 Seen {
//!             /// The last one, if any.
//!             upto: Option<u64> as When<0x80, Number>
//!         };
//!     }
//! }
//!
//! let mut bytes = Vec::new();
//! let message = Message::Text { urgent: true, text: b"hi" };
//! assert_eq!((message.number(), message.put(&mut bytes)), (1, 0x80));
//! let mut source = Source::new(&bytes, 0x80);
//! assert_eq!(Message::take(1, &mut source), Ok(message));
//! ```

use petrel_keyspace::custom::number::{Bytes, Malformed, put, put_bytes, put_signed};

/// Bytes and flags of a record that is being decoded.
pub struct Source<'r, 'a> {
    /// The bytes that were not taken.
    pub bytes: Bytes<'a>,
    /// The flags that were not taken.
    pub flags: u8,
    /// Room for a list of texts; a record has one at most.
    pub texts: Option<&'r mut Vec<&'a [u8]>>,
}

impl<'a> Source<'_, 'a> {
    /// Bytes and flags of a record without a list of texts.
    pub fn new(bytes: &'a [u8], flags: u8) -> Self {
        Source { bytes: Bytes(bytes), flags, texts: None }
    }

    /// Takes a flag.
    #[inline]
    pub fn flag(&mut self, flag: u8) -> bool {
        let is_set = self.flags & flag != 0;
        self.flags &= !flag;
        is_set
    }

    /// Takes all bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes.0)
    }

    /// Checks that all bytes and flags were taken.
    ///
    /// # Errors
    /// If some are left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.flags == 0 { self.bytes.end() } else { Err(Malformed) }
    }
}

/// Encoder of a field.
pub trait Put<T> {
    /// Appends the field, and sets its flags.
    fn put(out: &mut Vec<u8>, flags: &mut u8, value: T);
}

/// Decoder of a field.
pub trait Take<'r, 'a> {
    /// The decoded value.
    type Value;

    /// Takes the field.
    ///
    /// # Errors
    /// If the bytes are no such field.
    fn take(source: &mut Source<'r, 'a>) -> Result<Self::Value, Malformed>;
}

/// Description and samples of a field.
pub trait Shape {
    /// The words of the format page for the field `name`.
    fn describe(name: &str) -> String;

    /// Appends the `round`-th sample; each is valid.
    fn sample(out: &mut Vec<u8>, flags: &mut u8, round: usize);
}

/// A record as it is declared.
pub struct Row {
    /// Number of the record.
    pub number: u8,
    /// The name of the variant.
    pub name: &'static str,
    /// Lines of its description.
    pub doc: &'static [&'static str],
    /// Descriptions of its fields.
    pub fields: fn() -> Vec<String>,
    /// Appends a sample of its body, and returns number and flags.
    pub sample: fn(&mut Vec<u8>, usize) -> u8,
}

impl Row {
    /// The first sentence of the description, without its full stop.
    pub fn summary(&self) -> String {
        let doc: String = self.doc.concat();
        let end = doc.find(". ").unwrap_or(doc.len());
        doc[..end].trim().trim_end_matches('.').to_owned()
    }

    /// The fields as the format page lists them.
    pub fn layout(&self) -> String {
        (self.fields)().join(", ")
    }
}

/// Declares the codec of records: either with their enum, or for an enum that is declared
/// elsewhere. See [the module](crate::record).
#[macro_export]
macro_rules! records {
    (
        $(#[$enum_meta:meta])*
        pub enum $enum:ident<'a> {
            $(
                $(#[doc = $doc:literal])*
                $number:literal $name:ident
                $( ( $one:ident: $one_type:ty as $one_codec:ty ) )?
                $( {
                    $( $(#[$field_meta:meta])* $field:ident: $type:ty as $codec:ty ),* $(,)?
                } )?
                $( if $check:expr )? ;
            )*
        }
    ) => {
        $(#[$enum_meta])*
        pub enum $enum<'a> {
            $(
                $(#[doc = $doc])*
                $name $( ( $one_type ) )? $( { $( $(#[$field_meta])* $field: $type ),* } )?,
            )*
        }

        impl<'a> $enum<'a> {
            /// The records as they are declared.
            pub const ROWS: &'static [$crate::record::Row] = &[ $(
                $crate::row!(
                    $number, stringify!($name), [ $( $doc ),* ],
                    [ $( $one: $one_codec )? $( $( $field: $codec ),* )? ]
                ),
            )* ];

            /// Number of the record.
            pub fn number(&self) -> u8 {
                match self {
                    $( $enum::$name { .. } => $number, )*
                }
            }

            /// Appends the record's fields, and returns its flags.
            pub fn put(&self, out: &mut Vec<u8>) -> u8 {
                let mut flags = 0;
                match self {
                    $(
                        $enum::$name $( ( $one ) )? $( { $( $field ),* } )? => {
                            $( <$one_codec as $crate::record::Put<_>>::put(out, &mut flags, $one); )?
                            $( $( <$codec as $crate::record::Put<_>>::put(out, &mut flags, *$field); )* )?
                        }
                    )*
                }
                flags
            }

            /// Takes the fields of the record of this number.
            ///
            /// # Errors
            /// If there is no such record, or the bytes are no such fields.
            pub fn take(
                number: u8,
                source: &mut $crate::record::Source<'_, 'a>,
            ) -> Result<Self, $crate::log::Malformed> {
                match number {
                    $(
                        $number => {
                            $( let $one = <$one_codec as $crate::record::Take<'_, 'a>>::take(source)?; )?
                            $( $( let $field = <$codec as $crate::record::Take<'_, 'a>>::take(source)?; )* )?
                            $( if !$check { return Err($crate::log::Malformed); } )?
                            Ok($enum::$name $( ( $one ) )? $( { $( $field ),* } )?)
                        }
                    )*
                    _ => Err($crate::log::Malformed),
                }
            }
        }

        /// Numbers of the records, by name.
        #[allow(non_upper_case_globals, dead_code, reason = "the names are those of the variants")]
        mod numbers {
            $( pub const $name: u8 = $number; )*
        }
    };
    (
        rows $rows:ident, put $put:ident(&$from:ty), take $take:ident -> $to:ty as $wrap:path;
        hot { $(
            $hot_number:literal $hot_doc:literal ($($hot:tt)*) $( => $hot_made:expr, )?
            [ $( $hot_field:ident: $hot_codec:ty ),* ];
        )* }
        cold { $(
            $number:literal $doc:literal ($($shape:tt)*) $( => $made:expr, )?
            [ $( $field:ident: $codec:ty ),* ] $( if $check:expr )? ;
        )* }
    ) => {
        /// The records as they are declared.
        pub(crate) const $rows: &[$crate::record::Row] = &[
            $( $crate::row!($hot_number, "", [ $hot_doc ], [ $( $hot_field: $hot_codec ),* ]), )*
            $( $crate::row!($number, "", [ $doc ], [ $( $field: $codec ),* ]), )*
        ];

        /// Appends the fields of a record, and returns its number and flags.
        #[inline]
        fn $put(out: &mut Vec<u8>, record: &$from) -> u8 {
            match *record {
                $( $($hot)* => {
                    let mut flags = 0;
                    $( <$hot_codec as $crate::record::Put<_>>::put(out, &mut flags, $hot_field); )*
                    $hot_number | flags
                } )*
                _ => cold(out, record),
            }
        }

        #[inline(never)]
        fn cold(out: &mut Vec<u8>, record: &$from) -> u8 {
            #[allow(unused_mut, reason = "a record without fields has no flags")]
            let mut flags = 0;
            let number = match *record {
                $(
                    #[allow(unused_variables, reason = "it is handled where it costs least")]
                    $($hot)* => return $put(out, record),
                )*
                $( $($shape)* => {
                    $( <$codec as $crate::record::Put<_>>::put(out, &mut flags, $field); )*
                    $number
                } )*
            };
            number | flags
        }

        /// Takes the fields of the record of this number.
        fn $take<'r, 'a: 'r>(
            number: u8,
            source: &mut $crate::record::Source<'r, 'a>,
        ) -> Result<$to, $crate::log::Malformed> {
            Ok(match number {
                $( $hot_number => {
                    $( let $hot_field = <$hot_codec as $crate::record::Take<'r, 'a>>::take(source)?; )*
                    $crate::made!($wrap, [ $($hot)* ] $( $hot_made )?)
                } )*
                $( $number => {
                    $( let $field = <$codec as $crate::record::Take<'r, 'a>>::take(source)?; )*
                    $( if !$check { return Err($crate::log::Malformed); } )?
                    $crate::made!($wrap, [ $($shape)* ] $( $made )?)
                } )*
                _ => return Err($crate::log::Malformed),
            })
        }
    };
}

/// The value of a decoded record: the pattern that it was matched with, unless another is given.
#[doc(hidden)]
#[macro_export]
macro_rules! made {
    ($wrap:path, [ $($shape:tt)* ]) => { $wrap($($shape)*) };
    ($wrap:path, [ $($shape:tt)* ] $made:expr) => { $made };
}

/// A [`Row`] of a record.
#[doc(hidden)]
#[macro_export]
macro_rules! row {
    ($number:literal, $name:expr, [ $( $doc:literal ),* ], [ $( $field:ident: $codec:ty ),* ]) => {
        $crate::record::Row {
            number: $number,
            name: $name,
            doc: &[ $( $doc ),* ],
            fields: || vec![ $( <$codec as $crate::record::Shape>::describe(stringify!($field)) ),* ],
            sample: |_out, _round| {
                #[allow(unused_mut, reason = "a record without fields has no flags")]
                let mut flags = 0;
                $( <$codec as $crate::record::Shape>::sample(_out, &mut flags, _round); )*
                $number | flags
            },
        }
    };
}

/// Declares codecs of fields: the types that are put and taken, the words of the format page, both
/// directions, and samples.
#[doc(hidden)]
#[macro_export]
macro_rules! codecs {
    ($(
        $(#[$meta:meta])*
        $codec:ident: $given:ty => $taken:ty, $words:literal,
        |$out:ident, $flags:ident, $value:ident| $put:expr,
        |$source:ident| $take:expr,
        [ $( $sample:expr ),* $(,)? ];
    )*) => { $(
        $(#[$meta])*
        pub struct $codec;

        #[allow(clippy::extra_unused_lifetimes, reason = "not every field borrows")]
        impl<'a> $crate::record::Put<$given> for $codec {
            #[inline]
            fn put($out: &mut Vec<u8>, $flags: &mut u8, $value: $given) {
                $put
            }
        }

        impl<'r, 'a: 'r> $crate::record::Take<'r, 'a> for $codec {
            type Value = $taken;

            #[inline]
            fn take(
                $source: &mut $crate::record::Source<'r, 'a>,
            ) -> Result<$taken, $crate::log::Malformed> {
                $take
            }
        }

        impl $crate::record::Shape for $codec {
            fn describe(name: &str) -> String {
                $crate::record::words(name) + concat!(" (", $words, ")")
            }

            fn sample(out: &mut Vec<u8>, flags: &mut u8, round: usize) {
                let samples = [ $( $sample ),* ];
                let at = round % samples.len();
                samples.into_iter().skip(at).take(1).for_each(|value| {
                    <$codec as $crate::record::Put<_>>::put(out, flags, value);
                });
            }
        }
    )* };
}

codecs! {
    /// A number.
    Number: u64 => u64, "number", |out, _flags, value| put(out, value),
        |source| source.bytes.number(), [1, u64::MAX, 0, 200];
    /// A number that is a size in memory.
    Size: usize => usize, "number", |out, _flags, value| put(out, value as u64),
        |source| source.bytes.size(), [1, usize::MAX, 0, 200];
    /// A number of 32 bits.
    Word: u32 => u32, "number", |out, _flags, value| put(out, value.into()),
        |source| u32::try_from(source.bytes.number()?).map_err(|_| Malformed), [1, u32::MAX, 0];
    /// A number of 16 bits.
    Short: u16 => u16, "number", |out, _flags, value| put(out, value.into()),
        |source| u16::try_from(source.bytes.number()?).map_err(|_| Malformed), [1, u16::MAX, 0];
    /// A byte.
    Byte: u8 => u8, "byte", |out, _flags, value| out.push(value),
        |source| source.bytes.byte(), [1, 2, 200];
    /// A signed number.
    Signed: i64 => i64, "signed number", |out, _flags, value| put_signed(out, value),
        |source| source.bytes.signed(), [1, -1, i64::MAX, 0, i64::MIN];
    /// A text behind its length.
    Text: &[u8] => &'a [u8], "text", |out, _flags, value| put_bytes(out, value),
        |source| source.bytes.bytes(), [&b"text"[..], b"", &[b'x'; 200]];
    /// All bytes that follow.
    Rest: &[u8] => &'a [u8], "the rest", |out, _flags, value| out.extend_from_slice(value),
        |source| Ok(source.rest()), [&b"the rest"[..], b"", &[0]];
    /// All bytes that follow, for records that are a tuple.
    Whole: &&[u8] => &'a [u8], "the rest", |out, _flags, value| out.extend_from_slice(value),
        |source| Ok(source.rest()), [&&b"all"[..], &&b""[..]];
    /// The number of texts, and each of them.
    Texts: &[&[u8]] => &'r [&'r [u8]], "number, texts", |out, _flags, value| {
            put(out, value.len() as u64);
            value.iter().for_each(|text| put_bytes(out, text));
        },
        |source| {
            let room = source.texts.take().ok_or(Malformed)?;
            room.clear();
            // Memory grows with the bytes that are there, whatever their number claims.
            for _ in 0..source.bytes.number()? {
                room.push(source.bytes.bytes()?);
            }
            Ok(&room[..])
        },
        [&[&b"a"[..], b""][..], &[], &[&[b'x'; 200][..]]];
}

/// A flag of the record, without bytes.
pub struct Flag<const FLAG: u8>;

impl<const FLAG: u8> Put<bool> for Flag<FLAG> {
    fn put(_: &mut Vec<u8>, flags: &mut u8, value: bool) {
        *flags |= if value { FLAG } else { 0 };
    }
}

impl<const FLAG: u8> Take<'_, '_> for Flag<FLAG> {
    type Value = bool;

    fn take(source: &mut Source<'_, '_>) -> Result<bool, Malformed> {
        Ok(source.flag(FLAG))
    }
}

impl<const FLAG: u8> Shape for Flag<FLAG> {
    fn describe(name: &str) -> String {
        format!("{} (flag {FLAG:#04x})", words(name))
    }

    fn sample(out: &mut Vec<u8>, flags: &mut u8, round: usize) {
        Self::put(out, flags, round.is_multiple_of(2));
    }
}

/// A field that is there if a flag of the record is set.
pub struct When<const FLAG: u8, C>(C);

impl<const FLAG: u8, T, C: Put<T>> Put<Option<T>> for When<FLAG, C> {
    #[inline]
    fn put(out: &mut Vec<u8>, flags: &mut u8, value: Option<T>) {
        if let Some(value) = value {
            *flags |= FLAG;
            C::put(out, flags, value);
        }
    }
}

impl<'r, 'a, const FLAG: u8, C: Take<'r, 'a>> Take<'r, 'a> for When<FLAG, C> {
    type Value = Option<C::Value>;

    #[inline]
    fn take(source: &mut Source<'r, 'a>) -> Result<Self::Value, Malformed> {
        if source.flag(FLAG) { C::take(source).map(Some) } else { Ok(None) }
    }
}

impl<const FLAG: u8, C: Shape> Shape for When<FLAG, C> {
    fn describe(name: &str) -> String {
        format!("[{}]", C::describe(name))
    }

    fn sample(out: &mut Vec<u8>, flags: &mut u8, round: usize) {
        if round.is_multiple_of(2) {
            *flags |= FLAG;
            C::sample(out, flags, round);
        }
    }
}

/// The words of a field's name.
pub fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// The table of a format page: number, name or description, and fields of each record.
pub fn table(heads: [&str; 3], rows: &[Row]) -> String {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| row.number);
    let lines = rows.iter().map(|row| {
        let named = if row.name.is_empty() { row.summary() } else { format!("`{}`", row.name) };
        format!("| {} | {named} | {} |\n", row.number, row.layout())
    });
    format!("| {} |\n|---|---|---|\n{}", heads.join(" | "), lines.collect::<String>())
}

/// Replaces the table in `page` behind the comment that names it, up to the next empty line.
#[doc(hidden)]
pub fn page_with(page: &str, name: &str, table: &str) -> String {
    let mark = format!("<!-- {name}: generated by its test with PETREL_WRITE_PAGES=1 -->\n");
    let at = page.find(&mark).unwrap_or_else(|| panic!("no table {name}")) + mark.len();
    let end = page[at..].find("\n\n").map_or(page.len(), |end| at + end + 1);
    [&page[..at], table, &page[end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_as_they_were_put_and_nothing_else_is() {
        let (mut out, mut flags) = (Vec::new(), 0);
        When::<0x80, Number>::put(&mut out, &mut flags, Some(300));
        When::<0x40, Signed>::put(&mut out, &mut flags, None);
        Flag::<0x20>::put(&mut out, &mut flags, true);
        Texts::put(&mut out, &mut flags, &[b"a", b""]);
        Short::put(&mut out, &mut flags, u16::MAX);
        assert_eq!(flags, 0xa0);
        let take = |bytes: &[u8], flags| {
            let mut room = Vec::new();
            let mut source = Source { texts: Some(&mut room), ..Source::new(bytes, flags) };
            let number = When::<0x80, Number>::take(&mut source)?;
            let signed = When::<0x40, Signed>::take(&mut source)?;
            let flag = Flag::<0x20>::take(&mut source)?;
            let texts = Texts::take(&mut source)?.len();
            let short = Short::take(&mut source)?;
            source.end().map(|()| (number, signed, flag, texts, short))
        };
        assert_eq!(take(&out, flags), Ok((Some(300), None, true, 2, u16::MAX)));
        for len in 0..out.len() {
            assert_eq!(take(&out[..len], flags), Err(Malformed), "{len}");
        }
        // A flag too much, a byte too much, a number too large.
        assert_eq!(take(&out, flags | 1), Err(Malformed));
        assert_eq!(take(&[&out[..], &[0]].concat(), flags), Err(Malformed));
        let len = out.len();
        out[len - 1] = 4;
        assert_eq!(take(&out, flags), Err(Malformed));
    }
}
