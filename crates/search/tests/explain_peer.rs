//! Compares the parsers with RediSearch by `FT.EXPLAIN`, over generated queries.
//!
//! `PETREL_TEST_REDISEARCH` names the address of a server with RediSearch 2.10; without one the
//! tests skip. `PETREL_TEST_SEED` and `PETREL_TEST_SECONDS` choose the queries and their number.

mod peer;

use peer::{Peer, Reply};
use petrel_search::query::{Dialect, Fields, Parameters, Settings, explain, parse};
use std::time::{Duration, Instant};

const SCHEMA: &str = "t TEXT u TEXT WEIGHT 2 ns TEXT NOSTEM ph TEXT PHONETIC dm:en \
    sf TEXT WITHSUFFIXTRIE g TAG gs TAG SEPARATOR ; CASESENSITIVE n NUMERIC m NUMERIC ge GEO \
    sh GEOSHAPE FLAT v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 \
    im TEXT INDEXMISSING INDEXEMPTY gm TAG INDEXMISSING INDEXEMPTY";
const TEXT_FIELDS: [&[u8]; 6] = [b"t", b"u", b"ns", b"ph", b"sf", b"im"];
const STOP_WORDS: [&[u8]; 33] = [
    b"a", b"is", b"the", b"an", b"and", b"are", b"as", b"at", b"be", b"but", b"by", b"for", b"if",
    b"in", b"into", b"it", b"no", b"not", b"of", b"on", b"or", b"such", b"that", b"their", b"then",
    b"there", b"these", b"they", b"this", b"to", b"was", b"will", b"with",
];
const PARAMETERS: [(&[u8], &[u8]); 6] = [
    (b"p", b"kp"),
    (b"q", b"Kq x"),
    (b"one", b"1"),
    (b"open", b"(2.5"),
    (b"vec", b"abcdefgh"),
    (b"poly", b"POLYGON((0 0,0 1,1 1,0 0))"),
];

struct Names;

impl Fields for Names {
    fn text_field(&self, name: &[u8]) -> Option<usize> {
        TEXT_FIELDS.iter().position(|field| *field == name)
    }

    fn text_name(&self, number: usize) -> Option<&[u8]> {
        TEXT_FIELDS.get(number).copied()
    }
}

fn ours(query: &[u8], dialect: u32) -> Result<Vec<u8>, Vec<u8>> {
    let mut parameters = Parameters::default();
    for (name, value) in PARAMETERS {
        parameters.add(name, value).unwrap();
    }
    let settings = Settings {
        dialect: Dialect::of(dialect).unwrap(),
        fields: &Names,
        parameters: &parameters,
        is_stop_word: &|word| STOP_WORDS.contains(&word),
    };
    match parse(query, &settings) {
        Ok(tree) => Ok(explain(&tree, &Names)),
        Err(error) => Err(error.text),
    }
}

fn arguments(query: &[u8], dialect: u32) -> Vec<Vec<u8>> {
    let mut arguments: Vec<Vec<u8>> = ["FT.EXPLAIN", "peer"].map(|word| word.into()).to_vec();
    arguments.push(query.to_vec());
    arguments.extend(["VERBATIM", "PARAMS"].map(Into::into));
    arguments.push((2 * PARAMETERS.len()).to_string().into());
    for (name, value) in PARAMETERS {
        arguments.extend([name.to_vec(), value.to_vec()]);
    }
    arguments.extend([b"DIALECT".to_vec(), dialect.to_string().into()]);
    arguments
}

