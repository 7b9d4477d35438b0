//! Valkey's words and forms, where it parts from Redis.

use crate::client::Client;
use petrel_commands::Dialect;

fn valkey() -> Client {
    let client = Client::new();
    client.exec.shared.speak(Dialect::Valkey);
    client
}

#[test]
fn fields_that_expire_are_written_as_valkey_has_them() {
    let mut client = valkey();
    client.follow(
        "HSET h a 1 b 2 => 2
        HGETEX h EX -1 FIELDS 1 a => ERR invalid expire time in 'hgetex' command
        HGETEX h EX 1 PERSIST FIELDS 1 a => ERR syntax error
        HGETEX h FIELDS 1 a EX 1 => ERR numfields should be greater than 0 and match the provided number of fields
        HGETEX h FIELDS x a => ERR value is not an integer or out of range
        HGETEX h foo 10 FIELDS 1 a => ERR syntax error
        HSETEX h EX 10 KEEPTTL FIELDS 1 a 1 => ERR syntax error
        HSETEX h FIELDS 1 a 1 extra => ERR numfields should be greater than 0 and match the provided number of fields
        HSETEX h NX XX FIELDS 1 a 1 => ERR syntax error
        HSETEX h NX FIELDS 1 a 9 => 0
        HSETEX none XX FIELDS 1 a 9 => 0
        EXISTS none => 0
        HSETEX h XX FXX EX 100 FIELDS 1 a 9 => 1
        HSETEX h FNX NX FIELDS 1 a 1 => 0
        HEXPIRE h 10 NX GT FIELDS 1 a => ERR NX and XX, GT or LT options at the same time are not compatible
        HEXPIRE h 10 foo FIELDS 1 a => ERR Unsupported option foo
        HEXPIRE h 10 FIELD 1 a => ERR numfields should be greater than 0 and match the provided number of fields
        HTTL h FIELD 1 a => ERR syntax error
        HTTL h FIELDS 2 a => ERR syntax error
        HPERSIST h FIELDS 2 a => ERR numfields should be greater than 0 and match the provided number of fields
        HGET h a => \"9\"",
    );
}

#[test]
fn who_has_not_logged_in_learns_nothing_of_commands() {
    let mut client = valkey();
    client.session.log_out();
    client.follow(
        "FOO => NOAUTH Authentication required.
        GET => NOAUTH Authentication required.
        GET k => NOAUTH Authentication required.",
    );
    let mut redis = Client::new();
    redis.session.log_out();
    redis.follow(
        "FOO => ERR unknown command 'FOO', with args beginning with: \n\
        GET => ERR wrong number of arguments for 'get' command\n\
        GET k => NOAUTH Authentication required.",
    );
}
