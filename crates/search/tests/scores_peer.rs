//! Compares found documents and scores with RediSearch 2.10, to the last digit.
//!
//! Intersections are compared without stems: where RediSearch seeks in a union, it leaves some of
//! the matching alternatives out of the score.
//!
//! `PETREL_TEST_REDISEARCH` names the address of a server with it; without one the test skips.

mod peer;

use peer::{Peer, Reply};
use petrel_search::query::ast::{Node, NodeKind};
use petrel_search::query::{
    BoxedRows, Dialect, EveryRow, Expansion, Fields, Memory, Parameters, Scorer, Scoring, Settings,
    TextSearch, expand, parse,
};
use petrel_search::structures::texts::{FieldText, Texts};
use petrel_search::text::{Language, STOP_WORDS};

const WORDS: [&str; 24] = [
    "running",
    "runs",
    "run",
    "runner",
    "ran",
    "house",
    "houses",
    "housing",
    "the",
    "of",
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
];

struct Names;

impl Fields for Names {
    fn text_field(&self, name: &[u8]) -> Option<usize> {
        [&b"t"[..], b"u"].iter().position(|field| *field == name)
    }

    fn text_name(&self, number: usize) -> Option<&[u8]> {
        [&b"t"[..], b"u"].get(number).copied()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn words(&mut self, count: usize) -> String {
        let words: Vec<_> = (0..count).map(|_| WORDS[self.below(WORDS.len())]).collect();
        words.join(" ")
    }
}

fn query(random: &mut Random) -> String {
    let mut word = || WORDS[random.below(WORDS.len())];
    let words = [word(), word(), word()];
    let [a, b, c] = words;
    let forms = [
        a.to_owned(),
        format!("{a} {b}"),
        format!("{a} {b} {c}"),
        format!("{a}|{b}|{c}"),
        format!("{a} ({b}|{c})"),
        format!("\"{a} {b}\""),
        format!("@t:{a} {b}"),
        format!("@u:({a}|{b})"),
        format!("{a} -{b}"),
        format!("{a} ~{b}"),
        format!("({a} {b})=>{{$slop: 2}}"),
        format!("({a} {b})=>{{$slop: 1; $inorder: true; $weight: 2.5}}"),
        format!("{a}=>{{$weight: 3}} {b}"),
        format!("({a}|{b})=>{{$weight: 0.5}} {c}"),
        format!("%{a}%"),
        format!("hou* {a}"),
    ];
    forms[random.below(forms.len())].clone()
}

#[test]
fn scores_are_those_of_redisearch() {
    let Some(mut peer) = Peer::connect("PETREL_TEST_REDISEARCH") else { return };
    let words = |text: &str| text.split(' ').map(Into::into).collect::<Vec<Vec<u8>>>();
    peer.send(&words("FT.DROPINDEX scores DD"));
    let create = "FT.CREATE scores PREFIX 1 scores: SCORE_FIELD s SKIPINITIALSCAN SCHEMA t TEXT u TEXT WEIGHT 2.5";
    assert_eq!(peer.send(&words(create)), Reply::Text(b"OK".to_vec()));
    let mut random = Random(4711);
    let mut texts = Texts::new(2, Language::default());
    let mut scores = Vec::new();
    let is_stop_word = |word: &[u8]| STOP_WORDS.iter().any(|stop| stop.as_bytes() == word);
    for row in 0..300u32 {
        let (one, other) = (1 + random.below(12), random.below(4));
        let (t, u) = (random.words(one), random.words(other));
        let score = [1.0, 0.5, 0.25][random.below(3)];
        scores.push(f64::from(score as f32));
        let key = format!("scores:{row}");
        let set = ["HSET", &key, "t", &t, "u", &u, "s", &score.to_string()];
        peer.send(&set.map(|word| word.as_bytes().to_vec()));
        let field = |field, weight, text: &str| FieldText {
            field,
            weight,
            has_stems: true,
            indexes_empty: false,
            is_further: false,
            text: Box::leak(text.to_owned().into_boxed_str()).as_bytes(),
        };
        texts.add(row, &[field(0, 1.0, &t), field(1, 2.5, &u)], Language::default(), &is_stop_word);
    }
    let mut failures = 0;
    for round in 0..600 {
        let query = query(&mut random);
        if query.contains('|') && ["the", "of"].iter().any(|word| query.contains(word)) {
            continue;
        }
        let name = ["TFIDF", "TFIDF.DOCNORM", "BM25", "BM25STD", "DISMAX", "DOCSCORE"][round % 6];
        let has_unions = query.contains('|') || query.contains('%') || query.contains('*');
        let is_plain = !query.contains(' ') || query.contains('|') && !query.contains('(');
        if has_unions && !is_plain {
            continue;
        }
        let mut arguments = [
            "FT.SEARCH",
            "scores",
            &query,
            "NOCONTENT",
            "WITHSCORES",
            "SCORER",
            name,
            "LIMIT",
            "0",
            "1000",
            "DIALECT",
            "2",
        ]
        .map(|word| word.as_bytes().to_vec())
        .to_vec();
        if !is_plain {
            arguments.push(b"VERBATIM".to_vec());
        }
        let reply = peer.send(&arguments);
        let Reply::List(items) = reply else { panic!("{query}: {reply:?}") };
        let theirs: Vec<(String, f64)> = items[1..]
            .chunks(2)
            .map(|pair| match pair {
                [Reply::Text(key), Reply::Text(score)] => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    (text(key), text(score).parse().unwrap())
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let settings = Settings {
            dialect: Dialect::Two,
            fields: &Names,
            parameters: &Parameters::default(),
            is_stop_word: &is_stop_word,
        };
        let mut tree = parse(query.as_bytes(), &settings).unwrap();
        if is_plain {
            let stems = Some(Language::default());
            expand(&mut tree, &Expansion { stems, synonyms: None });
        }
        let is_visible = |_: u32| true;
        let others = |node: &Node, _: f64| -> Option<BoxedRows<'_>> {
            let is_everything = node.kind == NodeKind::Everything;
            is_everything.then(|| Box::new(EveryRow::new(300, &is_visible)) as BoxedRows<'_>)
        };
        let memory = Memory::default();
        let search = TextSearch {
            texts: &texts,
            limit: u32::MAX,
            others: &others,
            scoring: Scoring::new(Scorer::of(name.as_bytes()).unwrap(), &texts, 300),
            memory: &memory,
        };
        let (total, hits) = search.best(&tree, 1000, &is_visible, &|row| scores[row as usize]);
        let ours: Vec<_> =
            hits.iter().map(|hit| (format!("scores:{}", hit.row), hit.score)).collect();
        // The score of a document without words is no number there.
        let is_defined = theirs.iter().all(|(_, score)| !score.is_nan());
        if is_defined && (total, &ours) != (theirs.len(), &theirs) {
            failures += 1;
            let different = ours
                .iter()
                .find(|hit| !theirs.contains(hit))
                .map(|hit| (hit, theirs.iter().find(|other| other.0 == hit.0)));
            eprintln!("{name} {query}: {total} {} {different:?}", theirs.len());
        }
    }
    assert_eq!(failures, 0);
}
