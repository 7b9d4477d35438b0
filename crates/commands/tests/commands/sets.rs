//! Sets: replies as Redis gives them.

use crate::client::Client;

const WRONG: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn members() {
    Client::new().follow(
        r#"
        SADD s 3 1 2 => 3
        SADD s 1 4 4 => 1
        SMEMBERS s => ["1" "2" "3" "4"]
        SCARD s => 4
        SISMEMBER s 4 => 1
        SISMEMBER s 04 => 0
        SMISMEMBER s 1 9 2 => [1 0 1]
        SREM s 1 2 9 9 => 2
        SMEMBERS s => ["3" "4"]
        SADD s x => 1
        SMEMBERS s => ["3" "4" "x"]
        TYPE s => set
        SREM s 3 4 x y => 3
        EXISTS s => 0
        SREM s 3 => 0
        SCARD s => 0
        SMEMBERS s => []
        SISMEMBER s 1 => 0
        SMISMEMBER s 1 2 => [0 0]
        SADD s "" => 1
        SMEMBERS s => [""]
        "#,
    );
}

#[test]
fn wrong_types() {
    let mut client = Client::new();
    client.follow("SET k v => OK\nSADD s 1 2 => 2");
    for line in [
        "SADD k 1",
        "SREM k 1",
        "SMEMBERS k",
        "SISMEMBER k 1",
        "SMISMEMBER k 1",
        "SCARD k",
        "SPOP k",
        "SPOP k 0",
        "SRANDMEMBER k",
        "SRANDMEMBER k 2",
        "SMOVE k s 1",
        "SMOVE s k 1",
        "SMOVE s k 9",
        "SSCAN k 0",
        "SSCAN k 0 COUNT 0",
        "SINTER s k",
        "SINTER none k",
        "SUNION k s",
        "SDIFF none k",
        "SINTERSTORE d none k",
        "SUNIONSTORE d k",
        "SDIFFSTORE d s k",
        "SINTERCARD 2 none k",
        "SUNIONCARD 2 s k",
        "SDIFFCARD 2 s k",
    ] {
        assert_eq!(client.run(line), WRONG, "{line}");
    }
    client.follow("SMOVE none k 1 => 0\nGET s => WRONGTYPE ...");
}

#[test]
fn draws() {
    Client::new().follow(
        r#"
        SPOP none => nil
        SPOP none 3 => []
        SPOP none x => ERR value is out of range, must be positive
        SPOP none -1 => ERR value is out of range, must be positive
        SPOP none 9223372036854775808 => ERR value is out of range, must be positive
        SPOP none 1 2 => ERR syntax error
        SRANDMEMBER none => nil
        SRANDMEMBER none 3 => []
        SRANDMEMBER none x => ERR value is not an integer or out of range
        SRANDMEMBER none 1 2 => ERR syntax error
        SADD s 1 2 3 => 3
        SRANDMEMBER s 0 => []
        SRANDMEMBER s 9 => ["1" "2" "3"]
        SRANDMEMBER s 9223372036854775807 => ["1" "2" "3"]
        SRANDMEMBER s -9223372036854775808 => ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        SRANDMEMBER s -9223372036854775807 => ERR value is out of range
        SRANDMEMBER s -9223372036854775809 => ERR value is not an integer or out of range
        SCARD s => 3
        SPOP s 0 => []
        SPOP s 9223372036854775807 => ["1" "2" "3"]
        EXISTS s => 0
        SADD one x => 1
        SRANDMEMBER one -3 => ["x" "x" "x"]
        SPOP one => "x"
        EXISTS one => 0
        "#,
    );
}

#[test]
fn many_members_are_drawn() {
    let mut client = Client::new();
    for (prefix, len) in [("", 700), ("", 4_000), ("member:", 100), ("member:", 5_000)] {
        let members: Vec<String> = (0..len).map(|n| format!("{prefix}{n}")).collect();
        client.run("DEL s");
        assert_eq!(client.run(&format!("SADD s {}", members.join(" "))), len.to_string());
        for (command, left) in
            [("SRANDMEMBER s 70", len), ("SPOP s 7", len - 7), ("SPOP s 60", len - 67)]
        {
            let reply = client.run(command);
            let drawn: std::collections::HashSet<&str> =
                reply.trim_matches(['[', ']']).split(' ').collect();
            let wanted: usize = command[command.rfind(' ').unwrap() + 1..].parse().unwrap();
            assert_eq!(drawn.len(), wanted, "{command}");
            assert_eq!(client.run("SCARD s"), left.to_string());
        }
        assert_eq!(client.run("SPOP s").matches(prefix).count().min(1), 1);
        assert_eq!(client.run("SCARD s"), (len - 68).to_string());
    }
}

#[test]
fn moving() {
    Client::new().follow(
        r#"
        SADD s 1 2 => 2
        SMOVE s t 1 => 1
        SMOVE s t 1 => 0
        SMOVE s s 2 => 1
        SMOVE s s 9 => 0
        SADD t 2 => 1
        SMOVE s t 2 => 1
        EXISTS s => 0
        SMEMBERS t => ["1" "2"]
        "#,
    );
}

