//! Random vectors and queries here and in RediSearch: the same documents at the same distances.
//! `PETREL_TEST_REDISEARCH` names the program, as for the tests of other fields.
//!
//! Components are small integers, so that distances are exact whatever the order of additions, but
//! cosines, which are compared up to rounding.

use crate::client::{Client, show, show_args};
use crate::random::Random;
use crate::redis::{Connection, Redis};
use crate::search_peer::{beside_redisearch, settle};
use petrel_resp::Value;

const KEYS: usize = 30;

/// The definition of a field.
struct Drawn {
    element: &'static str,
    metric: &'static str,
    dim: usize,
    has_missing: bool,
}

fn blob(element: &str, numbers: &[f32]) -> Vec<u8> {
    let each = numbers.iter().copied();
    match element {
        "FLOAT64" => each.flat_map(|number| f64::from(number).to_le_bytes()).collect(),
        // Small integers have few bits.
        "BFLOAT16" => each.flat_map(|number| number.to_le_bytes()[2..].to_vec()).collect(),
        "FLOAT16" => each
            .flat_map(|number| {
                let bits = number.to_bits();
                let magnitude = match number == 0.0 {
                    true => 0,
                    false => (bits >> 13 & 0x3ffff) - (112 << 10),
                };
                (magnitude as u16 | (bits >> 16) as u16 & 0x8000).to_le_bytes()
            })
            .collect(),
        _ => each.flat_map(f32::to_le_bytes).collect(),
    }
}

fn draw_vector(random: &mut Random, field: &Drawn) -> Vec<u8> {
    // RediSearch finds zero vectors at no distance.
    let mut numbers: Vec<f32> = (0..field.dim).map(|_| random.below(9) as f32 - 4.0).collect();
    if numbers.iter().all(|number| *number == 0.0) {
        numbers[0] = 1.0;
    }
    blob(field.element, &numbers)
}

/// Draws a query; returns whether it asks for neighbours, and whether it cuts a page.
fn draw_query(random: &mut Random, field: &Drawn, words: &mut Vec<Vec<u8>>) -> (bool, bool) {
    let filter =
        random.pick(&["*", "*", "@g:{a}", "(@g:{a|b} @n:[0 5])", "(-@g:{a})", "(@n:[3 +inf])"]);
    let is_knn = random.below(3) > 0;
    let query = match is_knn {
        true => format!("{filter}=>[KNN {} @v $b AS s]", random.below(KEYS + 5)),
        false => {
            let most = if field.metric == "COSINE" { 2 } else { 300 };
            let radius = random.below(most * 10) as f32 / 10.0;
            let range = format!("@v:[VECTOR_RANGE {radius} $b]=>{{$YIELD_DISTANCE_AS: s}}");
            match filter {
                // Beside a negation, RediSearch returns some documents without the distance.
                "*" | "(-@g:{a})" => range,
                _ => format!("{filter} {range}"),
            }
        }
    };
    words.extend(["FT.SEARCH", "i", &query, "PARAMS", "2", "b"].map(|word| word.into()));
    words.push(draw_vector(random, field));
    words.extend(["RETURN", "1", "s", "DIALECT", "2"].map(Into::into));
    if random.below(2) == 0 {
        words.extend(["SORTBY", "s"].map(Into::into));
        if random.below(3) == 0 {
            words.extend(["LIMIT", "1", "5"].map(Into::into));
            return (is_knn, true);
        }
    }
    words.extend(["LIMIT", "0", "100"].map(Into::into));
    (is_knn, is_knn)
}

