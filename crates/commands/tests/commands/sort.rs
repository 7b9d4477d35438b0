//! SORT and SORT_RO.

use crate::client::Client;

#[test]
fn elements_are_sorted_as_numbers_or_as_texts() {
    Client::new().follow(
        r#"
        RPUSH l 3 1 2 10 => 4
        SORT l => ["1" "2" "3" "10"]
        SORT l DESC => ["10" "3" "2" "1"]
        SORT l ALPHA => ["1" "10" "2" "3"]
        SORT l asc desc => ["10" "3" "2" "1"]
        SORT l LIMIT 1 2 => ["2" "3"]
        SORT l LIMIT 0 1 => ["1"]
        SORT l LIMIT 0 1 LIMIT 1 1 => ["2"]
        SORT l LIMIT -1 2 => ["1" "2"]
        SORT l LIMIT 1 -5 => ["2" "3" "10"]
        SORT l LIMIT 9 1 => []
        SORT l LIMIT 1 9223372036854775807 => ["2" "3" "10"]
        SORT l LIMIT 0 0 => []
        SORT_RO l => ["1" "2" "3" "10"]
        SADD s 2 10 1 => 3
        SORT s => ["1" "2" "10"]
        ZADD z 1 b 2 a 3 c => 3
        SORT z => ERR One or more scores can't be converted into double
        SORT z ALPHA => ["a" "b" "c"]
        SORT z ALPHA DESC LIMIT 0 1 => ["c"]
        SORT nosuch => []
        RPUSH n 1.0 1.00 1 -inf 1e3 inf => 6
        SORT n => ["-inf" "1" "1.0" "1.00" "1e3" "inf"]
        SORT n DESC => ["inf" "1e3" "1.00" "1.0" "1" "-inf"]
        "#,
    );
}

#[test]
fn arguments_are_checked_before_anything_is_read() {
    Client::new().follow(
        r#"
        SET s x => OK
        RPUSH l 1 2 => 2
        SORT s => WRONGTYPE Operation against a key holding the wrong kind of value
        SORT s STORE d => WRONGTYPE Operation against a key holding the wrong kind of value
        SORT s BY a* => WRONGTYPE Operation against a key holding the wrong kind of value
        XADD x 1-1 f v => "1-1"
        SORT x => WRONGTYPE Operation against a key holding the wrong kind of value
        SORT s LIMIT => ERR syntax error
        SORT l LIMIT 1 => ERR syntax error
        SORT l LIMIT a 1 => ERR value is not an integer or out of range
        SORT l BY => ERR syntax error
        SORT l GET => ERR syntax error
        SORT l STORE => ERR syntax error
        SORT_RO l STORE x => ERR syntax error
        SORT s foo => ERR syntax error
        SORT => ERR wrong number of arguments for 'sort' command
        "#,
    );
}

#[test]
fn what_is_no_number_is_refused() {
    for element in ["a", "\" 1\"", "\"1 \"", "\"\"", "nan", "1e400", "1e-400", "1a"] {
        let mut client = Client::new();
        client.run(&format!("RPUSH n 1 {element}"));
        let refusal = "ERR One or more scores can't be converted into double";
        assert_eq!(client.run("SORT n"), refusal, "{element}");
        assert_eq!(client.run("SORT n LIMIT 5 1 STORE d"), refusal, "{element}");
        assert_eq!(client.run("EXISTS d"), "0");
    }
}

#[test]
fn patterns_name_what_is_compared_and_what_is_returned() {
    Client::new().follow(
        r#"
        RPUSH l 3 1 2 10 => 4
        MSET w_1 5 w_2 4 w_3 3 => OK
        SORT l BY w_* => ["10" "3" "2" "1"]
        SORT l BY w_* DESC => ["1" "2" "3" "10"]
        SORT l BY w_* ALPHA => ["10" "3" "2" "1"]
        SORT l BY w_* ALPHA DESC LIMIT 0 2 => ["1" "2"]
        SORT l BY w_* LIMIT 1 1 GET # GET w_* GET nope GET w_*->f => ["3" "3" nil nil]
        SORT l GET * => [nil nil nil nil]
        HSET h_1 f 9 => 1
        HSET h_2 f 7 => 1
        HSET h_3 f 8 => 1
        SORT l BY h_*->f GET h_*->f GET # => [nil "10" "7" "2" "8" "3" "9" "1"]
        SORT l BY h_*->g => ["1" "10" "2" "3"]
        SORT l GET h_*-> => [nil nil nil nil]
        SET h_1-> there => OK
        SORT l GET h_*-> => ["there" nil nil nil]
        SET x->1 arrow => OK
        SORT l GET x->* => ["arrow" nil nil nil]
        SORT l ALPHA DESC BY q_* => ["3" "1" "2" "10"]
        RPUSH w_9 1 => 1
        RPUSH l 9 => 5
        SORT l BY w_* => ["10" "9" "3" "2" "1"]
        SORT l GET w_* => ["5" "4" "3" nil nil]
        SORT_RO l GET w_* LIMIT 0 1 => ["5"]
        SET w_1 zz => OK
        SORT l BY w_* => ERR One or more scores can't be converted into double
        "#,
    );
}

