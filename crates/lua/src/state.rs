//! An interpreter: compiles texts, runs functions, and knows who runs them.

use crate::convert;
use crate::interpreter::Interpreter;
use crate::lists::{List, list_bytes, push_list};
use crate::memory::Memory;
use crate::random::Random;
use crate::reply::ScriptReply;
use crate::sandbox;
use crate::vm::{
    LUA_ERRMEM, LUA_GLOBALSINDEX, LUA_TSTRING, LUA_TTABLE, NOT_ENOUGH_MEMORY, Raise, Stack,
    lua_State,
};
use petrel_resp::{Dialect, Protocol, Reply};
use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

/// Lowest slots of the interpreter's stack, which stay as they are.
const HANDLER: c_int = 1;
const GLOBALS: c_int = 2;
/// And the lists, of two slots each.
const BASE: c_int = 6;

/// What scripts ask of whoever runs them.
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

    /// So many bytes of the result have been written.
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
pub struct Compiled(c_int);

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
    fn memory() -> Self {
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
    /// What the script in hand speaks.
    pub protocol: Protocol,
    /// Whose words the server speaks.
    pub dialect: Dialect,
    /// Tables that scripts may not change: the address of what stands for each.
    pub protected: Vec<usize>,
    /// Options of the library `cjson`.
    pub json: crate::cjson::Options,
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
    /// The script in hand has changed how often garbage is collected, perhaps.
    pub sets_collector: bool,
    /// What functions a library declares, while one is loaded.
    pub library: Option<Library>,
    failure: Option<Failure>,
    server: Option<NonNull<dyn Server>>,
    killed: Option<Cow<'static, str>>,
    /// The script in hand is to end: the hook is called before every instruction.
    pub ends: bool,
    /// The coroutine that runs, or the state itself; null before there is one.
    pub running: *mut lua_State,
    /// Steps of work outside of the script's own instructions before it is asked whether to go on.
    pub steps: u32,
}

/// An interpreter with its libraries, for one thread.
pub struct Lua {
    interpreter: Interpreter,
    /// `KEYS` and `ARGV`.
    lists: [List; 2],
    kept: usize,
    /// What a library that is being loaded finds in place of the globals.
    loading: c_int,
}

impl Lua {
    /// A new interpreter whose scripts may have so many bytes of memory.
    ///
    /// # Panics
    /// If there is no memory for it.
    pub fn new(purpose: Purpose, memory_max: usize, release: Release) -> Self {
        let extra = Extra {
            memory: Memory { limit: memory_max, lenient: true, ..Memory::default() },
            random: Random::default(),
            protocol: Protocol::Resp2,
            dialect: release.dialect,
            protected: Vec::new(),
            json: crate::cjson::Options::default(),
            array_metatable: 0,
            array_address: 0,
            next: 0,
            shown: 0,
            refusal: 0,
            setter: 0,
            sets_collector: false,
            library: None,
            failure: None,
            server: None,
            killed: None,
            ends: false,
            running: std::ptr::null_mut(),
            steps: crate::work::STEPS,
        };
        let interpreter = Interpreter::new(extra).expect("memory for an empty interpreter");
        let stack = interpreter.stack();
        stack.push_function(on_error);
        sandbox::open(stack, purpose, release);
        let lists = ["KEYS", "ARGV"].map(|name| List::new(stack, name, GLOBALS));
        if purpose == Purpose::Scripts {
            lists.iter().for_each(|list| list.publish(stack));
        }
        debug_assert_eq!(stack.top(), BASE);
        crate::api::push_loading(stack, release);
        let loading = stack.keep();
        stack.push_native(crate::room::setter, 0);
        let setter = stack.keep();
        stack.with(|extra| extra.setter = setter);
        stack.with(|extra| extra.running = stack.raw());
        stack.set_period();
        Lua { interpreter, lists, kept: 0, loading }
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.interpreter.stack().with(|extra| extra.memory.used)
    }

    /// Bounds the memory from now on.
    pub fn set_memory_max(&mut self, bytes: usize) {
        self.interpreter.stack().with(|extra| extra.memory.limit = bytes);
    }

