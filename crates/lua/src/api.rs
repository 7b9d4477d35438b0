//! The table `redis`, in Valkey's dialect also named `server`: what scripts can ask of the server.

use crate::extra::{Declared, Purpose, Release, with_server};
use crate::interrupt::{BYTES_PER_STEP, count_work};
use crate::reply::ScriptReply;
use crate::scratch::Scratch;
use crate::sha1::{hex, sha1_in_pieces};
use crate::vm::{
    LUA_TFUNCTION, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, Raise, Stack, push_reply_error,
};
use petrel_resp::Protocol;
use std::ffi::c_int;

/// Arguments of a command that need no allocation.
const ARGS_INLINE: usize = 16;

/// Arguments beyond which they do not stay on the interpreter's stack.
const ARGS_MANY: c_int = 4000;

const CONSTANTS: &[(&str, f64)] = &[
    ("LOG_DEBUG", 0.0),
    ("LOG_NOTICE", 2.0),
    ("LOG_VERBOSE", 1.0),
    ("LOG_WARNING", 3.0),
    ("REPL_ALL", 3.0),
    ("REPL_AOF", 1.0),
    ("REPL_NONE", 0.0),
    ("REPL_REPLICA", 2.0),
    ("REPL_SLAVE", 2.0),
];

/// Sets the tables of the server.
pub(crate) fn open(stack: Stack, globals: c_int, purpose: Purpose, release: Release) {
    macro_rules! set {
        ($($name:literal: $function:expr),* $(,)?) => {
            {$(stack.push_function($function); stack.raw_set_field(-2, $name.as_bytes());)*}
        };
    }
    stack.new_table(0, 32);
    set! {
        "call": call, "pcall": pcall, "log": log, "setresp": setresp, "sha1hex": sha1hex, "set_repl": set_repl,
        "error_reply": error_reply, "status_reply": status_reply, "acl_check_cmd": acl_check_cmd,
    }
    if purpose == Purpose::Scripts {
        set! {
            "replicate_commands": replicate_commands, "breakpoint": breakpoint, "debug": debug,
        }
    }
    set_constants(stack, CONSTANTS, release);
    set_server(stack, globals, release);
}

/// Sets the names of the server's table to the one on top, and takes it: Valkey has two of them.
pub(crate) fn set_server(stack: Stack, index: c_int, release: Release) {
    if release.dialect.is_valkey() {
        stack.copy(-1);
        stack.raw_set_field(index, b"server");
    }
    stack.raw_set_field(index, b"redis");
}

/// Pushes the table `redis` or `server` as a library sees it while it is loaded: it may declare
/// functions and write to the log.
pub(crate) fn push_loading(stack: Stack, release: Release) {
    stack.new_table(0, 2);
    let found = stack.top();
    stack.new_table(0, 8);
    stack.push_function(register_function);
    stack.raw_set_field(-2, b"register_function");
    stack.push_function(log);
    stack.raw_set_field(-2, b"log");
    let levels = CONSTANTS.iter().position(|(name, _)| !name.starts_with("LOG_"));
    set_constants(stack, &CONSTANTS[..levels.unwrap_or(CONSTANTS.len())], release);
    crate::sandbox::refuse_unknown(stack);
    crate::sandbox::stand_for(stack);
    set_server(stack, found, release);
    crate::sandbox::refuse_unknown(stack);
}

fn set_constants(stack: Stack, constants: &[(&str, f64)], release: Release) {
    for &(name, value) in constants {
        stack.push_number(value);
        stack.raw_set_field(-2, name.as_bytes());
    }
    set_version(stack, "REDIS", release.redis_version);
    if release.dialect.is_valkey() {
        set_version(stack, "VALKEY", release.valkey_version);
        stack.push_bytes(b"valkey");
        stack.raw_set_field(-2, b"SERVER_NAME");
    }
}

fn set_version(stack: Stack, of: &str, version: &str) {
    let number =
        version.split('.').fold(0u32, |sum, part| sum << 8 | part.parse::<u32>().unwrap_or(0));
    stack.push_bytes(version.as_bytes());
    stack.raw_set_field(-2, format!("{of}_VERSION").as_bytes());
    stack.push_number(f64::from(number));
    stack.raw_set_field(-2, format!("{of}_VERSION_NUM").as_bytes());
}

/// `redis.call(command [, arg ...])`
fn call(stack: Stack) -> Result<c_int, Raise> {
    if invoke(stack) { Err(Raise::Top) } else { Ok(1) }
}

