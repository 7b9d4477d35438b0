//! An interpreter: compiles texts, runs functions, and writes their results.

use crate::bytecode::Proto;
use crate::convert;
use crate::extra::{Compiled, Extra, Failure, Library, Purpose, Release, Server};
use crate::generator::Random;
use crate::interpreter::Interpreter;
use crate::key_flow::{CallShape, KeyFlow};
use crate::lists::{List, list_bytes, push_list};
use crate::memory::Memory;
use crate::pace::Pace;
use crate::sandbox;
use crate::vm::{LUA_ERRMEM, LUA_TSTRING, LUA_TTABLE, NOT_ENOUGH_MEMORY, Raise, Stack};
use petrel_resp::{Protocol, Reply};
use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

/// Lowest slots of the interpreter's stack, which stay as they are.
const HANDLER: c_int = 1;
const GLOBALS: c_int = 2;
/// And the lists, of two slots each.
const BASE: c_int = 6;

/// Bytes of a function's bytecode, beyond which nothing is proven of it.
const DUMP_MAX: usize = 1 << 20;

/// An interpreter with its libraries, for one thread.
pub struct Lua {
    interpreter: Interpreter,
    /// `KEYS` and `ARGV`.
    lists: [List; 2],
    kept: usize,
    purpose: Purpose,
    /// Registry reference to the globals of a library while it is loaded.
    loading: c_int,
}

