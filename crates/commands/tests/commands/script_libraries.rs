//! Lua libraries of scripts: results and errors equal Redis's, and inputs that try to exhaust
//! memory or time.

use crate::client::Client;

/// Evaluates expressions, `expression => result` per line. An error's result is its message.
fn expressions(lines: &str) {
    let mut client = Client::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (expression, expected) = line.split_once(" => ").expect("a line has an arrow");
        let script = format!(
            "local r={{pcall(function() return {expression} end)}} for i=1,#r do r[i]=tostring(r[i]) end \
             if r[1]=='true' then table.remove(r,1) else r[1]='!' end return table.concat(r,'~')"
        );
        let reply = client.call(&[b"EVAL", script.as_bytes(), b"0"]);
        let petrel_resp::Value::Bulk(reply) = reply else { panic!("{line}: {reply:?}") };
        let reply = String::from_utf8_lossy(&reply).replace("user_script:1: ", "");
        assert_eq!(reply, expected, "{expression}");
    }
}

#[test]
fn bit() {
    expressions(
        r##"
        bit.tobit(0xffffffff) => -1
        bit.tobit(2^33+5.5) => 6
        bit.tobit(-2.5) => -2
        bit.band(1,3,5) => 1
        bit.bor(1,2,4) => 7
        bit.bxor(7,2) => 5
        bit.bnot(0) => -1
        bit.lshift(1,33) => 2
        bit.rshift(-1,28) => 15
        bit.arshift(-16,2) => -4
        bit.rol(0x12345678,8) => 878082066
        bit.ror(0x12345678,8) => 2014458966
        bit.bswap(0x12345678) => 2018915346
        bit.tohex(255) => 000000ff
        bit.tohex(-1,-8) => FFFFFFFF
        bit.tohex(1,-2147483648) => 00000001
        bit.band() => !~bad argument #1 to 'band' (number expected, got no value)
        "##,
    );
}

#[test]
fn structs() {
    expressions(
        r##"
        struct.size('!8bi') => 8
        struct.size('s') => !~bad argument #1 to 'size' (option 's' has no fixed size)
        struct.size('i33') => !~integral size 33 is larger than limit of 32
        struct.size('!3i') => !~alignment 3 is not a power of 2
        struct.size('c99999999999') => !~integral size overflow
        struct.pack('c5','abc') => !~bad argument #3 to 'pack' (string too short)
        struct.pack('z',1) => !~bad argument #1 to 'pack' (invalid format option 'z')
        struct.pack('i') => !~bad argument #2 to 'pack' (number expected, got nil)
        struct.unpack('i','abc') => !~bad argument #2 to 'unpack' (data string too short)
        struct.unpack('s','abc') => !~unfinished string in data
        struct.unpack('Bc0','\3abcd') => abc~5
        struct.unpack('i','abcdefgh',5) => 1751606885~9
        struct.unpack('i','abcdefgh',0) => !~bad argument #3 to 'unpack' (offset must be 1 or greater)
        struct.unpack('i','abcdefgh',-1) => !~bad argument #2 to 'unpack' (data string too short)
        struct.unpack('>i4','\1\2\3\4') => 16909060~5
        struct.unpack('<i3','\255\255\255') => -1~4
        struct.unpack('<I16',('\255'):rep(16)) => 1.844674407371e+19~17
        struct.unpack('f',struct.pack('f',1.1)) => 1.1000000238419~5
        struct.unpack('>d',struct.pack('>d',1.5)) => 1.5~9
        #struct.pack('!8bxi!2hs',1,2,3,'abc') => 14
        struct.unpack('c2147483647','a') => !~bad argument #2 to 'unpack' (data string too short)
        "##,
    );
}

