//! Commands through [`petrel_commands::Executor::execute`], as a connection would run them.
//!
//! | file | holds |
//! |---|---|
//! | `client` | runs one command and reads its reply |
//! | `strings`, `streams`, `bitmaps`, `hyperloglog`, `lists`, `sets`, `sorted_sets`, `hashes`, `geo`, `sort`, `keys`, `server` | tables of calls with the replies that Redis gives |
//! | `dialect` | differences between Valkey and Redis |
//! | `dump` | values as bytes |
//! | `functions` | libraries of functions |
//! | `gate` | requests that are not executed at once |
//! | `within` | commands whose work is in proportion to one value, in transactions and scripts |
//! | `transactions` | `MULTI` and `WATCH` between two clients |
//! | `alone` | replication, cluster and module commands of a single server |
//! | `anything` | every command with arguments of all kinds: one reply each, no panic, no allocation beyond measure |
//! | `extremes` | arguments at the ends of their ranges, by name |
//! | `drawn` | draws calls from the command table |
//! | `allocations` | counts allocations of a thread |
//! | `every_type` | commands that take values of any type, with each of them |
//! | `json`, `json_peer` | JSON documents, here and in RedisJSON |
//! | `arrays` | arrays |
//! | `bloom`, `count_min`, `cuckoo`, `t_digest`, `top_k`, `sketches_peer` | sketches, here and in RedisBloom |
//! | `follower` | applies effects, and executes them as commands |
//! | `vectors` | vector sets, here and in a Redis server |
//! | `look` | reads a value with all its metadata |
//! | `peers` | values moved to other servers and back with DUMP and RESTORE |
//! | `scripts`, `script_libraries` | scripts, their restrictions, and their Lua libraries |
//! | `random` | draws calls of commands from a seed |
//! | `touched` | effects of calls on WATCH, keyspace events and client tracking: `touched.txt`, here and in a Redis server |
//! | `redis`, `redis_bits` | the same random calls here and in a Redis server, if there is one |

mod acl;
mod advisories;
mod advisories_sketches;
mod allocations;
mod alone;
mod anything;
mod arrays;
mod bitmaps;
mod bloom;
mod client;
mod compact_hashes;
mod count_min;
mod cuckoo;
mod dialect;
mod drawn;
mod dump;
mod every_type;
mod extremes;
mod follower;
mod functions;
mod gate;
mod geo;
mod hashes;
mod hyperloglog;
mod increx;
mod json;
mod json_peer;
mod keys;
mod lists;
mod look;
mod moved;
mod peers;
mod random;
mod redis;
mod redis_bits;
mod script_libraries;
mod scripts;
mod search;
mod search_aggregate;
mod search_aggregate_peer;
mod search_geo;
mod search_geo_peer;
mod search_json;
mod search_json_model;
mod search_json_peer;
mod search_peer;
mod search_texts;
mod search_texts_peer;
mod search_vectors;
mod search_vectors_peer;
mod search_words;
mod search_words_peer;
mod server;
mod sets;
mod sketches_peer;
mod sort;
mod sorted_sets;
mod streams;
mod strings;
mod t_digest;
mod top_k;
mod touched;
mod transactions;
mod vectors;
mod within;
mod wrong_type;