    /// Functions that are kept.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Compiles a text, whose chunk is called `name`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn compile(&mut self, text: &[u8], name: &CStr) -> Result<Compiled, Vec<u8>> {
        let stack = self.interpreter.stack();
        if text.first() == Some(&27) {
            return Err(b"compiled functions are not accepted".to_vec());
        }
        if stack.load(text, name) {
            self.kept += 1;
            return Ok(Compiled(stack.keep()));
        }
        let message = stack.to_bytes(-1).unwrap_or_default().to_vec();
        stack.pop(1);
        Err(message)
    }

    /// Forgets a function.
    pub fn release(&mut self, function: Compiled) {
        self.kept -= 1;
        self.interpreter.stack().release(function.0);
    }

    /// Runs a script with its `KEYS` and `ARGV` and writes its result.
    ///
    /// # Errors
    /// If it fails; nothing is written then.
    pub fn run_script(
        &mut self,
        script: &Compiled,
        keys: &[&[u8]],
        args: &[&[u8]],
        server: &mut dyn Server,
        reply: &mut dyn Reply,
    ) -> Result<(), Failure> {
        let stack = self.interpreter.stack();
        fit_lists(stack, keys, args)?;
        for (list, values) in self.lists.iter_mut().zip([keys, args]) {
            list.fill(stack, values);
        }
        stack.raw_get_index(crate::vm::LUA_REGISTRYINDEX, script.0);
        let result = self.run(0, server, reply);
        self.lists.iter_mut().for_each(|list| list.empty(stack));
        // What a script chose is not another's.
        stack.with(|extra| extra.json = Default::default());
        result
    }

    /// Runs a function of a library with its keys and arguments and writes its result.
    ///
    /// # Errors
    /// If it fails; nothing is written then.
    pub fn run_function(
        &mut self,
        function: &Compiled,
        keys: &[&[u8]],
        args: &[&[u8]],
        server: &mut dyn Server,
        reply: &mut dyn Reply,
    ) -> Result<(), Failure> {
        let stack = self.interpreter.stack();
        fit_lists(stack, keys, args)?;
        stack.raw_get_index(crate::vm::LUA_REGISTRYINDEX, function.0);
        push_list(stack, keys);
        push_list(stack, args);
        self.run(2, server, reply)
    }

    /// Runs the text of a library, which declares its functions.
    ///
    /// # Errors
    /// If it fails, or declares what it may not. Functions that it declared by then are forgotten.
    pub fn load_library(
        &mut self,
        text: &Compiled,
        server: &mut dyn Server,
    ) -> Result<Library, Failure> {
        let stack = self.interpreter.stack();
        stack.with(|extra| extra.library = Some(Library::default()));
        stack.raw_get_index(crate::vm::LUA_REGISTRYINDEX, self.loading);
        sandbox::exchange_globals(stack);
        stack.raw_get_index(crate::vm::LUA_REGISTRYINDEX, text.0);
        self.lend(server);
        let result = self.call(0);
        self.end();
        stack.set_top(BASE);
        stack.copy(GLOBALS);
        sandbox::exchange_globals(stack);
        let library = stack.with(|extra| extra.library.take()).unwrap_or_default();
        self.kept += library.functions.len();
        match result {
            Ok(()) => Ok(library),
            Err(failure) => {
                library.functions.into_iter().for_each(|declared| self.release(declared.function));
                Err(failure)
            }
        }
    }

    fn run(
        &mut self,
        args: c_int,
        server: &mut dyn Server,
        reply: &mut dyn Reply,
    ) -> Result<(), Failure> {
        let stack = self.interpreter.stack();
        self.lend(server);
        let mut result = self.call(args);
        if result.is_ok() {
            result = returned_error(stack).map_or(Ok(()), Err);
        }
        if result.is_ok() {
            let protocol = stack.with(|extra| extra.protocol);
            result = convert::write(stack, protocol, reply);
        }
        self.end();
        stack.set_top(BASE);
        if stack.with(|extra| extra.memory.used > extra.memory.limit / 2) {
            stack.collect();
        }
        result
    }

    /// Lets a script ask this server.
    fn lend(&mut self, server: &mut dyn Server) {
        // SAFETY: only the lifetime changes, and the pointer is taken back by `end`, before whoever
        // calls this returns.
        let server: NonNull<dyn Server + 'static> =
            unsafe { std::mem::transmute(NonNull::from(server)) };
        self.interpreter.stack().with(|extra| {
            extra.protocol = Protocol::Resp2;
            extra.server = Some(server);
        });
    }

    /// Forgets the server, and whatever else is only about the script in hand.
    fn end(&mut self) {
        let stack = self.interpreter.stack();
        let sets_collector = stack.with(|extra| {
            extra.server = None;
            extra.killed = None;
            extra.ends = false;
            std::mem::take(&mut extra.sets_collector)
        });
        if sets_collector {
            stack.reset_collector();
        }
    }

    /// Calls the function below so many arguments and leaves one result.
    fn call(&mut self, args: c_int) -> Result<(), Failure> {
        let stack = self.interpreter.stack();
        stack.with(|extra| extra.memory.lenient = false);
        let result = stack.protected_call(args, 1, HANDLER);
        let failure = stack.with(|extra| {
            extra.memory.lenient = true;
            extra.ends = false;
            extra.failure.take()
        });
        stack.set_period();
        match result {
            Ok(()) => Ok(()),
            Err(LUA_ERRMEM) => {
                stack.collect();
                Err(Failure::memory())
            }
            Err(_) => Err(failure.unwrap_or_else(|| Failure {
                text: b"ERR error in error handling".to_vec(),
                ..Failure::default()
            })),
        }
    }

    /// The seed of `math.random` for the scripts that follow.
    pub fn seed(&mut self, seed: u64) {
        self.interpreter.stack().with(|extra| extra.random = Random::new(seed));
    }

    /// Collects garbage.
    pub fn collect(&mut self) {
        self.interpreter.stack().collect();
    }
}

