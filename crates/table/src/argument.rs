//! The arguments of a command as `COMMAND DOCS` describes them, and the syntax line made of them.

use std::fmt::{self, Write};

use crate::bitset;

bitset! {
    /// Multiplicity of an argument.
    ArgFlags: u8 {
        /// May be left out.
        OPTIONAL = 0 "optional",
        /// May be repeated.
        MULTIPLE = 1 "multiple",
        /// May be repeated, its token each time too.
        MULTIPLE_TOKEN = 2 "multiple_token",
    }
}

/// Kind of an argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ArgKind {
    /// A key.
    Key,
    /// Any bytes.
    String,
    /// An integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A glob pattern.
    Pattern,
    /// A point in time, in seconds or milliseconds since 1970.
    UnixTime,
    /// A token alone.
    PureToken,
    /// Exactly one of the nested arguments.
    OneOf,
    /// All of the nested arguments, in order.
    Block,
}

impl ArgKind {
    /// The name that `COMMAND DOCS` prints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }
}

/// An argument, possibly with nested arguments.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Name, unique among its siblings.
    pub name: &'static str,
    /// Kind of the argument.
    pub kind: ArgKind,
    /// The name shown in the syntax line.
    pub display: &'static str,
    /// The word that precedes it, or empty.
    pub token: &'static str,
    /// The release that added it, if later than the command; or empty.
    pub since: &'static str,
    /// The release that deprecated it, or empty.
    pub deprecated_since: &'static str,
    /// Multiplicity.
    pub flags: ArgFlags,
    /// Index of the key spec, for a key.
    pub key_spec: u8,
    /// Nested arguments of [`ArgKind::OneOf`] and [`ArgKind::Block`].
    pub nested: &'static [Arg],
}

impl Arg {
    const fn new(name: &'static str, kind: ArgKind) -> Self {
        Self {
            name,
            kind,
            display: name,
            token: "",
            since: "",
            deprecated_since: "",
            flags: ArgFlags::NONE,
            key_spec: 0,
            nested: &[],
        }
    }

    /// A key of key spec 0.
    pub const fn key(name: &'static str) -> Self {
        Self::new(name, ArgKind::Key)
    }

    /// Any bytes.
    pub const fn string(name: &'static str) -> Self {
        Self::new(name, ArgKind::String)
    }

    /// An integer.
    pub const fn integer(name: &'static str) -> Self {
        Self::new(name, ArgKind::Integer)
    }

    /// A floating-point number.
    pub const fn double(name: &'static str) -> Self {
        Self::new(name, ArgKind::Double)
    }

    /// A glob pattern.
    pub const fn pattern(name: &'static str) -> Self {
        Self::new(name, ArgKind::Pattern)
    }

    /// A point in time.
    pub const fn unix_time(name: &'static str) -> Self {
        Self::new(name, ArgKind::UnixTime)
    }

    /// A token alone.
    pub const fn word(name: &'static str, token: &'static str) -> Self {
        Self::new(name, ArgKind::PureToken).token(token)
    }

    /// A choice of one of `nested`.
    pub const fn one_of(name: &'static str, nested: &'static [Self]) -> Self {
        Self { nested, ..Self::new(name, ArgKind::OneOf) }
    }

    /// All of `nested`.
    pub const fn block(name: &'static str, nested: &'static [Self]) -> Self {
        Self { nested, ..Self::new(name, ArgKind::Block) }
    }

    /// Sets the token in front of the argument.
    pub const fn token(self, token: &'static str) -> Self {
        Self { token, ..self }
    }

    /// Sets the release that added the argument.
    pub const fn since(self, since: &'static str) -> Self {
        Self { since, ..self }
    }

    /// Sets the release that deprecated the argument.
    pub const fn deprecated(self, deprecated_since: &'static str) -> Self {
        Self { deprecated_since, ..self }
    }

    /// Sets the displayed name.
    pub const fn shown(self, display: &'static str) -> Self {
        Self { display, ..self }
    }

    /// Sets the index of the key spec.
    pub const fn of_spec(self, key_spec: u8) -> Self {
        Self { key_spec, ..self }
    }

    /// Adds a flag.
    pub const fn with(self, flag: ArgFlags) -> Self {
        Self { flags: self.flags.with(flag), ..self }
    }
}

/// Displays arguments as on a command page: `key value [NX | XX] [GET]`.
#[derive(Clone, Copy, Debug)]
pub struct Syntax(
    /// The arguments, in order.
    pub &'static [Arg],
);

impl fmt::Display for Syntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, self.0, " ")
    }
}

fn list(f: &mut fmt::Formatter<'_>, args: &'static [Arg], separator: &str) -> fmt::Result {
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        argument(f, arg)?;
    }
    Ok(())
}

/// Writes an argument, with the brackets of an optional one and the repetition of a multiple one.
fn argument(f: &mut fmt::Formatter<'_>, arg: &Arg) -> fmt::Result {
    let optional = arg.flags.contains(ArgFlags::OPTIONAL);
    if optional {
        f.write_char('[')?;
    }
    token(f, arg, arg.kind != ArgKind::PureToken)?;
    value(f, arg, optional)?;
    if arg.flags.contains(ArgFlags::MULTIPLE) {
        f.write_str(" [")?;
        token(f, arg, arg.flags.contains(ArgFlags::MULTIPLE_TOKEN))?;
        value(f, arg, false)?;
        f.write_str(" ...]")?;
    }
    if optional {
        f.write_char(']')?;
    }
    Ok(())
}

/// The token of an argument that has a value too.
fn token(f: &mut fmt::Formatter<'_>, arg: &Arg, wanted: bool) -> fmt::Result {
    match arg.token {
        "" => Ok(()),
        token if wanted => write!(f, "{token} "),
        _ => Ok(()),
    }
}

/// Writes the part after the token. A choice needs its own brackets unless those of an optional
/// argument already enclose it.
fn value(f: &mut fmt::Formatter<'_>, arg: &Arg, enclosed: bool) -> fmt::Result {
    match arg.kind {
        ArgKind::PureToken => f.write_str(arg.token),
        ArgKind::Block => list(f, arg.nested, " "),
        ArgKind::OneOf if enclosed && arg.token.is_empty() => list(f, arg.nested, " | "),
        ArgKind::OneOf => {
            f.write_char('<')?;
            list(f, arg.nested, " | ")?;
            f.write_char('>')
        }
        _ => f.write_str(arg.display),
    }
}
