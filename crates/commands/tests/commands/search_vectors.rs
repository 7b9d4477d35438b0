//! VECTOR fields: nearest neighbours and ranges, their options and errors, and writers beside
//! queries.

use crate::client::{Client, show};
use petrel_resp::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Documents at the numbers 0 to 4, in vectors of one component of 16 bits.
fn points(client: &mut Client, algorithm: &str) {
    client.follow(&format!(
        "FT.CREATE i PREFIX 1 d: SCHEMA v VECTOR {algorithm} 6 TYPE FLOAT16 DIM 1 \
         DISTANCE_METRIC L2 n NUMERIC SORTABLE g TAG => OK"
    ));
    client.follow(
        r#"
        HSET d:0 v "\x00\x00" n 9 g a => 3
        HSET d:1 v "\x00\x3c" n 8 g b => 3
        HSET d:2 v "\x00\x40" n 7 g a => 3
        HSET d:3 v "\x00\x42" n 6 g b => 3
        HSET d:4 v "\x00\x44" n 5 g a => 3
        HSET d:5 n 4 g a => 2
        "#,
    );
}

#[test]
fn nearest_neighbours_are_found() {
    find_neighbours("FLAT");
    find_neighbours("HNSW");
}

fn find_neighbours(algorithm: &str) {
    let mut client = Client::new();
    points(&mut client, algorithm);
    client.follow(
        r##"
        FT.SEARCH i "*=>[KNN 2 @v $b]" PARAMS 2 b "\x00\x44" RETURN 1 __v_score DIALECT 2 => [2 "d:3" ["__v_score" "1"] "d:4" ["__v_score" "0"]]
        FT.SEARCH i "*=>[KNN 2 @v $b AS s]" PARAMS 2 b "\x00\x44" SORTBY s RETURN 2 n s DIALECT 2 => [2 "d:4" ["s" "0" "n" "5"] "d:3" ["s" "1" "n" "6"]]
        FT.SEARCH i "*=>[KNN 2 @v $b]=>{$YIELD_DISTANCE_AS: s}" PARAMS 2 b "\x00\x44" RETURN 3 s AS far DIALECT 2 => [2 "d:3" ["far" "1"] "d:4" ["far" "0"]]
        FT.SEARCH i "*=>[KNN 1 @v $b AS s]" PARAMS 2 b "\x00\x44" DIALECT 2 => [1 "d:4" ["s" "0" "v" "\x00D" "n" "5" "g" "a"]]
        FT.SEARCH i "*=>[KNN 3 @v $b AS s]" PARAMS 2 b "\x00\x00" SORTBY s DESC NOCONTENT WITHSORTKEYS DIALECT 2 => [3 "d:2" "#4" "d:1" "#1" "d:0" "#0"]
        FT.SEARCH i "*=>[KNN 3 @v $b]" PARAMS 2 b "\x00\x00" SORTBY n NOCONTENT WITHSORTKEYS DIALECT 2 => [3 "d:2" "#7" "d:1" "#8" "d:0" "#9"]
        FT.SEARCH i "*=>[KNN 3 @v $b]" PARAMS 2 b "\x00\x00" SORTBY g NOCONTENT DIALECT 2 => [3 "d:0" "d:2" "d:1"]
        FT.SEARCH i "*=>[KNN 3 @v $b]" PARAMS 2 b "\x00\x00" NOCONTENT LIMIT 1 1 DIALECT 2 => [3 "d:1"]
        FT.SEARCH i "*=>[KNN 3 @v $b]" PARAMS 2 b "\x00\x00" NOCONTENT LIMIT 0 0 DIALECT 2 => [3]
        FT.SEARCH i "*=>[KNN 3 @v $b]" PARAMS 2 b "\x00\x00" NOCONTENT LIMIT 2 9 DIALECT 2 => [3 "d:2"]
        FT.SEARCH i "*=>[KNN 9 @v $b]" PARAMS 2 b "\x00\x00" NOCONTENT DIALECT 3 => [5 "d:0" "d:1" "d:2" "d:3" "d:4"]
        FT.SEARCH i "*=>[KNN 0 @v $b]" PARAMS 2 b "\x00\x00" NOCONTENT DIALECT 2 => [0]
        FT.SEARCH i "*=>[KNN $k @v $b]" PARAMS 4 b "\x00\x00" k 1 NOCONTENT WITHSCORES DIALECT 4 => [1 "d:0" "0"]
        FT.SEARCH i "@g:{b}=>[KNN 9 @v $b]" PARAMS 2 b "\x00\x00" NOCONTENT DIALECT 2 => [2 "d:1" "d:3"]
        FT.SEARCH i "(@g:{a} @n:[0 8])=>[KNN 1 @v $b HYBRID_POLICY BATCHES BATCH_SIZE 5]" PARAMS 2 b "\x00\x00" NOCONTENT DIALECT 2 => [1 "d:2"]
        FT.SEARCH i "*=>[KNN 1 @v $b]" PARAMS 2 b "\x00\x00" FILTER n 5 6 NOCONTENT DIALECT 2 => [1 "d:3"]
        FT.SEARCH i "*=>[KNN 1 @v $b]" PARAMS 2 b "\x00\x00" INKEYS 2 d:4 d:5 NOCONTENT DIALECT 2 => [1 "d:4"]
        FT.SEARCH i "*=>[KNN 1 @nothing $b EF_RUNTIME 1]" PARAMS 2 b x NOCONTENT DIALECT 2 => [0]
        FT.SEARCH i "*=>[KNN 1 @n $b]" PARAMS 2 b x NOCONTENT DIALECT 2 => [0]
        FT.EXPLAIN i "*=>[KNN 1 @v $b]" PARAMS 2 b "\x00\x00" DIALECT 2 => "VECTOR {K=1 nearest vectors to `$b` in vector index associated with field @v, yields distance as `__v_score`}\n"
        FT.AGGREGATE i "*=>[KNN 2 @v $b AS s]" PARAMS 2 b "\x00\x44" DIALECT 2 => [1 ["s" "0"] ["s" "1"]]
        FT.AGGREGATE i "*=>[KNN 3 @v $b AS s]" PARAMS 2 b "\x00\x44" LOAD 2 n s APPLY "@s * 2" AS t SORTBY 2 @t DESC LIMIT 0 2 DIALECT 2 => [3 ["s" "4" "n" "7" "t" "8"] ["s" "1" "n" "6" "t" "2"]]
        FT.AGGREGATE i "*=>[KNN 5 @v $b AS s]" PARAMS 2 b "\x00\x44" GROUPBY 1 @g REDUCE MIN 1 @s AS s SORTBY 1 @g DIALECT 2 => [2 ["g" "a" "s" "0"] ["g" "b" "s" "1"]]
        FT.AGGREGATE i "@g:{a}=>[KNN 1 @v $b AS s]" PARAMS 2 b "\x00\x42" LOAD * ADDSCORES DIALECT 2 => [1 ["s" "1" "__score" "0" "v" "\x00@" "n" "7" "g" "a"]]
        HSET d:3 v "\x00\x00" => 0
        HDEL d:0 v => 1
        DEL d:1 => 1
        FT.SEARCH i "*=>[KNN 1 @v $b AS s]" PARAMS 2 b "\x00\x00" NOCONTENT DIALECT 2 => [1 "d:3"]
        HSET d:3 n 0 => 0
        FT.SEARCH i "*=>[KNN 2 @v $b AS s]" PARAMS 2 b "\x00\x00" SORTBY s RETURN 2 s n DIALECT 2 => [2 "d:3" ["s" "0" "n" "0"] "d:2" ["s" "4" "n" "7"]]
        "##,
    );
    let mut client = client.another().resp3();
    client.follow(
        r##"
        FT.SEARCH i "*=>[KNN 1 @v $b AS s]" PARAMS 2 b "\x00\x00" RETURN 1 s DIALECT 2 => {attributes: [], total_results: 1, format: STRING, results: [{id: "d:3", extra_attributes: {"s": "0"}, values: []}], warning: []}
        "##,
    );
}