#[test]
fn a_pattern_without_a_star_leaves_the_order() {
    Client::new().follow(
        r#"
        RPUSH l 3 1 2 10 => 4
        SORT l BY nosort => ["3" "1" "2" "10"]
        SORT l BY # => ["3" "1" "2" "10"]
        SORT l BY nosort DESC => ["10" "2" "1" "3"]
        SORT l BY nosort DESC LIMIT 1 2 => ["2" "1"]
        SORT l BY nosort LIMIT 1 2 => ["1" "2"]
        SORT l BY nosort ALPHA LIMIT 0 3 => ["3" "1" "2"]
        SORT l BY w_* BY nosort => ["3" "1" "2" "10"]
        SORT l BY nosort BY w_* => ["3" "1" "2" "10"]
        ZADD z 1 b 2 a 3 c => 3
        SORT z BY nosort => ["b" "a" "c"]
        SORT z BY nosort DESC => ["c" "a" "b"]
        SORT z BY nosort LIMIT 1 1 => ["a"]
        SORT z BY nosort DESC LIMIT 0 1 => ["c"]
        SADD s c a b => 3
        SORT s BY nosort STORE d => 3
        LRANGE d 0 -1 => ["a" "b" "c"]
        SORT s BY nosort DESC STORE d => 3
        LRANGE d 0 -1 => ["c" "b" "a"]
        SORT s BY nosort LIMIT 1 1 GET # STORE d => 1
        LRANGE d 0 -1 => ["b"]
        "#,
    );
}

#[test]
fn results_are_stored_as_a_list() {
    Client::new().follow(
        r#"
        RPUSH l 3 1 2 => 3
        SET d x EX 100 => OK
        SET w_1 one => OK
        SORT l GET # GET w_* STORE d => 6
        LRANGE d 0 -1 => ["1" "one" "2" "" "3" ""]
        TTL d => -1
        SORT l STORE d STORE e => 3
        LRANGE e 0 -1 => ["1" "2" "3"]
        SORT nosuch STORE d => 0
        EXISTS d => 0
        SORT l STORE l => 3
        LRANGE l 0 -1 => ["1" "2" "3"]
        OBJECT ENCODING l => "listpack"
        SORT l LIMIT 9 1 STORE l => 0
        EXISTS l => 0
        COMMAND GETKEYS SORT a STORE b BY store GET STORE STORE c => ["a" "c"]
        COMMAND GETKEYS SORT_RO a BY x_* => ["a"]
        MULTI => OK
        RPUSH l 2 1 => QUEUED
        SORT l GET w_* GET # STORE d => QUEUED
        LRANGE d 0 -1 => QUEUED
        EXEC => [2 4 ["one" "1" "" "2"]]
        "#,
    );
}

/// Keys of patterns in any stripe, few and many: SORT locks differently, but replies equally.
#[test]
fn weights_may_lie_in_any_stripe() {
    for count in [1, 10, 300, 600, 2000] {
        let mut client = Client::new();
        for i in 0..count {
            client.run(&format!("RPUSH l {i}"));
            client.run(&format!("SET weight:{i} {}", count - i));
            client.run(&format!("HSET name:{i} f n{i}"));
        }
        let sorted = client.run("SORT l BY weight:* GET name:*->f STORE d");
        assert_eq!(sorted, count.to_string());
        assert_eq!(client.run("LINDEX d 0"), format!("\"n{}\"", count - 1));
        assert_eq!(client.run("LINDEX d -1"), "\"n0\"");
        let first = client.run("SORT l BY weight:* DESC LIMIT 0 1 GET #");
        assert_eq!(first, "[\"0\"]");
    }
}

#[test]
fn fields_that_have_expired_go_when_they_are_asked_for() {
    let mut client = Client::new();
    client.follow(
        "RPUSH ids 1 2 => 2
        HSET user:1 name a score 2 => 2
        HSET user:2 name b score 1 => 2
        HPEXPIRE user:1 5 FIELDS 1 name => [1]",
    );
    client.wait(10);
    client.follow(
        "HLEN user:1 => 2
        SORT ids BY user:*->score GET user:*->name => [\"b\" nil]
        HLEN user:1 => 1",
    );
}