/// `redis.pcall(command [, arg ...])`: an error is the result.
fn pcall(stack: Stack) -> Result<c_int, Raise> {
    invoke(stack);
    Ok(1)
}

/// Executes the command that the arguments are, and leaves its reply. True if that is an error.
#[inline]
fn invoke(stack: Stack) -> bool {
    let count = stack.top();
    if count == 0 {
        push_reply_error(
            stack,
            false,
            b"ERR Please specify at least one argument for this redis lib call",
        );
        return true;
    }
    if count > ARGS_MANY {
        return invoke_many(stack, count);
    }
    let mut inline: [&[u8]; ARGS_INLINE] = [b""; ARGS_INLINE];
    let mut many = Vec::new();
    let args: &mut [&[u8]] = match inline.get_mut(..count as usize) {
        Some(args) => args,
        None => {
            many.resize(count as usize, &b""[..]);
            &mut many
        }
    };
    for (i, arg) in (1..).zip(args.iter_mut()) {
        match argument(stack, i) {
            Some(bytes) => *arg = bytes,
            None => {
                push_reply_error(
                    stack,
                    false,
                    b"ERR Lua redis lib command arguments must be strings or integers",
                );
                return true;
            }
        }
    }
    execute(stack, args)
}

/// Like `invoke`, for more arguments than leave space on the stack for a reply: they move to a
/// table.
#[cold]
fn invoke_many(stack: Stack, count: c_int) -> bool {
    let args: Option<Vec<&[u8]>> = (1..=count).map(|i| argument(stack, i)).collect();
    stack.new_table(count as usize, 0);
    stack.insert(1);
    for i in (1..=count).rev() {
        stack.raw_set_index(1, i);
    }
    match args {
        Some(args) => execute(stack, &args),
        None => {
            push_reply_error(
                stack,
                false,
                b"ERR Lua redis lib command arguments must be strings or integers",
            );
            true
        }
    }
}

/// Executes a command and leaves its reply; true if that is an error.
#[inline]
fn execute(stack: Stack, args: &[&[u8]]) -> bool {
    let count = stack.top();
    let protocol = stack.with(|extra| extra.protocol);
    let mut reply = ScriptReply::new(stack, protocol);
    let executed = with_server(stack, |server| server.call(args, &mut reply));
    let complete = reply.is_whole() && stack.top() == count + 1;
    if executed == Some(true) {
        // The command's time is not the instructions' time.
        crate::extra::interrupted(stack);
        stack.with(|extra| extra.memory.pace.skip());
    }
    if reply.ends_script() {
        stack.with(|extra| extra.ends = true);
    }
    if complete {
        return reply.has_failed();
    }
    stack.set_top(count);
    let text: &[u8] = match executed {
        Some(_) if reply.is_too_large() => {
            b"ERR not enough memory: the reply is too large for the script"
        }
        Some(_) => b"ERR the reply is too deeply nested for a script",
        None => b"ERR redis.call can only be called inside a script invocation",
    };
    push_reply_error(stack, false, text);
    true
}

/// An argument of a command: a string, or a number, which becomes its text where it lies.
#[inline]
fn argument<'a>(stack: Stack, i: c_int) -> Option<&'a [u8]> {
    match stack.kind(i) {
        LUA_TSTRING => stack.to_bytes(i),
        LUA_TNUMBER => {
            let number = stack.to_number(i);
            let whole = number as i64;
            if whole as f64 == number && number.abs() < 9.3e18 {
                stack.push_bytes(itoa::Buffer::new().format(whole).as_bytes());
            } else {
                let mut text = [0u8; 40];
                stack.push_bytes(crate::digits::print_17_digits(number, &mut text));
            }
            stack.replace(i);
            stack.to_bytes(i)
        }
        _ => None,
    }
}

/// `redis.error_reply(text)`: `-` before the text is dropped, and a text without a code gets one.
fn error_reply(stack: Stack) -> Result<c_int, Raise> {
    if stack.top() != 1 || stack.kind(1) != LUA_TSTRING {
        push_reply_error(stack, false, b"ERR wrong number or type of arguments");
        return Ok(1);
    }
    let text = stack.to_bytes(1).unwrap_or_default();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let mut error = Scratch::new(stack);
    if !text.contains(&b' ') {
        error.extend(b"ERR ")?;
    }
    error.extend(text)?;
    stack.new_table(0, 1);
    error.push_value()?;
    stack.raw_set_field(-2, b"err");
    Ok(1)
}

