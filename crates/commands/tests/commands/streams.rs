//! Streams: replies as Redis gives them.

use crate::client::Client;

#[test]
fn entries_are_added_read_and_trimmed() {
    Client::new().follow(
        r#"
        XADD s 0-0 a b => ERR The ID specified in XADD must be greater than 0-0
        XADD s 1 a b => "1-0"
        XADD s 1-* a c => "1-1"
        XADD s 2-* a d => "2-0"
        XADD s 1-* a e => ERR The ID specified in XADD is equal or smaller than the target stream top item
        XADD s 2-0 a e => ERR The ID specified in XADD is equal or smaller than the target stream top item
        XADD s x-* a e => ERR Invalid stream ID specified as stream command argument
        XADD s 3-3 a => ERR wrong number of arguments for 'xadd' command
        XADD s 3-3 a b c => ERR wrong number of arguments for 'xadd' command
        XADD s 3-3 n 1 "" "" m -70000 o 9223372036854775807 => "3-3"
        XLEN s => 4
        XRANGE s - + => [["1-0" ["a" "b"]] ["1-1" ["a" "c"]] ["2-0" ["a" "d"]] ["3-3" ["n" "1" "" "" "m" "-70000" "o" "9223372036854775807"]]]
        XREVRANGE s + - COUNT 2 => [["3-3" ["n" "1" "" "" "m" "-70000" "o" "9223372036854775807"]] ["2-0" ["a" "d"]]]
        XRANGE s (1-1 (3-3 => [["2-0" ["a" "d"]]]
        XRANGE s 1 1 => [["1-0" ["a" "b"]] ["1-1" ["a" "c"]]]
        XRANGE s - + COUNT 0 => nil-array
        XRANGE s - + COUNT -1 => nil-array
        XRANGE s - + COUNT x => ERR value is not an integer or out of range
        XRANGE s (18446744073709551615-18446744073709551615 + => ERR invalid start ID for the interval
        XRANGE s - (0-0 => ERR invalid end ID for the interval
        XRANGE s 5-x + => ERR Invalid stream ID specified as stream command argument
        XADD s NOMKSTREAM 4-4 a b => "4-4"
        XADD none NOMKSTREAM 4-4 a b => nil
        XADD none NOMKSTREAM 0-0 a b => ERR The ID specified in XADD must be greater than 0-0
        XADD s MAXLEN 2 5-5 a b => "5-5"
        XRANGE s - + => [["4-4" ["a" "b"]] ["5-5" ["a" "b"]]]
        XADD s MAXLEN = 2 LIMIT 4 6-6 a b => ERR syntax error, LIMIT cannot be used without the special ~ option
        XADD s LIMIT 4 6-6 a b => ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
        XADD s MAXLEN ~ 2 LIMIT -4 6-6 a b => ERR The LIMIT argument must be >= 0.
        XADD s MAXLEN -2 6-6 a b => ERR The MAXLEN argument must be >= 0.
        XADD s MAXLEN 2 MINID 2 6-6 a b => ERR syntax error, MAXLEN and MINID options at the same time are not compatible
        XADD s KEEPREF ACKED 6-6 a b => ERR Invalid stream ID specified as stream command argument
        XADD s MINID 5-5 6-6 a b => "6-6"
        XRANGE s - + => [["5-5" ["a" "b"]] ["6-6" ["a" "b"]]]
        XTRIM s MAXLEN 1 => 1
        XTRIM s MAXLEN 1 LIMIT 3 => ERR syntax error, LIMIT cannot be used without the special ~ option
        XTRIM s MAXLEN ~ 0 LIMIT 0 => 1
        XTRIM s LIMIT 3 => ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
        XTRIM s MAXLEN => ERR wrong number of arguments for 'xtrim' command
        XTRIM s KEEPREF ACKED => ERR syntax error
        XTRIM none MAXLEN 1 => 0
        XLEN s => 0
        XADD s 18446744073709551615-18446744073709551615 a b => "18446744073709551615-18446744073709551615"
        XADD s * a b => ERR The stream has exhausted the last possible ID, unable to add more items
        XADD s 18446744073709551615-* a b => ERR The stream has exhausted the last possible ID, unable to add more items
        XDEL s 18446744073709551615-18446744073709551615 7-7 => 1
        XDEL s x => ERR Invalid stream ID specified as stream command argument
        XDEL none x => 0
        XADD s * a b => ERR The stream has exhausted the last possible ID, unable to add more items
        TYPE s => stream
        OBJECT ENCODING s => "stream"
        SET t x => OK
        XADD t 1-1 a b => WRONGTYPE Operation against a key holding the wrong kind of value
        XLEN t => WRONGTYPE Operation against a key holding the wrong kind of value
        XRANGE t - + => WRONGTYPE Operation against a key holding the wrong kind of value
        XDEL t 1-1 => WRONGTYPE Operation against a key holding the wrong kind of value
        XTRIM t MAXLEN 1 => WRONGTYPE Operation against a key holding the wrong kind of value
        XREAD STREAMS t 0 => WRONGTYPE Operation against a key holding the wrong kind of value
        GET s => WRONGTYPE Operation against a key holding the wrong kind of value
        COPY s c => 1
        XINFO STREAM c => ["length" 0 "radix-tree-keys" 0 "radix-tree-nodes" 1 "last-generated-id" "18446744073709551615-18446744073709551615" "max-deleted-entry-id" "18446744073709551615-18446744073709551615" "entries-added" 8 "recorded-first-entry-id" "0-0" "idmp-duration" 100 "idmp-maxsize" 100 "pids-tracked" 0 "iids-tracked" 0 "iids-added" 0 "iids-duplicates" 0 "groups" 0 "first-entry" nil "last-entry" nil]
        XSETID c 1-1 => ERR The ID specified in XSETID is smaller than current max_deleted_entry_id
        XDEL c 18446744073709551615-18446744073709551615 => 0
        "#,
    );
}

#[test]
fn what_a_stream_says_of_itself_is_set() {
    Client::new().follow(
        r#"
        XADD s 1-1 a b => "1-1"
        XADD s 5-1 a b => "5-1"
        XDEL s 1-1 => 1
        XSETID s 0-5 => ERR The ID specified in XSETID is smaller than current max_deleted_entry_id
        XSETID s 3-0 => ERR The ID specified in XSETID is smaller than the target stream top item
        XSETID s 9-0 ENTRIESADDED 0 => ERR The entries_added specified in XSETID is smaller than the target stream length
        XSETID s 9-0 ENTRIESADDED -1 => ERR entries_added must be positive
        XSETID s 9-0 ENTRIESADDED => ERR syntax error
        XSETID s 9-0 MAXDELETEDID 10-0 => ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id
        XSETID s 9-0 ENTRIESADDED 20 MAXDELETEDID 4-0 => OK
        XINFO STREAM s => ["length" 1 "radix-tree-keys" 1 "radix-tree-nodes" 2 "last-generated-id" "9-0" "max-deleted-entry-id" "4-0" "entries-added" 20 "recorded-first-entry-id" "5-1" "idmp-duration" 100 "idmp-maxsize" 100 "pids-tracked" 0 "iids-tracked" 0 "iids-added" 0 "iids-duplicates" 0 "groups" 0 "first-entry" ["5-1" ["a" "b"]] "last-entry" ["5-1" ["a" "b"]]]
        XSETID none 1-1 => ERR no such key
        XADD s 9-0 a b => ERR The ID specified in XADD is equal or smaller than the target stream top item
        XADD s 9-* a b => "9-1"
        XCFGSET s => ERR At least one parameter must be specified
        XCFGSET none => ERR no such key
        XCFGSET s IDMP-DURATION => ERR syntax error
        XCFGSET s IDMP-DURATION x => ERR value is not an integer or out of range
        XCFGSET s IDMP-DURATION 0 => ERR IDMP-DURATION must be between 1 and 86400 seconds
        XCFGSET s IDMP-MAXSIZE 10001 => ERR IDMP-MAXSIZE must be between 1 and 10000 entries
        XCFGSET s IDMP-MAXSIZE 2 IDMP-MAXSIZE 3 => ERR IDMP-MAXSIZE specified multiple times
        XCFGSET s IDMP-MAXSIZE 2 IDMP-DURATION 10 => OK
        XIDMPRECORD s p i 9-1 => OK
        XIDMPRECORD s p i 9-1 => OK
        XIDMPRECORD s p i 5-1 => ERR IID already exists for this producer with a different stream ID
        XIDMPRECORD s p i 7-7 => ERR No such message in stream
        XIDMPRECORD s "" i 9-1 => ERR producer ID must be non-empty
        XIDMPRECORD s p "" 9-1 => ERR idempotent ID must be non-empty
        XIDMPRECORD none p i 9-1 => ERR no such key
        XADD s IDMP p i 10-1 a b => ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs
        XADD s IDMP "" i * a b => ERR syntax error, IDMP requires a non-empty producer ID
        XADD s IDMP p "" * a b => ERR syntax error, IDMP requires a non-empty idempotent ID
        XADD s IDMPAUTO "" * a b => ERR syntax error, IDMPAUTO requires a non-empty producer ID
        XADD s IDMP p i IDMPAUTO p * a b => ERR syntax error, IDMP/IDMPAUTO specified multiple times
        XADD s IDMP p * => ERR wrong number of arguments for 'xadd' command
        "#,
    );
}

#[test]
fn several_streams_are_read() {
    Client::new().follow(
        r#"
        XADD s 1-1 a b => "1-1"
        XADD s 2-1 c d => "2-1"
        XADD r 3-1 e f => "3-1"
        XREAD STREAMS s 0 => [["s" [["1-1" ["a" "b"]] ["2-1" ["c" "d"]]]]]
        XREAD COUNT 1 STREAMS s r none 0 0 0 => [["s" [["1-1" ["a" "b"]]]] ["r" [["3-1" ["e" "f"]]]]]
        XREAD STREAMS s r 2-1 3 => [["r" [["3-1" ["e" "f"]]]]]
        XREAD STREAMS s r 9 9 => nil-array
        XREAD STREAMS s r $ $ => nil-array
        XREAD STREAMS s none + + => [["s" [["2-1" ["c" "d"]]]]]
        XREAD COUNT 5 STREAMS s r + 0 => [["s" [["2-1" ["c" "d"]]]] ["r" [["3-1" ["e" "f"]]]]]
        XREAD BLOCK 0 COUNT 0 STREAMS s 1-1 => [["s" [["2-1" ["c" "d"]]]]]
        XREAD BLOCK -1 STREAMS s 1-1 => ERR timeout is negative
        XREAD BLOCK x STREAMS s 1-1 => ERR timeout is not an integer or out of range
        XREAD COUNT x STREAMS s 1-1 => ERR value is not an integer or out of range
        XREAD STREAMS s r 1-1 => ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.
        XREAD STREAMS s > => ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.
        XREAD STREAMS s x => ERR Invalid stream ID specified as stream command argument
        XREAD NOACK STREAMS s 0 => ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.
        XREAD GROUP g c STREAMS s 0 => ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.
        XREAD CLAIM 1 STREAMS s 0 => ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.
        XREAD FOO STREAMS s 0 => ERR syntax error
        XREAD COUNT 1 BLOCK 1 => ERR syntax error
        "#,
    );
}

#[test]
fn groups_give_entries_to_consumers() {
    Client::new().follow(
        r#"
        XGROUP CREATE s g $ => ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.
        XGROUP CREATE s g x MKSTREAM => ERR Invalid stream ID specified as stream command argument
        XGROUP CREATE s g $ MKSTREAM ENTRIESREAD 7 => OK
        XGROUP CREATE s g 0 => BUSYGROUP Consumer Group name already exists
        XGROUP CREATE s h - => ERR Invalid stream ID specified as stream command argument
        XGROUP CREATE s h 0 ENTRIESREAD -2 => ERR value for ENTRIESREAD must be positive or -1
        XGROUP CREATE s h 0 FOO => ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.
        XGROUP CREATE s h 5 => OK
        XINFO GROUPS s => [["name" "g" "consumers" 0 "pending" 0 "last-delivered-id" "0-0" "entries-read" 0 "lag" 0] ["name" "h" "consumers" 0 "pending" 0 "last-delivered-id" "5-0" "entries-read" nil "lag" 0]]
        XADD s 1-1 a b => "1-1"
        XADD s 2-1 a c => "2-1"
        XADD s 3-1 a d => "3-1"
        XINFO GROUPS s => [["name" "g" "consumers" 0 "pending" 0 "last-delivered-id" "0-0" "entries-read" 0 "lag" 3] ["name" "h" "consumers" 0 "pending" 0 "last-delivered-id" "5-0" "entries-read" nil "lag" nil]]
        XGROUP SETID s h 1-1 => OK
        XGROUP SETID s none 1-1 => NOGROUP No such consumer group 'none' for key name 's'
        XGROUP SETID none h 1-1 => ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.
        XGROUP SETID s h 1-1 MKSTREAM => ERR unknown subcommand or wrong number of arguments for 'SETID'. Try XGROUP HELP.
        XGROUP CREATECONSUMER s g alice => 1
        XGROUP CREATECONSUMER s g alice => 0
        XGROUP CREATECONSUMER s none alice => NOGROUP No such consumer group 'none' for key name 's'
        XREADGROUP GROUP g bob COUNT 2 STREAMS s > => [["s" [["1-1" ["a" "b"]] ["2-1" ["a" "c"]]]]]
        XREADGROUP GROUP g bob STREAMS s 1-1 => [["s" [["2-1" ["a" "c"]]]]]
        XREADGROUP GROUP g alice NOACK STREAMS s > => [["s" [["3-1" ["a" "d"]]]]]
        XREADGROUP GROUP g alice STREAMS s > => nil-array
        XREADGROUP GROUP g alice STREAMS s 0 => [["s" []]]
        XREADGROUP GROUP g bob STREAMS s 18446744073709551615-18446744073709551615 => nil-array
        XREADGROUP GROUP none bob STREAMS s > => NOGROUP No such key 's' or consumer group 'none' in XREADGROUP with GROUP option
        XREADGROUP GROUP g bob STREAMS none > => NOGROUP No such key 'none' or consumer group 'g' in XREADGROUP with GROUP option
        XREADGROUP GROUP g bob STREAMS s $ => ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.
        XREADGROUP GROUP g bob STREAMS s + => ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.
        XREADGROUP GROUP g bob STREAMS s x => ERR Invalid stream ID specified as stream command argument
        XREADGROUP GROUP g bob STREAMS s s > => ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.
        XREADGROUP COUNT 1 BLOCK 1 NOACK STREAMS s > => ERR Missing GROUP option for XREADGROUP
        XREADGROUP GROUP g bob CLAIM x STREAMS s > => ERR min-idle-time is not an integer or out of range
        XREADGROUP GROUP g bob CLAIM -1 STREAMS s > => ERR min-idle-time must be a positive integer
        XPENDING s g => [2 "1-1" "2-1" [["bob" "2"]]]
        XPENDING s h => [0 nil nil nil-array]
        XPENDING s none => NOGROUP No such key 's' or consumer group 'none'
        XDEL s 2-1 => 1
        XREADGROUP GROUP g bob STREAMS s 0 => [["s" [["1-1" ["a" "b"]] ["2-1" nil-array]]]]
        XINFO GROUPS s => [["name" "g" "consumers" 2 "pending" 2 "last-delivered-id" "3-1" "entries-read" 3 "lag" 0] ["name" "h" "consumers" 0 "pending" 0 "last-delivered-id" "1-1" "entries-read" nil "lag" nil]]
        XACK s g 1-1 2-1 3-1 => 2
        XACK s none 1-1 => 0
        XACK s g x => ERR Invalid stream ID specified as stream command argument
        XPENDING s g - + 10 => []
        XGROUP DELCONSUMER s g bob => 0
        XGROUP DELCONSUMER s g bob => 0
        XREADGROUP GROUP h carol STREAMS s > => [["s" [["3-1" ["a" "d"]]]]]
        XGROUP DELCONSUMER s h carol => 1
        XGROUP DESTROY s h => 1
        XGROUP DESTROY s h => 0
        XGROUP DESTROY none h => ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.
        XGROUP FOO s h => ERR unknown subcommand 'FOO'. Try XGROUP HELP.
        XINFO FOO s => ERR unknown subcommand 'FOO'. Try XINFO HELP.
        XINFO STREAM s FULL COUNT => ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.
        XINFO STREAM none => ERR no such key
        XINFO GROUPS none => ERR no such key
        XINFO CONSUMERS s none => NOGROUP No such consumer group 'none' for key name 's'
        XINFO CONSUMERS none none => ERR no such key
        SET t x => OK
        XGROUP CREATE t g $ MKSTREAM => WRONGTYPE Operation against a key holding the wrong kind of value
        XREADGROUP GROUP g bob STREAMS t > => WRONGTYPE Operation against a key holding the wrong kind of value
        XINFO STREAM t => WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn pending_entries_change_hands() {
    Client::new().follow(
        r#"
        XGROUP CREATE s g 0 MKSTREAM => OK
        XADD s 1-1 a b => "1-1"
        XADD s 2-1 a c => "2-1"
        XADD s 3-1 a d => "3-1"
        XREADGROUP GROUP g alice STREAMS s > => [["s" [["1-1" ["a" "b"]] ["2-1" ["a" "c"]] ["3-1" ["a" "d"]]]]]
        XPENDING s g - + 2 => [["1-1" "alice" 0 1] ["2-1" "alice" 0 1]]
        XPENDING s g (1-1 3 5 alice => [["2-1" "alice" 0 1] ["3-1" "alice" 0 1]]
        XPENDING s g - + 5 nobody => []
        XPENDING s g IDLE 100000 - + 5 => []
        XPENDING s g - + => ERR syntax error
        XPENDING s g IDLE x - + 5 => ERR value is not an integer or out of range
        XPENDING s g - x 5 => ERR Invalid stream ID specified as stream command argument
        XPENDING s g - + x => ERR value is not an integer or out of range
        XCLAIM s g bob 0 1-1 2-1 9-9 => [["1-1" ["a" "b"]] ["2-1" ["a" "c"]]]
        XCLAIM s g bob 100000 1-1 => []
        XCLAIM s g bob 0 1-1 JUSTID => ["1-1"]
        XCLAIM s g carol 0 1-1 RETRYCOUNT 7 TIME 0 FORCE LASTID 2-2 => [["1-1" ["a" "b"]]]
        XCLAIM s g bob x 1-1 => ERR Invalid min-idle-time argument for XCLAIM
        XCLAIM s g bob 0 x => ERR Unrecognized XCLAIM option 'x'
        XCLAIM s g bob 0 1-1 IDLE x => ERR Invalid IDLE option argument for XCLAIM
        XCLAIM s g bob 0 1-1 RETRYCOUNT x => ERR Invalid RETRYCOUNT option argument for XCLAIM
        XCLAIM s none bob 0 1-1 => NOGROUP No such key 's' or consumer group 'none'
        XACK s g 3-1 => 1
        XCLAIM s g bob 0 3-1 => []
        XCLAIM s g bob 0 3-1 FORCE => [["3-1" ["a" "d"]]]
        XPENDING s g 2 + 5 => [["2-1" "bob" 0 2] ["3-1" "bob" 0 2]]
        XDEL s 2-1 => 1
        XCLAIM s g carol 0 2-1 => []
        XADD s 4-1 a e => "4-1"
        XADD s 5-1 a f => "5-1"
        XREADGROUP GROUP g dan STREAMS s > => [["s" [["4-1" ["a" "e"]] ["5-1" ["a" "f"]]]]]
        XDEL s 4-1 => 1
        XAUTOCLAIM s g eve 0 - COUNT 1 => ["3-1" [["1-1" ["a" "b"]]] []]
        XAUTOCLAIM s g eve 0 3-1 COUNT 2 JUSTID => ["5-1" ["3-1"] ["4-1"]]
        XAUTOCLAIM s g eve 0 (1-1 => ["0-0" [["3-1" ["a" "d"]] ["5-1" ["a" "f"]]] []]
        XAUTOCLAIM s g eve 100000 0 => ["0-0" [] []]
        XAUTOCLAIM s g eve x 0 => ERR Invalid min-idle-time argument for XAUTOCLAIM
        XAUTOCLAIM s g eve 0 x => ERR Invalid stream ID specified as stream command argument
        XAUTOCLAIM s g eve 0 0 COUNT 0 => ERR COUNT must be > 0
        XAUTOCLAIM s g eve 0 0 FOO => ERR syntax error
        XAUTOCLAIM s none eve 0 0 => NOGROUP No such key 's' or consumer group 'none'
        XPENDING s g => [3 "1-1" "5-1" [["eve" "3"]]]
        XNACK s g FAIL IDS 2 5-1 1-1 => 2
        XNACK s g SILENT IDS 1 5-1 => 1
        XNACK s g FATAL IDS 1 3-1 => 1
        XNACK s g SILENT IDS 2 9-9 4-1 FORCE => 0
        XADD s 6-1 a g => "6-1"
        XNACK s g SILENT IDS 1 6-1 RETRYCOUNT 3 FORCE => 1
        XPENDING s g - + 10 => [["1-1" "" -1 8] ["3-1" "" -1 9223372036854775807] ["5-1" "" -1 1] ["6-1" "" -1 3]]
        XPENDING s g => [4 "1-1" "6-1" []]
        XNACK s g FOO IDS 1 1-1 => ERR mode must be SILENT, FAIL, or FATAL
        XNACK s g FAIL IDS 2 1-1 => ERR number of IDs doesn't match numids
        XNACK s g FAIL IDS 0 1-1 => ERR numids must be a positive integer
        XNACK s g FAIL IDS 1 1-1 FOO => ERR Unrecognized XNACK option 'FOO'
        XNACK s g FAIL FORCE FORCE FORCE => ERR syntax error, expected IDS keyword
        XNACK s none FAIL IDS 1 1-1 => NOGROUP No such key 's' or consumer group 'none'
        XNACK s g FAIL IDS 1 1-1 RETRYCOUNT -1 => ERR Invalid RETRYCOUNT value, must be >= 0
        "#,
    );
}

#[test]
fn entries_go_with_or_without_references() {
    Client::new().follow(
        r#"
        XADD s 1-1 a b => "1-1"
        XADD s 2-1 a b => "2-1"
        XADD s 3-1 a b => "3-1"
        XADD s 4-1 a b => "4-1"
        XADD s 5-1 a b => "5-1"
        XGROUP CREATE s g 0 => OK
        XGROUP CREATE s h 0 => OK
        XDELEX s ACKED IDS 2 1-1 9-9 => [2 2]
        XREADGROUP GROUP g c STREAMS s > => [["s" [["1-1" ["a" "b"]] ["2-1" ["a" "b"]] ["3-1" ["a" "b"]] ["4-1" ["a" "b"]] ["5-1" ["a" "b"]]]]]
        XREADGROUP GROUP h c COUNT 3 STREAMS s > => [["s" [["1-1" ["a" "b"]] ["2-1" ["a" "b"]] ["3-1" ["a" "b"]]]]]
        XACK s g 1-1 2-1 4-1 => 3
        XACK s h 1-1 => 1
        XDELEX s ACKED IDS 4 1-1 2-1 3-1 4-1 => [1 2 2 2]
        XDELEX s KEEPREF IDS 2 2-1 2-1 => [1 -1]
        XPENDING s h => [2 "2-1" "3-1" [["c" "2"]]]
        XDELEX s DELREF IDS 2 2-1 3-1 => [-1 1]
        XPENDING s h => [0 nil nil nil-array]
        XPENDING s g => [1 "5-1" "5-1" [["c" "1"]]]
        XDELEX s IDS 2 1-1 => ERR The `numids` parameter must match the number of arguments
        XDELEX s IDS 0 1-1 => ERR Number of IDs must be a positive integer
        XDELEX s IDS 1 1-1 2-1 => ERR syntax error
        XDELEX s KEEPREF ACKED IDS 1 1-1 => ERR syntax error
        XDELEX s IDS 1 x => ERR Invalid stream ID specified as stream command argument
        XDELEX none IDS 2 x x => [-1 -1]
        XACKDEL s g IDS 2 5-1 5-1 => [1 -1]
        XACKDEL none g IDS 1 5-1 => [-1]
        XACKDEL s none IDS 1 5-1 => [-1]
        XADD s 6-1 a b => "6-1"
        XREADGROUP GROUP g c STREAMS s > => [["s" [["6-1" ["a" "b"]]]]]
        XREADGROUP GROUP h c STREAMS s > => [["s" [["4-1" ["a" "b"]] ["6-1" ["a" "b"]]]]]
        XACKDEL s g ACKED IDS 1 6-1 => [2]
        XACKDEL s h ACKED IDS 2 6-1 4-1 => [1 1]
        XRANGE s - + => []
        XADD s 7-1 a b => "7-1"
        XADD s 8-1 a b => "8-1"
        XREADGROUP GROUP g c STREAMS s > => [["s" [["7-1" ["a" "b"]] ["8-1" ["a" "b"]]]]]
        XREADGROUP GROUP h c STREAMS s > => [["s" [["7-1" ["a" "b"]] ["8-1" ["a" "b"]]]]]
        XACK s g 7-1 8-1 => 2
        XTRIM s MAXLEN 0 ACKED => 0
        XACK s h 8-1 => 1
        XTRIM s MAXLEN 0 ACKED => 1
        XTRIM s MINID 9 DELREF => 1
        XPENDING s h => [0 nil nil nil-array]
        "#,
    );
}

#[test]
fn replies_are_limited_in_all() {
    let mut client = Client::new();
    for stream in ["a", "b", "c"] {
        for n in 1..4 {
            client.run(&format!("XADD {stream} {n}-0 f v"));
        }
        client.run(&format!("XGROUP CREATE {stream} g 0"));
    }
    client.follow(
        r#"
        XREAD MAXCOUNT 0 STREAMS a 0 => ERR MAXCOUNT must be a positive integer
        XREAD MAXSIZE -1 STREAMS a 0 => ERR MAXSIZE must be a positive integer
        XREAD COUNT 3 MAXCOUNT 2 STREAMS a 0 => ERR MAXCOUNT must be greater than or equal to COUNT
        XREAD COUNT 2 MAXCOUNT 3 STREAMS a b c 0 0 0 => [["a" [["1-0" ["f" "v"]] ["2-0" ["f" "v"]]]] ["b" [["1-0" ["f" "v"]]]]]
        XREAD MAXSIZE 1 STREAMS a b 0 0 => [["a" [["1-0" ["f" "v"]]]]]
        XREAD MAXSIZE 90 STREAMS a b 1 0 => [["a" [["2-0" ["f" "v"]] ["3-0" ["f" "v"]]]]]
        XREAD MAXCOUNT 1 STREAMS none b 0 2 => [["b" [["3-0" ["f" "v"]]]]]
        XREAD MAXCOUNT 1 STREAMS a 9 => nil-array
        XREADGROUP GROUP g x MAXCOUNT 0 STREAMS a > => ERR MAXCOUNT must be a positive integer
        XREADGROUP GROUP g x COUNT 2 MAXCOUNT 3 STREAMS a b c > > > => [["a" [["1-0" ["f" "v"]] ["2-0" ["f" "v"]]]] ["b" [["1-0" ["f" "v"]]]]]
        XREADGROUP GROUP g x MAXSIZE 1 STREAMS c b > > => [["c" [["1-0" ["f" "v"]]]]]
        XREADGROUP GROUP g x MAXCOUNT 3 STREAMS a b c 0 0 0 => [["a" [["1-0" ["f" "v"]] ["2-0" ["f" "v"]]]] ["b" [["1-0" ["f" "v"]]]]]
        XREADGROUP GROUP g x CLAIM 0 MAXCOUNT 3 NOACK STREAMS b a > > => [["b" [["1-0" ["f" "v"] 0 2] ["2-0" ["f" "v"] 0 0] ["3-0" ["f" "v"] 0 0]]]]
        XPENDING a g => [2 "1-0" "2-0" [["x" "2"]]]
        "#,
    );
}
