//! Random texts and queries of words here and in RediSearch: the same totals, documents, order and
//! scores to the last digit. `PETREL_TEST_REDISEARCH` names a program that starts a Redis server
//! with the module (2.10), and takes the parameters of a Redis server.
//!
//! Intended differences (docs/search.md) are not drawn or not compared: replaced texts, scores of
//! alternatives below an intersection, distances beside conditions that are no words.

use crate::client::{Client, show, show_args};
use crate::random::Random;
use crate::redis::{Connection, Redis};
use crate::search_peer::beside_redisearch;
use petrel_resp::Value;
use std::time::{Duration, Instant};

const WORDS: [&str; 24] = [
    "running",
    "runs",
    "run",
    "runner",
    "ran",
    "house",
    "houses",
    "housing",
    "quick",
    "quickly",
    "brown",
    "foxes",
    "fox",
    "jumped",
    "jumping",
    "over",
    "lazy",
    "dogs",
    "cats",
    "generously",
    "hello",
    "flies",
    "the",
    "of",
];
/// Words that are no stop words.
const SEARCHED: usize = 22;
const DOCUMENTS: usize = 60;
const SCORERS: [&str; 6] = ["TFIDF", "TFIDF.DOCNORM", "BM25", "BM25STD", "DISMAX", "DOCSCORE"];

/// A part of a query.
struct Part {
    text: String,
    /// Whether several terms may stand for it.
    has_alternatives: bool,
    /// Whether it is made of words only.
    has_only_words: bool,
    /// Whether its scores are compared.
    is_exact: bool,
}

fn draw_texts(random: &mut Random, most: usize) -> String {
    let words: Vec<&str> = (0..1 + random.below(most)).map(|_| random.pick(&WORDS)).collect();
    words.join(" ")
}

fn draw_leaf(random: &mut Random, is_verbatim: bool) -> Part {
    let word = |random: &mut Random| WORDS[random.below(SEARCHED)];
    let (a, b) = (word(random), word(random));
    let part = |text: String, has_alternatives, has_only_words| Part {
        text,
        has_alternatives,
        has_only_words,
        is_exact: has_only_words,
    };
    match random.below(14) {
        0 => part(format!("@{}:({a})", random.pick(&["t", "u", "v", "t|u"])), !is_verbatim, true),
        1 | 2 => part(format!("\"{a} {b}\""), false, true),
        3 => part(format!("%{a}%"), true, true),
        4 => part(format!("{}*", &a[..3]), true, true),
        5 => part(format!("*{}", &a[2..]), true, true),
        6 => {
            let tag = random.pick(&["a", "b", "c", "a|b"]);
            part(format!("@g:{{{tag}}}"), tag.len() > 1, false)
        }
        7 => {
            let low = random.below(15);
            part(format!("@n:[{low} {}]", low + random.below(9)), true, false)
        }
        _ => part(a.to_string(), !is_verbatim, true),
    }
}

fn draw(random: &mut Random, is_verbatim: bool, depth: usize) -> Part {
    if depth == 0 {
        return draw_leaf(random, is_verbatim);
    }
    let one = draw(random, is_verbatim, depth - 1);
    let form = random.below(8);
    let other = match form {
        2 | 3 => draw_leaf(random, is_verbatim),
        _ => draw(random, is_verbatim, depth - 1),
    };
    let is_intersection = matches!(form, 0..=3 | 5);
    let has_alternatives = one.has_alternatives || other.has_alternatives;
    let text = match form {
        0 | 1 => format!("({} {})", one.text, other.text),
        2 => format!("({} -{})", one.text, other.text),
        3 => format!("({} ~{})", one.text, other.text),
        4 => format!("({} | {})", one.text, other.text),
        5 => format!("({} {})=>{{$weight: 2.5}}", one.text, other.text),
        _ => return one,
    };
    Part {
        text,
        has_alternatives: has_alternatives || !is_intersection,
        has_only_words: one.has_only_words && other.has_only_words && !matches!(form, 2 | 3),
        is_exact: one.is_exact && other.is_exact && !(is_intersection && has_alternatives),
    }
}

fn call_both(ours: &mut Client, theirs: &mut Connection, words: &[String]) -> (Value, Value) {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    (ours.call(&args), theirs.call(&args))
}

