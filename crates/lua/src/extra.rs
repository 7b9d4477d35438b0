//! What belongs to an interpreter beside its values: the block that its allocator and every
//! function of a library find by the state, and the types in it.

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

/// What scripts ask of the program that runs them.
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

    /// The script is over, and has no more effects. What it returned is about to be written, which
    /// may take long: [`Server::interrupt`] is called now and then meanwhile.
    fn begin_result(&mut self) {}

    /// This many bytes of the result have been written.
    fn note_result(&mut self, _bytes: usize) {}
}

/// What an interpreter is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// Scripts that are sent with each call, or known by their sum.
    Scripts,
    /// Libraries of functions.
    Functions,
}

/// What the server tells scripts of itself.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// Whose words it speaks.
    pub dialect: Dialect,
    /// The version of Redis that it says it is.
    pub redis_version: &'static str,
    /// That of Valkey, which it says in Valkey's words only.
    pub valkey_version: &'static str,
}

/// A compiled function, kept by its interpreter until [`Lua::release`].
#[derive(Debug, Eq, PartialEq)]
pub struct Compiled(pub(crate) c_int);

/// Why a script failed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Failure {
    /// The error.
    pub text: Vec<u8>,
    /// Where it happened: chunk and line; none if that is not known.
    pub place: Option<(Vec<u8>, i32)>,
    /// It is a command's error, which has been counted.
    pub is_counted: bool,
}

impl Failure {
    /// There is not enough memory.
    pub(crate) fn memory() -> Self {
        Failure { text: format!("ERR {NOT_ENOUGH_MEMORY}").into(), ..Failure::default() }
    }

    /// The error that a raise is, of what is done once the script is over.
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
    /// Its name.
    pub name: String,
    /// What it does.
    pub function: Compiled,
    /// What is said of it.
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

/// What belongs to an interpreter beside its values.
pub(crate) struct Extra {
    pub memory: Memory,
    pub random: Random,
    /// What the running script speaks.
    pub protocol: Protocol,
    /// Whose words the server speaks.
    pub dialect: Dialect,
    /// Tables that scripts may not change: the address of what stands for each.
    pub protected: Vec<usize>,
    /// Options of the library `cjson`.
    pub json: Options,
    /// Where the metatable of arrays is kept, and its address.
    pub array_metatable: c_int,
    pub array_address: usize,
    /// Where `next` is kept.
    pub next: c_int,
    /// Where it is kept what is shown as the metatable of protected tables, and the function that
    /// refuses changes; 0 before.
    pub shown: c_int,
    pub refusal: c_int,
    /// Where the function is kept that sets a field.
    pub setter: c_int,
    /// The running script has changed how often garbage is collected, perhaps.
    pub sets_collector: bool,
    /// What functions a library declares, while one is loaded.
    pub library: Option<Library>,
    /// Why the script failed, as the error handler saw it.
    pub failure: Option<Failure>,
    /// The server of the script, while one runs.
    pub server: Option<NonNull<dyn Server>>,
    /// What ends the script.
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

/// What ends the running script, if something does.
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
