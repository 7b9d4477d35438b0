//! Flow analysis of keys: a proof, before a script runs, that it passes only declared keys to
//! commands.
//!
//! The bytecode is executed with the knowledge about each register's value in place of the value.
//! Each path is followed, and differences are forgotten where paths meet. The values that lead to
//! commands and keys (`redis`, `redis.call`, `KEYS`) are never lost sight of: a script that puts
//! one where it could be found again in another way (in a table, in a variable of an inner
//! function, in the arguments of a function) has no proof. Since globals cannot be changed, there
//! is no other way to them. A script that passes other keys to commands has no proof either.
//!
//! `None` says that there is no proof.

use crate::bytecode::{Instruction, Op, Proto};
use crate::extra::Purpose;

/// Registers at all places of one function, beyond which no proof is tried.
const REGISTERS_MAX: usize = 1 << 17;

/// Times that each instruction is looked at on average, beyond which the proof is given up.
const VISITS_MAX: usize = 10;

/// An argument of a command as it is known before the script runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallArg<'a> {
    /// A declared key.
    Key,
    /// This text.
    Text(&'a [u8]),
    /// Anything.
    Other,
}

/// Arguments of a number that is not known, the last of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallTail {
    /// Declared keys.
    Keys,
    /// Anything.
    Other,
}

/// A call of a command, the name of which is the first argument.
#[derive(Debug)]
pub struct CallShape<'a> {
    /// The arguments.
    pub args: Vec<CallArg<'a>>,
    /// And more behind them, perhaps.
    pub tail: Option<CallTail>,
}

/// Globals that lead neither to commands nor to keys, and do not compile texts.
const PLAIN_GLOBALS: &str = "\
    ARGV _VERSION assert bit cjson cmsgpack collectgarbage coroutine error gcinfo \
    getmetatable math next os pcall rawequal rawget rawset select setmetatable string \
    struct table tonumber tostring type xpcall";

/// Knowledge about a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Value {
    /// A value that is not followed.
    Other,
    /// The text of this constant.
    Text(u32),
    /// An element of `KEYS`, or nil.
    Key,
    /// The function `unpack`.
    Unpack,
    /// The function `pairs` or `ipairs`.
    Pairs,
    /// The function that a loop over `KEYS` calls.
    NextKey,
    /// The list of declared keys.
    Keys,
    /// The table `redis`.
    Redis,
    /// `redis.call` or `redis.pcall`.
    Call,
    /// Any of the last three on some path, or the remains of a call. No compiled code reads it.
    Unusable,
}

impl Value {
    /// Whether the value may leave the analysed registers.
    fn is_plain(self) -> bool {
        !matches!(self, Value::Keys | Value::Redis | Value::Call | Value::Unusable)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Register {
    value: Value,
    /// An inner function may change it.
    is_shared: bool,
}

/// Knowledge before an instruction.
#[derive(Clone, Debug, Eq, PartialEq)]
struct State {
    registers: Vec<Register>,
    /// Values of unknown number, from this register on.
    tail: Option<(usize, CallTail)>,
}

impl State {
    fn get(&self, register: usize) -> Option<Value> {
        let value = self.registers.get(register)?.value;
        (value != Value::Unusable).then_some(value)
    }

    /// Reads a value that is not followed further.
    fn release(&self, register: usize) -> Option<()> {
        self.get(register)?.is_plain().then_some(())
    }

    /// Knowledge about a register or a constant.
    fn release_operand(&self, operand: usize) -> Option<()> {
        if is_constant(operand) { Some(()) } else { self.release(operand) }
    }

    fn set(&mut self, register: usize, value: Value) -> Option<()> {
        let register = self.registers.get_mut(register)?;
        if register.is_shared && !value.is_plain() {
            return None;
        }
        register.value = if register.is_shared { Value::Other } else { value };
        Some(())
    }

    fn set_others(&mut self, registers: std::ops::RangeInclusive<usize>) -> Option<()> {
        registers.into_iter().try_for_each(|register| self.set(register, Value::Other))
    }

    /// Forgets registers that a call has overwritten.
    fn clobber(&mut self, from: usize) {
        for register in self.registers.iter_mut().skip(from) {
            register.value = Value::Unusable;
        }
    }

    /// Merges the knowledge of another path; true if that changed something.
    fn join(&mut self, other: &State) -> bool {
        let before = self.clone();
        for (own, other) in self.registers.iter_mut().zip(&other.registers) {
            own.is_shared |= other.is_shared;
            own.value = match (own.value, other.value) {
                (own, other) if own == other => own,
                (own, other) if own.is_plain() && other.is_plain() => Value::Other,
                _ => Value::Unusable,
            };
            if own.is_shared && own.value.is_plain() {
                own.value = Value::Other;
            }
        }
        if self.tail != other.tail {
            self.tail = None;
        }
        *self != before
    }
}

/// A proof that is being tried.
pub(crate) struct KeyFlow<'a> {
    purpose: Purpose,
    /// Whether a call passes declared keys only, according to the commands' key specs.
    keeps_to_keys: &'a mut dyn FnMut(&CallShape<'_>) -> bool,
}