/// Errors that depend on the definition of a field, not on the language.
fn is_of_schema(text: &[u8]) -> bool {
    [&b"Contains query on fields without WITHSUFFIXTRIE"[..], b"Use `INDEXEMPTY`", b"'ismissing'"]
        .iter()
        .any(|start| text.starts_with(start))
        || text.starts_with(b"Error querying geoshape index")
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

const WORDS: &[&str] =
    &["ka", "kb", "Kc", "kd", "the", "of", "7", "-8", "1.5", "inf", "k_e", "k\\-f"];
const ITEMS: &[&str] = &[
    "ka*",
    "*kb",
    "*kc*",
    "%kd%",
    "%%ke%%",
    "\"kf kg\"",
    "\"kh\"",
    "(ki kj)",
    "(kk|kl)",
    "-km",
    "~kn",
    "@t:ko",
    "@u:(kp kq)",
    "@t|u:kr",
    "@n:[1 2]",
    "@g:{ks}",
    "@g:{kt|ku kv}",
    "$p",
    "$q",
    "w'k?w'",
    "@n>5",
    "@n==$one ",
    "@m:[$one $open]",
    "ismissing(@im)",
    "@ge:[1 2 3 km]",
    "@v:[vector_range 1 $vec]",
    "@sh:[within $poly]",
    "\"\"",
    "@foo:kx",
    "@t:-ky",
    "@t:kz*",
    "@g:{ka*|*kb}",
    "(the)",
    "-the",
    "@t:the",
    "*$p",
    "$p*",
    "@gs:{K L}",
    "@u:\"ka kb\"",
];
const MARKS: &[&str] = &[
    "(",
    ")",
    "|",
    "-",
    "~",
    "\"",
    "'",
    "@t:",
    "@u:",
    "@g:{",
    "}",
    "@n:[",
    "]",
    "*",
    "%",
    "$p",
    "=>",
    "=>{$weight: 2}",
    "=>{$slop: 1; $inorder: true}",
    ":",
    ";",
    "{",
    "[",
    "==",
    ">",
    "<=",
    "@n",
    "=>[KNN 3 @v $vec]",
    ",",
    "w'",
    "@",
    "$",
    "\\",
    "+",
    "_",
    "&",
    "!",
    "@t|",
    "|u",
    "(@t",
    "=>{",
    "$weight:",
    "AS x",
    "KNN",
    "km",
    "within",
    "1",
    "(1",
    "\\\"",
    "&&",
    "/",
    "é",
];

fn generate(random: &mut Random) -> String {
    let length = 1 + random.below(7);
    let style = random.below(10);
    let mut query = String::new();
    for _ in 0..length {
        let part = match (style, random.below(10)) {
            (0..=3, 0..=4) => random.pick(WORDS),
            (0..=3, 5..=8) | (4..=7, 4..=7) => random.pick(ITEMS),
            (0..=3, _) => random.pick(&["|", "|", "=>{$weight: 2}", "-", "(", ")"]),
            (4..=7, 0..=3) => random.pick(WORDS),
            _ => random.pick(MARKS),
        };
        query.push_str(part);
        if random.below(4) != 0 {
            query.push(' ');
        }
    }
    query
}

#[test]
fn trees_and_errors_are_those_of_redisearch() {
    let Some(mut peer) = Peer::connect("PETREL_TEST_REDISEARCH") else { return };
    peer.send(&["FT.DROPINDEX", "peer"].map(Into::into));
    let create = format!("FT.CREATE peer SCHEMA {SCHEMA}");
    let create: Vec<Vec<u8>> = create.split_whitespace().map(Into::into).collect();
    assert_eq!(peer.send(&create), Reply::Text(b"OK".to_vec()));
    let number = |name: &str, default| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let seed = number("PETREL_TEST_SEED", 42);
    let end = Instant::now() + Duration::from_secs(number("PETREL_TEST_SECONDS", 3));
    let mut random = Random(seed.max(1));
    let mut failures = 0;
    let mut compared = 0;
    while Instant::now() < end && failures < number("PETREL_TEST_FAILURES", 1) {
        let queries: Vec<String> = (0..200)
            .map(|_| generate(&mut random))
            .filter(|query| !crashes_redisearch(query) && !is_misread(query))
            .collect();
        for dialect in 1..=4 {
            let requests: Vec<_> =
                queries.iter().map(|query| arguments(query.as_bytes(), dialect)).collect();
            for (query, reply) in queries.iter().zip(peer.pipeline(&requests)) {
                let theirs = match reply {
                    Reply::Text(text) => Ok(text),
                    Reply::Error(text) if is_of_schema(&text) => continue,
                    Reply::Error(text) => Err(text),
                    other => panic!("{other:?}"),
                };
                compared += 1;
                let ours = ours(query.as_bytes(), dialect);
                if ours != theirs {
                    failures += 1;
                    let print = |text: &Result<Vec<u8>, Vec<u8>>| match text {
                        Ok(text) => compact(text),
                        Err(text) => format!("ERR {}", String::from_utf8_lossy(text)),
                    };
                    eprintln!("D{dialect} {query:?}\n  o {}\n  t {}", print(&ours), print(&theirs));
                }
            }
        }
    }
    eprintln!("{compared} compared");
    assert_eq!(failures, 0);
}

fn compact(text: &[u8]) -> String {
    String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An attribute list that begins with a semicolon ends RediSearch 2.10.5.
fn crashes_redisearch(query: &str) -> bool {
    query.replace(' ', "").contains("{;")
}

/// Faults of RediSearch 2.10.5 that are not copied: a quote before `inf` and a byte after a
/// compared parameter are taken into them, alternatives after a stop word are joined with the part
/// before it, an escaped name of a field is rewritten in errors, and unfinished phrases hold stop
/// words.
fn is_misread(query: &str) -> bool {
    let packed = query.replace(' ', "");
    let has_stop_word = ["the", "of", "AS"].iter().any(|word| query.contains(word));
    packed.contains("'inf")
        || packed.contains("'$")
        || (packed.contains("==$one") && !query.contains("==$one "))
        || ((query.contains('|') || query.contains('"')) && has_stop_word)
        || (packed.contains("@") && packed.contains('\\'))
        || (query.matches('|').count() > 1 && packed.contains('@'))
}
