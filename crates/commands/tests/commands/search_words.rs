//! Words beside the documents: dictionaries and synonyms.

use crate::client::Client;
use crate::search::settle;

#[test]
fn dictionaries_keep_words() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.DICTADD d b a Foo foo "hello world" "" a => 5
        FT.DICTADD d a => 0
        FT.DICTDUMP d => ["Foo" "a" "b" "foo" "hello world"]
        FT.DICTDEL d A => 0
        FT.DICTDEL d a Foo nothing => 2
        FT.DICTDEL none a => 0
        FT.DICTDUMP none => could not open dict key
        FT.DICTADD d => ERR wrong number of arguments for 'ft.dictadd' command
        FT.DICTDEL d => ERR wrong number of arguments for 'ft.dictdel' command
        FT.DICTDUMP => ERR wrong number of arguments for 'ft.dictdump' command
        SWAPDB 0 1 => OK
        FT.DICTDUMP d => could not open dict key
        SELECT 1 => OK
        FT.DICTDUMP d => ["b" "foo" "hello world"]
        FT.DICTDEL d b foo "hello world" => 3
        FT.DICTDUMP d => []
        FLUSHDB => OK
        FT.DICTDUMP d => could not open dict key
        "#,
    );
}

#[test]
fn synonyms_are_found_by_each_other() {
    let mut client = Client::new();
    client.run("FT.CREATE i SCHEMA t TEXT u TEXT WEIGHT 3");
    client.run("FT.ALIASADD alias i");
    client.follow(
        r#"
        FT.SYNUPDATE alias g Boy child => OK
        HSET d1 t "the boy plays boy games" u x => 2
        HSET d2 t "a child plays" u y => 2
        HSET d3 t "man woman" u boy => 2
        HSET d4 t "boy child child" => 1
        HSET d5 t "boys children" u child => 2
        FT.SEARCH i boy WITHSCORES NOCONTENT => [5 "d3" "2" "d1" "1.3333333333333333" "d4" "1.3333333333333333" "d5" "0.8333333333333334" "d2" "0.3333333333333333"]
        FT.SEARCH i boys WITHSCORES NOCONTENT => [4 "d5" "1.3333333333333333" "d3" "1" "d1" "0.6666666666666666" "d4" "0.3333333333333333"]
        FT.SEARCH i child VERBATIM NOCONTENT => [3 "d5" "d4" "d2"]
        FT.SEARCH i @u:child WITHSCORES NOCONTENT => [2 "d5" "2" "d3" "1"]
        FT.SEARCH i "child plays" NOCONTENT => [2 "d1" "d2"]
        FT.SEARCH i child EXPANDER SBSTEM NOCONTENT LIMIT 0 0 => [3]
        FT.SYNUPDATE i h boy => OK
        FT.SYNUPDATE i "" Games => OK
        FT.EXPLAIN i boy => "UNION {\n  boy\n  ~g(expanded)\n  ~h(expanded)\n  +boy(expanded)\n}\n"
        FT.EXPLAIN i boys EXPANDER SYNONYM => "boys\n"
        FT.SYNDUMP i => ["boy" ["g" "h"] "child" ["g"] "games" [""]]
        FT.SYNDUMP nope => Unknown index name
        FT.SYNUPDATE nope g a => Unknown index name
        FT.SYNUPDATE i g => ERR wrong number of arguments for 'ft.synupdate' command
        FT.SYNUPDATE i g SKIPINITIALSCAN man => OK
        "#,
    );
    settle(&mut client, "i");
    // Documents are read again when they change, or when another walk comes.
    client.follow(
        r#"
        FT.SEARCH i man NOCONTENT LIMIT 0 0 => [5]
        FT.SYNUPDATE i k SKIPINITIALSCAN woman girl => OK
        FT.SEARCH i girl NOCONTENT => [0]
        HSET d3 t "man woman" => 0
        FT.SEARCH i girl NOCONTENT => [1 "d3"]
        FT.SYNUPDATE i l plays runs => OK
        "#,
    );
    settle(&mut client, "i");
    client.follow(
        r#"
        FT.SEARCH i runs NOCONTENT LIMIT 0 0 => [2]
        FT.DROPINDEX i => OK
        FT.CREATE i SCHEMA t TEXT => OK
        FT.SYNDUMP i => []
        "#,
    );
}

