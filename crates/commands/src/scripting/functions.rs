//! FCALL, FCALL_RO, FUNCTION.

use super::function_thread::FunctionThread;
use super::libraries::{Library, List};
use super::run::{self, Access, Call};
use super::running::ProgramKind;
use super::shebang;
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::glob::{Case, matches};
use crate::server::help::help;
use crate::server::stats::Shared;
use crate::spec::{CommandSpec, Locks};
use petrel_keyspace::aux_state::FUNCTIONS;
use petrel_persistence::rdb::{Error, dump_functions, restore_functions};
use petrel_table::commands as meta;
use petrel_table::options::{FunctionListOption, FunctionLoadOption, Reader, Unread};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::FCALL, fcall).locking(Locks::Itself),
    CommandSpec::new(&meta::FCALL_RO, fcall_ro).locking(Locks::Itself),
    CommandSpec::container(
        &meta::FUNCTION,
        &[
            CommandSpec::new(&meta::FUNCTION_DELETE, delete).locking(Locks::Itself),
            CommandSpec::new(&meta::FUNCTION_DUMP, dump).locking(Locks::Itself),
            CommandSpec::new(&meta::FUNCTION_FLUSH, flush).locking(Locks::Itself),
            CommandSpec::new(&meta::FUNCTION_KILL, kill).locking(Locks::Itself),
            CommandSpec::new(&meta::FUNCTION_LIST, list).locking(Locks::Itself),
            CommandSpec::new(&meta::FUNCTION_LOAD, load).locking(Locks::Itself),
            CommandSpec::new(&meta::FUNCTION_RESTORE, restore).locking(Locks::Itself),
            CommandSpec::new(&meta::FUNCTION_STATS, stats).locking(Locks::Itself),
            CommandSpec::new(&meta::FUNCTION_HELP, help).locking(Locks::Itself),
        ],
    ),
];

/// `FCALL function numkeys [key ...] [arg ...]`
fn fcall(ctx: &mut Ctx<'_>) -> Outcome {
    call(ctx, Access::Write)
}

/// `FCALL_RO function numkeys [key ...] [arg ...]`
fn fcall_ro(ctx: &mut Ctx<'_>) -> Outcome {
    call(ctx, Access::Read)
}

fn call(ctx: &mut Ctx<'_>, access: Access) -> Outcome {
    let mut thread = ctx.exec.take_function_thread();
    let result = call_with(ctx, &mut thread, access);
    thread.count_memory(&ctx.exec.shared.scripts);
    ctx.exec.functions = Some(thread);
    result
}

fn call_with(ctx: &mut Ctx<'_>, thread: &mut FunctionThread, access: Access) -> Outcome {
    let shared = &ctx.exec.shared;
    let callable = thread.find(&shared.scripts, &shared.libraries, ctx.arg(1))?;
    if petrel_keyspace::parse_int(ctx.arg(2)).is_none() {
        return Err(Fail::fixed("ERR Bad number of keys provided"));
    }
    let (keys, args) = super::split(ctx)?;
    let function = callable.function();
    let call = Call {
        kind: ProgramKind::Function,
        flags: Some(function.flags),
        access,
        key_use: &function.key_use,
        name: &|| function.name.clone(),
    };
    let seed = ctx.exec.random();
    run::run(ctx, &call, keys, |runner, reply| {
        thread.lua.seed(seed);
        thread.lua.run_function(&callable.compiled, keys, args, runner, reply)
    })
}

impl Executor {
    fn take_function_thread(&mut self) -> Box<FunctionThread> {
        let shared = &self.shared;
        self.functions
            .take()
            .unwrap_or_else(|| Box::new(FunctionThread::new(&shared.scripts, shared.release())))
    }

    fn function_thread<T>(&mut self, work: impl FnOnce(&mut FunctionThread, &Shared) -> T) -> T {
        let mut thread = self.take_function_thread();
        let result = work(&mut thread, &self.shared);
        self.functions = Some(thread);
        result
    }
}

/// `FUNCTION LOAD [REPLACE] function-code`
fn load(ctx: &mut Ctx<'_>) -> Outcome {
    let last = ctx.args().len() - 1;
    let mut replace = false;
    for option in Reader::new(&ctx.args()[2..last]) {
        match option {
            Ok(FunctionLoadOption::Replace) => replace = true,
            Err(unread) => return Err(quoting("ERR Unknown option given: ", unread.word())),
        }
    }
    let code = ctx.arg(last);
    let name = shebang::parse_library(code)?;
    let known = ctx.exec.knows_library(&name);
    if known && !replace {
        return Err(Fail::new(format!("ERR Library '{name}' already exists")));
    }
    match ctx.exec.draft.is_some() {
        true => ctx.exec.draft_library(code, replace)?,
        false => ctx.exec.add_library(code, replace, !known)?,
    }
    ctx.exec.record_libraries();
    ctx.reply.bulk(name.as_bytes());
    Ok(())
}

