//! State of a thread for running functions: an interpreter, created on first use, with the
//! libraries of the functions called.

use super::cache::Scripts;
use super::declared::names_declared_keys;
use super::key_use::KeyUse;
use super::libraries::{Function, Libraries, Library, List};
use super::shebang::{self, Flags};
use crate::fail::Fail;
use crate::registry::Registry;
use petrel_lua::{CallShape, Compiled, Lua, Purpose, Release, ScriptReply, Server};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Maximum time for a library to declare its functions.
const LOAD_TIME_MAX: Duration = Duration::from_millis(500);

/// Maximum number of functions that a thread keeps compiled before their first call.
const KEPT_MAX: usize = 10_000;

/// Compiled function.
pub(crate) struct Callable {
    pub library: Arc<Library>,
    place: usize,
    pub compiled: Compiled,
}

impl Callable {
    /// Description of the function.
    pub fn function(&self) -> &Function {
        &self.library.functions[self.place]
    }
}

/// Library with its functions, compiled by the thread that examined it.
pub(crate) struct Examined {
    pub library: Arc<Library>,
    compiled: Vec<Compiled>,
}

/// State of a thread for running functions.
pub(crate) struct FunctionThread {
    pub lua: Lua,
    /// Functions by lower-case name.
    functions: HashMap<Vec<u8>, Arc<Callable>>,
    changes: u64,
    counted: usize,
}

impl FunctionThread {
    pub fn new(scripts: &Scripts, release: Release) -> Self {
        let memory_max = scripts.memory_max.load(Relaxed);
        let lua = Lua::new(Purpose::Functions, memory_max, release);
        FunctionThread { lua, functions: HashMap::new(), changes: 0, counted: 0 }
    }

    /// Finds a function by its name, in any case.
    pub fn find(
        &mut self,
        scripts: &Scripts,
        libraries: &Libraries,
        name: &[u8],
    ) -> Result<Arc<Callable>, Fail> {
        const UNKNOWN: Fail = Fail::fixed("ERR Function not found");
        let changes = libraries.changes();
        if changes != self.changes {
            self.changes = changes;
            self.forget_but(&libraries.list());
        }
        let key = name.to_ascii_lowercase();
        if let Some(callable) = self.functions.get(&key) {
            return Ok(callable.clone());
        }
        let list = libraries.list();
        let (library, _) = list.functions.get(&key).ok_or(UNKNOWN)?;
        self.load_known(library)?;
        self.count_memory(scripts);
        self.functions.get(&key).cloned().ok_or(UNKNOWN)
    }

    /// Loads a library that another thread has validated.
    fn load_known(&mut self, library: &Arc<Library>) -> Result<(), Fail> {
        for declared in self.declare(&library.code)? {
            let place =
                library.functions.iter().position(|function| function.name == declared.name);
            match place {
                Some(place) => {
                    let key = declared.name.to_ascii_lowercase().into_bytes();
                    let compiled = declared.function;
                    let callable = Callable { library: library.clone(), place, compiled };
                    let replaced = self.functions.insert(key, Arc::new(callable));
                    self.release(replaced);
                }
                None => self.lua.release(declared.function),
            }
        }
        Ok(())
    }

    /// Loads a library to determine its functions. They are compiled then;
    /// [`FunctionThread::adopt`] keeps them once the library is added.
    pub fn examine<H>(
        &mut self,
        scripts: &Scripts,
        registry: &Registry<H>,
        code: &[u8],
    ) -> Result<Examined, Fail> {
        let name = shebang::parse_library(code)?;
        let declared = self.declare(code)?;
        let mut functions = Vec::with_capacity(declared.len());
        let mut compiled = Vec::with_capacity(declared.len());
        let mut unknown = false;
        for declared in declared {
            let mut flags = Flags::NONE;
            for flag in &declared.flags {
                match Flags::from_name(flag.as_bytes()) {
                    Some(flag) => flags = flags.with(flag),
                    None => unknown = true,
                }
            }
            let keeps_to_keys = &mut |call: &CallShape<'_>| names_declared_keys(registry, call);
            let keeps_to_keys = self.lua.keeps_to_keys(&declared.function, keeps_to_keys);
            functions.push(Function {
                name: declared.name,
                description: declared.description,
                flags,
                key_use: KeyUse::new(keeps_to_keys),
            });
            compiled.push(declared.function);
        }
        let library = Arc::new(Library { name, code: code.into(), functions });
        let examined = Examined { library, compiled };
        if unknown || examined.compiled.is_empty() {
            let text = match unknown {
                true => "ERR Error registering functions: ERR unknown flag given",
                false => "ERR No functions registered",
            };
            self.discard(examined);
            return Err(Fail::fixed(text));
        }
        self.count_memory(scripts);
        Ok(examined)
    }