#[test]
fn found_words_are_marked() {
    let mut client = Client::new();
    client.run("FT.CREATE i LANGUAGE_FIELD l SCHEMA t TEXT body AS b TEXT g TAG r TEXT NOINDEX");
    client.run("FT.CREATE no NOHL SCHEMA t TEXT");
    settle(&mut client, "i");
    client.follow(
        r#"
        HSET d t "The runner, running: runs." body "nothing here" g run r "runs here" => 4
        FT.SEARCH i run HIGHLIGHT RETURN 1 t => [1 "d" ["t" "The runner, <b>running</b>: <b>runs</b>."]]
        FT.SEARCH i run VERBATIM HIGHLIGHT RETURN 1 t => [0]
        FT.SEARCH i runs VERBATIM HIGHLIGHT TAGS ( ) RETURN 1 t => [1 "d" ["t" "The runner, running: (runs)."]]
        FT.SEARCH i "run*" HIGHLIGHT FIELDS 1 t TAGS [ ] => [1 "d" ["t" "The [runner], [running]: [runs]." "body" "nothing here" "g" "run" "r" "runs here"]]
        FT.SEARCH i "%runs%" HIGHLIGHT TAGS [ ] RETURN 3 t AS x => [1 "d" ["x" "The runner, running: [runs]."]]
        FT.SEARCH i run SUMMARIZE LEN 2 SEPARATOR | RETURN 4 t b g r => [1 "d" ["t" "running: runs.|" "b" "nothing" "g" "run" "r" "runs"]]
        FT.SEARCH i run SUMMARIZE FIELDS 1 t FRAGS 1 LEN 4 HIGHLIGHT FIELDS 1 t RETURN 2 t b => [1 "d" ["t" "runner, <b>running</b>: <b>runs</b>.... " "b" "nothing here"]]
        FT.SEARCH i * HIGHLIGHT RETURN 1 t => [1 "d" ["t" "The runner, running: runs."]]
        FT.SEARCH i run NOCONTENT HIGHLIGHT => [1 "d"]
        FT.SEARCH i run HIGHLIGHT FIELDS 1 nope => No such property `nope`
        FT.SEARCH i run HIGHLIGHT RETURN 1 nope => Property `nope` is not in schema
        FT.SEARCH i run HIGHLIGHT FIELDS 1 t RETURN 2 g other => [1 "d" ["g" "run"]]
        FT.SEARCH i run HIGHLIGHT TAGS a => Bad arguments for HIGHLIGHT
        FT.SEARCH i run SUMMARIZE LEN x => Bad arguments for SUMMARIZE
        FT.SEARCH i run SUMMARIZE FRAGS 4294967296 => Bad arguments for SUMMARIZE
        FT.SEARCH i run SUMMARIZE LEN 1 FIELDS 1 t => Unknown argument `FIELDS` at position 4 for <main>
        FT.SEARCH no run HIGHLIGHT => Cannot use highlight/summarize because NOOFSETS was specified at index level
        FT.AGGREGATE i run HIGHLIGHT => HIGHLIGHT is not supported on FT.AGGREGATE
        HSET d t "laufend und laufende" l german => 1
        FT.SEARCH i laufende LANGUAGE german HIGHLIGHT RETURN 1 t => [1 "d" ["t" "<b>laufend</b> und <b>laufende</b>"]]
        "#,
    );
}

