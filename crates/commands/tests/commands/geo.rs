//! Geographic indexes: Redis's replies, and Valkey's for polygons.

use crate::client::Client;

#[test]
fn places() {
    Client::new().follow(
        r#"
        GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania => 2
        GEOADD g NX 1 1 Palermo 2 2 there => 1
        GEOADD g XX CH 2 2.5 there 3 3 nowhere => 1
        GEOADD g NX XX 1 1 a => ERR syntax error
        GEOADD g CH CH CH => ERR syntax error
        GEOADD g 1 1 => ERR wrong number of arguments for 'geoadd' command
        GEOADD g 181 1 a => ERR invalid longitude,latitude pair 181.000000,1.000000
        GEOADD g 1 86 a => ERR invalid longitude,latitude pair 1.000000,86.000000
        GEOADD g x 1 a => ERR value is not a valid float
        GEOADD g inf 1 a => ERR invalid longitude,latitude pair inf,1.000000
        ZSCORE g Palermo => "3479099956230698"
        ZSCORE g Catania => "3479447370796909"
        GEOPOS g Palermo nowhere Catania => [["13.361389338970184" "38.1155563954963"] nil-array ["15.087267458438873" "37.50266842333162"]]
        GEOPOS none a => [nil-array]
        GEOPOS g => []
        GEOHASH g Palermo nowhere Catania => ["sqc8b49rny0" nil "sqdtr74hyu0"]
        GEOHASH none a => [nil]
        GEODIST g Palermo Catania => "166274.1516"
        GEODIST g Palermo Catania km => "166.2742"
        GEODIST g Palermo Catania MI => "103.3182"
        GEODIST g Palermo Catania ft => "545518.8700"
        GEODIST g Palermo nowhere => nil
        GEODIST none a b => nil
        GEODIST g Palermo Catania parsec => ERR unsupported unit provided. please use M, KM, FT, MI
        GEODIST g Palermo Catania m m => ERR syntax error
        SET s text => OK
        GEOADD s 1 1 a => WRONGTYPE Operation against a key holding the wrong kind of value
        GEOPOS s a => WRONGTYPE Operation against a key holding the wrong kind of value
        GEOHASH s a => WRONGTYPE Operation against a key holding the wrong kind of value
        GEODIST s a b => WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
}

#[test]
fn searches() {
    Client::new().follow(
        r#"
        GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 12.758489 38.788135 edge1 17.241510 38.788135 edge2 => 4
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC => ["Catania" "Palermo"]
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km DESC WITHDIST => [["Palermo" "190.4424"] ["Catania" "56.4413"]]
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHCOORD WITHDIST WITHHASH => [["Catania" "56.4413" 3479447370796909 ["15.087267458438873" "37.50266842333162"]] ["Palermo" "190.4424" 3479099956230698 ["13.361389338970184" "38.1155563954963"]] ["edge2" "279.7403" 3481342659049484 ["17.241510450839996" "38.78813451624225"]] ["edge1" "279.7405" 3479273021651468 ["12.75848776102066" "38.78813451624225"]]]
        GEOSEARCH g FROMMEMBER Palermo BYRADIUS 100 mi ASC WITHHASH => [["Palermo" 3479099956230698] ["edge1" 3479273021651468]]
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km COUNT 2 WITHDIST => [["Catania" "56.4413"] ["Palermo" "190.4424"]]
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km COUNT 2 DESC => ["edge1" "edge2"]
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 1 m => []
        GEOSEARCH none FROMLONLAT 15 37 BYRADIUS 1 m => []
        GEOSEARCH g FROMMEMBER nobody BYRADIUS 1 m => ERR member nobody does not exist
        GEOSEARCH none FROMMEMBER nobody BYRADIUS 1 m => []
        GEOSEARCH g BYRADIUS 200 km ASC => ERR wrong number of arguments for 'geosearch' command
        GEOSEARCH g FROMLONLAT 15 37 FROMMEMBER Palermo BYRADIUS 1 km => ERR syntax error
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km BYBOX 1 1 km => ERR syntax error
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS -1 km => ERR radius cannot be negative
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS x km => ERR need numeric radius
        GEOSEARCH g FROMLONLAT 15 37 BYBOX x 1 km => ERR need numeric width
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 1 x km => ERR need numeric height
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 1 -1 km => ERR height or width cannot be negative
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 1 parsec => ERR unsupported unit provided. please use M, KM, FT, MI
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 1 km COUNT 0 => ERR COUNT must be > 0
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 1 km ANY => ERR the ANY argument requires COUNT argument
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 1 km STOREDIST => ERR syntax error
        GEORADIUS g 15 37 200 km ASC => ["Catania" "Palermo"]
        GEORADIUS g 15 37 200 km WITHDIST WITHCOORD COUNT 1 => [["Catania" "56.4413" ["15.087267458438873" "37.50266842333162"]]]
        GEORADIUS_RO g 15 37 200 km DESC => ["Palermo" "Catania"]
        GEORADIUSBYMEMBER g Palermo 200 km ASC => ["Palermo" "edge1" "Catania"]
        GEORADIUSBYMEMBER_RO g Palermo 200 km ASC WITHDIST => [["Palermo" "0.0000"] ["edge1" "91.4007"] ["Catania" "166.2742"]]
        GEORADIUSBYMEMBER g nobody 200 km => ERR member nobody does not exist
        GEORADIUS_RO g 15 37 200 km STORE d => ERR syntax error
        SET s text => OK
        GEORADIUS s x y z => ERR wrong number of arguments for 'georadius' command
        GEORADIUS s x y z u => WRONGTYPE Operation against a key holding the wrong kind of value
        GEOSEARCH s FROMLONLAT 1 1 BYRADIUS nonsense m => WRONGTYPE Operation against a key holding the wrong kind of value
        "#,
    );
    Client::new().resp3().follow(
        r#"
        GEOADD g 13.361389 38.115556 Palermo => 1
        GEOPOS g Palermo nowhere => [[Double(13.361389338970184) Double(38.1155563954963)] nil]
        GEODIST g Palermo Palermo => "0.0000"
        GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km WITHCOORD WITHDIST WITHHASH => [["Palermo" "190.4424" 3479099956230698 [Double(13.361389338970184) Double(38.1155563954963)]]]
        "#,
    );
}

#[test]
fn stored_searches() {
    Client::new().follow(
        r#"
        GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania => 2
        GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km => 2
        ZRANGE d 0 -1 WITHSCORES => ["Palermo" "3479099956230698" "Catania" "3479447370796909"]
        GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST COUNT 1 => 1
        ZRANGE d 0 -1 WITHSCORES => ["Catania" "56.4412578701582"]
        GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km WITHDIST => ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 1 m => 0
        EXISTS d => 0
        GEORADIUS g 15 37 200 km STORE d => 2
        ZRANGE d 0 -1 => ["Palermo" "Catania"]
        GEORADIUS g 15 37 200 km STOREDIST d DESC COUNT 1 => 1
        ZRANGE d 0 -1 WITHSCORES => ["Palermo" "190.44242984775784"]
        GEORADIUSBYMEMBER g Palermo 1 m STORE d WITHDIST => ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options
        GEORADIUSBYMEMBER none Palermo 1 m STORE d => 0
        EXISTS d => 0
        "#,
    );
}

#[test]
fn polygons() {
    Client::new().follow(
        r#"
        GEOADD g 1 1 a 2 2 b 5 5 c 9.5 0.5 d => 4
        GEOSEARCH g BYPOLYGON 3 0 0 10 0 10 10 ASC WITHDIST => [["d" "447160.7082"] ["b" "538091.5197"] ["a" "680125.9934"]]
        GEOSEARCH g BYPOLYGON 4 0 0 10 0 10 2 0 10 ASC WITHDIST => [["c" "221598.5189"] ["b" "353629.0657"] ["a" "499365.5131"] ["d" "570971.8299"]]
        GEOSEARCH g BYPOLYGON 3 0 0 10 0 10 10 COUNT 1 => ["d"]
        GEOSEARCH g BYPOLYGON 2 0 0 10 0 => ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        GEOSEARCH g BYPOLYGON 3 0 0 10 0 => ERR GEOSEARCH BYPOLYGON must have at least 3 vertices
        GEOSEARCH g BYPOLYGON x 0 0 10 0 => ERR invalid number of vertices
        GEOSEARCH g BYPOLYGON 3 0 0 10 0 10 100 => ERR invalid longitude,latitude pair 10.000000,100.000000
        GEOSEARCH g FROMLONLAT 1 1 BYPOLYGON 3 0 0 10 0 10 10 => ERR syntax error
        GEOSEARCH g BYPOLYGON 3 0 0 10 0 10 10 FROMMEMBER a => ERR syntax error
        GEOSEARCH g BYPOLYGON 3 0 0 10 0 10 10 BYRADIUS 1 m => ERR syntax error
        GEOSEARCH g FROMLONLAT 1 1 ASC COUNT 1 => ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH
        GEOSEARCHSTORE d g BYPOLYGON 3 0 0 10 0 10 10 STOREDIST => 3
        ZRANGE d 0 -1 => ["d" "b" "a"]
        "#,
    );
}

#[test]
fn scores_that_are_no_place_are_at_the_edges() {
    Client::new().follow(
        r#"
        ZADD z -1 a 9007199254740991 b 1e300 c -inf d 18446744073709551615 e => 5
        GEOHASH z a b c d e => ["bp05b5048p0" "zzpgzgpfxz0" "00bh0hbj200" "00bh0hbj200" "00bh0hbj200"]
        GEOPOS z a d => [["180" "85.05112878"] ["180" "-85.05112751263943"]]
        GEODIST z a b => "0.0257"
        "#,
    );
}
