//! `DEBUG DIGEST` and `DIGEST-VALUE`: the digests that Redis and Valkey have of the same data.

use crate::harness::*;
use crate::replication_primary::{Peer, Release};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// Digests of a sorted set with one member `a`, by its score, as Redis 8.2.3 and Valkey 9.1.2 give
/// them.
const SCORES: &[(&str, &str)] = &[
    ("0", "8d8d88c2cfb8d9411b8d9973c96538bd6378d446"),
    ("1", "430190c6ed5abafff87d97b4f51a92796ed05895"),
    ("-25", "e1df87662162f102284cd186b84ddca8dbfd8171"),
    ("0.1", "6605f56364a85f2c14bc54c5b4318ac4616eb60a"),
    ("1e-7", "d0be7a6da9a95431e5b2f67e169255d8458af401"),
    ("5e-324", "0dd65c792b2e7451ba0efa00b081f5054b11fc10"),
    ("2.2250738585072014e-308", "6b81893ae292d9f93659188e6dca51ec545627cf"),
    ("1e7", "9ecc91bef5855b74ec79fee4561adf210e37bd6e"),
    ("12345678", "7592d4c8c577ebbc140f182c21dd88c6484db0b6"),
    ("1e8", "dddc2403b2725e5c991f1c5adc90b762a5730adf"),
    ("-1e8", "0c376bf26f5fff1822dc4f94c8aa7c0cdd68189c"),
    ("1.2e8", "f79580564aac0f29de88156f5d6352a9d828e90a"),
    ("1.2e9", "536df8d774c9d5d4220843442013ab734f874f24"),
    ("5e9", "b39db4855c11cb989d9111a8bc125e795f622037"),
    ("123456789000", "b1d8e13244289533c0c644ea38bd90ca902071d2"),
    ("1e12", "9727ecdf280c4fa04b873890c0ce2fefd93d505c"),
    ("1e15", "907f70c1c08fa0cc4323da52d5068a9dcaeb2539"),
    ("-1e15", "0b4ab9faf4d8ff9b5ae1c3ddaed43808364597a8"),
    ("1e16", "f7d871fd751323de0ff0d513c1c091e3dd1447e6"),
    ("1e17", "865dfe692ba47395ddd673188be31a88f4f3a760"),
    ("9007199254740991", "09617ec520fdb61f0152404a18b69d779e04f57d"),
    ("9007199254740992", "82b3d200fb14d8414df8e32c6730bb9362743cce"),
    ("9007199254740993", "82b3d200fb14d8414df8e32c6730bb9362743cce"),
    ("-9007199254740994", "2a2ebc6d8e0aa3c5522f34bbc74c353f0ea9ad8b"),
    ("4611686018427387904", "0e32e6cfe0892b6f3fd5d559912c8be30832b4f5"),
    ("9223372036854775807", "f5382f84088b062e17665488f67d67dae8ebd1e9"),
    ("1e18", "82458d3249f8e4674f42b0430f747b4ac447126c"),
    ("1e19", "28ca0fa25d39ba5e1a50a9f41bb4763d0c52fa6f"),
    ("1.5e20", "6dce14b545406a6523f6bdf5780ce39bba42f34f"),
    ("1e21", "d5092bf51ad6e411ed57cc86f782e1b9c7572ce6"),
    ("1e22", "33a59220d744f1fc712932aa30d66971f9b436de"),
    ("1e23", "02cb343d53eb1bcb0011101c1c1243d760559329"),
    ("1e300", "3ccb0ae72f084e4a5d3a2a45fcda0945f9b5c8ae"),
    ("1.7976931348623157e308", "80b4fc8bf417daf83c01f15bf7e6d1818471c901"),
    ("inf", "693af63fc2885cc02fbc107a856fc4b9687305ed"),
    ("-inf", "0bf414f834c578525f0be5622112e3e11a30500b"),
    ("0.30000000000000004", "5713f0b4d043c479bae7fa3e87d4133ce7ef0985"),
    ("3.0000000000000004e-5", "ce0807a17cb9f337d4847f7686689cbbe86508e1"),
    ("1234.5678901234567", "5420b1b49ba702b4d5fc485a7df0f28e6be34b36"),
    ("12345.678901234567", "6e25a7c08e2d1352bcc8a4b8203938cb9b54b3b2"),
    ("1.1e-6", "70afe7dbabcceec8284a460f720ffac5a9fda9cb"),
    ("0.001", "9ebdf8a49d8670757ae5d7151725a9d7242e8597"),
    ("300000000", "f1c27b7125114c89c6b2a9622dbd4427a435210a"),
    ("70000000000", "a577111aee6f39ee3b4ea287be0eed4ddf8a80cd"),
    ("2e8", "b533eb5dc3b11cb29bfae311e7e240251b4d20ef"),
    ("33e8", "1181bf07bfc7731c80b09459cc3ce24f1de086cd"),
    ("4503599627370496.5", "5a8a10c0ba256bc2a2290a5051f4a6a315c317e4"),
];