/// `redis.status_reply(text)`
fn status_reply(stack: Stack) -> Result<c_int, Raise> {
    if stack.top() != 1 || stack.kind(1) != LUA_TSTRING {
        push_reply_error(stack, false, b"ERR wrong number or type of arguments");
        return Ok(1);
    }
    stack.new_table(0, 1);
    stack.copy(1);
    stack.raw_set_field(-2, b"ok");
    Ok(1)
}

/// `redis.sha1hex(text)`
fn sha1hex(stack: Stack) -> Result<c_int, Raise> {
    if stack.top() != 1 {
        return Err(Raise::Reply(b"ERR wrong number of arguments".into()));
    }
    let text = stack.to_bytes(1).unwrap_or_default();
    let sum = sha1_in_pieces(text, |len| count_work(stack, len / BYTES_PER_STEP * 4))?;
    stack.push_bytes(&hex(&sum));
    Ok(1)
}

/// `redis.log(level, text ...)`
fn log(stack: Stack) -> Result<c_int, Raise> {
    let count = stack.top();
    if count < 2 {
        return Err(Raise::Reply(b"ERR redis.log() requires two arguments or more.".into()));
    }
    if stack.kind(1) != LUA_TNUMBER {
        return Err(Raise::Reply(b"ERR First argument must be a number (log level).".into()));
    }
    let level = stack.to_number(1) as i64;
    if !(0..=3).contains(&level) {
        return Err(Raise::Reply(b"ERR Invalid log level.".into()));
    }
    let mut line = Scratch::new(stack);
    for (n, text) in (2..=count).filter_map(|i| stack.to_bytes(i)).enumerate() {
        count_work(stack, text.len() / BYTES_PER_STEP)?;
        if n > 0 {
            line.push(b' ')?;
        }
        line.extend(text)?;
    }
    with_server(stack, |server| server.log(level as u8, &line));
    Ok(0)
}

/// `redis.setresp(2|3)`
fn setresp(stack: Stack) -> Result<c_int, Raise> {
    if stack.top() != 1 {
        return Err(Raise::Reply(b"ERR redis.setresp() requires one argument.".into()));
    }
    let protocol = match stack.is_number(1).then(|| stack.to_number(1)) {
        Some(2.0) => Protocol::Resp2,
        Some(3.0) => Protocol::Resp3,
        _ => return Err(Raise::Reply(b"ERR RESP version must be 2 or 3.".into())),
    };
    stack.with(|extra| extra.protocol = protocol);
    Ok(0)
}

/// `redis.set_repl(flags)`: effects are replicated or not as a whole, so it is checked and no more.
fn set_repl(stack: Stack) -> Result<c_int, Raise> {
    if stack.top() != 1 {
        return Err(Raise::Reply(b"ERR redis.set_repl() requires one argument.".into()));
    }
    let flags = if stack.is_number(1) { stack.to_number(1) as i64 } else { 0 };
    if !(0..=3).contains(&flags) {
        return Err(Raise::Reply(
            b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."
                .into(),
        ));
    }
    Ok(0)
}

/// `redis.replicate_commands()`: always so.
fn replicate_commands(stack: Stack) -> Result<c_int, Raise> {
    stack.push_boolean(true);
    Ok(1)
}

/// `redis.breakpoint()`: no debugger is attached.
fn breakpoint(stack: Stack) -> Result<c_int, Raise> {
    stack.push_boolean(false);
    Ok(1)
}

/// `redis.debug(value ...)`: no debugger is attached.
fn debug(_: Stack) -> Result<c_int, Raise> {
    Ok(0)
}

/// `redis.acl_check_cmd(command [, arg ...])`
fn acl_check_cmd(stack: Stack) -> Result<c_int, Raise> {
    let count = stack.top();
    if count == 0 {
        return Err(Raise::Reply(
            b"ERR Please specify at least one argument for this redis lib call".into(),
        ));
    }
    let mut args = Vec::with_capacity(count as usize);
    for i in 1..=count {
        let Some(arg) = argument(stack, i) else {
            return Err(Raise::Reply(
                b"ERR Lua redis lib command arguments must be strings or integers".into(),
            ));
        };
        args.push(arg);
    }
    match with_server(stack, |server| server.may_run(&args)) {
        Some(Ok(may)) => stack.push_boolean(may),
        Some(Err(text)) => return Err(Raise::Reply(text.as_bytes().into())),
        None => stack.push_boolean(false),
    }
    Ok(1)
}