impl<'a> KeyFlow<'a> {
    pub fn new(purpose: Purpose, keeps_to_keys: &'a mut dyn FnMut(&CallShape<'_>) -> bool) -> Self {
        KeyFlow { purpose, keeps_to_keys }
    }

    /// Proves that a script, or a function that is called with its keys and arguments, passes
    /// declared keys only.
    pub fn prove(&mut self, proto: &Proto) -> Option<()> {
        // What stands in variables around it, or comes as a list of arguments, may be anything.
        let is_closed =
            proto.upvalues == 0 && (self.purpose == Purpose::Scripts || !proto.is_vararg);
        if !is_closed {
            return None;
        }
        let takes_keys = self.purpose == Purpose::Functions && proto.parameters > 0;
        self.function(proto, true, if takes_keys { Value::Keys } else { Value::Other })
    }

    fn function(&mut self, proto: &Proto, is_entry: bool, first: Value) -> Option<()> {
        proto.protos.iter().try_for_each(|inner| self.function(inner, false, Value::Other))?;
        if proto.code.len() * usize::from(proto.registers) > REGISTERS_MAX {
            return None;
        }
        let unknown = Register { value: Value::Other, is_shared: false };
        let mut registers = vec![unknown; usize::from(proto.registers)];
        if let Some(register) = registers.first_mut() {
            register.value = first;
        }
        let mut flow = Flow { states: vec![None; proto.code.len()], waiting: Vec::new() };
        flow.to(0, State { registers, tail: None })?;
        let mut visits = proto.code.len() * VISITS_MAX;
        while let Some(pc) = flow.waiting.pop() {
            visits = visits.checked_sub(1)?;
            let state = flow.states.get(pc)?.clone()?;
            self.step(proto, is_entry, pc, state, &mut flow)?;
        }
        Some(())
    }

    fn step(
        &mut self,
        proto: &Proto,
        is_entry: bool,
        pc: usize,
        mut state: State,
        flow: &mut Flow,
    ) -> Option<()> {
        let instruction = *proto.code.get(pc)?;
        let (a, b, c) = (instruction.a(), instruction.b(), instruction.c());
        let mut next = pc + 1;
        match instruction.op()? {
            Op::Jump => next = instruction.target(pc)?,
            Op::ForPrepare => {
                (a..a + 3).try_for_each(|register| state.release(register))?;
                next = instruction.target(pc)?;
            }
            Op::ForLoop => {
                state.set_others(a..=a + 3)?;
                flow.to(instruction.target(pc)?, state.clone())?;
            }
            Op::Compare => {
                for operand in [b, c].into_iter().filter(|&operand| !is_constant(operand)) {
                    state.get(operand)?;
                }
                flow.to(pc + 2, state.clone())?;
            }
            Op::Test => {
                state.get(a)?;
                flow.to(pc + 2, state.clone())?;
            }
            Op::TestSet => {
                let value = state.get(b)?;
                flow.to(pc + 2, state.clone())?;
                state.set(a, value)?;
            }
            Op::LoadBool => {
                state.set(a, Value::Other)?;
                next += usize::from(c != 0);
            }
            Op::GenericFor => {
                iterate(&mut state, a, c)?;
                flow.to(pc + 2, state.clone())?;
                state.set(a + 2, Value::Other)?;
            }
            Op::SetList => {
                state.release(a)?;
                state.release_values(a + 1, if b == 0 { 0 } else { b + 1 })?;
                state.tail = None;
                next += usize::from(c == 0);
            }
            Op::Closure => next += share(proto, &mut state, pc, instruction)?,
            Op::Call | Op::TailCall => {
                let results = if instruction.op() == Some(Op::TailCall) { 0 } else { c };
                self.call(proto, &mut state, (a, b, results))?;
            }
            Op::Return => {
                // Values that a script returns are not followed: it is over.
                return if is_entry { Some(()) } else { state.release_values(a, b) };
            }
            _ => self.assign(proto, &mut state, instruction)?,
        }
        flow.to(next, state)
    }

    /// Instructions that give registers values and go on with the next instruction.
    fn assign(&self, proto: &Proto, state: &mut State, instruction: Instruction) -> Option<()> {
        let (a, b, c) = (instruction.a(), instruction.b(), instruction.c());
        let value = match instruction.op()? {
            Op::Move => state.get(b)?,
            Op::LoadConstant => constant(proto, instruction.number()),
            Op::LoadNil => return state.set_others(a..=b),
            Op::GetUpvalue | Op::NewTable => Value::Other,
            Op::GetGlobal => self.global(proto.text(instruction.number())?)?,
            Op::GetTable => {
                state.release_operand(c)?;
                match state.get(b)? {
                    Value::Keys => Value::Key,
                    Value::Redis if !is_constant(c) => return None,
                    Value::Redis => match proto.text(c - CONSTANT)? {
                        b"call" | b"pcall" => Value::Call,
                        _ => Value::Other,
                    },
                    Value::Call => return None,
                    _ => Value::Other,
                }
            }
            Op::SetUpvalue => return state.release(a),
            Op::SetTable => {
                state.release(a)?;
                state.release_operand(b)?;
                return state.release_operand(c);
            }
            Op::Method => {
                state.release(b)?;
                state.release_operand(c)?;
                state.set(a + 1, Value::Other)?;
                Value::Other
            }
            Op::Arithmetic => {
                state.release_operand(b)?;
                state.release_operand(c)?;
                Value::Other
            }
            Op::Concatenate => {
                (b..=c).try_for_each(|register| state.release(register))?;
                Value::Other
            }
            Op::Negate => {
                state.release(b)?;
                Value::Other
            }
            Op::Not | Op::Length => {
                state.get(b)?;
                Value::Other
            }
            Op::Close => {
                state.registers.iter_mut().skip(a).for_each(|register| register.is_shared = false);
                return Some(());
            }
            Op::Vararg if b == 0 => {
                state.clobber(a);
                state.tail = Some((a, CallTail::Other));
                return Some(());
            }
            Op::Vararg if b == 1 => return Some(()),
            Op::Vararg => return state.set_others(a..=a + b - 2),
            _ => return None,
        };
        state.set(a, value)
    }

    fn global(&self, name: &[u8]) -> Option<Value> {
        match name {
            b"KEYS" if self.purpose == Purpose::Scripts => Some(Value::Keys),
            b"redis" | b"server" => Some(Value::Redis),
            b"unpack" => Some(Value::Unpack),
            b"pairs" | b"ipairs" => Some(Value::Pairs),
            name => {
                let mut plain = PLAIN_GLOBALS.split(' ').map(str::as_bytes);
                plain.any(|plain| plain == name).then_some(Value::Other)
            }
        }
    }

    /// A call of the function in register `a` with `b - 1` arguments and `c - 1` results; 0 stands
    /// for a number that is not known.
    fn call(
        &mut self,
        proto: &Proto,
        state: &mut State,
        (a, b, c): (usize, usize, usize),
    ) -> Option<()> {
        let (args, tail) = state.values(a + 1, b)?;
        let (function, first) = (state.get(a)?, args.first().copied());
        let is_of_keys = first == Some(Value::Keys);
        let others = if is_of_keys && matches!(function, Value::Unpack | Value::Pairs) {
            &args[1..]
        } else {
            &args[..]
        };
        if !others.iter().all(|value| value.is_plain()) {
            return None;
        }
        let mut result = Value::Other;
        match function {
            Value::Call => self.command(proto, &args, tail)?,
            Value::Unpack if is_of_keys => result = Value::Key,
            Value::Pairs if is_of_keys && c != 4 => return None,
            Value::Keys | Value::Redis | Value::Unusable => return None,
            _ => {}
        }
        state.clobber(a);
        state.tail = None;
        if c == 0 {
            let tail = if result == Value::Key { CallTail::Keys } else { CallTail::Other };
            state.tail = Some((a, tail));
        } else {
            (a..a + c - 1).try_for_each(|register| state.set(register, result))?;
        }
        if function == Value::Pairs && is_of_keys {
            state.set(a, Value::NextKey)?;
            state.set(a + 1, Value::Keys)?;
        }
        Some(())
    }

    fn command(&mut self, proto: &Proto, args: &[Value], tail: Option<CallTail>) -> Option<()> {
        let shown = |value: &Value| match *value {
            Value::Key => Some(CallArg::Key),
            Value::Text(number) => proto.text(number as usize).map(CallArg::Text),
            _ => Some(CallArg::Other),
        };
        let args = args.iter().map(shown).collect::<Option<_>>()?;
        (self.keeps_to_keys)(&CallShape { args, tail }).then_some(())
    }
}

