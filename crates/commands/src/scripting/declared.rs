//! Static check before a script runs: whether a call in it names declared keys only, for
//! [`petrel_lua::Lua::keeps_to_keys`].

use crate::command_spec::{CommandSpec, KeyShape, Locks};
use crate::registry::Registry;
use petrel_lua::{CallArg, CallShape, CallTail};
use petrel_table::{BeginSearch, FindKeys, Flags, KeyFlags, KeySpec};

/// Whether a call touches declared keys only, with the rules of `Runner::reach`. An unknown key
/// counts as undeclared.
pub(super) fn names_declared_keys<H>(registry: &Registry<H>, call: &CallShape<'_>) -> bool {
    let Some(spec) = called(registry, call) else { return false };
    if spec.locks == Locks::Everything || spec.flags.contains(Flags::TOUCHES_ARBITRARY_KEYS) {
        return false;
    }
    match spec.keys {
        KeyShape::None => true,
        KeyShape::First => is_key(call, 1),
        KeyShape::Specs => spec.meta.keys.iter().all(|spec| finds_declared_keys(spec, call)),
    }
}

/// The called command, if the names of it and its subcommand are known.
fn called<H>(registry: &Registry<H>, call: &CallShape<'_>) -> Option<&'static CommandSpec<H>> {
    let name = |index: usize| match call.args.get(index) {
        Some(CallArg::Text(name)) => Some(*name),
        _ => None,
    };
    let command = registry.find(name(0)?)?;
    if command.spec.subcommands.is_empty() {
        return Some(command.spec);
    }
    registry.resolve(&[name(0)?, name(1)?]).map(|command| command.spec)
}

fn is_key(call: &CallShape<'_>, index: usize) -> bool {
    match call.args.get(index) {
        Some(arg) => *arg == CallArg::Key,
        None => call.tail == Some(CallTail::Keys),
    }
}

fn finds_declared_keys(spec: &KeySpec, call: &CallShape<'_>) -> bool {
    if spec.flags.contains(KeyFlags::NOT_KEY) {
        return true;
    }
    let BeginSearch::Index(begin) = spec.begin else { return false };
    // Keys located by keywords depend on the values of the arguments.
    if spec.locate.is_some() || spec.flags.contains(KeyFlags::INCOMPLETE) {
        return false;
    }
    let begin = usize::from(begin);
    match spec.find {
        FindKeys::Unknown => false,
        FindKeys::Range { last, step, .. } if last >= 0 && step > 0 => {
            let last = begin + usize::from(last.unsigned_abs());
            (begin..=last).step_by(usize::from(step)).all(|index| is_key(call, index))
        }
        FindKeys::Range { last, step, limit } if step > 0 && limit <= 1 => {
            let is_open = call.tail.is_some();
            if is_open && (call.tail != Some(CallTail::Keys) || last != -1 || step != 1) {
                return false;
            }
            let end = (call.args.len() + 1).saturating_sub(usize::from(last.unsigned_abs()));
            (begin..end).step_by(usize::from(step)).all(|index| is_key(call, index))
        }
        FindKeys::Range { .. } => false,
        FindKeys::KeyNum { count, first, step } => {
            let Some(CallArg::Text(count)) = call.args.get(begin + usize::from(count)) else {
                return false;
            };
            let count = std::str::from_utf8(count).ok().and_then(|text| text.parse::<u16>().ok());
            let first = begin + usize::from(first);
            count.is_some_and(|count| {
                (0..usize::from(count)).all(|n| is_key(call, first + n * usize::from(step.max(1))))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_lua::{Lua, Purpose, Release, ScriptReply, Server};
    use petrel_resp::Dialect;
    use std::borrow::Cow;

    /// Server stub for scripts that are only compiled.
    struct Nobody;

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

    /// Calls with declared keys only.
    const DECLARED: &[&str] = &[
        "redis.call('GET', KEYS[1])",
        "redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX')",
        "redis.call('mget', KEYS[1], KEYS[2])",
        "redis.call('mget', unpack(KEYS))",
        "redis.call('del', KEYS[1], unpack(KEYS, 2))",
        "redis.call('mset', KEYS[1], 1, KEYS[2], 2)",
        "redis.call('rename', KEYS[1], KEYS[2])",
        "redis.call('rpoplpush', KEYS[1], KEYS[2])",
        "redis.call('lpush', KEYS[1], unpack(ARGV))",
        "redis.call('zadd', KEYS[1], ARGV[1], ARGV[2])",
        "redis.call('zunionstore', KEYS[1], 2, KEYS[2], KEYS[3], 'WEIGHTS', 1, 2)",
        "redis.call('zunionstore', KEYS[1], '1', unpack(KEYS))",
        "redis.call('object', 'encoding', KEYS[1])",
        "redis.call('xadd', KEYS[1], '*', 'a', ARGV[1])",
        "redis.call('xgroup', 'create', KEYS[1], 'g', '$')",
        "redis.call('time')",
        "redis.call('dbsize')",
        "redis.call('bitop', 'and', KEYS[1], KEYS[2], KEYS[3])",
        "redis.call('blpop', KEYS[1], KEYS[2], 0)",
        "redis.call('json.set', KEYS[1], '$', ARGV[1])",
    ];

    /// Calls that may use undeclared keys.
    const UNDECLARED: &[&str] = &[
        "redis.call('GET', 'k')",
        "redis.call('mget', KEYS[1], 'k')",
        "redis.call('mget', KEYS[1], unpack(ARGV))",
        "redis.call('mset', KEYS[1], 1, ARGV[1], 2)",
        "redis.call('mset', unpack(KEYS))",
        "redis.call('rename', KEYS[1], ARGV[1])",
        "redis.call('rename', ARGV[1], KEYS[1])",
        "redis.call('zunionstore', KEYS[1], 2, KEYS[2], ARGV[1])",
        "redis.call('zunionstore', KEYS[1], #KEYS - 1, unpack(KEYS, 2))",
        "redis.call('zunionstore', KEYS[1], '1', unpack(ARGV))",
        "redis.call('bitop', 'and', KEYS[1], KEYS[2], ARGV[1])",
        "redis.call('blpop', KEYS[1], ARGV[1], 0)",
        "redis.call('object', ARGV[1], KEYS[1])",
        "redis.call('sort', KEYS[1], 'BY', 'w*')",
        "redis.call('sort', KEYS[1])",
        "redis.call('georadius', KEYS[1], 0, 0, 1, 'm', ARGV[1], ARGV[2])",
        "redis.call('xread', 'streams', KEYS[1], '0')",
        "redis.call('flushall')",
        "redis.call('keys', '*')",
        "redis.call('randomkey')",
        "redis.call('nosuchcommand', KEYS[1])",
        "redis.call('get')",
        "redis.call(ARGV[1], KEYS[1])",
        "redis.call('fcall', 'f', 1, ARGV[1])",
    ];

    #[test]
    fn calls_are_told_apart() {
        let registry = Registry::new(crate::FAMILIES);
        let release = Release {
            dialect: Dialect::default(),
            redis_version: "8.0.0",
            valkey_version: "9.0.0",
        };
        let mut lua = Lua::new(Purpose::Scripts, 1 << 30, release);
        let mut is_proven = |script: &str| {
            let compiled =
                lua.compile(script.as_bytes(), c"s", &mut Nobody).expect("the script is right");
            lua.keeps_to_keys(&compiled, &mut |call| names_declared_keys(&registry, call))
        };
        for script in DECLARED {
            assert!(is_proven(script), "{script}");
        }
        for script in UNDECLARED {
            assert!(!is_proven(script), "{script}");
        }
    }
}