#[test]
fn close_terms_are_suggested() {
    let mut client = Client::new();
    client.run("FT.CREATE i SCHEMA t TEXT u TEXT g TAG");
    settle(&mut client, "i");
    client.follow(
        r#"
        HSET d1 t "hello world" u hullo => 2
        HSET d2 t "help hold" => 1
        HSET d3 t "running runner" => 1
        HSET d4 t "hold hell" => 1
        FT.SPELLCHECK i helo => [[TERM "helo" [["0.25" "hell"] ["0.25" "hello"] ["0.25" "help"]]]]
        FT.SPELLCHECK i HELO DISTANCE 2 => [[TERM "helo" [["0.5" "hold"] ["0.25" "hell"] ["0.25" "hello"] ["0.25" "help"] ["0.25" "hullo"]]]]
        FT.SPELLCHECK i "@u:(helo) hello" => [[TERM "helo" []]]
        FT.SPELLCHECK i "-worl | (\"runer the\" ~@g:{worl}) hel*" => [[TERM "worl" [["0.25" "world"]]] [TERM "runer" [["0.25" "runner"]]] [TERM "the" []] [TERM "worl" [["0.25" "world"]]]]
        FT.SPELLCHECK i runs => [[TERM "runs" []]]
        FT.DICTADD inc helo1 Help => 2
        FT.DICTADD exc Hel => 1
        FT.SPELLCHECK i "helo hel" TERMS INCLUDE inc TERMS EXCLUDE exc => [[TERM "helo" [["0.25" "hell"] ["0.25" "hello"] ["0.25" "help"] ["0" "helo1"]]]]
        FT.SPELLCHECK i hel FULLSCOREINFO => [4 [TERM "hel" [["1" "hell"] ["1" "help"]]]]
        FT.SPELLCHECK i hel TERMS INCLUDE nope => Dict does not exist: nope
        FT.SPELLCHECK i hel TERMS FOO inc => bad format, exlude/include operation was not given
        FT.SPELLCHECK i hel TERMS INCLUDE => TERM arg is given but no TERM params comes after
        FT.SPELLCHECK i hel DISTANCE 5 => bad distance given, distance must be a natural number between 1 to 4
        FT.SPELLCHECK i hel DISTANCE => DISTANCE arg is given but no DISTANCE comes after
        FT.SPELLCHECK nope hel => Unknown Index name
        FT.SPELLCHECK i => ERR wrong number of arguments for 'ft.spellcheck' command
        "#,
    );
    client.resp3().follow(
        r#"
        FT.SPELLCHECK i "helo world wrld" => {results: {"helo": [{"hell": Double(0.25)} {"hello": Double(0.25)} {"help": Double(0.25)}], "wrld": [{"world": Double(0.25)}]}}
        "#,
    );
}

