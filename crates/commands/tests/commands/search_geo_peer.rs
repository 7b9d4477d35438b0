//! Random places and circles here and in RediSearch: the same documents and distances.
//! `PETREL_TEST_REDISEARCH` names a program that starts a Redis server with the module.
//!
//! RediSearch misses places towards the poles that are in large circles: such are not drawn.

use crate::client::{show, show_args};
use crate::random::Random;
use crate::redis::Redis;
use crate::search_peer::{beside_redisearch, call_both, results, settle};

const KEYS: usize = 60;

fn draw_place(random: &mut Random) -> (String, String) {
    if random.below(4) == 0 {
        let lon = format!("{}.{}", random.below(360) as i32 - 180, random.below(1000));
        return (lon, format!("{}.{}", random.below(100) as i32 - 50, random.below(1000)));
    }
    let centre = [(13.4, 52.5), (-0.1, 0.1), (120.0, -33.0)][random.below(3)];
    let spread = [0.001, 0.1, 5.0][random.below(3)];
    let near = |random: &mut Random, centre: f64| {
        format!("{:.5}", centre + (random.below(1000) as f64 / 1000.0 - 0.5) * spread)
    };
    (near(random, centre.0), near(random, centre.1))
}

fn draw_circle(random: &mut Random) -> [String; 4] {
    let (lon, lat) = draw_place(random);
    let radius = ["1", "10", "100", "1.5", "5000"][random.below(5)].to_string();
    [lon, lat, radius, ["m", "km", "mi", "ft"][random.below(4)].to_string()]
}

fn draw_query(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return match random.below(4) {
            0 => format!("@n:[{} {}]", random.below(5), 2 + random.below(5)),
            1 => "@t:{a}".to_string(),
            _ => format!("@g:[{}]", draw_circle(random).join(" ")),
        };
    }
    let part = |random: &mut Random| draw_query(random, depth - 1);
    match random.below(4) {
        0 => format!("({} {})", part(random), part(random)),
        1 => format!("({} | {})", part(random), part(random)),
        2 => format!("-({})", part(random)),
        _ => part(random),
    }
}

fn document(random: &mut Random, is_json: bool, key: String) -> Vec<String> {
    let (lon, lat) = draw_place(random);
    let place = match random.below(15) {
        0 => ["x", "1", "181,0", "1,86", "", "1,2,3"][random.below(6)].to_string(),
        _ => format!("{lon}{}{lat}", [",", " ", ", "][random.below(3)]),
    };
    let (number, tag) = (random.below(8).to_string(), ["a", "b"][random.below(2)]);
    if !is_json {
        return ["HSET", &key, "g", &place, "n", &number, "t", tag].map(String::from).to_vec();
    }
    let (lon, lat) = draw_place(random);
    let places = match random.below(5) {
        0 => "null".into(),
        1 => format!("[\"{place}\",\"{lon},{lat}\"]"),
        2 => format!("[\"{lon},{lat}\",null]"),
        _ => format!("\"{place}\""),
    };
    let text = format!("{{\"g\":{places},\"n\":{number},\"t\":\"{tag}\"}}");
    ["JSON.SET", &key, "$", &text].map(String::from).to_vec()
}

fn round(random: &mut Random, redis: &Redis, number: usize) -> usize {
    let (is_json, resp3) = (number % 2 == 1, number % 4 > 1);
    let (mut ours, mut theirs) = redis.beside(resp3);
    let create = match is_json {
        true => "FT.CREATE i ON JSON PREFIX 1 k: SCHEMA $.g AS g GEO $.n AS n NUMERIC $.t AS t TAG",
        false => "FT.CREATE i PREFIX 1 k: SCHEMA g GEO n NUMERIC t TAG",
    };
    let words: Vec<String> = create.split(' ').map(String::from).collect();
    let (a, b) = call_both(&mut ours, &mut theirs, &words);
    assert_eq!((show(&a), show(&b)), ("OK".into(), "OK".into()));
    settle(&mut ours, &mut theirs);
    for step in 0..200 {
        let key = format!("k:{}", random.below(KEYS));
        let words = match random.below(10) {
            0 => vec!["DEL".to_string(), key],
            _ => document(random, is_json, key),
        };
        call_both(&mut ours, &mut theirs, &words);
        if step < 60 {
            continue;
        }
        let depth = random.below(3);
        let query = draw_query(random, depth);
        let mut words = vec!["FT.SEARCH".to_string(), "i".into(), query];
        words.extend(["LIMIT", "0", "100", "RETURN", "1", "g", "DIALECT", "2"].map(String::from));
        if random.below(3) == 0 {
            words.extend(["GEOFILTER".to_string(), "g".into()]);
            words.extend(draw_circle(random));
        }
        let (a, b) = call_both(&mut ours, &mut theirs, &words);
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(results(&a, false), results(&b, false), "{create} {}", show_args(&args));
    }
    140
}

#[test]
fn random_circles_have_the_results_of_redisearch() {
    beside_redisearch(round);
}
