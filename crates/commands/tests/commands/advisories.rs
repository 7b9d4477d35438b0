//! Bugs from the release notes of Redis 8.2 to 8.10 and Valkey 8.1 to 9.1. Each case is named after
//! the release that fixed it (`docs/advisories.md`). Cases that need a server are in the tests of
//! the binary.

use crate::acl::{set, with_rules};
use crate::client::Client;

/// Calls and the correct replies, by the release that fixed them.
const CASES: [(&str, &str); 44] = [
    (
        "valkey_9_1_4_error_tables_whose_metamethods_fail",
        "
        EVAL \"return setmetatable({},{__index=function() error('boom') end})\" 0 => []
        EVAL \"error(setmetatable({},{__index=function() error('boom') end}))\" 0 => ERR unknown error script: ...
        EVAL \"return {pcall(error, setmetatable({},{__index=function() error('boom') end}))}\" 0 => [nil []]
        EVAL \"return redis.call(setmetatable({},{__index=function() error('boom') end}))\" 0 => ERR ...
        ",
    ),
    (
        "valkey_9_1_4_named_arguments_of_functions_in_any_case",
        "
        FUNCTION LOAD \"#!lua name=x\\nredis.register_function{FUNCTION_NAME='a', Callback=function() return 1 end, function_name='a', DESCRIPTION='d', description='d', Flags={'No-Writes'}}\" => \"x\"
        FCALL a 0 => 1
        FCALL_RO a 0 => 1
        ",
    ),
    (
        "redis_8_10_0_lset_index_is_not_cut_to_32_bits",
        "
        RPUSH l a b => 2
        LSET l 4294967296 x => ERR index out of range
        LSET l -4294967297 x => ERR index out of range
        LSET l 18446744073709551616 x => ERR value is not an integer or out of range
        LRANGE l 0 -1 => [\"a\" \"b\"]
        ",
    ),
    (
        "redis_8_10_0_bitfield_offset_overflow",
        "
        BITFIELD b GET u8 #1152921504606846976 => ERR bit offset is not an integer or out of range
        BITFIELD b SET u8 #9223372036854775807 1 => ERR bit offset is not an integer or out of range
        BITFIELD b GET i64 #-9223372036854775808 => ERR bit offset is not an integer or out of range
        BITFIELD b INCRBY i5 9223372036854775807 1 => ERR bit offset is not an integer or out of range
        EXISTS b => 0
        ",
    ),
    (
        "redis_8_10_0_set_conditions_exclude_each_other",
        "
        SET k v => OK
        SET k w NX IFEQ v => ERR syntax error
        SET k w IFEQ v XX => ERR syntax error
        SET k w IFNE v IFEQ v => ERR syntax error
        SET k w IFDEQ 0000000000000000 NX => ERR syntax error
        GET k => \"v\"
        ",
    ),
    (
        "redis_8_10_0_vrandmember_of_the_least_integer",
        "
        VADD v VALUES 2 1 2 a => 1
        VRANDMEMBER v -9223372036854775808 => ERR ...
        VRANDMEMBER none -9223372036854775808 => ...
        ",
    ),
    (
        "redis_8_10_0_vadd_cas_setattr_counts_attributes",
        "
        VADD v VALUES 2 1 2 a CAS SETATTR {\"x\":1} => 1
        VADD v VALUES 2 2 1 b CAS => 1
        VADD v VALUES 2 2 1 a CAS SETATTR {\"x\":2} => 0
        VSETATTR v b {\"x\":3} => 1
        VSETATTR v b \"\" => 1
        VSIM v ELE a FILTER .x==2 => [\"a\"]
        ",
    ),
    (
        "redis_8_10_2_vsim_filter_over_deeply_nested_attributes",
        "
        VADD v VALUES 2 1 2 a => 1
        EVAL \"return redis.call('VSETATTR','v','a','{\\\"d\\\":'..string.rep('[',100000)..string.rep(']',100000)..',\\\"x\\\":1}')\" 0 => ...
        VSIM v ELE a FILTER .x==1 => ...
        EVAL \"return redis.pcall('VSIM','v','ELE','a','FILTER',string.rep('(',100000)..'.x'..string.rep(')',100000))\" 0 => ERR ...
        EVAL \"return redis.pcall('VSIM','v','ELE','a','FILTER','.x in '..string.rep('[',100000))\" 0 => ERR ...
        VCARD v => 1
        ",
    ),
    (
        "redis_8_8_0_vadd_reduce_of_huge_dimensions",
        "
        VADD v REDUCE 4294967295 VALUES 2 1 2 a => ERR ...
        VADD v REDUCE 9223372036854775807 VALUES 2 1 2 a => ERR ...
        VADD v REDUCE -1 VALUES 2 1 2 a => ERR ...
        VADD v VALUES 2147483647 1 2 a => ERR ...
        VADD v VALUES 2 1 2 a M 4294967296 => ERR ...
        VSIM v VALUES 9223372036854775807 1 => ...
        EXISTS v => 0
        ",
    ),
    (
        "redis_8_6_4_scan_count_overflow",
        "
        MSET a 1 b 2 => OK
        SCAN 0 COUNT 9223372036854775807 => [\"0\" [...
        HSET h f v => 1
        HSCAN h 0 COUNT 9223372036854775807 => [\"0\" [\"f\" \"v\"]]
        SADD s m => 1
        SSCAN s 0 COUNT 9223372036854775807 => [\"0\" [\"m\"]]
        ZADD z 1 m => 1
        ZSCAN z 0 COUNT 4611686018427387905 => [\"0\" [\"m\" \"1\"]]
        SCAN 0 COUNT 0 => ERR syntax error
        ",
    ),
    (
        "redis_8_6_4_hexpire_count_of_fields_overflow",
        "
        HSET h f v => 1
        HEXPIRE h 10 FIELDS 9223372036854775807 f => ERR ...
        HEXPIRE h 10 FIELDS 4294967297 f => ERR ...
        HTTL h FIELDS 2147483648 f => ERR ...
        HPERSIST h FIELDS -1 f => ERR ...
        HGETDEL h FIELDS 4294967297 f => ERR ...
        HGETEX h EX 10 FIELDS 2147483648 f => ERR ...
        HTTL h FIELDS 1 f => [-1]
        ",
    ),
    (
        "redis_8_6_4_command_getkeys_of_pfmerge_without_sources",
        "
        COMMAND GETKEYS PFMERGE d => [\"d\"]
        COMMAND GETKEYS PFMERGE d a b => [\"d\" \"a\" \"b\"]
        ",
    ),
    (
        "redis_8_6_2_hsetex_and_hgetex_take_fields_once",
        "
        HSETEX h EX 10 FIELDS 1 a 1 FIELDS 1 b 2 => ERR ...
        HSET h a 1 => 1
        HGETEX h FIELDS 1 a FIELDS 1 a => ERR ...
        HGETEX h EX 10 FIELDS => ERR ...
        HGETEX h EX 10 FIELDS 1 => ERR ...
        HSETEX h FIELDS => ERR ...
        HTTL h FIELDS 1 a => [-1]
        ",
    ),
    (
        "redis_8_6_2_keys_of_commands_of_wrong_arity",
        "
        COMMAND GETKEYS GET => ERR ...
        COMMAND GETKEYS EVAL x => ERR ...
        COMMAND GETKEYS ZUNION => ERR ...
        COMMAND GETKEYS XREAD STREAMS => ERR ...
        COMMAND GETKEYS MSETEX 5 a 1 => ERR ...
        COMMAND GETKEYS ZUNION 9223372036854775807 a => ERR ...
        COMMAND GETKEYS SORT a STORE => ...
        ",
    ),
    (
        "redis_8_6_0_xtrim_with_strategies_deletes_entries",
        "
        XADD x 1-1 f v => \"1-1\"
        XADD x 2-1 f v => \"2-1\"
        XADD x 3-1 f v => \"3-1\"
        XGROUP CREATE x g 0 => OK
        XREADGROUP GROUP g c COUNT 2 STREAMS x > => ...
        XACK x g 1-1 => 1
        XTRIM x MAXLEN = 1 ACKED => 1
        XTRIM x MAXLEN = 1 DELREF => 1
        XPENDING x g => [0 nil nil ...
        XLEN x => 1
        ",
    ),
    (
        "redis_8_6_0_xdelex_acked_after_the_group_is_destroyed",
        "
        XADD x 1-1 f v => \"1-1\"
        XADD x 2-1 f v => \"2-1\"
        XGROUP CREATE x g 0 => OK
        XREADGROUP GROUP g c STREAMS x > => ...
        XDELEX x ACKED IDS 1 1-1 => [2]
        XGROUP DESTROY x g => 1
        XDELEX x ACKED IDS 2 1-1 2-1 => [1 1]
        XLEN x => 0
        ",
    ),
    (
        "redis_8_4_0_xreadgroup_claim_tells_integers",
        "
        XADD x 1-1 f v => \"1-1\"
        XGROUP CREATE x g 0 => OK
        XREADGROUP GROUP g c STREAMS x > => [[\"x\" [[\"1-1\" [\"f\" \"v\"]]]]]
        XREADGROUP GROUP g c CLAIM 0 STREAMS x > => [[\"x\" [[\"1-1\" [\"f\" \"v\"] 0 1]]]]
        ",
    ),
    (
        "redis_8_4_0_json_numincrby_of_an_integer_array_by_a_fraction",
        "
        JSON.SET j $ [1,2,3] => OK
        JSON.NUMINCRBY j $[1] 0.5 => \"[2.5]\"
        JSON.GET j $ => \"[[1,2.5,3]]\"
        ",
    ),
    (
        "redis_8_2_3_xackdel_of_many_ids",
        "
        XADD x 1-1 f v => \"1-1\"
        XGROUP CREATE x g 0 => OK
        XACKDEL x g IDS 9223372036854775807 1-1 => ERR ...
        XACKDEL x g IDS 0 1-1 => ERR ...
        EVAL \"local ids = {} for i = 1, 5000 do ids[i] = i .. '-9' end return #redis.call('XACKDEL', 'x', 'g', 'IDS', 5000, unpack(ids))\" 0 => 5000
        EVAL \"local ids = {} for i = 1, 5000 do ids[i] = i .. '-9' end return #redis.call('XDELEX', 'x', 'IDS', 5000, unpack(ids))\" 0 => 5000
        ",
    ),
    (
        "redis_8_2_3_hgetex_without_the_count_of_fields",
        "
        HSET h f v => 1
        HGETEX h EX 10 FIELDS => ERR ...
        HGETEX h FIELDS f => ERR ...
        HGETEX h PERSIST FIELDS => ERR ...
        ",
    ),
    (
        "redis_8_2_2_lua_cves_2025_49844_46817_46818_46819",
        "
        EVAL \"return #{pcall(unpack, {}, 0, 2147483647)}\" 0 => 2
        EVAL \"return #{pcall(unpack, {}, -2147483648, 2147483647)}\" 0 => 2
        EVAL \"return {pcall(string.rep, 'x', 1e9)}\" 0 => [...
        EVAL \"getmetatable('').__index = function() return 1 end\" 0 => ERR ...
        EVAL \"getmetatable('').__gc = print return 1\" 0 => ERR ...
        EVAL \"for i = 1, 300 do loadstring(string.rep('x=', i) .. '1') collectgarbage('step', 1) end return 1\" 0 => 1
        EVAL \"local n = 0 for i = 1, 300 do if not loadstring('return [' .. string.rep('=', i) .. '[') then n = n + 1 end end return n\" 0 => 300
        EVAL \"return {pcall(loadstring, 'return [=', 'x')}\" 0 => [...
        ",
    ),
    (
        "redis_8_2_2_eval_of_an_empty_error_table",
        "
        EVAL \"return redis.error_reply('')\" 0 => ERR...
        EVAL \"error({})\" 0 => ERR ...
        EVAL \"return {err=1}\" 0 => ...
        EVAL \"return redis.pcall('GET') == nil\" 0 => nil
        ",
    ),
    (
        "valkey_8_1_3_hyperloglogs_that_are_none",
        "
        SET h \"HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x7f\\xff\\x7f\\xff\\x7f\\xff\\x7f\\xff\\xff\\xff\" => OK
        PFCOUNT h => INVALIDOBJ Corrupted HLL object detected
        PFADD h a => ...
        PFADD other a => 1
        PFMERGE other h => INVALIDOBJ Corrupted HLL object detected
        PFDEBUG GETREG h => INVALIDOBJ ...
        PFCOUNT other => 1
        ",
    ),
    (
        "valkey_9_1_1_hrandfield_beside_expired_fields",
        "
        HSET h a 1 b 2 c 3 => 3
        HPEXPIREAT h 1 FIELDS 2 a b => [2 2]
        HRANDFIELD h 3 => [\"c\"]
        HRANDFIELD h 2 WITHVALUES => [\"c\" \"3\"]
        HRANDFIELD h -3 => [\"c\" \"c\" \"c\"]
        ",
    ),
    (
        "valkey_9_1_1_fields_is_required",
        "
        HSET h f v => 1
        HGETDEL h x 1 f => ERR ...
        HGETDEL h 1 f FIELDS => ERR ...
        HPERSIST h 1 f x => ERR ...
        HTTL h x 1 f => ERR ...
        HPTTL h x 1 f => ERR ...
        HEXPIRETIME h x 1 f => ERR ...
        HPEXPIRETIME h x 1 f => ERR ...
        HGET h f => \"v\"
        ",
    ),
    (
        "valkey_9_0_5_hpersist_of_another_type_answers_once",
        "
        SET k v => OK
        HPERSIST k FIELDS 2 a b => WRONGTYPE Operation against a key holding the wrong kind of value
        HTTL k FIELDS 2 a b => WRONGTYPE Operation against a key holding the wrong kind of value
        HEXPIRE k 1 FIELDS 2 a b => WRONGTYPE Operation against a key holding the wrong kind of value
        HGETDEL k FIELDS 2 a b => WRONGTYPE Operation against a key holding the wrong kind of value
        ",
    ),
    (
        "valkey_9_0_2_hash_fields_keep_their_time",
        "
        HSET h n 1 => 1
        HEXPIRE h 100 FIELDS 1 n => [1]
        HINCRBY h n 1 => 2
        HINCRBYFLOAT h n 1 => \"3\"
        HTTL h FIELDS 1 n => [100]
        ",
    ),
    (
        "valkey_9_0_2_hsetex_makes_no_empty_hash",
        "
        HSETEX none FXX FIELDS 1 f v => 0
        EXISTS none => 0
        HSETEX past PXAT 1 FIELDS 1 f v => 1
        EXISTS past => 0
        HGETDEL none FIELDS 1 f => [nil]
        EXISTS none => 0
        ",
    ),
    (
        "valkey_9_0_2_hexpire_of_fields_that_are_not_there",
        "
        HSET h f v => 1
        HEXPIRE h 10 FIELDS 2 x y => [-2 -2]
        HEXPIRE none 10 FIELDS 1 x => [-2]
        HGETALL h => [\"f\" \"v\"]
        ",
    ),
    (
        "valkey_9_1_3_scores_do_not_depend_on_the_order_of_inputs",
        "
        ZADD a 1 m => 1
        ZADD b inf m => 1
        ZINTERSTORE d 2 b a WEIGHTS 0 1 => 1
        ZSCORE d m => \"1\"
        ZINTERSTORE d 2 a b WEIGHTS 1 0 => 1
        ZSCORE d m => \"1\"
        ",
    ),
    (
        "valkey_8_1_1_lag_of_groups",
        "
        XADD x 1-1 f v => \"1-1\"
        XADD x 2-1 f v => \"2-1\"
        XADD x 3-1 f v => \"3-1\"
        XGROUP CREATE x g 0 => OK
        XDEL x 2-1 => 1
        XREADGROUP GROUP g c COUNT 1 STREAMS x > => ...
        XREADGROUP GROUP g c COUNT 1 STREAMS x > => ...
        XINFO GROUPS x => [[\"name\" \"g\" \"consumers\" 1 \"pending\" 2 \"last-delivered-id\" \"3-1\" \"entries-read\" 3 \"lag\" 0]]
        ",
    ),
    (
        "valkey_8_1_1_scripts_with_null_characters",
        "
        EVAL \"return 'a\\x00b'\" 0 => \"a\\x00b\"
        EVAL \"return #ARGV[1]\" 0 \"a\\x00b\" => 3
        EVAL \"return redis.call('SET', KEYS[1], 'x\\x00y')\" 1 \"k\\x00k\" => OK
        GET \"k\\x00k\" => \"x\\x00y\"
        ",
    ),
    (
        "valkey_8_1_0_json_of_scripts_in_any_length",
        "
        EVAL \"return #cjson.decode(cjson.encode({string.rep('x', 1000000)}))[1]\" 0 => 1000000
        EVAL \"return #cjson.encode(string.rep('\\x01', 100000))\" 0 => 600002
        ",
    ),
    (
        "valkey_9_0_1_ltrim_of_nothing_changes_nothing",
        "
        RPUSH l a b => 2
        LTRIM l 0 -1 => OK
        LTRIM l -100 100 => OK
        LRANGE l 0 -1 => [\"a\" \"b\"]
        ",
    ),
    (
        "valkey_9_0_6_copy_that_ends_with_db",
        "
        SET a v => OK
        COPY a b DB => ERR syntax error
        COPY a b REPLACE DB => ERR syntax error
        COPY a b DB DB => ERR ...
        COPY a b DB -1 => ERR ...
        COPY a b DB 18446744073709551616 => ERR ...
        ",
    ),
    (
        "redis_8_10_0_json_literals_end_where_they_end",
        "
        JSON.SET j $ true1 => trailing characters ...
        JSON.SET j $ nullx => trailing characters ...
        JSON.SET j $ \"{\\x22a\\x22:1} 2\" => trailing characters ...
        JSON.SET j $ {\"a\":[1,2],\"b\":{\"a\":[3]}} => OK
        JSON.GET j $[?(@==truex)] => Error occurred ...
        JSON.GET j $[?(@==nullx)] => Error occurred ...
        JSON.CLEAR j $.a $.b => ERR wrong number of arguments for 'json.clear' command
        ",
    ),
    (
        "redis_8_8_0_scores_are_rounded_to_the_nearest",
        "
        ZADD z 9007199254740993 a => 1
        ZSCORE z a => \"9007199254740992\"
        ZADD z 0.1 b 2.2250738585072011e-308 c 1.7976931348623157e308 d => 3
        ZSCORE z b => \"0.1\"
        ZSCORE z c => \"2.225073858507201e-308\"
        INCRBYFLOAT f 0.30000000000000004 => ...
        ",
    ),
    (
        "valkey_9_0_2_hsetex_words_in_any_case",
        "
        HSETEX h fnx EX 10 fields 1 a 1 => 1
        HSETEX h FxX keepttl FIELDS 1 a 2 => 1
        HSETEX h fxx FIELDS 1 b 2 => 0
        HGETALL h => [\"a\" \"2\"]
        ",
    ),
    (
        "valkey_9_0_2_hrandfield_of_expired_fields",
        "
        HSET h a 1 => 1
        HPEXPIREAT h 1 FIELDS 1 a => [2]
        HRANDFIELD h => nil
        HRANDFIELD h 3 => []
        HRANDFIELD h -3 WITHVALUES => []
        ",
    ),
    (
        "valkey_9_0_2_hexpire_keeps_fields_that_its_condition_excludes",
        "
        HSET h a 1 b 2 => 2
        HEXPIRE h 100 FIELDS 1 a => [1]
        HEXPIRE h 0 NX FIELDS 1 a => [0]
        HEXPIREAT h 1 GT FIELDS 1 a => [0]
        HPEXPIREAT h 1 XX FIELDS 1 b => [0]
        HTTL h FIELDS 2 a b => [100 -1]
        HEXPIRE h 0 XX FIELDS 1 a => [2]
        HGETALL h => [\"b\" \"2\"]
        ",
    ),
    (
        "valkey_9_0_2_xread_of_the_last_entry_of_an_empty_stream",
        "
        XADD s 1-1 f v => \"1-1\"
        XDEL s 1-1 => 1
        XREAD STREAMS s + => nil-array
        XADD t 1-1 f v => \"1-1\"
        XADD t 2-1 f w => \"2-1\"
        XREAD STREAMS s t none + + + => [[\"t\" [[\"2-1\" [\"f\" \"w\"]]]]]
        ",
    ),
    (
        "valkey_9_1_0_geosearch_by_polygon_of_invalid_counts",
        "
        GEOADD g 0 0 a 1 1 b => 2
        GEOSEARCH g BYPOLYGON 3 -1 -1 -1 2 2 2 COUNT 0 => ERR COUNT must be > 0
        GEOSEARCH g BYPOLYGON 3 -1 -1 -1 2 2 2 COUNT x => ERR value is not an integer or out of range
        GEOSEARCH g BYPOLYGON 2 -1 -1 -1 2 => ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        GEOSEARCH g BYPOLYGON 9223372036854775807 -1 -1 => ERR ...
        ",
    ),
    (
        "valkey_9_1_0_counts_of_keys_that_are_huge",
        "
        COMMAND GETKEYS EVAL x 9223372036854775807 a => ...
        COMMAND GETKEYS EVAL x 2147483647 a => ...
        COMMAND GETKEYS ZUNIONSTORE d 4294967297 a => ERR ...
        COMMAND GETKEYS BLMPOP 0 2147483647 a LEFT => ERR ...
        COMMAND GETKEYS LMPOP 1000000000 a LEFT => ERR ...
        COMMAND GETKEYSANDFLAGS ZINTER 2147483647 a => ERR ...
        ",
    ),
    (
        "valkey_9_1_0_xtrim_of_the_last_entry_of_a_node",
        "
        XADD x 1-1 f v => \"1-1\"
        XADD x 2-1 f v => \"2-1\"
        XADD x 3-1 f v => \"3-1\"
        XDEL x 3-1 => 1
        XTRIM x MINID = 3-0 => 2
        XRANGE x - + => []
        XADD x 4-1 f v => \"4-1\"
        XTRIM x MAXLEN = 0 => 1
        XADD x 5-1 f v => \"5-1\"
        XRANGE x - + => [[\"5-1\" [\"f\" \"v\"]]]
        XINFO STREAM x => [\"length\" 1 ...
        ",
    ),
];

#[test]
fn faults_that_others_had_are_not_found_here() {
    let mut failures = Vec::new();
    for (name, script) in CASES {
        let mut client = Client::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, expected) = line.split_once(" => ").expect("a line has an arrow");
            let reply = client.run(command.trim());
            let reply = reply.trim_end();
            let is_as_expected = match expected.strip_suffix("...") {
                Some(beginning) => reply.starts_with(beginning.trim_end()),
                None => reply == expected,
            };
            if !is_as_expected {
                failures.push(format!("{name}: {line}\n but: {reply}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Calls that are denied to a user with these rules, by the release that fixed it.
const REFUSED: [(&str, &str, &[&str]); 7] = [
    (
        "redis_8_10_0_sort_georadius_and_xread",
        "+@all ~a* ~STORE ~STREAMS",
        &[
            "SORT a STORE b",
            "SORT a STORE a STORE b",
            "SORT a BY STORE STORE b",
            "SORT a GET STORE STORE b",
            "SORT a LIMIT 0 1 ALPHA STORE b",
            "GEORADIUS a 0 0 1 km STORE b",
            "GEORADIUS a 0 0 1 km STORE a2 STOREDIST b",
            "GEORADIUS a 0 0 1 km STORE a2 STORE b",
            "GEORADIUS a 0 0 1 km STORE STORE STORE b",
            "GEORADIUSBYMEMBER a STORE 1 km STORE a2 STORE b",
            "GEORADIUSBYMEMBER a m 1 km COUNT 1 STORE a2 STOREDIST b",
            "XREAD STREAMS a b 0 0",
            "XREAD STREAMS STREAMS b 0 0",
            "XREAD COUNT 1 BLOCK 0 STREAMS STREAMS STREAMS b 0 0 0",
            "XREADGROUP GROUP STREAMS STREAMS STREAMS b >",
            "XREADGROUP GROUP g STREAMS STREAMS a b > >",
        ],
    ),
    (
        "redis_8_6_0_msetex",
        "+@all ~a*",
        &["MSETEX 2 a 1 b 2", "MSETEX 2 a 1 b 2 EX 10 NX", "MSETEX 1 b 2"],
    ),
    (
        "valkey_9_0_6_hgetex_writes",
        "+@all %R~a*",
        &[
            "HGETEX a EX 10 FIELDS 1 f",
            "HGETEX a PXAT 1 FIELDS 1 f",
            "HGETEX a PERSIST FIELDS 1 f",
            "GETEX a EX 10",
            "HGETDEL a FIELDS 1 f",
        ],
    ),
    (
        "redis_8_4_0_set_get_reads",
        "+@all %W~a*",
        &["SET a v GET", "SET a v IFEQ w GET", "GETSET a v", "GETDEL a"],
    ),
    (
        "valkey_9_1_1_copy_into_other_databases",
        "+@all ~* db=0",
        &[
            "COPY a b DB 1",
            "COPY a b DB 0 DB 1",
            "COPY a b DB 1 DB 0",
            "COPY a b REPLACE DB 1",
            "COPY a b DB 1 REPLACE",
            "COPY a DB DB 1",
            "MOVE a 1",
            "SWAPDB 0 1",
            "FLUSHALL",
        ],
    ),
    (
        "redis_8_10_0_patterns_of_other_keys",
        "+@all ~a*",
        &["SORT a BY b*", "SORT a GET b*->f", "SORT_RO a GET # GET b*"],
    ),
    (
        "redis_8_10_0_reading_by_a_name_that_may_be_written_only",
        "+@all %W~a*",
        &["GET a", "OBJECT FREQ b", "TYPE b"],
    ),
];

#[test]
fn permissions_that_others_did_not_ask_for_are_asked_for_here() {
    for (name, rules, calls) in REFUSED {
        let (_admin, mut user) = with_rules(rules);
        for call in calls {
            let reply = user.run(call);
            let is_refused = reply.starts_with("NOPERM ")
                || reply.starts_with("ERR BY option")
                || reply.starts_with("ERR GET option");
            assert!(is_refused, "{name}: {call}: {reply}");
        }
    }
}

/// Valkey 9.1.4: types of arguments in `COMMAND DOCS`.
#[test]
fn valkey_9_1_4_increments_and_weights_are_doubles() {
    let mut client = Client::new();
    for (command, argument) in [
        ("ZINCRBY", r#""increment" "type" "double""#),
        ("ZUNIONSTORE", r#""weight" "type" "double""#),
        ("ZINTERSTORE", r#""weight" "type" "double""#),
        ("ZINTER", r#""weight" "type" "double""#),
        ("HTTL", r#"["name" "numfields" "type" "integer" "display_text" "numfields"]"#),
    ] {
        let docs = client.run(&format!("COMMAND DOCS {command}"));
        assert!(docs.contains(argument), "{command}: {docs}");
    }
}

/// Redis 8.10.2: permissions of queued commands are checked again by `EXEC`.
#[test]
fn redis_8_10_2_permissions_that_are_withdrawn_before_exec() {
    let (mut admin, mut user) = with_rules("+@all ~a* ~b*");
    admin.follow("MSET a 1 b 2 => OK");
    user.follow(
        "
        MULTI => OK
        GET a => QUEUED
        GET b => QUEUED
        SET b 3 => QUEUED
        ",
    );
    set(&admin, "resetkeys ~a*");
    let replies = user.run("EXEC");
    assert!(replies.starts_with("[\"1\" NOPERM ACLs rules changed"), "{replies}");
    assert_eq!(admin.run("GET b"), "\"2\"");
    set(&admin, "reset");
    user.follow("MULTI => NOPERM ...");
}

/// A listpack of short texts and small numbers.
fn listpack(items: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for item in items {
        let start = body.len();
        match *item {
            [digit @ b'0'..=b'9'] => body.push(digit - b'0'),
            b"-1" => body.extend([0xdf, 0xff]),
            text => body.extend([&[0x80 | text.len() as u8], text].concat()),
        }
        body.push((body.len() - start) as u8);
    }
    let mut bytes = (body.len() as u32 + 7).to_le_bytes().to_vec();
    bytes.extend((items.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes.push(0xff);
    bytes
}

/// A ziplist of short texts.
fn ziplist(items: &[&[u8]]) -> Vec<u8> {
    let (mut body, mut before, mut tail) = (Vec::new(), 0, 10);
    for item in items {
        tail = 10 + body.len();
        body.extend([&[before, item.len() as u8], *item].concat());
        before = 2 + item.len() as u8;
    }
    let mut bytes = (body.len() as u32 + 11).to_le_bytes().to_vec();
    bytes.extend((tail as u32).to_le_bytes());
    bytes.extend((items.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes.push(0xff);
    bytes
}

/// A type byte and a text of less than 64 bytes.
fn of_text(kind: u8, text: &[u8]) -> Vec<u8> {
    [&[kind, text.len() as u8], text].concat()
}

/// A stream of one entry, of this node, with a group and its consumers, each with this number of
/// pending entries.
fn stream(node: &[&[u8]], consumers: &[(&[u8], usize)]) -> Vec<u8> {
    let id = [1u64.to_be_bytes(), 1u64.to_be_bytes()].concat();
    let mut bytes = vec![21, 1];
    bytes.extend([&[16], &id[..]].concat());
    bytes.extend(&of_text(0, &listpack(node))[1..]);
    // Length, last ID, first ID, greatest ID that was deleted, entries that were added.
    bytes.extend([1, 1, 1, 1, 1, 0, 0, 1]);
    // One group: its name, last ID, number of read entries, and pending entries.
    bytes.extend([1, 1, b'g', 1, 1, 1, 1]);
    bytes.extend([&id[..], &[0; 8], &[1]].concat());
    bytes.push(consumers.len() as u8);
    for (name, pending) in consumers {
        bytes.extend([&[name.len() as u8], *name, &[0; 16], &[*pending as u8]].concat());
        bytes.extend(id.repeat(*pending));
    }
    bytes
}

/// Invalid payloads are rejected, by the release that fixed it. One payload of each kind is valid.
#[test]
fn payloads_of_values_that_are_none() {
    const NODE: &[&[u8]] = &[b"1", b"0", b"1", b"f", b"0", b"2", b"0", b"0", b"v", b"4"];
    let nan = f64::NAN.to_le_bytes();
    let cases: Vec<(&str, bool, Vec<u8>)> = vec![
        ("valkey_9_1_1_score_in_listpack", true, of_text(17, &listpack(&[b"a", b"1.5"]))),
        ("valkey_9_1_1_nan_in_listpack", false, of_text(17, &listpack(&[b"a", b"nan"]))),
        ("valkey_9_1_1_minus_nan_in_listpack", false, of_text(17, &listpack(&[b"a", b"-nan"]))),
        ("valkey_9_1_1_score_in_ziplist", true, of_text(12, &ziplist(&[b"a", b"1.5"]))),
        ("valkey_9_1_1_nan_in_ziplist", false, of_text(12, &ziplist(&[b"a", b"nan"]))),
        ("valkey_9_1_1_nan_as_double", false, [&[5, 1, 1, b'a'], &nan[..]].concat()),
        ("valkey_9_1_1_nan_as_text", false, vec![3, 1, 1, b'a', 253]),
        ("valkey_9_1_1_element_without_score", false, of_text(17, &listpack(&[b"a", b"1", b"b"]))),
        ("valkey_9_1_1_zipmap", true, of_text(9, b"\x01\x01f\x01\x00v\xff")),
        (
            "valkey_9_1_1_zipmap_of_huge_fields",
            false,
            of_text(9, b"\x01\xfe\xff\xff\xff\xfff\x01\x00v\xff"),
        ),
        (
            "valkey_9_1_1_zipmap_of_huge_values",
            false,
            of_text(9, b"\x01\x01f\xfe\xff\xff\xff\xff\x00v\xff"),
        ),
        ("valkey_9_1_1_zipmap_of_much_room", false, of_text(9, b"\x01\x01f\x01\xffv\xff")),
        ("valkey_9_1_3_string_of_huge_length", false, [&[0, 0x81], &[0xff; 8][..]].concat()),
        ("valkey_9_1_3_string_of_4_gib", false, vec![0, 0x80, 0xff, 0xff, 0xff, 0xff, b'x']),
        (
            "valkey_9_1_3_compressed_string_of_huge_length",
            false,
            vec![0, 0xc3, 1, 0x81, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
        ),
        (
            "valkey_9_0_6_hash_of_an_odd_listpack",
            false,
            of_text(16, &listpack(&[b"a", b"1", b"b"])),
        ),
        (
            "valkey_9_0_6_hash_with_a_field_twice",
            false,
            of_text(16, &listpack(&[b"a", b"1", b"a", b"2"])),
        ),
        ("valkey_9_0_6_set_with_a_member_twice", false, vec![2, 2, 1, b'a', 1, b'a']),
        (
            "valkey_9_0_6_listpack_of_another_length",
            false,
            of_text(16, &[20, 0, 0, 0, 2, 0, 0x81, b'a', 2, 1, 1, 0xff]),
        ),
        (
            "valkey_9_0_6_listpack_without_end",
            false,
            of_text(16, &[11, 0, 0, 0, 2, 0, 0x81, b'a', 2, 1, 1]),
        ),
        ("valkey_9_0_6_listpack_of_one_byte", false, of_text(16, &[7])),
        (
            "valkey_9_0_6_intset_out_of_order",
            false,
            of_text(11, &[2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 0]),
        ),
        ("redis_8_8_0_stream", true, stream(NODE, &[(b"c", 1), (b"d", 0)])),
        (
            "redis_8_8_0_entry_pending_for_two_consumers",
            false,
            stream(NODE, &[(b"c", 1), (b"d", 1)]),
        ),
        ("redis_8_8_0_entry_pending_twice", false, stream(NODE, &[(b"c", 2)])),
        ("redis_8_8_0_consumer_twice", false, stream(NODE, &[(b"c", 1), (b"c", 0)])),
        (
            "redis_8_8_0_fields_below_zero",
            false,
            stream(&[b"1", b"0", b"-1", b"0", b"0", b"0", b"0", b"3"], &[(b"c", 1)]),
        ),
        (
            "redis_8_8_0_entries_below_zero",
            false,
            stream(&[b"-1", b"0", b"1", b"f", b"0", b"2", b"0", b"0", b"v", b"4"], &[(b"c", 1)]),
        ),
        (
            "redis_8_8_0_node_that_ends_early",
            false,
            stream(&[b"1", b"0", b"1", b"f", b"0", b"2", b"0"], &[(b"c", 1)]),
        ),
        ("redis_8_8_0_node_without_entries", false, stream(&[], &[(b"c", 1)])),
    ];
    for (name, is_value, payload) in cases {
        let mut client = Client::new();
        // A checksum of 0 means that there is no checksum.
        let payload = [&payload[..], &[11, 0], &[0; 8]].concat();
        let reply = crate::client::show(&client.call(&[b"RESTORE", b"k", b"0", &payload]));
        let expected = if is_value { "OK" } else { "ERR Bad data format" };
        assert!(reply.starts_with(expected), "{name}: {reply}");
        assert_eq!(client.run("EXISTS k"), if is_value { "1" } else { "0" }, "{name}");
        client.follow("FLUSHALL => OK");
    }
}

/// Valkey 9.0.6: counts that can be derived from a payload are checked. Redis checks some of them,
/// and all with `sanitize-dump-payload`. In files and from a primary they are corrected.
#[test]
fn valkey_9_0_6_counts_of_payloads() {
    const NODE: &[&[u8]] = &[b"1", b"0", b"1", b"f", b"0", b"2", b"0", b"0", b"v", b"4"];
    let changed = |mut payload: Vec<u8>, at: usize, to: u8| {
        assert_ne!(payload[at], to);
        payload[at] = to;
        payload
    };
    let whole = || stream(NODE, &[(b"c", 1)]);
    let of_node = |at: usize, item: &'static [u8]| {
        let mut node = NODE.to_vec();
        node[at] = item;
        stream(&node, &[(b"c", 1)])
    };
    let length = 20 + listpack(NODE).len();
    let pair: &[&[u8]] = &[b"a", b"1"];
    let (packed, old) =
        (|kind| of_text(kind, &listpack(pair)), |kind| of_text(kind, &ziplist(pair)));
    let quicklist = [&[18, 1, 2], &packed(0)[1..]].concat();
    for (what, is_refused, payload) in [
        ("nothing", false, whole()),
        ("the length of a stream", true, changed(whole(), length, 3)),
        ("its length, none", true, changed(whole(), length, 0)),
        ("its last ID, which is raised", false, changed(whole(), length + 1, 0)),
        ("entries of a node", true, of_node(0, b"2")),
        ("deleted entries of a node", true, of_node(1, b"1")),
        ("items of an entry", true, of_node(9, b"5")),
        ("items of a node", true, changed(whole(), 24, 9)),
        ("items of a hash", true, changed(packed(16), 6, 4)),
        ("items of a sorted set", true, changed(packed(17), 6, 1)),
        ("items of a set", true, changed(packed(20), 6, 3)),
        ("items of a list", true, changed(quicklist, 8, 3)),
        ("items of an old hash", true, changed(old(13), 10, 4)),
        ("items of an old list", true, changed(old(10), 10, 1)),
        ("fields of a zipmap", true, of_text(9, b"\x02\x01f\x01\x00v\xff")),
    ] {
        // A checksum of 0 means that there is no checksum.
        let payload = [&payload[..], &[11, 0], &[0; 8]].concat();
        for any_count in [false, true] {
            let mut client = Client::new();
            client.host.leniency.any_count = any_count;
            let reply = crate::client::show(&client.call(&[b"RESTORE", b"k", b"0", &payload]));
            let expected = if is_refused && !any_count { "ERR Bad data format" } else { "OK" };
            assert!(reply.starts_with(expected), "{what}, {any_count}: {reply}");
            assert_eq!(client.run("EXISTS k"), if expected == "OK" { "1" } else { "0" }, "{what}");
        }
    }
}

/// Redis 8.10.1: codes, levels and links of restored vector sets are validated. Scores stay between
/// 0 and 1.
#[test]
fn redis_8_10_1_vector_sets_of_no_vectors() {
    let mut client = Client::new();
    client.follow(
        "
        VADD f32 VALUES 2 3 4 a NOQUANT => 1
        VADD int8 VALUES 2 3 4 a Q8 => 1
        VADD own VALUES 2 3 4 a RABITQ => 1
        ",
    );
    let (nan, inf) = (f32::NAN.to_bits(), f32::INFINITY.to_bits());
    let packed = |range: u32, norm: f32| {
        [&[0x81][..], &range.to_be_bytes(), &norm.to_bits().to_be_bytes()].concat()
    };
    let pair = |x: f32, y: f32| [x.to_le_bytes(), y.to_le_bytes()].concat();
    let level = |level: u32| [&[2, 0x80][..], &(level | 1 << 24).to_be_bytes()].concat();
    let of_q8 = packed(0.8f32.to_bits(), 5.0);
    let bits = |word: u64| [&[8][..], &word.to_le_bytes()].concat();
    // The hash of the key determines the levels. The cases below change the level 0.
    let is_low = |payload: &[u8]| payload.windows(6).any(|window| window == level(0));
    let bin = (0..1_000).map(|n| format!("bin{n}")).find(|key| {
        client.follow(&format!("VADD {key} VALUES 1 3 a BIN => 1"));
        client.call(&[b"DUMP", key.as_bytes()]).as_bytes().is_some_and(is_low)
    });
    let bin = &*bin.expect("fifteen of sixteen keys have the level 0");
    for (set, from, to, is_value) in [
        ("f32", pair(0.6, 0.8), pair(0.8, 0.6), true),
        ("f32", pair(0.6, 0.8), pair(f32::NAN, 0.8), false),
        ("f32", pair(0.6, 0.8), pair(f32::INFINITY, 0.8), false),
        ("f32", pair(0.6, 0.8), pair(-60.0, 0.8), false),
        ("int8", of_q8.clone(), packed(0.5f32.to_bits(), 7.0), true),
        ("int8", of_q8.clone(), packed(nan, 5.0), false),
        ("int8", of_q8.clone(), packed(inf, 5.0), false),
        ("int8", of_q8.clone(), packed(100f32.to_bits(), 5.0), false),
        ("int8", of_q8.clone(), packed((-0.8f32).to_bits(), 5.0), false),
        ("int8", of_q8, packed(0.8f32.to_bits(), -5.0), false),
        (bin, bits(1), bits(0), true),
        (bin, bits(1), bits(u64::MAX), false),
        (bin, level(0), level(1), false),
        (bin, level(0), level(0xff_ffff), false),
    ] {
        let payload = client.call(&[b"DUMP", set.as_bytes()]);
        let payload = payload.as_bytes().expect("there is a set");
        let at = payload.windows(from.len()).position(|window| *window == from);
        let at = at.unwrap_or_else(|| {
            panic!("{set}: {} in {}", from.escape_ascii(), payload.escape_ascii())
        });
        let mut payload = [&payload[..at], &to, &payload[at + from.len()..]].concat();
        let sum = payload.len() - 8;
        payload[sum..].fill(0);
        let reply =
            crate::client::show(&client.call(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]));
        let expected = if is_value { "OK" } else { "ERR Bad data format" };
        assert!(reply.starts_with(expected), "{set} {}: {reply}", to.escape_ascii());
    }
    for (code, is_value) in [(0, true), (4, true), (3, false), (7, false)] {
        let payload = client.call(&[b"DUMP", b"own"]);
        let mut payload = payload.as_bytes().expect("there is a set").to_vec();
        // The factor and the error bound precede the planes. The invalid cases set their sign bits.
        let raw = client.run("VEMB own a RAW");
        assert!(raw.starts_with('['), "{raw}");
        let begin = payload.windows(2).position(|window| window == b"\x01a").expect("its name") + 4;
        payload[begin + code] |= if is_value { 0 } else { 0x80 };
        let sum = payload.len() - 8;
        payload[sum..].fill(0);
        let reply =
            crate::client::show(&client.call(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]));
        let expected = if is_value { "OK" } else { "ERR Bad data format" };
        assert!(reply.starts_with(expected), "{code}: {reply}");
    }
}

/// Valkey 9.0.5, Redis 8.6.2: calls leave no memory behind.
#[test]
fn valkey_9_0_5_calls_leave_no_memory() {
    let mut client = Client::new();
    client.follow(
        "
        ZADD a 1 x 2 y 3 z => 3
        ZADD b 1 x 2 w => 2
        SADD s x y z => 3
        XADD t 1-1 f v => \"1-1\"
        XGROUP CREATE t g 0 => OK
        XREADGROUP GROUP g c STREAMS t > => ...
        HSET h f v => 1
        ",
    );
    let mut round = || {
        for call in [
            "ZDIFF 2 a b",
            "ZDIFF 2 a none WITHSCORES",
            "ZDIFFSTORE d 2 a b",
            "ZINTER 2 a b",
            "SDIFF s none",
            "WATCH a none",
            "UNWATCH",
            "XREADGROUP GROUP g c STREAMS t 0",
            "XAUTOCLAIM t g c 0 0",
            "HSETEX h EX 100 FIELDS 1 f w",
            "HGETDEL h FIELDS 1 none",
            "SORT s ALPHA STORE l",
            "RESTORE d2 0 nothing",
            "DEL d l",
        ] {
            client.run(call);
        }
    };
    (0..50).for_each(|_| round());
    let before = crate::allocations::held();
    (0..200).for_each(|_| round());
    let grown = crate::allocations::held() - before;
    assert!(grown < 16 * 1024, "{grown} bytes");
}

#[test]
fn the_table_names_tests_that_there_are() {
    const TABLE: &str = include_str!("../../../../docs/advisories.md");
    let sources = [
        include_str!("advisories.rs"),
        include_str!("advisories_sketches.rs"),
        include_str!("../../../petrel/tests/server/advisories.rs"),
        include_str!("../../../petrel/tests/server/advisories_operation.rs"),
        include_str!("../../../petrel/tests/server/tls.rs"),
    ];
    let names = TABLE.split('`').skip(1).step_by(2).map(|name| name.trim_start_matches("tls::"));
    let cases: Vec<&str> = names
        .filter(|name| name.starts_with("redis_") || name.starts_with("valkey_"))
        .map(|name| name.trim_end_matches('…').trim_end_matches('_'))
        .collect();
    assert!(cases.len() > 60, "{}", cases.len());
    for case in &cases {
        assert!(sources.iter().any(|source| source.contains(case)), "there is no {case}");
    }
    // Every test is listed in the document, too.
    let of_tests = sources.iter().flat_map(|source| source.split(['"', ' ', '(', ',']));
    for name in of_tests.filter(|name| name.starts_with("redis_8") || name.starts_with("valkey_")) {
        let is_told = |case: &&str| name.starts_with(*case);
        let release = name.splitn(4, '_').take(3).collect::<Vec<_>>().join("_");
        assert!(cases.iter().any(|case| is_told(case) || case.starts_with(&release)), "{name}");
    }
}