impl Lua {
    /// Creates an interpreter with `memory_max` bytes for its scripts.
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
            json: Default::default(),
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
            end: None,
            running: None,
            steps: Pace::default().most(),
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
        stack.push_native(crate::scratch::setter, 0);
        let setter = stack.keep();
        stack.with(|extra| extra.setter = setter);
        stack.with(|extra| extra.running = Some(stack));
        stack.set_period();
        Lua { interpreter, lists, kept: 0, purpose, loading }
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.interpreter.with(|extra| extra.memory.used)
    }

    /// Functions that are kept.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Compiles a text as the chunk `name`. The server is asked now and then whether to go on: that
    /// may take long.
    ///
    /// # Errors
    /// An error in the text, or the end of the script.
    pub fn compile(
        &mut self,
        text: &[u8],
        name: &CStr,
        server: &mut dyn Server,
    ) -> Result<Compiled, Vec<u8>> {
        let stack = self.interpreter.stack();
        if text.first() == Some(&27) {
            return Err(b"compiled functions are not accepted".to_vec());
        }
        self.lend(server);
        let loaded = stack.load(text, name);
        let ended = stack.ends().then(|| crate::interrupt::ended(stack));
        self.end();
        match (loaded, ended) {
            (true, None) => {
                self.kept += 1;
                Ok(Compiled(stack.keep()))
            }
            (_, Some(ended)) => {
                stack.pop(1);
                Err(Failure::of(ended).text)
            }
            (false, None) => {
                let message = stack.to_bytes(-1).unwrap_or_default().to_vec();
                stack.pop(1);
                Err(message)
            }
        }
    }

    /// Whether it is proven that a script, or a function of a library, passes no keys to commands
    /// except its declared ones. `keeps_to_keys` decides this for a single call.
    pub fn keeps_to_keys(
        &mut self,
        function: &Compiled,
        keeps_to_keys: &mut dyn FnMut(&CallShape<'_>) -> bool,
    ) -> bool {
        let stack = self.interpreter.stack();
        stack.raw_get_index(crate::vm::LUA_REGISTRYINDEX, function.0);
        let dump = stack.dump(DUMP_MAX);
        stack.pop(1);
        let proto = dump.as_deref().and_then(Proto::read);
        proto.is_some_and(|proto| KeyFlow::new(self.purpose, keeps_to_keys).prove(&proto).is_some())
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
        self.lend(server);
        let filled = self.fill_lists(keys, args);
        let result = match filled {
            Ok(()) => {
                stack.raw_get_index(crate::vm::LUA_REGISTRYINDEX, script.0);
                self.run(0, reply)
            }
            Err(raise) => self.give_up(raise),
        };
        self.lists.iter_mut().for_each(|list| list.empty(stack));
        // Options set by one script are not seen by the next.
        self.interpreter.with(|extra| extra.json = Default::default());
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
        self.lend(server);
        stack.raw_get_index(crate::vm::LUA_REGISTRYINDEX, function.0);
        match push_list(stack, keys).and_then(|()| push_list(stack, args)) {
            Ok(()) => self.run(2, reply),
            Err(raise) => self.give_up(raise),
        }
    }

    /// Gives the running script its `KEYS` and `ARGV`.
    #[inline]
    fn fill_lists(&mut self, keys: &[&[u8]], args: &[&[u8]]) -> Result<(), Raise> {
        let stack = self.interpreter.stack();
        let [first, second] = &mut self.lists;
        first.fill(stack, keys)?;
        second.fill(stack, args)
    }

    /// The result of a script that is not run.
    #[cold]
    fn give_up(&mut self, raise: Raise) -> Result<(), Failure> {
        self.end();
        self.interpreter.stack().set_top(BASE);
        Err(Failure::of(raise))
    }

    /// Runs the text of a library, which declares its functions.
    ///
    /// # Errors
    /// If it fails, or makes an invalid declaration; functions declared until then are dropped.
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

    /// Runs the function below this many arguments, for the lent server, and writes its result.
    fn run(&mut self, args: c_int, reply: &mut dyn Reply) -> Result<(), Failure> {
        let stack = self.interpreter.stack();
        let mut result = self.call(args);
        if result.is_ok() {
            result = returned_error(stack).map_or(Ok(()), Err);
        }
        if result.is_ok() {
            let protocol = self.interpreter.with(|extra| extra.protocol);
            result = convert::write(stack, protocol, reply);
        }
        self.end();
        stack.set_top(BASE);
        if self.interpreter.with(|extra| extra.memory.is_littered()) {
            stack.collect();
            self.interpreter.with(|extra| extra.memory.collected = extra.memory.used);
        }
        result
    }

    /// Lets a script ask this server.
    fn lend(&mut self, server: &mut dyn Server) {
        // SAFETY: only the lifetime changes, and the pointer is taken back by `end`, before the
        // caller of this returns.
        let server: NonNull<dyn Server + 'static> =
            unsafe { std::mem::transmute(NonNull::from(server)) };
        self.interpreter.with(|extra| {
            extra.protocol = Protocol::Resp2;
            extra.server = Some(server);
        });
    }

    /// Forgets the server, and whatever else is only about the running script.
    fn end(&mut self) {
        let stack = self.interpreter.stack();
        let sets_collector = self.interpreter.with(|extra| {
            extra.server = None;
            extra.killed = None;
            extra.take_end();
            std::mem::take(&mut extra.sets_collector)
        });
        if sets_collector {
            stack.reset_collector();
        }
    }

    /// Calls the function below this many arguments and leaves one result.
    fn call(&mut self, args: c_int) -> Result<(), Failure> {
        let stack = self.interpreter.stack();
        self.interpreter.with(|extra| extra.memory.lenient = false);
        let result = stack.protected_call(args, 1, HANDLER);
        let (failure, end) = self.interpreter.with(|extra| {
            extra.memory.lenient = true;
            (extra.failure.take(), extra.take_end())
        });
        stack.set_period();
        if let Some(end) = end {
            return Err(end);
        }
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
        self.interpreter.with(|extra| extra.random = Random::new(seed));
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

/// Error handler: records the message and its place where the error is raised.
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

#[cfg(test)]
impl Lua {
    /// The function that a compiled text returns.
    pub(crate) fn returned(&mut self, text: &Compiled) -> Compiled {
        let stack = self.interpreter.stack();
        stack.raw_get_index(crate::vm::LUA_REGISTRYINDEX, text.0);
        stack.protected_call(0, 1, 0).expect("it returns a function");
        self.kept += 1;
        crate::extra::kept(stack)
    }

    /// The bytecode of a text.
    pub(crate) fn dump_of(&mut self, text: &[u8]) -> Vec<u8> {
        let stack = self.interpreter.stack();
        assert!(stack.load(text, c"s"));
        let dump = stack.dump(DUMP_MAX).expect("it is short");
        stack.pop(1);
        dump
    }
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
