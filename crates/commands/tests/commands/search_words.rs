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