impl std::fmt::Debug for Lua {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lua").field("memory", &self.memory()).field("kept", &self.kept).finish()
    }
}

/// Lets the server do something for the script in hand; none if none is running.
pub(crate) fn with_server<T>(stack: Stack, work: impl FnOnce(&mut dyn Server) -> T) -> Option<T> {
    let server = stack.with(|extra| extra.server)?;
    // SAFETY: it is there while the script runs, and nobody else uses it meanwhile: a server does
    // not run scripts with the interpreter that called it.
    Some(work(unsafe { &mut *server.as_ptr() }))
}

/// What ends the script in hand, if something does.
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

/// Makes sure that a script may have its `KEYS` and `ARGV`.
#[inline]
fn fit_lists(stack: Stack, keys: &[&[u8]], args: &[&[u8]]) -> Result<(), Failure> {
    stack.make_room(list_bytes(keys) + list_bytes(args)).map_err(|_| Failure::memory())
}

/// Copies the text of an error, unless that would take more memory than scripts may have.
fn copied(stack: Stack, text: &[u8]) -> Vec<u8> {
    if stack.with(|extra| extra.memory.fits(text.len())) {
        return text.to_vec();
    }
    NOT_ENOUGH_MEMORY.into()
}

/// Sees an error where it was raised: notes what it says and where.
fn on_error(stack: Stack) -> Result<c_int, Raise> {
    let mut failure = Failure::default();
    if stack.kind(1) == LUA_TTABLE {
        failure.is_counted =
            stack.raw_get_field(1, b"ignore_error_stats_update") == crate::vm::LUA_TBOOLEAN;
        let text =
            (stack.raw_get_field(1, b"err") == LUA_TSTRING).then(|| stack.to_bytes(-1)).flatten();
        failure.text = copied(stack, text.unwrap_or(b"ERR unknown error"));
    } else {
        let text = match stack.to_bytes(1) {
            Some(text) => text,
            None if stack.kind(1) == crate::vm::LUA_TBOOLEAN => {
                if stack.to_boolean(1) {
                    &b"true"[..]
                } else {
                    b"false"
                }
            }
            None => stack.kind_name(1).as_bytes(),
        };
        failure.text = b"ERR ".to_vec();
        failure.text.append(&mut copied(stack, text));
    }
    let frame = stack.frame(1).filter(|frame| !frame.is_native).or_else(|| stack.frame(2));
    failure.place = frame.map(|frame| (frame.source, frame.line));
    stack.with(|extra| extra.failure = Some(failure));
    stack.set_top(1);
    Ok(1)
}

/// The table of globals is what stands for it from now on.
pub(crate) fn set_globals(stack: Stack) {
    stack.replace(LUA_GLOBALSINDEX);
}

/// The error that the result on top is, if it is one.
fn returned_error(stack: Stack) -> Option<Failure> {
    if stack.kind(-1) != LUA_TTABLE {
        return None;
    }
    let mut failure = None;
    if stack.raw_get_field(-1, b"err") == LUA_TSTRING {
        let text = stack.to_bytes(-1).unwrap_or_default();
        let text = copied(stack, text.strip_prefix(b"-").unwrap_or(text));
        let is_counted =
            stack.raw_get_field(-2, b"ignore_error_stats_update") == crate::vm::LUA_TBOOLEAN;
        stack.pop(1);
        failure = Some(Failure { text, place: None, is_counted });
    }
    stack.pop(1);
    failure
}

/// Keeps the function on top, and takes it.
pub(crate) fn kept(stack: Stack) -> Compiled {
    Compiled(stack.keep())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against_lua::interpreter;

    #[test]
    fn an_interpreter_is_small() {
        for purpose in [Purpose::Scripts, Purpose::Functions] {
            let lua = interpreter(purpose);
            assert!(lua.memory() < 36 << 10, "{purpose:?}: {}", lua.memory());
        }
    }

    #[test]
    fn the_larger_its_values_the_more_often_a_script_is_asked_whether_to_go_on() {
        let period = |lua: &Lua| lua.interpreter.stack().with(|extra| extra.memory.period);
        let mut lua = interpreter(Purpose::Scripts);
        let usual = period(&lua);
        let stack = lua.interpreter.stack();
        stack.push_bytes(&vec![b'x'; 1 << 20]);
        assert!(period(&lua) < usual / 100);
        stack.set_top(BASE);
        lua.collect();
        stack.set_period();
        assert_eq!(period(&lua), usual);
    }
}