/// Keys with their distances, sorted by these, and the total.
fn results(reply: &Value, is_exact: bool) -> (String, Vec<(String, String)>) {
    let Value::Array(parts) = reply else { return (show(reply), Vec::new()) };
    let mut found: Vec<(f64, String, String)> = parts[1..]
        .chunks(2)
        .map(|pair| {
            let Value::Array(fields) = &pair[1] else { panic!("{}", show(reply)) };
            let text = fields.get(1).map_or("nan".to_string(), show);
            let number: f64 = text.trim_matches('"').parse().expect("a distance");
            let text = if is_exact { text } else { format!("{:.4}", number + 1e-5) };
            (number, text, show(&pair[0]))
        })
        .collect();
    found.sort_by(|a, b| a.1.cmp(&b.1).then(a.2.cmp(&b.2)));
    let found = found.into_iter().map(|(_, distance, key)| (distance, key)).collect();
    (show(&parts[0]), found)
}

fn call_both(ours: &mut Client, theirs: &mut Connection, words: &[Vec<u8>]) -> (Value, Value) {
    let args: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
    (ours.call(&args), theirs.call(&args))
}

fn round(random: &mut Random, redis: &Redis) -> usize {
    let (mut ours, mut theirs) = redis.beside(false);
    let field = Drawn {
        element: random.pick(&["FLOAT32", "FLOAT64", "FLOAT16", "BFLOAT16"]),
        metric: random.pick(&["L2", "IP", "COSINE"]),
        dim: [1, 2, 3, 8, 31, 32, 33, 100][random.below(8)],
        has_missing: random.below(2) == 0,
    };
    let mut create = format!(
        "FT.CREATE i PREFIX 1 k: SCHEMA v VECTOR FLAT 6 TYPE {} DIM {} DISTANCE_METRIC {}",
        field.element, field.dim, field.metric
    );
    if field.has_missing {
        create.push_str(" INDEXMISSING");
    }
    create.push_str(" g TAG n NUMERIC");
    let create: Vec<Vec<u8>> = create.split(' ').map(Into::into).collect();
    let (a, b) = call_both(&mut ours, &mut theirs, &create);
    assert_eq!((show(&a), show(&b)), ("OK".to_string(), "OK".to_string()));
    let mut compared = 0;
    for _ in 0..60 {
        let key = format!("k:{}", random.below(KEYS)).into_bytes();
        let words: Vec<Vec<u8>> = match random.below(12) {
            0 => vec!["DEL".into(), key],
            1 => vec!["HDEL".into(), key, "v".into()],
            2 => vec!["HSET".into(), key, "v".into(), "odd".into()],
            3 => vec!["HSET".into(), key, "n".into(), random.below(9).to_string().into()],
            _ => {
                let group = random.pick(&["a", "b", "c"]);
                let number = random.below(9).to_string();
                let vector = draw_vector(random, &field);
                let own = ["HSET".into(), key, "v".into(), vector, "g".into(), group.into()];
                own.into_iter().chain(["n".into(), number.into()]).collect()
            }
        };
        let (a, b) = call_both(&mut ours, &mut theirs, &words);
        assert_eq!(show(&a), show(&b));
        settle(&mut ours, &mut theirs);
        let mut words = Vec::new();
        let (is_knn, cuts) = draw_query(random, &field, &mut words);
        let (a, b) = call_both(&mut ours, &mut theirs, &words);
        let is_exact = field.metric != "COSINE";
        let ((total, mine), (peer_total, peer)) = (results(&a, is_exact), results(&b, is_exact));
        let args: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let place = || format!("{}\n{} {}", show_args(&args), show(&a), show(&b));
        let distances = |all: &[(String, String)]| -> Vec<String> {
            all.iter().map(|(distance, _)| distance.clone()).collect()
        };
        // Ranges may end between two cosines that differ by rounding.
        if is_exact || is_knn {
            assert_eq!(total, peer_total, "{}", place());
            assert_eq!(distances(&mine), distances(&peer), "{}", place());
        }
        // Of equally distant documents at the end of a page, either may be in it.
        if !cuts && is_exact {
            assert_eq!(mine, peer, "{}", place());
        }
        compared += 1;
    }
    compared
}

#[test]
fn random_vectors_have_the_distances_of_redisearch() {
    beside_redisearch(|random, redis, _| round(random, redis));
}