#[test]
fn suggestions_complete_prefixes() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.SUGADD k hello 2 => 1
        FT.SUGADD k hello 3 INCR => 1
        FT.SUGADD k "hello world" 2 PAYLOAD pay => 2
        FT.SUGADD k hell 0.5 PAYLOAD "" INCR => 3
        FT.SUGADD k x inf => 4
        FT.SUGADD k "" 1 => 4
        FT.SUGADD k zero 0 => 4
        FT.SUGADD k x nan => ERR invalid score
        FT.SUGADD k y 1 FOO => Unknown argument `FOO`
        FT.SUGADD k y 1 PAYLOAD => Invalid payload: Expected an argument, but none provided
        FT.SUGADD k y 1 INCR PAYLOAD p INCR => ERR wrong number of arguments for 'ft.sugadd' command
        FT.SUGLEN k => 4
        FT.SUGLEN none => 0
        FT.SUGGET k HEL => ["hello" "hello world" "hell"]
        FT.SUGGET k hel WITHSCORES WITHPAYLOADS => ["hello" "2.886751413345337" nil "hello world" "0.6666666865348816" "pay" "hell" "0.3535533845424652" nil]
        FT.SUGGET k hallo FUZZY MAX 1 => ["hello"]
        FT.SUGGET k "" MAX 1 WITHSCORES => ["x" "inf"]
        FT.SUGGET none hel => nil
        FT.SUGGET k zzz => []
        FT.SUGGET k hel MAX 0 => MAX: Value is outside acceptable bounds
        FT.SUGGET k hel MAX x => MAX: Could not convert argument to expected type
        FT.SUGGET k hel MAX => MAX: Expected an argument, but none provided
        FT.SUGGET k hel FOO => Unrecognized argument: FOO
        FT.SUGADD k Hello 7 => 5
        FT.SUGGET k hello WITHSCORES MAX 2 => ["hello" "2147483648" "Hello" "7"]
        FT.SUGDEL k HELLO => 0
        FT.SUGDEL k Hello => 1
        FT.SUGADD k hell 1 PAYLOAD p => 4
        FT.SUGADD k hell 2 => 4
        FT.SUGGET k hell WITHPAYLOADS MAX 1 => ["hell" "p"]
        TYPE k => trietype0
        OBJECT ENCODING k => "raw"
        COPY k copy => 1
        FT.SUGDEL copy x => 1
        FT.SUGLEN k => 4
        FT.SUGLEN copy => 3
        RENAME copy moved => OK
        FT.SUGGET moved hell => ["hell" "hello" "hello world"]
        SET s a => OK
        FT.SUGADD s a 1 => WRONGTYPE Operation against a key holding the wrong kind of value
        FT.SUGGET s a => WRONGTYPE Operation against a key holding the wrong kind of value
        FT.SUGADD one a 1 => 1
        FT.SUGDEL one a => 1
        EXISTS one => 1
        "#,
    );
    let used = client.call(&[b"MEMORY", b"USAGE", b"k"]);
    assert!(matches!(used, petrel_resp::Value::Integer(bytes) if bytes > 200), "{used:?}");
    client.resp3().follow(
        r#"
        FT.SUGGET k hell WITHSCORES MAX 1 => ["hell" Double(2147483648.0)]
        "#,
    );
}

#[test]
fn suggestions_have_the_form_of_redisearch() {
    // As RediSearch 2.10.5 wrote them.
    let dump: &[u8] = b"\x07\x81\xb6\xb8\x9e\xb7*^\xd0\x01\x02\x03\x05\x05hell\x00\x04\x00\x00\x00\x00\x00\x00\xf0\xbf\x05\x01\x00\x05\x06hello\x00\x04\x00\x00\x00\x00\x00\x00\x04@\x05\x01\x00\x05\x05help\x00\x04\x00\x00\x00\x00\x00\x00\x08@\x05\x04pay\x00\x00\x0c\x00\x87}\xb1\xbfP\xa6\xee\xd6";
    let mut client = Client::new();
    assert_eq!(crate::client::show(&client.call(&[b"RESTORE", b"k", b"0", dump])), "OK");
    client.follow(
        r#"
        FT.SUGGET k hel WITHSCORES WITHPAYLOADS => ["help" "2.1213202476501465" "pay" "hello" "1.4433757066726685" nil "hell" "-0.7071067690849304" nil]
        FT.SUGADD x hello 2.5 => 1
        FT.SUGADD x help 3 PAYLOAD pay => 2
        FT.SUGADD x hell -1 => 3
        "#,
    );
    let (ours, again) = (client.call(&[b"DUMP", b"x"]), client.call(&[b"DUMP", b"k"]));
    assert_eq!(ours, again);
    let bytes = ours.as_bytes().unwrap().to_vec();
    // The version of the file and the checksum at the end may differ.
    assert_eq!(bytes[..bytes.len() - 10], dump[..dump.len() - 10]);
    for at in 10..dump.len() - 10 {
        let mut forged = dump.to_vec();
        forged[at] ^= 0x41;
        client.call(&[b"RESTORE", b"forged", b"0", &forged, b"REPLACE"]);
    }
}