impl State {
    /// `count - 1` values from a register on; for 0, up to the values of unknown number.
    fn values(&self, from: usize, count: usize) -> Option<(Vec<Value>, Option<CallTail>)> {
        let (end, tail) = match count.checked_sub(1) {
            Some(count) => (from + count, None),
            None => {
                let (end, tail) = self.tail?;
                (end, Some(tail))
            }
        };
        if end < from {
            return None;
        }
        let values = (from..end).map(|register| self.get(register)).collect::<Option<_>>()?;
        Some((values, tail))
    }

    /// Takes values that need not be tracked further; `None` if one of them holds keys.
    fn release_values(&self, from: usize, count: usize) -> Option<()> {
        let (values, _) = self.values(from, count)?;
        values.into_iter().all(Value::is_plain).then_some(())
    }
}

/// Knowledge before each instruction, and the queue of instructions to look at.
struct Flow {
    states: Vec<Option<State>>,
    waiting: Vec<usize>,
}

impl Flow {
    /// Continues at a place with this knowledge.
    fn to(&mut self, pc: usize, state: State) -> Option<()> {
        let is_news = match self.states.get_mut(pc)? {
            Some(known) => known.join(&state),
            unseen => {
                *unseen = Some(state);
                true
            }
        };
        if is_news && !self.waiting.contains(&pc) {
            self.waiting.push(pc);
        }
        Some(())
    }
}