#[test]
fn vectors_within_a_radius_are_found() {
    find_within_a_radius("FLAT");
    find_within_a_radius("HNSW");
}

fn find_within_a_radius(algorithm: &str) {
    let mut client = Client::new();
    points(&mut client, algorithm);
    client.follow(
        r##"
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b]" PARAMS 2 b "\x00\x40" NOCONTENT DIALECT 2 => [3 "d:1" "d:2" "d:3"]
        FT.SEARCH i "@v:[VECTOR_RANGE $r $b]" PARAMS 4 b "\x00\x40" r 0.5 NOCONTENT DIALECT 2 => [1 "d:2"]
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b]=>{$YIELD_DISTANCE_AS: s}" PARAMS 2 b "\x00\x40" SORTBY s RETURN 1 s DIALECT 2 => [3 "d:2" ["s" "0"] "d:1" ["s" "1"] "d:3" ["s" "1"]]
        FT.SEARCH i "-@v:[VECTOR_RANGE 1 $b]" PARAMS 2 b "\x00\x40" NOCONTENT DIALECT 2 => [3 "d:0" "d:4" "d:5"]
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b] @g:{b}" PARAMS 2 b "\x00\x40" NOCONTENT DIALECT 2 => [2 "d:1" "d:3"]
        FT.SEARCH i "@v:[VECTOR_RANGE 0 $b]=>{$YIELD_DISTANCE_AS: s} | @v:[VECTOR_RANGE 0 $c]=>{$YIELD_DISTANCE_AS: t}" PARAMS 4 b "\x00\x40" c "\x00\x00" SORTBY t WITHSORTKEYS RETURN 2 s t DIALECT 2 => [2 "d:0" "#0" ["t" "0"] "d:2" nil ["s" "0"]]
        FT.SEARCH i "(@v:[VECTOR_RANGE 1 $b]=>{$YIELD_DISTANCE_AS: s})=>[KNN 2 @v $c AS t]" PARAMS 4 b "\x00\x40" c "\x00\x00" SORTBY s RETURN 2 s t DIALECT 2 => [2 "d:2" ["t" "4" "s" "0"] "d:1" ["t" "1" "s" "1"]]
        FT.AGGREGATE i "@v:[VECTOR_RANGE 1 $b]=>{$YIELD_DISTANCE_AS: s}" PARAMS 2 b "\x00\x40" FILTER "@s > 0" DIALECT 2 => [1 ["s" "1"] ["s" "1"]]
        "##,
    );
}

