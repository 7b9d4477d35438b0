//! Random texts here and in RediSearch: marks and summaries, spelling. `PETREL_TEST_REDISEARCH`
//! names a program that starts a Redis server with the module (2.10).
//!
//! Intended differences (docs/search.md) are not drawn: patterns, more fragments than are shown.

use crate::client::{Client, show, show_args};
use crate::random::Random;
use crate::redis::Connection;
use crate::search_peer::beside_redisearch;
use petrel_resp::Value;

const WORDS: [&str; 12] =
    ["god", "light", "heaven", "earth", "of", "the", "deep", "a", "waters", "face", "spirit", "x1"];
const SEPARATORS: [&str; 8] = [" ", " ", " ", ", ", ". ", "  ", "-", " (\t"];

fn text(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..random.below(70) {
        text.push_str(random.pick(&WORDS));
        text.push_str(random.pick(&SEPARATORS));
    }
    text
}

fn both(ours: &mut Client, theirs: &mut Connection, words: &[String]) -> (Value, Value) {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    (ours.call(&args), theirs.call(&args))
}

fn same(ours: &mut Client, theirs: &mut Connection, words: &[String]) {
    let (a, b) = both(ours, theirs, words);
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    assert_eq!(show(&a), show(&b), "{}", show_args(&args));
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(Into::into).collect()
}

fn marked(random: &mut Random, ours: &mut Client, theirs: &mut Connection) {
    let set = ["HSET", "d", "t", &text(random), "u", random.pick(&["deep", "x1"])];
    same(ours, theirs, &set.map(String::from));
    let searched: Vec<&str> = (0..1 + random.below(3)).map(|_| WORDS[random.below(4)]).collect();
    let query = searched.join(random.pick(&["|", " "]));
    let mut call = vec!["FT.SEARCH".to_string(), "i".into(), query];
    call.extend(words("DIALECT 2 RETURN 1 t"));
    if random.below(3) > 0 {
        call.extend(words("SUMMARIZE FRAGS 50 SEPARATOR |"));
        call.extend(["LEN".to_string(), random.below(30).to_string()]);
    }
    if random.below(2) == 0 {
        call.extend(words(random.pick(&["HIGHLIGHT", "HIGHLIGHT FIELDS 1 t TAGS [ ]"])));
    }
    same(ours, theirs, &call);
}

/// Words of a query with their suggestions, without scores: replaced texts count in them there.
fn suggestions(reply: &Value) -> Vec<(String, Vec<String>)> {
    let Value::Array(found) = reply else { panic!("{}", show(reply)) };
    let parts = |value: &Value| match value {
        Value::Array(parts) => parts.clone(),
        other => panic!("{}", show(other)),
    };
    let words = found.iter().map(|word| {
        let word = parts(word);
        let terms = parts(&word[2]);
        (show(&word[1]), terms.iter().map(|term| show(&parts(term)[1])).collect())
    });
    words.collect()
}

fn spelled(random: &mut Random, ours: &mut Client, theirs: &mut Connection) {
    let mut word = || {
        let mut word = random.pick(&WORDS).to_string();
        for _ in 0..random.below(3) {
            match random.below(3) {
                0 if word.len() > 1 => {
                    word.remove(random.below(word.len()));
                }
                1 => word.insert(random.below(word.len() + 1), 'h'),
                _ => word.push('t'),
            }
        }
        word
    };
    let query = format!("{} {}|{}", word(), word(), word());
    let mut call = vec!["FT.SPELLCHECK".to_string(), "i".into(), query];
    call.extend(["DISTANCE".to_string(), (1 + random.below(4)).to_string()]);
    if random.below(2) == 0 {
        call.extend(words(random.pick(&["TERMS INCLUDE in", "TERMS EXCLUDE out"])));
    }
    let (a, b) = both(ours, theirs, &call);
    let args: Vec<&[u8]> = call.iter().map(|word| word.as_bytes()).collect();
    let (ours, theirs) = (suggestions(&a), suggestions(&b));
    assert_eq!(ours.len(), theirs.len(), "{}", show_args(&args));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        // RediSearch suggests stems, and some words that differ by one change more.
        let is_subset = ours.1.iter().all(|term| theirs.1.contains(term));
        assert!(ours.0 == theirs.0 && is_subset, "{ours:?} {theirs:?} {}", show_args(&args));
    }
}

/// Suggestions as a set.
fn suggested(random: &mut Random, ours: &mut Client, theirs: &mut Connection) {
    let term = |random: &mut Random| {
        let letters = ["a", "b", "C", "\u{e9}"];
        (0..1 + random.below(4)).map(|_| random.pick(&letters)).collect::<String>()
    };
    let (term, score) = (term(random), (1 + random.below(20)).to_string());
    let mut call = match random.below(4) {
        0 => vec!["FT.SUGDEL".to_string(), "s".into(), term],
        1 => vec!["FT.SUGLEN".to_string(), "s".into()],
        _ => vec!["FT.SUGADD".to_string(), "s".into(), term, score],
    };
    if call.len() == 4 && random.below(2) == 0 {
        call.extend(words(random.pick(&["INCR", "PAYLOAD p", "PAYLOAD q INCR"])));
    }
    same(ours, theirs, &call);
    let prefix = random.pick(&["", "a", "A", "ab", "abc", "b\u{e9}", "cc", "\u{e9}"]).to_string();
    let mut call = vec!["FT.SUGGET".to_string(), "s".into(), prefix];
    call.extend(words("MAX 1000 WITHSCORES WITHPAYLOADS"));
    let (a, b) = both(ours, theirs, &call);
    let sorted = |reply: &Value| {
        let Value::Array(parts) = reply else { return vec![show(reply)] };
        let mut all: Vec<String> = parts
            .chunks(3)
            .map(|part| part.iter().map(show).collect::<Vec<_>>().join(" "))
            .collect();
        all.sort();
        all
    };
    let args: Vec<&[u8]> = call.iter().map(|word| word.as_bytes()).collect();
    assert_eq!(sorted(&a), sorted(&b), "{}", show_args(&args));
}

#[test]
fn random_texts_are_marked_and_spelled_as_by_redisearch() {
    beside_redisearch(|random, redis, _| {
        let (mut ours, mut theirs) = redis.beside(false);
        for call in [
            "FT.CREATE i SCHEMA t TEXT NOSTEM u TEXT",
            "FT.DICTADD in heave earthy faces",
            "FT.DICTADD out deeph lightt",
            "HSET e t waters u spirit",
        ] {
            same(&mut ours, &mut theirs, &words(call));
        }
        for _ in 0..100 {
            marked(random, &mut ours, &mut theirs);
            spelled(random, &mut ours, &mut theirs);
            suggested(random, &mut ours, &mut theirs);
        }
        300
    });
}
