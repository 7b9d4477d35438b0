//! GEO fields: circles of queries and of `GEOFILTER`, beside distances computed one by one.

use crate::client::{Client, show};
use crate::random::Random;
use crate::search::{field_of, settle};
use petrel_resp::Value;

#[test]
fn places_are_found_by_circles() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i SCHEMA g GEO n NUMERIC t TEXT => OK
        FT.CREATE s SCHEMA g GEO SORTABLE => OK
        FT.CREATE m SCHEMA g GEO INDEXMISSING => OK
        FT.CREATE x SCHEMA g GEO INDEXEMPTY => Field `INDEXEMPTY` does not have a type
        HSET a g 1,2 n 1 t x => 3
        HSET b g "1.001 2" n 2 t y => 3
        HSET c g 30,40 n 3 t x => 3
        HSET d n 4 => 1
        FT.SEARCH i "@g:[1 2 1 km]" NOCONTENT SORTBY n => [2 "a" "b"]
        FT.SEARCH i "@g:[1 2 100 m]" NOCONTENT => [1 "a"]
        FT.SEARCH i "@g:[1 2 112 m]" NOCONTENT SORTBY n => [2 "a" "b"]
        FT.SEARCH i "@g:[1 2 100 ft]" NOCONTENT => [1 "a"]
        FT.SEARCH i "@g:[1 2 1 MI]" NOCONTENT SORTBY n => [2 "a" "b"]
        FT.SEARCH i "@g:[1 2 20000 km]" NOCONTENT SORTBY n => [3 "a" "b" "c"]
        FT.SEARCH i "-@g:[1 2 1 km]" NOCONTENT SORTBY n => [2 "c" "d"]
        FT.SEARCH i "@g:[1 2 1 km] x" NOCONTENT => [1 "a"]
        FT.SEARCH i "@g:[$a $b $r $u]" NOCONTENT PARAMS 8 a 30 b 40 r 1 u km DIALECT 2 => [1 "c"]
        FT.SEARCH i "@g:[1 2 0 m]" => Invalid GeoFilter radius
        FT.SEARCH i "@g:[200 2 1 m]" => Invalid GeoFilter lat/lon
        FT.SEARCH i "@g:[1 2 1 xx]" => Invalid GeoFilter unit
        FT.SEARCH i "@n:[1 2 1 km]" NOCONTENT => [0]
        FT.SEARCH i "@g:[1 2]" NOCONTENT => [0]
        FT.SEARCH i * GEOFILTER g 1 2 1 km NOCONTENT SORTBY n => [2 "a" "b"]
        FT.SEARCH i * GEOFILTER g 1 2 1 km GEOFILTER g 1.001 2 100 m NOCONTENT => [1 "b"]
        FT.SEARCH i x GEOFILTER g 1 2 1 km FILTER n 1 5 NOCONTENT => [1 "a"]
        FT.SEARCH i * GEOFILTER n 1 2 1 km => [0]
        FT.SEARCH i * GEOFILTER g 1 2 1 xx => Unknown distance unit xx
        FT.SEARCH i * GEOFILTER g a 2 1 km => Bad arguments for <lon>: Could not convert argument to expected type
        FT.SEARCH i * GEOFILTER g 1 2 c km => Bad arguments for <radius>: Could not convert argument to expected type
        FT.SEARCH i * GEOFILTER g 1 2 -1 km => Invalid GeoFilter radius
        FT.SEARCH i * GEOFILTER g 1 100 1 km => Invalid GeoFilter lat/lon
        FT.SEARCH i * GEOFILTER g 1 2 => GEOFILTER requires 5 arguments
        FT.SEARCH m "ismissing(@g)" NOCONTENT DIALECT 2 => [1 "d"]
        FT.SEARCH s * SORTBY g DESC NOCONTENT WITHSORTKEYS => [4 "c" "$30,40" "b" "$1.001 2" "a" "$1,2" "d" nil]
        FT.SEARCH s "@g:[30 40 1 km]" RETURN 1 g => [1 "c" ["g" "30,40"]]
        FT.AGGREGATE s "@g:[30 40 1 km]" APPLY geodistance(@g,30,41) AS d => [1 ["g" "30,40" "d" "111226.3"]]
        FT.AGGREGATE i "@g:[30 40 1 km]" GROUPBY 1 @g => [1 ["g" "30,40"]]
        HSET a g bad => 0
        FT.SEARCH i * NOCONTENT SORTBY n => [3 "b" "c" "d"]
        HSET a g 181,2 => 0
        FT.SEARCH i * NOCONTENT SORTBY n => [3 "b" "c" "d"]
        HSET a g 30,40 => 0
        FT.SEARCH i "@g:[30 40 1 km]" NOCONTENT SORTBY n => [2 "a" "c"]
        HDEL c g => 1
        FT.SEARCH i "@g:[30 40 1 km]" NOCONTENT => [1 "a"]
        "#,
    );
    assert_eq!(field_of(&mut client, "i", "hash_indexing_failures"), "2");
    let info = show(&client.call(&[b"FT.INFO", b"i"]));
    assert!(info.contains("Invalid geo coordinates: 181.000000, 2.000000"), "{info}");
}