/// Digests of other values, likewise: the command that makes each, and its key.
const VALUES: &[(&str, &str, &str)] = &[
    ("SET s text", "s", "2ce3f57ae020966eb041fa6a47e5221ee0d42d6b"),
    ("SET s 12", "s", "655ac46b180ad2f61a3cee25f0b1780fa2ec879a"),
    ("RPUSH l a 1 b", "l", "d5f44352f6226abea9252dad248ef5de0d964396"),
    ("SADD t a 1 b", "t", "e8f32bbb1ad9bf537c8867de4f19fec9e001296d"),
    ("SADD i 1 2 3", "i", "2a462a3f51a1db89738ebbeef0c47ce1bbc85246"),
    ("HSET h f v g 2", "h", "9dc7e1ed596e8ccab4b91d04b8317fc85b68294a"),
    ("ZADD m 1e8 a 2 b", "m", "d3397de7af4aa9711dda7785968ef6cd14d19a3d"),
    ("XADD x 1-1 f v g w", "x", "02a6cc6f9620c93c4a87ca6697dad2078434368e"),
    ("SET e v PXAT 33333333333333", "e", "311b17018163335616e089f6b951c82c477335ac"),
];

/// The digest of the dataset that the commands of [`VALUES`] make together.
const DATASET: &str = "6b3ae91572783a4a342f7472a7e0b718f3b423e1";

fn digest(client: &mut Client, key: &str) -> String {
    client.text(&["DEBUG", "DIGEST-VALUE", key]).trim_matches(['[', ']']).to_owned()
}

#[test]
fn digests_are_those_of_redis_and_valkey() {
    let server = Server::start("epoll", &DEBUG);
    let mut client = server.connect();
    for (score, wanted) in SCORES {
        client.call(&["DEL", "z"]);
        client.call(&["ZADD", "z", score, "a"]);
        assert_eq!(digest(&mut client, "z"), *wanted, "{score}");
    }
    client.call(&["FLUSHALL"]);
    for (command, key, wanted) in VALUES {
        client.call(&["DEL", key]);
        client.call(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(digest(&mut client, key), *wanted, "{command}");
    }
    client.call(&["ZADD", "long", "-0", &"x".repeat(100), "1e8", "b"]);
    assert_eq!(digest(&mut client, "long"), "f711079469c82bbf4d87c0326eefb48f7732945c");
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), DATASET);
}

#[test]
fn fields_that_expire_are_digested_as_the_dialect_has_it() {
    for (dialect, wanted) in [
        ("redis", "79b81ea0b632cca3914d199b544033875e6ba0ff"),
        ("valkey", "9dc7e1ed596e8ccab4b91d04b8317fc85b68294a"),
    ] {
        let server = Server::start("epoll", &[&DEBUG[..], &["--dialect", dialect]].concat());
        let mut client = server.connect();
        client.call(&["HSET", "h", "f", "v", "g", "2"]);
        client.call(&["HPEXPIREAT", "h", "33333333333333", "FIELDS", "1", "f"]);
        assert_eq!(digest(&mut client, "h"), wanted, "{dialect}");
    }
}

/// Scores of every kind: any bits, few digits, whole numbers, around powers of two, subnormal ones.
fn random_scores(count: usize) -> Vec<String> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let score = |kind: usize| -> f64 {
        let (bits, small) = (next(), next() % 80);
        match kind % 6 {
            0 => f64::from_bits(bits),
            1 => (bits % 1000) as f64 * 10_f64.powi(small as i32 % 26),
            2 => bits as i64 as f64,
            3 => (bits % 10_u64.pow(small as u32 % 15 + 1)) as f64 / 10_f64.powi(small as i32 % 10),
            4 => f64::from_bits(bits >> 12),
            _ => 2_f64.powi(small as i32) + (bits % 7) as f64 - 3.0,
        }
    };
    let scores = (0..count).map(score).filter(|score| !score.is_nan());
    scores.map(|score| format!("{score:e}")).collect()
}

#[test]
fn scores_are_digested_as_by_peers() {
    /// Number of scores in a sorted set with its digest compared.
    const TOGETHER: usize = 20;
    let own = Server::start("epoll", &DEBUG);
    let scores = random_scores(6000);
    for program in Peer::programs() {
        if !Release::of(&program).expires_fields() {
            println!("skipped: {} prints scores in another way", program.display());
            continue;
        }
        let peer = Peer::start_debugged(&program, &[]).expect("it starts");
        let (mut own, mut theirs) = (own.connect(), peer.connect());
        for scores in scores.chunks(TOGETHER) {
            let names: Vec<String> = (0..scores.len()).map(|n| n.to_string()).collect();
            let pairs = scores.iter().zip(&names).flat_map(|(score, name)| [&score[..], name]);
            let add: Vec<&str> = ["ZADD", "z"].into_iter().chain(pairs).collect();
            let [own, theirs] = [&mut own, &mut theirs].map(|client| {
                client.call(&["DEL", "z"]);
                client.call(&add);
                digest(client, "z")
            });
            assert_eq!(own, theirs, "{}: {scores:?}", program.display());
        }
    }
}
