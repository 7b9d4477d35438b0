//! Commands as they stand in the stream, those of one commit together.
//!
//! ```text
//! MULTI │ command │ command │ ... │ EXEC        several, which a replica executes as a whole
//!         command                               one
//! ```
//!
//! Commands that take any number of elements are gathered: a script that pushes ten times makes
//! one `RPUSH` of ten elements.

use bytes::BufMut;
use petrel_keyspace::types::stream::StreamId;

pub(crate) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Most arguments that are gathered into one command, so that none holds a replica up.
const GATHERED_MAX: usize = 1024;

/// Memory that is kept for the next commit.
const KEPT_MAX: usize = 1 << 20;

/// The commands of a commit that are complete, and the one that is being gathered.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    /// Begins with `MULTI` whether that will be needed or not, unless it is empty.
    bytes: Vec<u8>,
    count: usize,
    /// The database of the first command, and of the last; none if it concerns all of them.
    first: Option<u16>,
    db: Option<u16>,
    gathered: Gathered,
}

/// A command that may get more arguments.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Name of the command; empty if there is none.
    name: &'static str,
    key: Vec<u8>,
    /// Arguments behind the key as they will be written.
    args: Vec<u8>,
    count: usize,
}

/// The commands of a commit.
#[derive(Debug)]
pub struct Batch<'b> {
    /// The bytes, of which the first `skip` are none of the stream's.
    pub bytes: &'b mut Vec<u8>,
    /// See `bytes`.
    pub skip: usize,
    /// The database of the first command; none if it may be any.
    pub first: Option<u16>,
    /// The database of the last one; none if it is the one before the commit.
    pub last: Option<u16>,
}

/// An argument of a command.
pub(crate) trait Arg {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
}

impl Arg for &[u8] {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_len(out, b'$', self.len());
        out.put_slice(self);
        out.put_slice(b"\r\n");
    }
}

impl Arg for &str {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.as_bytes().put(out);
    }
}

/// The shortest text that is read as the same number.
impl Arg for f64 {
    fn put(&self, out: &mut Vec<u8>) {
        ryu::Buffer::new().format(*self).put(out);
    }
}

impl Arg for StreamId {
    fn put(&self, out: &mut Vec<u8>) {
        let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (ms, seq) = (ms.format(self.ms), seq.format(self.seq));
        put_len(out, b'$', ms.len() + 1 + seq.len());
        [ms, "-", seq, "\r\n"].iter().for_each(|part| out.put_slice(part.as_bytes()));
    }
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl Arg for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                itoa::Buffer::new().format(*self).put(out);
            }
        }
    )* };
}

numbers!(u16, u32, u64, usize, i64);

#[inline]
fn put_len(out: &mut Vec<u8>, mark: u8, len: usize) {
    let digit = |n: usize| b'0' + (n % 10) as u8;
    match len {
        // Nearly all: a few bytes at once.
        0..10 => return out.put_slice(&[mark, digit(len), b'\r', b'\n']),
        10..100 => return out.put_slice(&[mark, digit(len / 10), digit(len), b'\r', b'\n']),
        _ => out.put_u8(mark),
    }
    out.put_slice(itoa::Buffer::new().format(len).as_bytes());
    out.put_slice(b"\r\n");
}

/// Writes a whole command: its name, and arguments of any types that are [`Arg`].
macro_rules! command {
    ($commands:expr, $($arg:expr),+ $(,)?) => {{
        let out = $commands.begin([$(stringify!($arg)),+].len());
        $( crate::commands::Arg::put(&$arg, out); )+
    }};
}

/// Adds arguments to the command of this name and key that is being gathered, or begins one.
macro_rules! gather {
    ($commands:expr, $name:expr, $key:expr $(, $arg:expr)*) => {{
        let args: &[&str] = &[$(stringify!($arg)),*];
        let _out = $commands.gather($name, $key, args.len());
        $( crate::commands::Arg::put(&$arg, _out); )*
    }};
}

pub(crate) use {command, gather};

impl Commands {
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Selects the database of the following commands.
    #[inline]
    pub fn select(&mut self, db: u16) {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(MULTI);
            (self.first, self.db) = (Some(db), Some(db));
        } else if self.db != Some(db) {
            self.end_gathering();
            command!(self, "SELECT", db);
            self.db = Some(db);
        }
    }

    /// Begins a command of `args` arguments including its name; the caller appends them to the
    /// returned buffer.
    #[inline]
    pub fn begin(&mut self, args: usize) -> &mut Vec<u8> {
        let out = self.begin_with(b"");
        put_len(out, b'*', args);
        out
    }

    /// Begins a command with the bytes before its first argument.
    #[inline]
    pub fn begin_with(&mut self, head: &[u8]) -> &mut Vec<u8> {
        self.end_gathering();
        self.count += 1;
        self.bytes.put_slice(head);
        &mut self.bytes
    }

    /// A whole command of a name and arguments.
    pub fn command(&mut self, name: &str, args: &[&[u8]]) {
        let out = self.begin(1 + args.len());
        name.put(out);
        args.iter().for_each(|arg| arg.put(out));
    }

    /// Whether the command that is being gathered has this name and is for this key.
    #[inline]
    pub fn gathers(&self, name: &str, key: &[u8]) -> bool {
        self.gathered.name == name && self.gathered.key == key
    }

    /// The arguments of the command of this name and key that is being gathered, or that this one
    /// begins; the caller appends `args` more.
    #[inline]
    pub fn gather(&mut self, name: &'static str, key: &[u8], args: usize) -> &mut Vec<u8> {
        if !self.gathers(name, key) || self.gathered.count >= GATHERED_MAX {
            self.end_gathering();
            self.gathered.name = name;
            self.gathered.key.extend_from_slice(key);
        }
        self.gathered.count += args;
        &mut self.gathered.args
    }

    /// Completes the command that is being gathered, which has one more argument.
    pub fn end_with(&mut self, arg: impl Arg) {
        arg.put(&mut self.gathered.args);
        self.gathered.count += 1;
        self.end_gathering();
    }

    /// Whether the last command is for this database.
    #[inline]
    pub fn is_at(&self, db: u16) -> bool {
        self.db == Some(db)
    }

    /// Completes the command that is being gathered.
    #[inline]
    pub fn end_gathering(&mut self) {
        if !self.gathered.name.is_empty() {
            self.put_gathered();
        }
    }

    fn put_gathered(&mut self) {
        let Gathered { name, key, args, count } = &mut self.gathered;
        self.count += 1;
        put_len(&mut self.bytes, b'*', 2 + *count);
        name.put(&mut self.bytes);
        key.as_slice().put(&mut self.bytes);
        self.bytes.extend_from_slice(args);
        (*name, *count) = ("", 0);
        key.clear();
        args.clear();
        args.shrink_to(KEPT_MAX);
    }

    /// Ends the commit and returns its commands; the caller empties the batch.
    #[inline]
    pub fn finish(&mut self) -> Batch<'_> {
        self.end_gathering();
        let skip = if self.count > 1 {
            self.bytes.extend_from_slice(EXEC);
            0
        } else {
            MULTI.len()
        };
        self.count = 0;
        Batch { bytes: &mut self.bytes, skip, first: self.first, last: self.db }
    }

    /// Forgets the commit.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_MAX {
            self.bytes = Vec::new();
        }
    }
}
