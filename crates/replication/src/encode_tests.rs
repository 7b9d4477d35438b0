use super::*;
use petrel_keyspace::custom::{CustomChange, TypeNumber};
use petrel_keyspace::types::stream::{StreamChange, StreamId};
use petrel_keyspace::{Keyspace, Options, bloom};
use petrel_resp::{Limits, Parsed, Resume, parse};
use std::sync::{Arc, Mutex};

const UNDERSTOOD: Understood =
    Understood { dialect: Dialect::Redis, version_max: u16::MAX, databases: 3 };

/// Redis has state `known` only.
fn write_aux(name: &[u8], form: &[u8], version_max: u16, out: &mut dyn CommandWriter) -> bool {
    if name == b"known" && version_max >= 10 {
        out.command("FUNCTION", &[b"FLUSH"]);
        out.command("FUNCTION", &[b"LOAD", form]);
    }
    name == b"known"
}

/// The commands of a commit as lines, by the server's own parser.
fn lines(understood: Understood, effects: &[(u16, Effect<'_>)]) -> Vec<String> {
    let mut encoder = Encoder::new(understood, b"MARK", write_aux);
    effects.iter().for_each(|(db, effect)| encoder.add(*db, effect));
    let batch = encoder.finish().expect("something to be said");
    let (mut rest, mut lines) = (&batch.bytes[batch.skip..], Vec::new());
    while !rest.is_empty() {
        let mut args = Vec::new();
        let parsed = parse(rest, &Limits::new(1 << 20), &mut args, &mut Resume::default());
        let Parsed::Command { consumed } = parsed else { panic!("{}", rest.escape_ascii()) };
        let args: Vec<String> = args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        lines.push(args.join(" "));
        rest = &rest[consumed..];
    }
    encoder.clear();
    assert!(encoder.is_empty());
    lines
}

fn of(effects: &[Effect<'_>]) -> Vec<String> {
    let effects: Vec<_> = effects.iter().map(|effect| (0, *effect)).collect();
    lines(UNDERSTOOD, &effects)
}

#[test]
fn one_change_is_one_command_and_several_are_a_transaction() {
    let put = |expiry| Effect::Put { key: b"k", value: StrRef::Bytes(b"v"), expiry };
    assert_eq!(of(&[put(None)]), ["SET k v"]);
    assert_eq!(of(&[put(Some(7))]), ["SET k v PXAT 7"]);
    let number = Effect::Put { key: b"", value: StrRef::Int(-12), expiry: None };
    assert_eq!(of(&[number, put(None)]), ["MULTI", "SET  -12", "SET k v", "EXEC"]);
    let remove = Effect::Remove { key: b"k", why: Removal::Expired };
    assert_eq!(
        lines(UNDERSTOOD, &[(2, remove), (1, put(None))]),
        ["MULTI", "DEL k", "SELECT 1", "SET k v", "EXEC"]
    );
    let valkey = Understood { dialect: Dialect::Valkey, ..UNDERSTOOD };
    assert_eq!(lines(valkey, &[(0, remove)]), ["UNLINK k"]);
}

#[test]
fn arguments_of_every_length_stand_behind_it() {
    for len in [0, 1, 9, 10, 11, 99, 100, 101, 1000] {
        let value = vec![b'v'; len];
        let put = Effect::Put { key: b"k", value: StrRef::Bytes(&value), expiry: None };
        assert_eq!(of(&[put]), [format!("SET k {}", "v".repeat(len))]);
    }
}

#[test]
fn elements_are_gathered() {
    let add = |member| Effect::MemberAdd { key: b"s", member };
    let remove = |member| Effect::MemberRemove { key: b"s", member };
    assert_eq!(of(&[add(b"a"), add(b"b")]), ["SADD s a b"]);
    let emptied = Effect::Remove { key: b"s", why: Removal::Emptied };
    assert_eq!(of(&[remove(b"a"), remove(b"b"), emptied]), ["SREM s a b"]);
    // A client's member that looks like effects of the primary: a replica takes no second one.
    let forged = hide(0, &add(b"a"));
    let text = forged.escape_ascii();
    let sent = of(&[remove(&forged)]);
    assert_eq!(sent, [format!("SREM s {text} {text}")]);
    assert_eq!(of(&[emptied]), ["DEL s"]);
    let other = Effect::Remove { key: b"t", why: Removal::Emptied };
    assert_eq!(of(&[remove(b"a"), other]), ["MULTI", "SREM s a", "DEL t", "EXEC"]);
    let score = |score| Effect::ScorePut { key: b"z", member: b"m", score };
    let scores = [score(0.1), score(f64::INFINITY), score(-1e300)];
    assert_eq!(of(&scores), ["ZADD z 0.1 m inf m -1e300 m"]);
    let field = Effect::FieldPut { key: b"h", field: b"f", value: b"v", expiry: Some(9) };
    assert_eq!(of(&[field]), ["MULTI", "HSET h f v", "HPEXPIREAT h 9 FIELDS 1 f", "EXEC"]);
    let old = Understood { version_max: 10, ..UNDERSTOOD };
    assert_eq!(lines(old, &[(0, field)]), ["HSET h f v"]);
}

#[test]
fn lists() {
    let pop = |end| Effect::ListPop { key: b"l", end };
    let push = |element| Effect::ListPush { key: b"l", end: End::Back, element };
    let emptied = Effect::Remove { key: b"l", why: Removal::Emptied };
    assert_eq!(of(&[pop(End::Front)]), ["LPOP l"]);
    assert_eq!(of(&[pop(End::Back), pop(End::Back), emptied]), ["RPOP l 2"]);
    let both = [pop(End::Front), pop(End::Back), push(b"a"), push(b"b")];
    assert_eq!(of(&both), ["MULTI", "LPOP l", "RPOP l", "RPUSH l a b", "EXEC"]);
    assert_eq!(
        lines(UNDERSTOOD, &[(0, pop(End::Front)), (1, pop(End::Front))]),
        ["MULTI", "LPOP l", "SELECT 1", "LPOP l", "EXEC"]
    );
    let insert = |index, next| Effect::ListInsert { key: b"l", index, element: b"e", next };
    assert_eq!(of(&[insert(3, None)]), ["RPUSH l e"]);
    assert_eq!(of(&[insert(0, Some(b"n"))]), ["LPUSH l e"]);
    let lines = ["MULTI", "LSET l 2 MARK", "LINSERT l BEFORE MARK e", "LSET l 3 n", "EXEC"];
    assert_eq!(of(&[insert(2, Some(b"n"))]), lines);
    let trim = |from, len| Effect::ListTrim { key: b"l", from, len };
    assert_eq!(of(&[trim(2, 3)]), ["LTRIM l 2 4"]);
    assert_eq!(of(&[trim(0, 0), emptied]), ["DEL l"]);
}

/// Elements that `LREM` removes have the indices that they had before the first went.
#[test]
fn removed_elements_are_marked_where_they_stand() {
    let remove = |index| Effect::ListRemove { key: b"l", index };
    let marked = |places: [usize; 3]| {
        let set = places.map(|at| format!("LSET l {at} MARK"));
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        [&["MULTI"], &set[..], &["LREM l 3 MARK", "EXEC"]].concat().join(";")
    };
    // 1, 2 and 5 from the first on, then from the last on.
    assert_eq!(of(&[remove(1), remove(1), remove(3)]).join(";"), marked([1, 2, 5]));
    assert_eq!(of(&[remove(5), remove(2), remove(1)]).join(";"), marked([5, 2, 1]));
    let emptied = Effect::Remove { key: b"l", why: Removal::Emptied };
    assert_eq!(of(&[remove(0), emptied]), ["MULTI", "LSET l 0 MARK", "LREM l 1 MARK", "EXEC"]);
}

#[test]
fn databases_are_flushed_at_once_or_one_by_one() {
    let all = [(0, Effect::Clear), (1, Effect::Clear), (2, Effect::Clear)];
    assert_eq!(lines(UNDERSTOOD, &all), ["FLUSHALL"]);
    assert_eq!(lines(UNDERSTOOD, &all[1..2]), ["FLUSHDB"]);
    assert_eq!(lines(UNDERSTOOD, &all[1..]), ["MULTI", "FLUSHDB", "SELECT 2", "FLUSHDB", "EXEC"]);
    let put = (2, Effect::Put { key: b"k", value: StrRef::Bytes(b"v"), expiry: None });
    let swap = (2, Effect::Swap { with: 0 });
    // From the client's database on, and round.
    let round = [all[1], all[2], all[0]];
    assert_eq!(lines(UNDERSTOOD, &round), ["FLUSHALL"]);
    assert_eq!(
        lines(UNDERSTOOD, &[put, all[1], all[2], all[0]])[2..],
        ["SELECT 1", "FLUSHALL", "EXEC"]
    );
    assert_eq!(lines(UNDERSTOOD, &round[1..]), ["MULTI", "FLUSHDB", "SELECT 0", "FLUSHDB", "EXEC"]);
    // Twice, and of more databases than the largest number of one.
    let twice = [&all[..], &all[..]].concat();
    assert_eq!(lines(UNDERSTOOD, &twice), ["MULTI", "FLUSHALL", "FLUSHALL", "EXEC"]);
    let many = Understood { databases: u16::MAX, ..UNDERSTOOD };
    let each = (60_000..u16::MAX).chain(0..60_000).map(|db| (db, Effect::Clear));
    assert_eq!(lines(many, &each.collect::<Vec<_>>()), ["FLUSHALL"]);
    assert_eq!(
        lines(UNDERSTOOD, &[&all[..], &[put, swap]].concat()),
        ["MULTI", "FLUSHALL", "SELECT 2", "SET k v", "SWAPDB 2 0", "EXEC"]
    );
}

#[test]
fn streams() {
    let (id, group) = (StreamId { ms: 5, seq: 1 }, &b"g"[..]);
    let stream = |change| Effect::Stream { key: b"x", change };
    let add = stream(StreamChange::Add { id, fields: &[b"f", b"v"] });
    let trim = stream(StreamChange::TrimUpTo { id });
    assert_eq!(of(&[add, trim]), ["MULTI", "XADD x 5-1 f v", "XTRIM x MINID = 5-2", "EXEC"]);
    let made = |is_new| StreamChange::Group { group, last_delivered: id, read: Some(4), is_new };
    assert_eq!(of(&[stream(made(true))]), ["XGROUP CREATE x g 5-1 ENTRIESREAD 4"]);
    assert_eq!(of(&[stream(made(false))]), ["XGROUP SETID x g 5-1 ENTRIESREAD 4"]);
    let old = Understood { version_max: 9, ..UNDERSTOOD };
    assert_eq!(lines(old, &[(0, stream(made(false)))]), ["XGROUP SETID x g 5-1"]);
    let pending =
        |consumer| StreamChange::Pending { group, id, consumer, delivered_ms: 8, count: 2 };
    assert_eq!(
        of(&[stream(pending(Some(b"c")))]),
        ["XCLAIM x g c 0 5-1 TIME 8 RETRYCOUNT 2 FORCE JUSTID"]
    );
    assert_eq!(of(&[stream(pending(None))]), ["XNACK x g SILENT IDS 1 5-1 RETRYCOUNT 2 FORCE"]);
}

/// Servers that load RDB up to version 13 have no arrays.
#[test]
fn changes_of_arrays_are_commands_or_hidden() {
    let change = CustomChange { op: 0, body: b"\x07\x01a\x00" };
    let set = Effect::Custom { key: b"x", of: TypeNumber::ARRAY, change };
    assert_eq!(of(&[set]), ["ARSET x 7 a "]);
    let old = Understood { version_max: 13, ..UNDERSTOOD };
    let hidden = lines(old, &[(0, set)]);
    assert_eq!(hidden[..2], ["MULTI", "REPLCONF capa petrel-members"]);
    assert!(hidden[2].starts_with("SREM x ") && hidden[3] == "EXEC", "{hidden:?}");
}

#[test]
fn auxiliary_state_is_commands_or_hidden() {
    let aux = |name| Effect::Aux { name, bytes: b"form" };
    let known = ["MULTI", "FUNCTION FLUSH", "FUNCTION LOAD form", "EXEC"];
    assert_eq!(lines(UNDERSTOOD, &[(2, aux(b"known"))]), known);
    let unknown = lines(UNDERSTOOD, &[(0, aux(b"other"))]);
    let argument = hide_aux(b"other", b"form");
    let echo = format!("ECHO {}", argument.escape_ascii());
    assert_eq!(unknown, ["MULTI", "REPLCONF capa petrel-members", &echo, "EXEC"]);
    let taken = petrel_persistence::effects::hidden_aux(&argument).unwrap();
    assert_eq!(taken, Ok((b"other".to_vec(), b"form".to_vec())));
    for len in 1..6 {
        let cut = &argument[..argument.len() - len];
        assert!(petrel_persistence::effects::hidden_aux(cut).unwrap().is_err(), "{len}");
    }
    assert!(petrel_persistence::effects::hidden_aux(b"text").is_none());
}

/// Redis cannot copy a Bloom filter.
#[test]
fn values_of_value_types_are_copied_as_payloads() {
    let mut handle = Keyspace::new(&Options::default()).attach();
    let (k, l) = (handle.key(b"k"), handle.key(b"l"));
    handle.enter();
    handle.lock_all();
    let asked = bloom::Reserve { error: 0.1, entries: 9, expansion: 2, is_fixed: false };
    assert!(bloom::reserve(&mut handle.slot(0, k, &bloom::TYPE).unwrap(), asked));
    assert!(handle.set_expiry(0, k, Some(i64::MAX)));
    let sent = Arc::new(Mutex::new(Vec::new()));
    let sink = sent.clone();
    handle.set_sink(Some(Box::new(move |db, effect: &Effect<'_>| {
        sink.lock().unwrap().extend(lines(UNDERSTOOD, &[(db, *effect)]));
    })));
    assert!(handle.copy(0, k, 0, l) && handle.rename(0, l, 1, l) && handle.rename(1, l, 1, k));
    handle.unlock();
    handle.exit();
    let sent = sent.lock().unwrap();
    let heads = sent.iter().map(|line| line.split("\\x07").next().unwrap());
    let heads: Vec<_> = heads.filter(|head| !head.starts_with("SELECT")).collect();
    let restore = format!("RESTORE l {} ", i64::MAX);
    let expected = [&restore, &restore, "DEL l", "RENAME l k", "DEL l"];
    assert_eq!(heads, expected);
}

#[test]
fn messages_stand_between_the_changes_around_them() {
    let mut encoder = Encoder::new(UNDERSTOOD, b"MARK", write_aux);
    let add = Effect::MemberAdd { key: b"s", member: b"a" };
    let message = Published { db: 0, is_sharded: false, channel: b"c", payload: b"p" };
    encoder.add(0, &add);
    encoder.message(&message);
    encoder.add(0, &add);
    let text = encoder.finish().unwrap().bytes.escape_ascii().to_string();
    let adds: Vec<usize> = text.match_indices("SADD").map(|(at, _)| at).collect();
    let published = text.find("PUBLISH").unwrap();
    assert!(adds.len() == 2 && (adds[0]..adds[1]).contains(&published), "{text}");
    let sharded = Published { is_sharded: true, ..message };
    encoder.clear();
    encoder.message(&sharded);
    assert!(encoder.finish().unwrap().bytes.ends_with(b"SPUBLISH\r\n$1\r\nc\r\n$1\r\np\r\n"));
    let mut old = Encoder::new(Understood { version_max: 9, ..UNDERSTOOD }, b"MARK", write_aux);
    old.message(&sharded);
    old.add(0, &Effect::Aux { name: b"known", bytes: b"form" });
    assert!(old.finish().is_none());
}