#[test]
fn algebra() {
    Client::new().follow(
        r#"
        SADD a 1 2 3 4 => 4
        SADD b 3 4 5 x => 4
        SADD c 4 x => 2
        SINTER a b => ["3" "4"]
        SINTER a b c => ["4"]
        SINTER a none => []
        SINTER a => ["1" "2" "3" "4"]
        SUNION a none => ["1" "2" "3" "4"]
        SUNION a c => ["1" "2" "3" "4" "x"]
        SDIFF a b => ["1" "2"]
        SDIFF a b none c => ["1" "2"]
        SDIFF a a => []
        SDIFF none a => []
        SINTERSTORE d a b => 2
        OBJECT ENCODING d => "intset"
        SUNIONSTORE d a b c => 6
        OBJECT ENCODING d => "listpack"
        SDIFFSTORE d d a => 2
        SMEMBERS d => ["5" "x"]
        SDIFFSTORE d c a => 1
        OBJECT ENCODING d => "listpack"
        SDIFFSTORE d a a => 0
        EXISTS d => 0
        SET d v EX 100 => OK
        SINTERSTORE d a none => 0
        EXISTS d => 0
        SET d v EX 100 => OK
        SUNIONSTORE d a => 4
        TTL d => -1
        "#,
    );
}

#[test]
fn counting() {
    let mut client = Client::new();
    client.follow("SADD a 1 2 3 => 3\nSADD b 3 4 => 2");
    for (name, expected) in [("SINTERCARD", 1), ("SUNIONCARD", 4), ("SDIFFCARD", 2)] {
        client.follow(&format!(
            r#"
            {name} 2 a b => {expected}
            {name} 2 a b LIMIT 0 => {expected}
            {name} 2 a b LIMIT 1 => 1
            {name} 2 a b LIMIT 9 LIMIT 1 => 1
            {name} 0 a => ERR numkeys should be greater than 0
            {name} -1 a => ERR numkeys should be greater than 0
            {name} x a => ERR numkeys should be greater than 0
            {name} 2 a => ERR Number of keys can't be greater than number of args
            {name} 9223372036854775807 a => ERR Number of keys can't be greater than number of args
            {name} 1 a LIMIT => ERR syntax error
            {name} 1 a LIMIT -1 => ERR LIMIT can't be negative
            {name} 1 a LIMIT x => ERR LIMIT can't be negative
            {name} 1 a MORE => ERR syntax error
            {name} 1 a LIMIT 1 MORE => ERR syntax error
            "#
        ));
    }
    client.follow(
        r#"
        SUNIONCARD 2 a b APPROX => 4
        SUNIONCARD 2 a none APPROX LIMIT 2 => 2
        SDIFFCARD 2 a b APPROX => ERR syntax error
        SINTERCARD 2 a none => 0
        "#,
    );
}

#[test]
fn scanning() {
    let mut client = Client::new();
    client.follow(
        r#"
        SADD s 1 2 30 => 3
        SSCAN s 0 => ["0" ["1" "2" "30"]]
        SSCAN s 7 MATCH 3* => ["0" ["30"]]
        SSCAN s 0 COUNT 1 MATCH * => ["0" ["1" "2" "30"]]
        SSCAN s x => ERR invalid cursor
        SSCAN none x => ERR invalid cursor
        SSCAN none 0 COUNT 0 => ["0" []]
        SSCAN s 0 COUNT 0 => ERR syntax error
        SSCAN s 0 COUNT x => ERR value is not an integer or out of range
        SSCAN s 0 TYPE set => ERR syntax error
        SSCAN s 0 MATCH => ERR syntax error
        SSCAN s 0 NOVALUES => ERR NOVALUES option can only be used in HSCAN
        "#,
    );
    let members: Vec<String> = (0..3_000).map(|n| format!("m{n}")).collect();
    client.run(&format!("SADD large {}", members.join(" ")));
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), std::collections::HashSet::new(), 0);
    loop {
        let reply = client.run(&format!("SSCAN large {cursor} COUNT 100"));
        let (next, rest) = reply[2..].split_once('"').unwrap();
        seen.extend(rest.split('"').filter(|word| word.starts_with('m')).map(str::to_owned));
        calls += 1;
        cursor = next.to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 3_000);
    assert!((10..=31).contains(&calls), "{calls}");
}

#[test]
fn in_resp3() {
    Client::new().resp3().follow(
        r#"
        SADD s 1 2 => 2
        SMEMBERS s => <"1" "2">
        SMEMBERS none => <>
        SINTER s s => <"1" "2">
        SUNION s none => <"1" "2">
        SDIFF none s => <>
        SRANDMEMBER s 2 => ["1" "2"]
        SRANDMEMBER none 2 => []
        SPOP s 0 => <>
        SPOP s 2 => <"1" "2">
        SPOP s 2 => <>
        SPOP s => nil
        SISMEMBER s 1 => 0
        SSCAN s 0 => ["0" []]
        "#,
    );
}