/// `redis.register_function(name, function)`, or the same with a table of names.
fn register_function(stack: Stack) -> Result<c_int, Raise> {
    let refuse = |text: &str| Err(refusal(text));
    if !stack.with(|extra| extra.library.is_some()) {
        return refuse("redis.register_function can only be called on FUNCTION LOAD command");
    }
    let (name, description, flags) = match stack.top() {
        1 if stack.kind(1) == LUA_TTABLE => named_arguments(stack)?,
        1 => {
            return refuse(
                "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
            );
        }
        2 => {
            if !matches!(stack.kind(1), LUA_TSTRING | LUA_TNUMBER) {
                return refuse("first argument to redis.register_function must be a string");
            }
            if stack.kind(2) != LUA_TFUNCTION {
                return refuse("second argument to redis.register_function must be a function");
            }
            (stack.to_bytes(1).unwrap_or_default().to_vec(), None, Vec::new())
        }
        _ => return refuse("wrong number of arguments to redis.register_function"),
    };
    let is_name = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    if name.is_empty() || !name.iter().all(is_name) {
        return refuse(
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        );
    }
    let name = String::from_utf8_lossy(&name).into_owned();
    let known = stack.with(|extra| {
        let library = extra.library.as_ref();
        library.is_some_and(|library| library.functions.iter().any(|other| other.name == name))
    });
    if known {
        return refuse("Function already exists in the library");
    }
    let function = crate::extra::kept(stack);
    stack.with(|extra| {
        if let Some(library) = &mut extra.library {
            library.functions.push(Declared { name, function, description, flags });
        }
    });
    Ok(0)
}

fn refusal(text: &str) -> Raise {
    Raise::Reply(format!("ERR {text}").into_bytes().into())
}

type Named = (Vec<u8>, Option<Vec<u8>>, Vec<String>);

/// The arguments of `register_function` by name; the function is left on top.
fn named_arguments(stack: Stack) -> Result<Named, Raise> {
    let refuse = |text: &str| Err(refusal(text));
    let (mut name, mut description, mut flags, mut function) = (None, None, Vec::new(), false);
    // The function's place.
    stack.push_nil();
    stack.push_nil();
    while stack.next(1) {
        if stack.kind(-2) != LUA_TSTRING {
            return refuse("named argument key given to redis.register_function is not a string");
        }
        // In any letter case.
        match &stack.to_bytes(-2).unwrap_or_default().to_ascii_lowercase()[..] {
            b"function_name" if matches!(stack.kind(-1), LUA_TSTRING | LUA_TNUMBER) => {
                name = stack.to_bytes(-1).map(<[u8]>::to_vec)
            }
            b"function_name" => {
                return refuse(
                    "function_name argument given to redis.register_function must be a string",
                );
            }
            b"description" if matches!(stack.kind(-1), LUA_TSTRING | LUA_TNUMBER) => {
                description = stack.to_bytes(-1).map(<[u8]>::to_vec);
            }
            b"description" => {
                return refuse(
                    "description argument given to redis.register_function must be a string",
                );
            }
            b"callback" if stack.kind(-1) == LUA_TFUNCTION => {
                function = true;
                stack.copy(-1);
                stack.replace(2);
            }
            b"callback" => {
                return refuse(
                    "callback argument given to redis.register_function must be a function",
                );
            }
            b"flags" if stack.kind(-1) == LUA_TTABLE => flags = flag_names(stack)?,
            b"flags" => {
                return refuse(
                    "flags argument to redis.register_function must be a table representing function flags",
                );
            }
            _ => return refuse("unknown argument given to redis.register_function"),
        }
        stack.pop(1);
    }
    if !function {
        if name.is_none() {
            return refuse("redis.register_function must get a function name argument");
        }
        return refuse("redis.register_function must get a callback argument");
    }
    let Some(name) = name else {
        return refuse("redis.register_function must get a function name argument");
    };
    stack.copy(2);
    Ok((name, description, flags))
}

/// The elements of the table on top.
fn flag_names(stack: Stack) -> Result<Vec<String>, Raise> {
    let mut flags = Vec::new();
    for n in 1.. {
        let kind = stack.raw_get_index(-1, n);
        let text = if kind == LUA_TSTRING { stack.to_bytes(-1) } else { None };
        let flag = text.map(|text| String::from_utf8_lossy(text).into_owned());
        stack.pop(1);
        match flag {
            Some(flag) => flags.push(flag),
            None if kind == LUA_TNIL => break,
            None => return Err(refusal("unknown flag given")),
        }
    }
    Ok(flags)
}