#[test]
fn definitions_are_checked() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i SCHEMA v VECTOR => Bad arguments for vector similarity algorithm: Expected an argument, but none provided
        FT.CREATE i SCHEMA v VECTOR FLAT => Bad arguments for vector similarity number of parameters: Expected an argument, but none provided
        FT.CREATE i SCHEMA v VECTOR LIST 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 => Bad arguments for vector similarity algorithm: Unknown argument
        FT.CREATE i SCHEMA v VECTOR FLAT x => Bad arguments for vector similarity number of parameters: Could not convert argument to expected type
        FT.CREATE i SCHEMA v VECTOR FLAT -2 => Bad arguments for vector similarity number of parameters: Value is outside acceptable bounds
        FT.CREATE i SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 => Expected 6 parameters but got 4
        FT.CREATE i SCHEMA v VECTOR FLAT 5 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 => Bad number of arguments for vector similarity index: got 5 but expected even number as algorithm parameters (should be submitted as named arguments)
        FT.CREATE i SCHEMA v VECTOR FLAT 0 => Missing mandatory parameter: cannot create FLAT index without specifying TYPE argument
        FT.CREATE i SCHEMA v VECTOR FLAT 2 TYPE FLOAT32 => Missing mandatory parameter: cannot create FLAT index without specifying DIM argument
        FT.CREATE i SCHEMA v VECTOR FLAT 4 TYPE FLOAT32 DIM 2 => Missing mandatory parameter: cannot create FLAT index without specifying DISTANCE_METRIC argument
        FT.CREATE i SCHEMA v VECTOR FLAT 6 TYPE INT8 DIM 2 DISTANCE_METRIC L2 => Bad arguments for vector similarity FLAT index type: Unknown argument
        FT.CREATE i SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 0 DISTANCE_METRIC L2 => Bad arguments for vector similarity FLAT index dim: Value is outside acceptable bounds
        FT.CREATE i SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 65537 DISTANCE_METRIC L2 => Bad arguments for vector similarity FLAT index dim: Value is outside acceptable bounds
        FT.CREATE i SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM x DISTANCE_METRIC L2 => Bad arguments for vector similarity FLAT index dim: Could not convert argument to expected type
        FT.CREATE i SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L3 => Bad arguments for vector similarity FLAT index metric: Unknown argument
        FT.CREATE i SCHEMA v VECTOR FLAT 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 M 4 => Bad arguments for algorithm FLAT: M
        FT.CREATE i SCHEMA v VECTOR FLAT 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 BLOCK_SIZE 0 => Bad arguments for vector similarity FLAT index blocksize: Value is outside acceptable bounds
        FT.CREATE i SCHEMA v VECTOR FLAT 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 INITIAL_CAP x => Bad arguments for vector similarity FLAT index initial cap: Could not convert argument to expected type
        FT.CREATE i SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 SORTABLE => Field `SORTABLE` does not have a type
        FT.CREATE i SCHEMA v AS w VECTOR flat 10 type bfloat16 dim 2 distance_metric cosine INITIAL_CAP 5 BLOCK_SIZE 20 INDEXMISSING t TAG => OK
        FT.ALTER i SCHEMA ADD u VECTOR FLAT 6 TYPE FLOAT64 DIM 1 DISTANCE_METRIC IP => OK
        HSET a t x => 1
        HSET b v "\x00\x00\x80\x3f" => 1
        FT.SEARCH i ismissing(@w) NOCONTENT DIALECT 2 => [1 "a"]
        FT.SEARCH i @w:{x} NOCONTENT => [0]
        FT.SEARCH i "@w:[1 2]" NOCONTENT => [0]
        FT.TAGVALS i w => Not a tag field
        "#,
    );
    let info = client.run("FT.INFO i");
    let attributes = r#"attributes [[identifier "v" attribute "w" type VECTOR algorithm FLAT data_type BFLOAT16 dim 2 distance_metric COSINE INDEXMISSING] [identifier "t""#;
    assert!(info.contains(attributes), "{info}");
    assert!(!info.contains(r#"vector_index_sz_mb "0""#), "{info}");
}

#[test]
fn graphs_are_checked() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i SCHEMA v VECTOR HNSW 6 TYPE FLOAT32 DIM 2 M 3 => Missing mandatory parameter: cannot create HNSW index without specifying DISTANCE_METRIC argument
        FT.CREATE i SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 M 0 => Bad arguments for vector similarity HNSW index m: Value is outside acceptable bounds
        FT.CREATE i SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 M x => Bad arguments for vector similarity HNSW index m: Could not convert argument to expected type
        FT.CREATE i SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 EF_CONSTRUCTION 0 => Bad arguments for vector similarity HNSW index efConstruction: Value is outside acceptable bounds
        FT.CREATE i SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 EF_RUNTIME -3 => Bad arguments for vector similarity HNSW index efRuntime: Value is outside acceptable bounds
        FT.CREATE i SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 EPSILON -1 => Bad arguments for vector similarity HNSW index epsilon: Value is outside acceptable bounds
        FT.CREATE i SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 EPSILON x => Bad arguments for vector similarity HNSW index epsilon: Could not convert argument to expected type
        FT.CREATE i SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 BLOCK_SIZE 3 => Bad arguments for algorithm HNSW: BLOCK_SIZE
        FT.CREATE i SCHEMA v VECTOR SVS-VAMANA 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 => ERR VECTOR SVS-VAMANA is not supported yet
        FT.CREATE i SCHEMA v VECTOR HNSW 16 TYPE FLOAT16 DIM 1 DISTANCE_METRIC L2 M 5 EF_CONSTRUCTION 20 EF_RUNTIME 7 EPSILON 0.5 INITIAL_CAP 3 g TAG => OK
        FT.SEARCH i "*=>[KNN 1 @v $b EF_RUNTIME 3]=>{$YIELD_DISTANCE_AS: s}" PARAMS 2 b "\x00\x00" DIALECT 2 => [0]
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b]=>{$EPSILON: 0.1}" PARAMS 2 b "\x00\x00" DIALECT 2 => [0]
        FT.SEARCH i "*=>[KNN 1 @v $b EF_RUNTIME 0]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: Invalid value was given
        FT.SEARCH i "*=>[KNN 1 @v $b EF_RUNTIME 1 EF_RUNTIME 1]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: Parameter was specified twice
        FT.SEARCH i "*=>[KNN 1 @v $b EPSILON 0.1]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: range query attributes were sent for a non-range query
        FT.SEARCH i "@g:{a}=>[KNN 1 @v $b HYBRID_POLICY ADHOC_BF EF_RUNTIME 1]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: 'EF_RUNTIME' is irrelevant for 'ADHOC_BF' policy
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b]=>{$EPSILON: 0}" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: Invalid value was given
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b]=>{$EF_RUNTIME: 10}" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: Invalid option
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b]=>{$BATCH_SIZE: 10}" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: hybrid query attributes were sent for a non-hybrid query
        "#,
    );
    let info = client.run("FT.INFO i");
    let attributes =
        "algorithm HNSW data_type FLOAT16 dim 1 distance_metric L2 M 5 ef_construction 20]";
    assert!(info.contains(attributes), "{info}");
}