/// An operand from here on is a constant.
const CONSTANT: usize = 256;

fn is_constant(operand: usize) -> bool {
    operand >= CONSTANT
}

fn constant(proto: &Proto, number: usize) -> Value {
    match (proto.text(number), u32::try_from(number)) {
        (Some(_), Ok(number)) => Value::Text(number),
        _ => Value::Other,
    }
}

/// A round of a loop by an iterator, with `count` variables.
fn iterate(state: &mut State, a: usize, count: usize) -> Option<()> {
    let is_of_keys = state.get(a)? == Value::NextKey && state.get(a + 1)? == Value::Keys;
    if !is_of_keys {
        (a..a + 3).try_for_each(|register| state.release(register))?;
    }
    state.clobber(a + 3);
    state.set_others(a + 3..=a + 2 + count)?;
    if is_of_keys && count >= 2 {
        state.set(a + 4, Value::Key)?;
    }
    Some(())
}

/// Marks registers shared with a created function; returns the number of instructions that name
/// them.
fn share(proto: &Proto, state: &mut State, pc: usize, instruction: Instruction) -> Option<usize> {
    let count = usize::from(proto.protos.get(instruction.number())?.upvalues);
    // The function itself may be among them.
    state.set(instruction.a(), Value::Other)?;
    for at in pc + 1..=pc + count {
        let named = proto.code.get(at)?;
        match named.op()? {
            Op::Move => {
                state.release(named.b())?;
                let register = state.registers.get_mut(named.b())?;
                *register = Register { value: Value::Other, is_shared: true };
            }
            Op::GetUpvalue => {}
            _ => return None,
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lua;
    use crate::against_lua::Nobody;
    use crate::against_lua::interpreter;

    /// `touch` takes keys alone, `set` one in front, `count` none; no others are understood.
    fn keeps_to_keys(call: &CallShape<'_>) -> bool {
        let Some(CallArg::Text(name)) = call.args.first() else { return false };
        let all = |args: &[CallArg<'_>]| args.iter().all(|arg| *arg == CallArg::Key);
        match *name {
            b"touch" => all(&call.args[1..]) && call.tail != Some(CallTail::Other),
            b"set" => call.args.get(1) == Some(&CallArg::Key),
            b"count" => true,
            _ => false,
        }
    }

    fn is_proven(lua: &mut Lua, script: &str) -> bool {
        let compiled = lua.compile(script.as_bytes(), c"s", &mut Nobody).unwrap_or_else(|error| {
            panic!("{script}: {}", String::from_utf8_lossy(&error));
        });
        let proven = lua.keeps_to_keys(&compiled, &mut keeps_to_keys);
        lua.release(compiled);
        proven
    }

    /// Scripts that are proven.
    const PROVEN: &[&str] = &[
        "",
        "return 1",
        "return redis.call('set', KEYS[1], ARGV[1])",
        "return server.pcall('set', KEYS[1], 1, 2, 3)",
        "return redis['call']('set', KEYS[1])",
        "redis.call('touch', KEYS[1], KEYS[2]) return KEYS",
        "redis.call('touch', unpack(KEYS))",
        "redis.call('touch', KEYS[1], unpack(KEYS, 2, #KEYS))",
        "redis.call('set', KEYS[1], unpack(ARGV))",
        "local call, a, b = redis.call, KEYS[1], KEYS[2] call('set', a) call('touch', b)",
        "local keys = KEYS for i = 1, #keys do redis.call('set', keys[i], i) end",
        "for i, key in ipairs(KEYS) do redis.call('touch', key) redis.call('set', key, i) end",
        "for _, key in pairs(KEYS) do if key ~= 'x' then redis.call('touch', key) else break end end",
        "local key = ARGV[1] == 'a' and KEYS[1] or KEYS[2] return redis.call('set', key, 1)",
        "local n = 0 while n < 9 do n = n + redis.call('set', KEYS[1], n) end return n",
        "if redis.call('set', KEYS[1]) == ARGV[1] then return redis.call('touch', KEYS[1]) else return 0 end",
        "local r = redis local x = r.call('count', 'x') return {x, r.sha1hex(KEYS[1]), KEYS[1]}",
        "redis.log(redis.LOG_WARNING, KEYS[1] .. ' ' .. #KEYS) return redis.status_reply('ok')",
        "local x = redis.call('set', KEYS[1]) local function f(y) return x + y end return f(1)",
        "local t = {} for i = 1, 3 do t[i] = function() return i end end return redis.call('set', KEYS[1], t[2]())",
        "local function f() return redis.call('set', KEYS[1]) end return pcall(f)",
        "local function f(n) if n > 0 then return f(n - 1) end end f(2) return redis.call('set', KEYS[1])",
        "local f = function(a, ...) return select('#', ...) end return f(unpack(ARGV))",
        "local t = {unpack(ARGV)} table.sort(t, function(a, b) return a < b end) redis.call('set', KEYS[1], t[1])",
        "local s = ('x'):rep(3) .. cjson.encode({1, 2, ['k'] = ARGV[1]}) redis.call('set', KEYS[1], s)",
        "local a repeat local b = redis.call('count') a = function() return b end until b redis.call('set', KEYS[1])",
    ];

    /// Scripts without one.
    const UNPROVEN: &[&str] = &[
        "redis.call('set', 'k', 1)",
        "redis.call('set', ARGV[1], 1)",
        "redis.call('set', KEYS[1] .. ':x', 1)",
        "redis.call('set', tostring(KEYS[1]), 1)",
        "redis.call('touch', KEYS[1], 'k')",
        "redis.call('touch', unpack(ARGV))",
        "redis.call('touch', KEYS[1], unpack(ARGV))",
        "redis.call(ARGV[1], KEYS[1])",
        "redis.call('other', KEYS[1])",
        "redis.call(unpack(KEYS))",
        "local key = KEYS[1] if ARGV[1] then key = ARGV[1] end redis.call('set', key)",
        "local key = KEYS[1] or ARGV[1] redis.call('set', key)",
        "local key = KEYS[1] for i = 1, 3 do redis.call('set', key) key = key .. i end",
        // `KEYS` is changed, or may be.
        "KEYS[1] = 'k' redis.call('set', KEYS[1])",
        "local k = KEYS k.x = 1 redis.call('set', KEYS[1])",
        "table.insert(KEYS, 'k') redis.call('set', KEYS[2])",
        "setmetatable(KEYS, {__index = function() return 'k' end}) redis.call('set', KEYS[2])",
        "local function f(t) t[1] = 'k' end f(KEYS) redis.call('set', KEYS[1])",
        "local t = {KEYS} t[1][1] = 'k' redis.call('set', KEYS[1])",
        "local t = {k = KEYS} redis.call('set', KEYS[1])",
        "local k = KEYS local function f() k[1] = 'k' end f() redis.call('set', KEYS[1])",
        "local k local function f() k[1] = 'k' end k = KEYS f() redis.call('set', KEYS[1])",
        "local k local function f() k = KEYS end f() k[1] = 'k' redis.call('set', KEYS[1])",
        "local function f() return KEYS end f()[1] = 'k' redis.call('set', KEYS[1])",
        "local next, keys, n = pairs(KEYS) keys[1] = 'k' redis.call('set', KEYS[1])",
        "local _, keys = pairs(KEYS) keys[1] = 'k' redis.call('set', KEYS[1])",
        "for i in next, KEYS do redis.call('count') end",
        "rawset(KEYS, 1, 'k') redis.call('set', KEYS[1])",
        "local co = coroutine.wrap(function() coroutine.yield(KEYS) end) co()[1] = 'k' redis.call('set', KEYS[1])",
        // A key is changed by an inner function.
        "local key = KEYS[1] local function f() key = 'k' end f() redis.call('set', key)",
        // Commands are called in another way, or may be.
        "local t = {call = redis.call} t.call('set', 'k')",
        "pcall(redis.call, 'set', 'k')",
        "local function f(c) c('set', 'k') end f(redis.call)",
        "local function f(r) r.call('set', 'k') end f(redis)",
        "local r = redis local function f() r.call('set', 'k') end f()",
        "local call local function f() call('set', 'k') end call = redis.call f()",
        "_G.redis.call('set', 'k')",
        "loadstring(\"redis.call('set', 'k')\")()",
        "load(function() return nil end)",
        "redis[ARGV[1]]('set', 'k')",
        "for _, f in pairs(redis) do f('set', 'k') end",
        "getmetatable(redis).__index.call('set', 'k')",
        "local r = ARGV[1] and redis or ARGV r.call('set', 'k')",
        "x = redis.call",
        "redis:call()",
        "local function f(key) return redis.call('set', key) end return f(KEYS[1])",
        "local function f() redis.call('set', 'k') end return 1",
        "return (function() return redis end)().call('set', 'k')",
        "nosuchglobal()",
    ];

    #[test]
    fn scripts_are_told_apart() {
        let mut lua = interpreter(Purpose::Scripts);
        for script in PROVEN {
            assert!(is_proven(&mut lua, script), "{script}");
        }
        for script in UNPROVEN {
            assert!(!is_proven(&mut lua, script), "{script}");
        }
    }

    #[test]
    fn a_function_is_called_with_its_keys() {
        let mut lua = interpreter(Purpose::Functions);
        let mut function = |text: &str| {
            let compiled =
                lua.compile(format!("return {text}").as_bytes(), c"f", &mut Nobody).unwrap();
            let function = lua.returned(&compiled);
            let proven = lua.keeps_to_keys(&function, &mut keeps_to_keys);
            lua.release(function);
            lua.release(compiled);
            proven
        };
        for text in [
            "function(keys, args) return redis.call('set', keys[1], args[1]) end",
            "function(keys) for _, key in ipairs(keys) do redis.call('touch', key) end return keys end",
            "function() return redis.call('count') end",
        ] {
            assert!(function(text), "{text}");
        }
        for text in [
            "function(keys, args) return redis.call('set', args[1]) end",
            "function(keys) keys[1] = 'k' return redis.call('set', keys[1]) end",
            "function(...) local keys = ... keys[1] = 'k' return redis.call('set', keys[1]) end",
            "function(keys) local function f() return keys end f()[1] = 'k' redis.call('set', keys[1]) end",
            "function() return redis.call('set', KEYS[1]) end",
            // The function around it may call anything.
            "(function() local f = tostring return function(keys) return f(keys[1]) end end)()",
        ] {
            assert!(!function(text), "{text}");
        }
    }

    /// Damaged bytecode is refused, or read to its end.
    #[test]
    fn damaged_bytecode_is_survived() {
        let mut lua = interpreter(Purpose::Scripts);
        let mut draws = crate::generator::Random::new(1);
        let mut read = 0;
        for script in PROVEN.iter().chain(UNPROVEN) {
            let dump = lua.dump_of(script.as_bytes());
            assert!(Proto::read(&dump).is_some());
            for len in 0..dump.len() {
                assert!(Proto::read(&dump[..len]).is_none());
            }
            for _ in 0..300 {
                let mut damaged = dump.clone();
                for _ in 0..=draws.draw() % 3 {
                    let at = draws.draw() as usize % damaged.len();
                    damaged[at] = draws.draw() as u8;
                }
                if let Some(proto) = Proto::read(&damaged) {
                    read += 1;
                    let _ = KeyFlow::new(Purpose::Scripts, &mut |_| true).prove(&proto);
                }
            }
        }
        assert!(read > 1000, "{read}");
    }

    #[test]
    fn what_is_too_long_has_no_proof() {
        let mut lua = interpreter(Purpose::Scripts);
        let call = "redis.call('set', KEYS[1], ARGV[1]) ";
        assert!(is_proven(&mut lua, &call.repeat(100)));
        assert!(!is_proven(&mut lua, &call.repeat(20_000)));
    }
}
