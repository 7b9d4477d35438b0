//! For tests: the same script with Lua's own libraries and with ours.

use crate::{Lua, Purpose, Release, ScriptReply, Server};
use mlua_sys as ffi;
use petrel_resp::{DecodeLimits, Dialect, Protocol, RespWriter, Value, decode};
use std::borrow::Cow;

/// Runs a script that answers lines with both, and compares them.
pub(crate) fn compare(script: &[u8]) {
    let lines = |text: &[u8]| -> Vec<String> {
        text.split(|&byte| byte == b'\n').map(|line| line.escape_ascii().to_string()).collect()
    };
    let (ours, luas) = (lines(&by_petrel(script)), lines(&by_lua(script)));
    assert_eq!(ours.len(), luas.len());
    for (at, (ours, luas_line)) in ours.iter().zip(&luas).enumerate() {
        assert_eq!(ours, luas_line, "behind {:?}", &luas[at.saturating_sub(8)..at]);
    }
}

/// An interpreter of ours.
pub(crate) fn interpreter(purpose: Purpose) -> Lua {
    let release =
        Release { dialect: Dialect::default(), redis_version: "8.0.0", valkey_version: "9.0.0" };
    Lua::new(purpose, 1 << 30, release)
}

pub(crate) struct Nobody;

impl Server for Nobody {
    fn call(&mut self, _: &[&[u8]], _: &mut ScriptReply) -> bool {
        false
    }

    fn interrupt(&mut self) -> Option<Cow<'static, str>> {
        None
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, &'static str> {
        Ok(false)
    }
}

/// Runs a script with Lua's own libraries.
fn by_lua(script: &[u8]) -> Vec<u8> {
    // SAFETY: the state is created here and used by this function alone; every call is protected or
    // cannot fail.
    unsafe {
        let state = ffi::luaL_newstate();
        for (name, library) in [
            (c"", ffi::luaopen_base as ffi::lua_CFunction),
            (c"table", ffi::luaopen_table),
            (c"string", ffi::luaopen_string),
            (c"math", ffi::luaopen_math),
        ] {
            ffi::lua_pushcclosure(state, library, 0);
            ffi::lua_pushstring_(state, name.as_ptr());
            assert_eq!(ffi::lua_pcall(state, 1, 0, 0), 0);
        }
        let len = script.len();
        let loaded = ffi::luaL_loadbuffer(state, script.as_ptr().cast(), len, c"s".as_ptr());
        assert_eq!(loaded, 0);
        assert_eq!(ffi::lua_pcall(state, 0, 1, 0), 0);
        let mut len = 0;
        let text = ffi::lua_tolstring(state, -1, &mut len);
        let result = std::slice::from_raw_parts(text.cast::<u8>(), len).to_vec();
        ffi::lua_close(state);
        result
    }
}

/// Runs a script with this crate's libraries.
fn by_petrel(script: &[u8]) -> Vec<u8> {
    run(&mut interpreter(Purpose::Scripts), script, &[], &[]).expect("it answers a text")
}

/// Runs a script; returns its result if that is a string.
pub(crate) fn run(lua: &mut Lua, script: &[u8], keys: &[&[u8]], args: &[&[u8]]) -> Option<Vec<u8>> {
    let compiled = lua.compile(script, c"s", &mut Nobody).expect("the script is right");
    let (mut bytes, mut shared) = (Vec::new(), Vec::new());
    let mut reply = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp2);
    let result = lua.run_script(&compiled, keys, args, &mut Nobody, &mut reply);
    lua.release(compiled);
    result.ok()?;
    for (offset, part) in shared.into_iter().rev() {
        bytes.splice(offset..offset, part);
    }
    match decode(&bytes, &DecodeLimits::default()) {
        Ok(Some((Value::Bulk(text), _))) => Some(text.to_vec()),
        other => panic!("{other:?}"),
    }
}