    /// Determines the functions of libraries, and keeps none of them.
    pub fn examine_all<H>(
        &mut self,
        scripts: &Scripts,
        registry: &Registry<H>,
        texts: &[Vec<u8>],
    ) -> Result<Vec<Arc<Library>>, Fail> {
        let mut libraries = Vec::with_capacity(texts.len());
        for text in texts {
            let examined = self.examine(scripts, registry, text)?;
            libraries.push(examined.library.clone());
            self.discard(examined);
        }
        Ok(libraries)
    }

    /// Keeps the compiled functions of a new library, if there is room. The others are compiled on
    /// their first call.
    pub fn adopt(
        &mut self,
        scripts: &Scripts,
        libraries: &Libraries,
        examined: Examined,
        is_new: bool,
    ) {
        if is_new && libraries.changes() == self.changes + 1 {
            // Nothing else has changed: all kept functions stay valid.
            self.changes += 1;
        }
        let is_full = self.lua.memory() > scripts.memory_max.load(Relaxed) / 2;
        if is_full || self.functions.len() >= KEPT_MAX {
            self.discard(examined);
        } else {
            let Examined { library, compiled } = examined;
            for (place, compiled) in compiled.into_iter().enumerate() {
                let key = library.functions[place].name.to_ascii_lowercase().into_bytes();
                let callable = Callable { library: library.clone(), place, compiled };
                let replaced = self.functions.insert(key, Arc::new(callable));
                self.release(replaced);
            }
        }
        self.count_memory(scripts);
    }

    /// Drops the functions of a library that was not added.
    pub fn discard(&mut self, examined: Examined) {
        examined.compiled.into_iter().for_each(|compiled| self.lua.release(compiled));
    }

    fn declare(&mut self, code: &[u8]) -> Result<Vec<petrel_lua::Declared>, Fail> {
        let body = shebang::body(code);
        let mut loader = Loader { since: Instant::now() };
        let text = self.lua.compile(body, c"@user_function", &mut loader).map_err(|message| {
            Fail::new([b"ERR Error compiling function: ", &message[..]].concat())
        })?;
        let result = self.lua.load_library(&text, &mut Loader { since: Instant::now() });
        self.lua.release(text);
        match result {
            Ok(library) => Ok(library.functions),
            Err(failure) => {
                let text = [b"ERR Error registering functions: ", &failure.text[..]].concat();
                Err(Fail::new(text))
            }
        }
    }

    /// Records the memory of the interpreter.
    pub fn count_memory(&mut self, scripts: &Scripts) {
        let now = self.lua.memory();
        if now != self.counted {
            scripts.count_interpreter(1, self.counted, now);
            self.counted = now;
        }
    }

    /// Removes this interpreter's memory from the total.
    pub fn count_out(self, scripts: &Scripts) {
        scripts.count_interpreter(1, self.counted, 0);
    }

    /// Whether all libraries were flushed since it called a function.
    pub fn is_flushed(&self, libraries: &Libraries) -> bool {
        libraries.changes() != self.changes && libraries.list().libraries.is_empty()
    }

    /// Drops the functions of libraries that are not in the list.
    #[cold]
    fn forget_but(&mut self, list: &List) {
        let is_known = |callable: &Callable| {
            let library = list.libraries.get(&callable.library.name);
            library.is_some_and(|library| Arc::ptr_eq(library, &callable.library))
        };
        let mut gone = Vec::new();
        self.functions.retain(|_, callable| {
            let known = is_known(callable);
            if !known {
                gone.push(callable.clone());
            }
            known
        });
        for callable in gone {
            self.release(Some(callable));
        }
        self.lua.collect();
    }

    fn release(&mut self, callable: Option<Arc<Callable>>) {
        if let Some(callable) = callable.and_then(Arc::into_inner) {
            self.lua.release(callable.compiled);
        }
    }
}

/// The server as seen by a library that is being loaded: only the log.
struct Loader {
    since: Instant,
}

impl Server for Loader {
    fn call(&mut self, _: &[&[u8]], reply: &mut ScriptReply) -> bool {
        reply.break_off(b"ERR redis.call can only be called inside a script invocation");
        false
    }

    fn interrupt(&mut self) -> Option<Cow<'static, str>> {
        (self.since.elapsed() > LOAD_TIME_MAX).then_some("FUNCTION LOAD timeout".into())
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, &'static str> {
        Ok(false)
    }
}