#[test]
fn queries_are_checked() {
    let mut client = Client::new();
    points(&mut client, "FLAT");
    client.follow(
        r#"
        FT.SEARCH i "*=>[KNN 1 @v $b]" PARAMS 2 b "\x00\x00" => Syntax error at offset 1 near >[
        FT.SEARCH i "*=>[KNN 1 @v $b]" PARAMS 2 b abc DIALECT 2 => Error parsing vector similarity query: query vector blob size (3) does not match index's expected size (2).
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b]" PARAMS 2 b abc DIALECT 2 => Error parsing vector similarity query: query vector blob size (3) does not match index's expected size (2).
        FT.SEARCH i "@v:[VECTOR_RANGE -1 $b]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity query: negative radius (-1) given in a range query
        FT.SEARCH i "*=>[KNN 1 @v $b EF_RUNTIME 1]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: Invalid option
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b]=>{$EPSILON: 1}" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: Invalid option
        FT.SEARCH i "*=>[KNN 1 @v $b BATCH_SIZE 1]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: hybrid query attributes were sent for a non-hybrid query
        FT.SEARCH i "@g:{a}=>[KNN 1 @v $b BATCH_SIZE 0]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: Invalid value was given
        FT.SEARCH i "@g:{a}=>[KNN 1 @v $b BATCH_SIZE 1 BATCH_SIZE 1]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: Parameter was specified twice
        FT.SEARCH i "@g:{a}=>[KNN 1 @v $b HYBRID_POLICY x]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: invalid hybrid policy was given
        FT.SEARCH i "@g:{a}=>[KNN 1 @v $b HYBRID_POLICY ADHOC_BF BATCH_SIZE 1]" PARAMS 2 b "\x00\x00" DIALECT 2 => Error parsing vector similarity parameters: 'batch size' is irrelevant for 'ADHOC_BF' policy
        FT.SEARCH i "*=>[KNN 1 @v $b AS n]" PARAMS 2 b "\x00\x00" DIALECT 2 => Property `n` already exists in schema
        FT.SEARCH i "@v:[VECTOR_RANGE 1 $b]=>{$YIELD_DISTANCE_AS: s} @v:[VECTOR_RANGE 1 $b]=>{$YIELD_DISTANCE_AS: s}" PARAMS 2 b "\x00\x00" DIALECT 2 => Property `s` specified more than once
        FT.SEARCH i "*=>[KNN 1 @v $b AS s]" PARAMS 2 b "\x00\x00" SORTBY t DIALECT 2 => Property `t` not loaded nor in schema
        FT.AGGREGATE i "*=>[KNN 1 @v $b AS s]" PARAMS 2 b "\x00\x00" SORTBY 1 @t DIALECT 2 => Property `t` not loaded nor in schema
        FT.EXPLAIN i "*=>[KNN 1 @v $b]" PARAMS 2 b abc DIALECT 2 => Error parsing vector similarity query: query vector blob size (3) does not match index's expected size (2).
        HSET d:6 v abc n 1 g a => 3
        FT.SEARCH i @g:{a} NOCONTENT LIMIT 0 0 => [4]
        HSET d:6 v "\x00\x00" => 0
        FT.SEARCH i @g:{a} NOCONTENT LIMIT 0 0 => [5]
        HSET d:6 v "" => 0
        "#,
    );
    let info = client.run("FT.INFO i");
    let errors = r#"Index Errors [indexing failures 2 last indexing error "Could not add vector with blob size 0 (expected size 2)" last indexing error key "d:6"]"#;
    assert!(info.contains(errors), "{info}");
}