/// `FUNCTION DELETE library-name`
fn delete(ctx: &mut Ctx<'_>) -> Outcome {
    let name = String::from_utf8_lossy(ctx.arg(2));
    const UNKNOWN: Fail = Fail::fixed("ERR Library not found");
    match &mut ctx.exec.draft {
        Some(draft) => draft.libraries.remove(&name).then_some(()).ok_or(UNKNOWN)?,
        None => ctx.exec.shared.libraries.remove(&name)?,
    }
    ctx.exec.record_libraries();
    ctx.ok()
}

/// `FUNCTION FLUSH [ASYNC|SYNC]`
fn flush(ctx: &mut Ctx<'_>) -> Outcome {
    match ctx.args().len() {
        2 => {}
        3 if ctx.is(2, "SYNC") || ctx.is(2, "ASYNC") => {}
        3 => return Err(Fail::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
        _ => {
            return Err(Fail::fixed(
                "ERR unknown subcommand or wrong number of arguments for 'flush'. Try FUNCTION HELP.",
            ));
        }
    }
    ctx.exec.change_libraries(|list| {
        *list = List::default();
        Ok(())
    })?;
    ctx.exec.drop_flushed();
    ctx.exec.record_libraries();
    ctx.ok()
}

/// `FUNCTION KILL`
fn kill(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.exec.shared.scripts.running.kill(ProgramKind::Function, ctx.dialect())?;
    ctx.ok()
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`
fn list(ctx: &mut Ctx<'_>) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut options = ctx.options(2);
    while let Some((word, option)) = options.spelled() {
        match option {
            Ok(FunctionListOption::Withcode) if !with_code => with_code = true,
            Ok(FunctionListOption::Libraryname(name)) if pattern.is_none() => pattern = Some(name),
            Err(Unread::Incomplete(_)) if pattern.is_none() => {
                return Err(Fail::fixed("ERR library name argument was not given"));
            }
            _ => return Err(quoting("ERR Unknown argument ", word)),
        }
    }
    let list = ctx.exec.shared.libraries.list();
    let wanted: Vec<&Arc<Library>> = list
        .libraries
        .values()
        .filter(|library| {
            pattern
                .is_none_or(|pattern| matches(pattern, library.name.as_bytes(), Case::Insensitive))
        })
        .collect();
    ctx.reply.array(wanted.len());
    for library in wanted {
        show(ctx, library, with_code);
    }
    Ok(())
}

fn show(ctx: &mut Ctx<'_>, library: &Library, with_code: bool) {
    let reply = &mut *ctx.reply;
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(function.name.as_bytes());
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        let flags = function.flags.names();
        reply.set(flags.clone().count());
        flags.for_each(|name| reply.simple(name));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

/// `FUNCTION STATS`
fn stats(ctx: &mut Ctx<'_>) -> Outcome {
    let list = ctx.exec.shared.libraries.list();
    let running = ctx.exec.shared.scripts.running.first();
    let reply = &mut *ctx.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(script) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(script.name.as_bytes());
            reply.bulk(b"command");
            reply.array(script.command.len());
            script.command.iter().for_each(|arg| reply.bulk(arg));
            reply.bulk(b"duration_ms");
            reply.integer(script.since.elapsed().as_millis() as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(list.libraries.len() as i64);
    reply.bulk(b"functions_count");
    reply.integer(list.functions.len() as i64);
    Ok(())
}

/// `FUNCTION DUMP`
fn dump(ctx: &mut Ctx<'_>) -> Outcome {
    let list = ctx.exec.shared.libraries.list();
    let payload = dump_functions(list.libraries.values().map(|library| &library.code[..]));
    ctx.reply.shared(payload.into());
    Ok(())
}

/// `FUNCTION RESTORE serialized-value [FLUSH|APPEND|REPLACE]`
fn restore(ctx: &mut Ctx<'_>) -> Outcome {
    let (mut flush, mut replace) = (false, false);
    match ctx.args().len() {
        3 => {}
        4 if ctx.is(3, "APPEND") => {}
        4 if ctx.is(3, "REPLACE") => replace = true,
        4 if ctx.is(3, "FLUSH") => flush = true,
        4 => {
            return Err(Fail::fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
        _ => {
            return Err(Fail::fixed(
                "ERR unknown subcommand or wrong number of arguments for 'restore'. Try FUNCTION HELP.",
            ));
        }
    }
    let texts =
        restore_functions(ctx.arg(2), ctx.host.leniency()).map_err(|error| match error {
            Error::Frame => Fail::fixed("ERR DUMP payload version or checksum are wrong"),
            Error::Malformed(text) => Fail::new(format!("ERR {text}")),
            _ => Fail::fixed("ERR failed loading functions"),
        })?;
    let libraries = ctx.exec.function_thread(|thread, shared| {
        thread.examine_all(&shared.scripts, &shared.registry, &texts)
    })?;
    ctx.exec.change_libraries(|list| {
        // Libraries within the payload must not conflict. Conflicts with existing libraries are
        // resolved by the policy.
        let mut restored = List::default();
        for library in libraries {
            restored.add(library, false)?;
        }
        if flush {
            *list = List::default();
        }
        restored.libraries.into_values().try_for_each(|library| {
            if !replace && list.libraries.contains_key(&library.name) {
                return Err(Fail::new(format!("ERR Library {} already exists", library.name)));
            }
            list.add(library, replace)
        })
    })?;
    ctx.exec.record_libraries();
    ctx.ok()
}

impl Executor {
    /// Whether a library of this name exists in the copy, or without one, in the server.
    fn knows_library(&self, name: &str) -> bool {
        match &self.draft {
            Some(draft) => draft.libraries.libraries.contains_key(name),
            None => self.shared.libraries.list().libraries.contains_key(name),
        }
    }

    /// Changes a copy of the libraries, which replaces them unless `change` fails.
    fn change_libraries(&mut self, change: impl FnOnce(&mut List) -> Outcome) -> Outcome {
        let Some(draft) = &mut self.draft else { return self.shared.libraries.change(change) };
        let mut changed = draft.libraries.clone();
        change(&mut changed)?;
        draft.libraries = changed;
        Ok(())
    }

    fn add_library(&mut self, code: &[u8], replace: bool, is_new: bool) -> Outcome {
        self.function_thread(|thread, shared| -> Outcome {
            let examined = thread.examine(&shared.scripts, &shared.registry, code)?;
            match shared.libraries.add(examined.library.clone(), replace) {
                Ok(()) => thread.adopt(&shared.scripts, &shared.libraries, examined, is_new),
                Err(fail) => {
                    thread.discard(examined);
                    return Err(fail);
                }
            }
            Ok(())
        })
    }

    fn draft_library(&mut self, code: &[u8], replace: bool) -> Outcome {
        let library = self.function_thread(|thread, shared| -> Result<Arc<Library>, Fail> {
            let examined = thread.examine(&shared.scripts, &shared.registry, code)?;
            let library = examined.library.clone();
            thread.discard(examined);
            Ok(library)
        })?;
        self.change_libraries(|list| list.add(library, replace))
    }

    /// Records the changed libraries: for the sinks of effects, or in the draft.
    fn record_libraries(&mut self) {
        match &mut self.draft {
            Some(draft) => {
                draft.changed.insert("functions", draft.libraries.form());
            }
            None => self.shared.record_aux(&mut self.ks, FUNCTIONS),
        }
    }
}

impl Shared {
    /// Memory of scripts and functions in bytes: texts, and interpreters of all threads.
    pub fn script_bytes(&self) -> u64 {
        let interpreters = self.scripts.interpreters.iter().map(|bytes| bytes.load(Relaxed));
        (self.scripts.footprint() + self.libraries.text_bytes() + interpreters.sum::<usize>())
            as u64
    }

    /// Replaces all libraries at once; the existing ones stay on failure.
    ///
    /// # Errors
    /// If a text is no library, or two declare the same.
    pub(crate) fn exchange_libraries(&self, texts: &[Vec<u8>]) -> Result<(), Fail> {
        let before = self.libraries.list();
        let is_known =
            |text: &&Vec<u8>| before.libraries.values().any(|library| *library.code == text[..]);
        let (known, new): (Vec<&Vec<u8>>, Vec<&Vec<u8>>) = texts.iter().partition(is_known);
        let new: Vec<Vec<u8>> = new.into_iter().cloned().collect();
        let libraries = self.examine_libraries(&new)?;
        // Libraries that stay are not compiled again.
        let stays = |library: &&Arc<Library>| known.iter().any(|text| library.code[..] == text[..]);
        let kept = before.libraries.values().filter(stays).cloned();
        let mut list = List::default();
        kept.chain(libraries).try_for_each(|library| list.add(library, false))?;
        self.libraries.change(|libraries| {
            *libraries = list;
            Ok(())
        })
    }

    fn examine_libraries(&self, texts: &[Vec<u8>]) -> Result<Vec<Arc<Library>>, Fail> {
        let mut thread = FunctionThread::new(&self.scripts, self.release());
        let libraries = thread.examine_all(&self.scripts, &self.registry, texts);
        thread.count_out(&self.scripts);
        libraries
    }

    /// Adds libraries of functions, all or none of them. `replace`: they replace libraries of the
    /// same names.
    ///
    /// # Errors
    /// If a text is no library, or declares an existing name.
    pub fn add_libraries(&self, texts: &[Vec<u8>], replace: bool) -> Result<(), Fail> {
        let libraries = self.examine_libraries(texts)?;
        self.libraries
            .change(|list| libraries.into_iter().try_for_each(|library| list.add(library, replace)))
    }
}

fn quoting(text: &str, word: &[u8]) -> Fail {
    Fail::new([text.as_bytes(), word].concat())
}