#[test]
fn json() {
    expressions(
        r##"
        cjson.encode({a={1,2,{}}}) => {"a":[1,2,{}]}
        cjson.encode({[1]=1,[3]=3}) => [1,null,3]
        cjson.encode({[1]=1,[100]=3}) => !~Cannot serialise table: excessively sparse array
        cjson.encode({[true]=1}) => !~Cannot serialise boolean: table key must be a number or string
        cjson.encode(function() end) => !~Cannot serialise function: type not supported
        cjson.encode(0/0) => !~Cannot serialise number: must not be NaN or Inf
        cjson.encode({1/3,1e20,-0.0,123456789012345}) => [0.33333333333333,1e+20,-0,1.2345678901234e+14]
        cjson.encode('a/b"\\\n\1\127') => "a\/b\"\\\n\u0001\u007f"
        cjson.encode(1,2) => !~bad argument #1 to 'encode' (expected 1 argument)
        cjson.decode('') => !~Expected value but found T_END at character 1
        cjson.decode('[1,2') => !~Expected comma or array end but found T_END at character 5
        cjson.decode('{1:2}') => !~Expected object key string but found T_NUMBER at character 2
        cjson.decode('{"a" 1}') => !~Expected colon but found T_NUMBER at character 6
        cjson.decode('nul') => !~Expected value but found invalid token at character 1
        cjson.decode('null') == cjson.null => true
        cjson.decode('-Infinity') => -inf
        cjson.decode('0x10') => 16
        cjson.decode('"\\ud83d\\ude00"') => 😀
        cjson.decode('"\\ud83d"') => !~Expected value but found invalid unicode escape code at character 2
        cjson.decode('"a\\qb"') => !~Expected value but found invalid escape code at character 3
        cjson.decode('1\0') => !~JSON parser does not support UTF-16 or UTF-32
        cjson.decode(('['):rep(1001)) => !~Found too many nested data structures (1001) at character 1001
        cjson.encode_max_depth(0) => !~bad argument #1 to 'encode_max_depth' (expected integer between 1 and 2147483647)
        cjson.encode_sparse_array(true,3,4) => true~3~4
        cjson.encode_sparse_array() => false~2~10
        (function() cjson.encode_invalid_numbers('null') return cjson.encode({0/0,1/0}) end)() => [null,null]
        (function() cjson.decode_invalid_numbers(false) return cjson.decode('01') end)() => !~Expected value but found invalid number at character 1
        (function() cjson.decode_array_with_array_mt(true) return cjson.encode(cjson.decode('[[]]')) end)() => [[]]
        (function() cjson.decode_array_with_array_mt(true) getmetatable(cjson.decode('[]')).x=1 end)() => !~Attempt to modify a readonly table
        "##,
    );
}

#[test]
fn message_pack() {
    expressions(
        r##"
        cmsgpack.unpack(cmsgpack.pack(1,-1,128,-129,65536,-2147483649,2^53,1.5,0.1,'abc',true,nil)) => 1~-1~128~-129~65536~-2147483649~9.007199254741e+15~1.5~0.1~abc~true
        cmsgpack.pack() => !~bad argument #0 to 'pack' (MessagePack pack needs input.)
        cmsgpack.unpack('\193') => !~Bad data format in input.
        cmsgpack.unpack('\205') => !~Missing bytes in input.
        cmsgpack.unpack_one('\1\2') => 1~1
        cmsgpack.unpack_one('\1\2',1) => -1~2
        cmsgpack.unpack_one('\1\2',3) => !~Start offset 3 greater than input length 2.
        cmsgpack.unpack_limit('\1\2\3',2) => 2~1~2
        cmsgpack.unpack_limit('\1\2\3',-1) => !~Invalid request to unpack with offset of 0 and limit of 3.
        cmsgpack.unpack('\129\192\1') => !~table index is nil
        cmsgpack.unpack('\221\255\255\255\255') => !~Missing bytes in input.
        cmsgpack.unpack(('\145'):rep(100000)) => !~stack overflow (in function mp_decode_to_lua_array)
        cmsgpack.unpack(('\1'):rep(100000)) => !~stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)
        "##,
    );
}

#[test]
fn inputs_made_to_exhaust() {
    expressions(
        r##"
        pcall(string.rep,('x'):rep(1e6),1e4) => false~not enough memory
        (function() local t={} t.t=t return cjson.encode(t) end)() => !~Cannot serialise, excessive nesting (1001)
        (function() cjson.encode_max_depth(2^31-1) local t={} t.t=t return (cjson.encode(t)) end)() => !~Cannot serialise, excessive nesting (1001)
        (function() cjson.decode_max_depth(2^31-1) return cjson.decode(('['):rep(1000000)) end)() => !~Found too many nested data structures (1001) at character 1001
        string.find(('a'):rep(5000),('a?'):rep(5000)) => !~pattern too long
        "##,
    );
}

#[test]
fn an_error_that_pcall_catches_is_a_text() {
    let mut client = Client::new();
    client.follow(
        r#"EVAL "local ok, err = pcall(redis.call, 'hget', 'a'); return {type(err), err}" 0 => ["string" "ERR Wrong number of args calling Redis command from script"]
        EVAL "local ok, err = pcall(redis.setresp, 4); return err" 0 => "ERR RESP version must be 2 or 3."
        EVAL "local ok, a, b = pcall(function() return 1, {err = 'x'} end); return {ok and 'yes', a, type(b)}" 0 => ["yes" 1 "table"]
        EVAL "local ok, err = pcall(error, {code = 5}); return {ok and 'yes' or 'no', err.code}" 0 => ["no" 5]
        EVAL "return select('#', pcall(function() end))" 0 => 1
        EVAL "local ok, err = pcall(); return err" 0 => ERR user_script:1: bad argument #1 to 'pcall' (value expected)..."#,
    );
}