fn blob(numbers: [f32; 2]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Fields of the results of a reply, by key.
fn results(reply: &Value) -> HashMap<String, HashMap<String, Vec<u8>>> {
    let Value::Array(parts) = reply else { panic!("{}", show(reply)) };
    let bytes = |value: &Value| match value {
        Value::Bulk(bytes) => bytes.to_vec(),
        other => panic!("{}", show(other)),
    };
    let fields = |value: &Value| match value {
        Value::Array(fields) => {
            let pairs = fields.chunks(2);
            pairs
                .map(|pair| (String::from_utf8(bytes(&pair[0])).unwrap(), bytes(&pair[1])))
                .collect()
        }
        other => panic!("{}", show(other)),
    };
    let results = parts[1..].chunks(2);
    results.map(|pair| (show(&pair[0]), fields(&pair[1]))).collect()
}

/// While other threads move documents about and between groups, neighbours of a group are never
/// short, and each hit has the values that are returned with it.
#[test]
fn neighbours_are_true_beside_writers() {
    query_beside_writers("FLAT", 400);
    // More than are compared one by one.
    query_beside_writers("HNSW", 1600);
}

fn query_beside_writers(algorithm: &str, keys: u32) {
    let client = Client::new();
    let mut first = client.another();
    first.run(&format!(
        "FT.CREATE i PREFIX 1 d: SCHEMA v VECTOR {algorithm} 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 \
         g TAG n NUMERIC"
    ));
    for key in 0..keys {
        let name = format!("d:{key}");
        let vector = blob([key as f32, 0.0]);
        first.call(&[b"HSET", name.as_bytes(), b"v", &vector, b"g", b"a", b"n", b"0"]);
    }
    let keyspace = client.exec.ks.keyspace().clone();
    let shared = client.exec.shared.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3u32)
        .map(|me| {
            let (keyspace, shared, stop) = (keyspace.clone(), shared.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut client = Client::of(&keyspace, shared);
                let mut at = me;
                while !stop.load(SeqCst) {
                    at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // The first documents, which are the nearest, and of the others every second.
                    let name = format!("d:{}", (at >> 8) % keys / 2 * 2);
                    let vector = blob([(at >> 16 & 0xff) as f32, 1.0]);
                    let group: &[u8] = if at >> 30 & 1 == 0 { b"a" } else { b"b" };
                    client.call(&[b"HSET", name.as_bytes(), b"v", &vector, b"g", group]);
                    client.call(&[b"HSET", name.as_bytes(), b"n", b"1"]);
                }
            })
        })
        .collect();
    for round in 0..150u32 {
        let query = [(round % 16) as f32, 0.5];
        let vector = blob(query);
        let order: &[&[u8]] = if round % 2 == 0 { &[b"SORTBY", b"s"] } else { &[b"SORTBY", b"n"] };
        let mut words: Vec<&[u8]> =
            vec![b"FT.SEARCH", b"i", b"@g:{a}=>[KNN 12 @v $b AS s]", b"PARAMS", b"2", b"b"];
        words.extend([&vector[..], b"LIMIT", b"0", b"12", b"DIALECT", b"2"]);
        // However slow the machine is.
        words.extend([&b"TIMEOUT"[..], b"0"]);
        words.extend(order);
        let reply = first.call(&words);
        let found = results(&reply);
        assert_eq!(found.len(), 12, "{}", show(&reply));
        for (key, fields) in found {
            assert_eq!(fields["g"], b"a", "{key}");
            let own = fields["v"].as_chunks::<4>().0;
            let square: f32 = own
                .iter()
                .zip(query)
                .map(|(&bytes, number)| (f32::from_le_bytes(bytes) - number).powi(2))
                .sum();
            assert_eq!(String::from_utf8_lossy(&fields["s"]), square.to_string(), "{key}");
        }
    }
    stop.store(true, SeqCst);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}
