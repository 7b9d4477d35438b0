//! Per-interpreter state outside of Lua's values. The allocator and every library function find it
//! through the Lua state.

use crate::cjson::options::Options;
use crate::generator::Random;
use crate::memory::Memory;
use crate::pace::Pace;
use crate::reply::ScriptReply;
use crate::vm::{NOT_ENOUGH_MEMORY, Raise, Stack};
use petrel_resp::{Dialect, Protocol};
use std::borrow::Cow;
use std::ffi::c_int;
use std::ptr::NonNull;

/// Services that scripts need from the program that runs them.
pub trait Server {
    /// Executes a command and writes one reply. `args` has the name first. True if it has been long
    /// since [`Server::interrupt`] was called, so that it is to be called now.
    fn call(&mut self, args: &[&[u8]], reply: &mut ScriptReply) -> bool;

    /// Called now and then while a script runs: what ends it, if something does.
    fn interrupt(&mut self) -> Option<Cow<'static, str>>;

    /// Writes a line to the log; `level` from 0 (debug) to 3 (warning).
    fn log(&mut self, level: u8, text: &[u8]);

    /// Whether the user may run this command, or why it is none.
    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, &'static str>;

    /// Called when the script has ended and has no more effects, before its result is written. That
    /// may take long: [`Server::interrupt`] is called at intervals.
    fn begin_result(&mut self) {}

    /// This many bytes of the result have been written.
    fn note_result(&mut self, _bytes: usize) {}
}

/// Purpose of an interpreter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// Scripts that are sent with each call, or known by their sum.
    Scripts,
    /// Libraries of functions.
    Functions,
}

/// Version information that scripts can read.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// The dialect of error messages.
    pub dialect: Dialect,
    /// The version of Redis that it says it is.
    pub redis_version: &'static str,
    /// Version of Valkey, reported in Valkey's dialect only.
    pub valkey_version: &'static str,
}

/// A compiled function, kept by its interpreter until [`Lua::release`].
#[derive(Debug, Eq, PartialEq)]
pub struct Compiled(pub(crate) c_int);

/// Error of a failed script.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Failure {
    /// The error.
    pub text: Vec<u8>,
    /// Chunk and line of the error, if known.
    pub place: Option<(Vec<u8>, i32)>,
    /// The error is a command's and has been counted in the error statistics.
    pub is_counted: bool,
}

impl Failure {
    /// Makes the error for exhausted memory.
    pub(crate) fn memory() -> Self {
        Failure { text: format!("ERR {NOT_ENOUGH_MEMORY}").into(), ..Failure::default() }
    }

    /// Converts an error raised after the script has ended.
    pub(crate) fn of(raise: Raise) -> Self {
        match raise {
            Raise::Plain(text) | Raise::Located(text) => {
                Failure { text: format!("ERR {text}").into(), ..Failure::default() }
            }
            Raise::Reply(text) => Failure { text: text.into_owned(), ..Failure::default() },
            Raise::Argument(..) | Raise::Top => Failure::memory(),
        }
    }
}

/// A function as a library declares it.
#[derive(Debug)]
pub struct Declared {
    /// Name of the function.
    pub name: String,
    /// The compiled function.
    pub function: Compiled,
    /// Description given by the library.
    pub description: Option<Vec<u8>>,
    /// Names of its flags.
    pub flags: Vec<String>,
}

/// The functions of a library that is being loaded.
#[derive(Debug, Default)]
pub struct Library {
    /// In the order in which they were declared.
    pub functions: Vec<Declared>,
}

/// Per-interpreter state outside of Lua's values.
pub(crate) struct Extra {
    pub memory: Memory,
    pub random: Random,
    /// Protocol that the running script has selected.
    pub protocol: Protocol,
    /// The dialect of the server's errors.
    pub dialect: Dialect,
    /// Tables that scripts may not change: the address of what stands for each.
    pub protected: Vec<usize>,
    /// Options of the library `cjson`.
    pub json: Options,
    /// Registry reference to the metatable of arrays, and its address.
    pub array_metatable: c_int,
    pub array_address: usize,
    /// Registry reference to `next`.
    pub next: c_int,
    /// Registry references to the table shown as the metatable of protected tables, and to the
    /// function that refuses changes; 0 before they exist.
    pub shown: c_int,
    pub refusal: c_int,
    /// Registry reference to the function that sets a field.
    pub setter: c_int,
    /// The running script has changed how often garbage is collected, perhaps.
    pub sets_collector: bool,
    /// Functions declared so far by the library that is being loaded.
    pub library: Option<Library>,
    /// Error of the script as seen by the error handler.
    pub failure: Option<Failure>,
    /// The server of the script, while one runs.
    pub server: Option<NonNull<dyn Server>>,
    /// Error that ends the script.
    pub killed: Option<Cow<'static, str>>,
    /// The running script is to end: nothing catches that ([`crate::vm::end`]).
    pub ends: bool,
    /// The error of a script that is to end, and its place.
    pub end: Option<Failure>,
    /// The coroutine that runs, or the state itself; none before there is one.
    pub running: Option<Stack>,
    /// Steps of work outside of the script's own instructions before it is asked whether to go on.
    pub steps: u32,
}

impl Extra {
    /// Forgets that the script is to end, and how long its instructions took; says why it ended, if
    /// it did.
    pub fn take_end(&mut self) -> Option<Failure> {
        self.ends = false;
        self.memory.refuses = false;
        self.memory.pace = Pace::default();
        self.end.take()
    }
}

/// Lets the server do something for the running script; none if none is running.
pub(crate) fn with_server<T>(stack: Stack, work: impl FnOnce(&mut dyn Server) -> T) -> Option<T> {
    let server = stack.with(|extra| extra.server)?;
    // SAFETY: it is there while the script runs, and nothing else uses it meanwhile: a server does
    // not run scripts with the interpreter that called it.
    Some(work(unsafe { &mut *server.as_ptr() }))
}

/// Returns the error that ends the running script, if it must end.
pub(crate) fn interrupted(stack: Stack) -> Option<Cow<'static, str>> {
    let known = stack.with(|extra| extra.killed.clone());
    if known.is_some() {
        return known;
    }
    let text = with_server(stack, |server| server.interrupt()).flatten();
    stack.with(|extra| {
        extra.ends |= text.is_some();
        extra.killed.clone_from(&text);
    });
    text
}

/// Keeps the function on top, and takes it.
pub(crate) fn kept(stack: Stack) -> Compiled {
    Compiled(stack.keep())
}