/// Waits until both have indexed everything.
fn settle(ours: &mut Client, theirs: &mut Connection) {
    let info: Vec<String> = vec!["FT.INFO".into(), "i".into()];
    let start = Instant::now();
    let is_done = |value: &Value| {
        let text = show(value);
        ["indexing \"0\"", "indexing: 0", "indexing 0"].iter().any(|done| text.contains(done))
    };
    loop {
        let (a, b) = call_both(ours, theirs, &info);
        if is_done(&a) && is_done(&b) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{} {}", show(&a), show(&b));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A reply with its numbers as Rust prints them: Redis prints some with a digit more.
fn shown(reply: &Value) -> String {
    match reply {
        Value::Array(parts) => {
            let parts: Vec<String> = parts.iter().map(shown).collect();
            format!("[{}]", parts.join(" "))
        }
        other => {
            let text = show(other);
            let number = text.trim_matches('"').parse::<f64>();
            number.map_or(text, |number| number.to_string())
        }
    }
}

/// The total, and the documents in the order of their keys.
fn keys_of(reply: &Value) -> (String, Vec<String>) {
    let Value::Array(parts) = reply else { return (show(reply), Vec::new()) };
    let mut keys: Vec<String> =
        parts[1..].iter().map(show).filter(|text| text.starts_with("\"k:")).collect();
    keys.sort();
    (show(&parts[0]), keys)
}

fn round(random: &mut Random, redis: &Redis) -> usize {
    let (mut ours, mut theirs) = redis.beside(false);
    let options =
        random.pick(&["", "NOFREQS", "NOFIELDS", "STOPWORDS 2 fox the", "LANGUAGE german"]);
    let create = format!(
        "FT.CREATE i PREFIX 1 k: {options} SCORE_FIELD s SCHEMA t TEXT u TEXT WEIGHT 2.5 v TEXT \
         NOSTEM g TAG n NUMERIC SORTABLE"
    );
    let create: Vec<String> = create.split_whitespace().map(Into::into).collect();
    let (a, b) = call_both(&mut ours, &mut theirs, &create);
    assert_eq!((show(&a), show(&b)), ("OK".into(), "OK".into()));
    if random.below(2) == 0 {
        for group in ["g1 run house", "g2 fox cats run", "g3 Lazy hello dogs"] {
            let update = ["FT.SYNUPDATE", "i"].into_iter().chain(group.split(' '));
            let update: Vec<String> = update.map(Into::into).collect();
            call_both(&mut ours, &mut theirs, &update);
        }
    }
    settle(&mut ours, &mut theirs);
    for key in 0..DOCUMENTS {
        let mut set = vec!["HSET".to_string(), format!("k:{key}"), "t".into()];
        set.push(draw_texts(random, 12));
        for (field, share) in [("u", 7), ("v", 4)] {
            if random.below(10) < share {
                set.extend([field.to_string(), draw_texts(random, 4)]);
            }
        }
        set.extend(["n".to_string(), random.below(20).to_string()]);
        set.extend(["g".to_string(), random.pick(&["a", "b", "c", "a,b", "b,c"]).to_string()]);
        if random.below(3) == 0 {
            set.extend(["s".to_string(), random.pick(&["0.5", "0.25", "1"]).to_string()]);
        }
        let (a, b) = call_both(&mut ours, &mut theirs, &set);
        assert_eq!(show(&a), show(&b), "{set:?}");
    }
    for _ in 0..60 {
        compare(random, options, &mut ours, &mut theirs);
    }
    60
}

fn compare(random: &mut Random, options: &str, ours: &mut Client, theirs: &mut Connection) {
    let is_verbatim = random.below(2) == 0;
    let depth = random.below(3);
    let part = draw(random, is_verbatim, depth);
    let scorer = random.pick(&SCORERS);
    let has_absence = part.text.contains(" -");
    let has_option = part.text.contains(" ~");
    // Parts of nested intersections are in the order of their walks.
    let is_nested = depth > 1;
    let mut words = vec!["FT.SEARCH".to_string(), "i".into(), part.text.clone()];
    words.extend(["NOCONTENT", "WITHSCORES", "SCORER", scorer].map(String::from));
    words.extend(["LIMIT", "0", "100", "DIALECT", "2"].map(String::from));
    if is_verbatim {
        words.push("VERBATIM".into());
    }
    match random.below(8) {
        0 if !has_option => {
            words.extend(["INFIELDS", "1", random.pick(&["t", "u", "v"])].map(String::from))
        }
        1 if part.has_only_words && !part.has_alternatives => {
            words.extend(["SLOP".to_string(), random.below(4).to_string()]);
            if random.below(2) == 0 {
                words.push("INORDER".into());
            }
        }
        2 => words.push("NOSTOPWORDS".into()),
        _ => {}
    }
    // Parts of the same number of documents are in no defined order, and a single alternative is
    // shown as one of several or not.
    if depth == 0 && !part.has_alternatives && random.below(3) == 0 {
        words.push("EXPLAINSCORE".into());
    }
    let (a, b) = call_both(ours, theirs, &words);
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let what = format!("{options} {}", show_args(&args));
    let ((our_total, our_keys), (their_total, their_keys)) = (keys_of(&a), keys_of(&b));
    if has_absence && our_total != their_total {
        // A negation loses one of the last documents there, at times.
        let lost = our_keys.iter().filter(|key| !their_keys.contains(key)).count();
        assert_eq!((lost, our_keys.len()), (1, their_keys.len() + 1), "{what}");
        return;
    }
    assert_eq!((our_total, our_keys), (their_total, their_keys), "{what}");
    // The score of a document without words is no number there.
    let is_number = !show(&b).contains("inf") && !show(&b).contains("nan");
    // The last document that an option has rejected, for the field of its word or as no phrase,
    // counts there.
    let is_odd = has_option && part.text.contains(['@', '"']);
    if part.is_exact && is_number && !is_nested && !is_odd {
        assert_eq!(shown(&a), shown(&b), "{what}");
    }
}

#[test]
fn random_words_have_the_scores_of_redisearch() {
    beside_redisearch(|random, redis, _| round(random, redis));
}