#[test]
fn json_documents_have_any_number_of_places() {
    let mut client = Client::new();
    client.follow("FT.CREATE i ON JSON SCHEMA $.p AS p GEO $.q[*] AS q GEO SORTABLE => OK");
    settle(&mut client, "i");
    client.follow(
        r#"
        JSON.SET a $ "{\"p\":\"1,2\",\"q\":[\"30,40\",\"5,6\"]}" => OK
        JSON.SET b $ "{\"p\":[\"7,8\",null,\"9,10\"]}" => OK
        FT.SEARCH i "@p:[9 10 1 km]" NOCONTENT => [1 "b"]
        FT.SEARCH i "@q:[5 6 1 km] @p:[1 2 1 m]" NOCONTENT => [1 "a"]
        FT.SEARCH i * SORTBY q NOCONTENT WITHSORTKEYS => [2 "a" "$30,40" "b" nil]
        JSON.SET b $.p 5 => OK
        FT.SEARCH i * NOCONTENT => [1 "a"]
        JSON.SET b $.p "\"x\"" => OK
        FT.SEARCH i * NOCONTENT => [1 "a"]
        JSON.SET b $.p "\"5,6\"" => OK
        FT.SEARCH i "@p:[5 6 1 km]" NOCONTENT => [1 "b"]
        "#,
    );
    assert_eq!(field_of(&mut client, "i", "hash_indexing_failures"), "2");
}

fn distance_m(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (lat_a, lat_b) = (a.1.to_radians(), b.1.to_radians());
    let u = ((lat_b - lat_a) / 2.0).sin();
    let v = ((b.0 - a.0).to_radians() / 2.0).sin();
    2.0 * 6_372_797.560856 * (u * u + lat_a.cos() * lat_b.cos() * v * v).sqrt().min(1.0).asin()
}

/// A place; many are near a few, at the date line and towards the poles.
fn draw(random: &mut Random) -> (f64, f64) {
    let part = |random: &mut Random| random.below(1_000_001) as f64 / 1e6;
    let centres = [(0.0, 0.0), (179.999, 10.0), (-179.999, 10.0), (20.0, 84.9), (13.4, 52.5)];
    if random.below(4) == 0 {
        return (part(random) * 360.0 - 180.0, part(random) * 170.0 - 85.0);
    }
    let (lon, lat) = centres[random.below(centres.len())];
    let spread = 10f64.powi(random.below(4) as i32 - 3);
    let lon = lon + (part(random) - 0.5) * spread;
    let lon = (lon + 540.0).rem_euclid(360.0) - 180.0;
    (lon, (lat + (part(random) - 0.5) * spread).clamp(-85.0, 85.0))
}

#[test]
fn circles_find_what_is_near() {
    let mut random = Random::of(4711);
    let mut client = Client::new();
    client.follow("FT.CREATE i SCHEMA g GEO => OK");
    let mut places: Vec<(f64, f64)> = (0..3000).map(|_| draw(&mut random)).collect();
    for (number, (lon, lat)) in places.iter().enumerate() {
        client.call(&[
            b"HSET",
            number.to_string().as_bytes(),
            b"g",
            format!("{lon},{lat}").as_bytes(),
        ]);
    }
    settle(&mut client, "i");
    for round in 0..300 {
        // A few move.
        let moved = random.below(places.len());
        places[moved] = draw(&mut random);
        let text = format!("{},{}", places[moved].0, places[moved].1);
        client.call(&[b"HSET", moved.to_string().as_bytes(), b"g", text.as_bytes()]);
        let centre = draw(&mut random);
        let radius = 10f64.powf(random.below(750) as f64 / 100.0);
        let query = format!("@g:[{} {} {radius} m]", centre.0, centre.1);
        let words: [&[u8]; 7] =
            [b"FT.SEARCH", b"i", query.as_bytes(), b"NOCONTENT", b"LIMIT", b"0", b"3000"];
        let Value::Array(reply) = client.call(&words) else { panic!("{query}") };
        let mut found = vec![false; places.len()];
        for key in &reply[1..] {
            let key: usize = show(key).trim_matches('"').parse().unwrap();
            assert!(!std::mem::replace(&mut found[key], true), "{key} twice");
        }
        for (number, &place) in places.iter().enumerate() {
            let distance = distance_m(centre, place);
            // Places are known to half a metre.
            if (distance - radius).abs() > 1.0 {
                assert_eq!(
                    found[number],
                    distance < radius,
                    "{round}: {query} {place:?} {distance}"
                );
            }
        }
    }
}
