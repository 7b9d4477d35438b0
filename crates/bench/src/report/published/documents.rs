//! The tables of each document, what they say, and where the same is measured.

use super::{Published, PublishedTable, Source};

const fn table(
    title: &'static str,
    said: &'static str,
    name: &'static str,
    figure: &'static str,
    at: &'static [(&'static str, &'static [&'static str])],
) -> PublishedTable {
    beside(title, said, name, figure, at, "redis")
}

const fn beside(
    title: &'static str,
    said: &'static str,
    name: &'static str,
    figure: &'static str,
    at: &'static [(&'static str, &'static [&'static str])],
    peer: &'static str,
) -> PublishedTable {
    PublishedTable { title, said, source: Source::Experiment { name, at, figure, peer } }
}

const fn own(
    title: &'static str,
    name: &'static str,
    figure: &'static str,
    at: &'static [(&'static str, &'static [&'static str])],
) -> PublishedTable {
    PublishedTable { title, said: "no figures", source: Source::Own { name, at, figure } }
}

const fn nodes(
    title: &'static str,
    said: &'static str,
    nodes: &'static str,
    at: &'static [(&'static str, &'static [&'static str])],
) -> PublishedTable {
    PublishedTable { title, said, source: Source::Nodes { nodes, at } }
}

const fn nowhere(title: &'static str, said: &'static str, why: &'static str) -> PublishedTable {
    PublishedTable { title, said, source: Source::Nowhere(why) }
}

const P1: (&str, &[&str]) = ("pipeline", &["1"]);
const P8: (&str, &[&str]) = ("pipeline", &["8"]);
const P16: (&str, &[&str]) = ("pipeline", &["16"]);
const P50: (&str, &[&str]) = ("pipeline", &["50"]);
const P64: (&str, &[&str]) = ("pipeline", &["64"]);
const GET: (&str, &[&str]) = ("command", &["GET"]);
const SET: (&str, &[&str]) = ("command", &["SET"]);

/// The values of `matrix --preset many-clients`.
const CLIENTS: (&str, &[&str]) = ("values", &["32", "256", "1024", "4096"]);
/// The values of `matrix` without a preset.
const STANDARD: (&str, &[&str]) = ("values", &["1-1024"]);

const ONE_THREAD: (&str, &[&str]) = ("threads", &["1"]);

const BLOCK: (&str, &[&str]) = ("trace", &["block"]);
const CLUSTER_17: (&str, &[&str]) = ("trace", &["cluster17"]);
const UNLIMITED: (&str, &[&str]) = ("memory", &["none"]);
/// Room for a tenth of a trace.
const PRESSURE: (&str, &[&str]) = ("memory", &["10%"]);

/// All documents.
pub const DOCUMENTS: [Published; 5] = [
    Published {
        title: "Crucible",
        about: "SET and GET apart over pipelines, servers with 2 and 4 threads on 4 virtual processors, memtier over a \
                Unix socket, values of 1 to 1,024 bytes. Here: `matrix`.",
        tables: &[
            table(
                "Throughput, pipeline 1",
                "1.7 to 2.0x Redis",
                "matrix",
                "throughput",
                &[STANDARD, P1],
            ),
            table(
                "Throughput, pipeline 50",
                "1.6 to 3.0x Redis",
                "matrix",
                "throughput",
                &[STANDARD, P50],
            ),
            table(
                "All throughput tables",
                "1.3 to 3.0x Redis",
                "matrix",
                "throughput",
                &[STANDARD],
            ),
            table("p99 latency, pipeline 1", "1.3 to 1.5x lower", "matrix", "p99", &[STANDARD, P1]),
            table("p99 latency, pipeline 50", "1.5 to 8x lower", "matrix", "p99", &[STANDARD, P50]),
            table(
                "Planned: mixed, 1 to 1 and 1 to 10",
                "",
                "workloads",
                "throughput",
                &[("workload", &["mixed 1:1", "mixed 1:10"])],
            ),
            table(
                "Planned: larger values",
                "",
                "matrix",
                "throughput",
                &[("values", &["30000-30000", "1000000-1000000", "30000", "1000000"])],
            ),
        ],
    },
    Published {
        title: "Moon",
        about: "Against Redis 8.6.1 with redis-benchmark, 50 connections, on 8 processors of a cloud and on a laptop. \
                Here: `memory`, `persistence`, `workloads`, `consistency`, `matrix --preset many-clients`.",
        tables: &[
            table(
                "Peak GET, pipeline 64",
                "1.72x Redis",
                "matrix",
                "throughput",
                &[CLIENTS, GET, P64],
            ),
            table(
                "Peak SET, pipeline 64",
                "1.92x Redis",
                "matrix",
                "throughput",
                &[CLIENTS, SET, P64],
            ),
            nowhere("Peak GET on ARM", "2.20x Redis", "no ARM machine"),
            table(
                "Bytes per key, 63 K keys, values of 32 B, 1 thread",
                "147 B to 118 B, 0.80x",
                "memory",
                "bytes",
                &[("values", &["32", "32-32"]), ("threads", &["1"])],
            ),
            table(
                "Bytes per key, 63 K keys, values of 256 B, 1 thread",
                "407 B to 412 B, 1.01x",
                "memory",
                "bytes",
                &[("values", &["256", "256-256"]), ("threads", &["1"])],
            ),
            table(
                "Bytes per key, 63 K keys, values of 1024 B, 1 thread",
                "1,207 B to 1,879 B, 1.56x",
                "memory",
                "bytes",
                &[("values", &["1024", "1024-1024"]), ("threads", &["1"])],
            ),
            table(
                "Bytes per key, 63 K keys, values of 4096 B, 1 thread",
                "4,352 B to 5,131 B, 1.18x",
                "memory",
                "bytes",
                &[("values", &["4096", "4096-4096"]), ("threads", &["1"])],
            ),
            table(
                "Bytes per key, 1 M keys, values of 32 B",
                "147 B to 118 B, 0.80x",
                "memory",
                "bytes",
                &[("values", &["32", "32-32"]), ("threads", &["2"])],
            ),
            table(
                "Bytes per key, 1 M keys, values of 256 B",
                "376 B to 372 B, 0.99x",
                "memory",
                "bytes",
                &[("values", &["256", "256-256"]), ("threads", &["2"])],
            ),
            table(
                "Bytes per key, 1 M keys, values of 1024 B",
                "1,153 B to 1,571 B, 1.36x",
                "memory",
                "bytes",
                &[("values", &["1024", "1024-1024"]), ("threads", &["2"])],
            ),
            table(
                "Memory with 1 M keys, values of 32 B",
                "95.8 MB to 78.2 MB",
                "memory",
                "loaded",
                &[("values", &["32", "32-32"]), ("threads", &["2"])],
            ),
            table(
                "Memory with 1 M keys, values of 256 B",
                "234.4 MB to 231.5 MB",
                "memory",
                "loaded",
                &[("values", &["256", "256-256"]), ("threads", &["2"])],
            ),
            table(
                "Memory with 1 M keys, values of 1024 B",
                "703.0 MB to 954.2 MB",
                "memory",
                "loaded",
                &[("values", &["1024", "1024-1024"]), ("threads", &["2"])],
            ),
            table(
                "Memory of the empty server, 1 thread",
                "7.0 MB both",
                "memory",
                "empty",
                &[("threads", &["1"])],
            ),
            table(
                "Memory of the empty server, 2 threads",
                "no figure",
                "memory",
                "empty",
                &[("threads", &["2"])],
            ),
            table(
                "Memory of the empty server, 12 threads",
                "15.7 MB to 7.0 MB",
                "memory",
                "empty",
                &[("threads", &["12"])],
            ),
            table(
                "SET, values of 32 B, pipeline 16, 50 clients",
                "1.35x",
                "matrix",
                "throughput",
                &[("values", &["32"]), SET, P16],
            ),
            table(
                "SET, values of 256 B, pipeline 16, 50 clients",
                "1.34x",
                "matrix",
                "throughput",
                &[("values", &["256"]), SET, P16],
            ),
            table(
                "SET, values of 1024 B, pipeline 16, 50 clients",
                "1.02x",
                "matrix",
                "throughput",
                &[("values", &["1024"]), SET, P16],
            ),
            table(
                "SET, values of 4096 B, pipeline 16, 50 clients",
                "1.06x",
                "matrix",
                "throughput",
                &[("values", &["4096"]), SET, P16],
            ),
            table(
                "GET, 8 threads, pipeline 16",
                "2.60M/s to 1.41M/s, 1.84x",
                "matrix",
                "throughput",
                &[CLIENTS, GET, P16, ("threads", &["8"])],
            ),
            table(
                "SET, 8 threads, pipeline 16",
                "2.52M/s to 1.27M/s, 1.99x",
                "matrix",
                "throughput",
                &[CLIENTS, SET, P16, ("threads", &["8"])],
            ),
            table(
                "GET, 4 threads, pipeline 64",
                "3.79M/s to 2.41M/s, 1.57x",
                "matrix",
                "throughput",
                &[CLIENTS, GET, P64, ("threads", &["4"])],
            ),
            table(
                "CPU per operation, pipeline 1",
                "91.1 % to 97.2 % of a processor at 0.87x the rate",
                "matrix",
                "cpu",
                &[CLIENTS, P1],
            ),
            table(
                "CPU per operation, pipeline 8",
                "3.3 % to 100 % at 0.97x the rate",
                "matrix",
                "cpu",
                &[CLIENTS, P8],
            ),
            table(
                "CPU per operation, pipeline 16",
                "1.9 % to 100 % at 1.01x the rate",
                "matrix",
                "cpu",
                &[CLIENTS, P16],
            ),
            table(
                "CPU per operation, pipeline 64",
                "1.9 % to 43.9 % at 1.71x the rate",
                "matrix",
                "cpu",
                &[CLIENTS, P64],
            ),
            table(
                "SET with a log synced every second, pipeline 1",
                "146K/s, 0.95x",
                "persistence",
                "throughput",
                &[("log", &["everysec"]), P1],
            ),
            table(
                "SET with a log synced every second, pipeline 8",
                "1,117K/s, 1.68x",
                "persistence",
                "throughput",
                &[("log", &["everysec"]), P8],
            ),
            table(
                "SET with a log synced every second, pipeline 16",
                "1,887K/s, 2.21x",
                "persistence",
                "throughput",
                &[("log", &["everysec"]), P16],
            ),
            table(
                "SET with a log synced every second, pipeline 64",
                "2,778K/s, 2.75x",
                "persistence",
                "throughput",
                &[("log", &["everysec"]), P64],
            ),
            table(
                "p50 latency, 8 threads",
                "0.031 ms to 0.26 to 0.33 ms",
                "matrix",
                "p50",
                &[CLIENTS, ("threads", &["8"])],
            ),
            table(
                "Session store",
                "1.24x",
                "workloads",
                "throughput",
                &[("workload", &["session store"])],
            ),
            table(
                "Rate limiting",
                "1.15x",
                "workloads",
                "throughput",
                &[("workload", &["rate limiting"])],
            ),
            table(
                "Leaderboard",
                "1.06 to 1.25x",
                "workloads",
                "throughput",
                &[("workload", &["leaderboard"])],
            ),
            table(
                "Application cache",
                "1.10 to 1.27x",
                "workloads",
                "throughput",
                &[("workload", &["application cache"])],
            ),
            table("Job queue", "1.06x", "workloads", "throughput", &[("workload", &["job queue"])]),
            table(
                "User profiles",
                "1.10x",
                "workloads",
                "throughput",
                &[("workload", &["user profiles"])],
            ),
            table("Answers equal to Redis's", "132 of 132", "consistency", "agreed", &[]),
            PublishedTable {
                title: "Vector search",
                said: "12.7K queries/s on 8 processors, quantised",
                source: Source::Own {
                    name: "vectors",
                    at: &[("form", &["coded"]), ("work", &["search 96"])],
                    figure: "throughput",
                },
            },
        ],
    },
    Published {
        title: "Swytch",
        about: "Replays of production traces against Redis on 2 processors per node: block I/O (Alibaba, CloudPhysics) \
                and Twitter's cluster 17, and the micro-benchmarks of its engine, its commands and its effects, of which it \
                publishes no figures. Here: `trace`, with one node, on requests that are drawn from published statistics; \
                `engine`, `handlers`, `effects`.",
        tables: &[
            table(
                "24 h of block I/O, 1 node: hit rate",
                "99.52 % both",
                "trace",
                "hits",
                &[BLOCK, UNLIMITED],
            ),
            table(
                "24 h of block I/O, 1 node: throughput",
                "24,805/s to 29,568/s, 0.84x",
                "trace",
                "throughput",
                &[BLOCK, UNLIMITED],
            ),
            table(
                "24 h of block I/O, 1 node: average GET",
                "142.8 us to 120.5 us, 0.84x",
                "trace",
                "get_mean",
                &[BLOCK, UNLIMITED],
            ),
            table(
                "24 h of block I/O, 1 node: average SET",
                "165.7 us to 132.7 us, 0.80x",
                "trace",
                "set_mean",
                &[BLOCK, UNLIMITED],
            ),
            nodes(
                "24 h of block I/O, 2 nodes",
                "36,433/s to 29,461/s, 1.24x",
                "2",
                &[BLOCK, UNLIMITED],
            ),
            nodes(
                "24 h of block I/O, 4 nodes",
                "42,601/s to 29,267/s, 1.46x",
                "4",
                &[BLOCK, UNLIMITED],
            ),
            nodes(
                "24 h of block I/O, 6 nodes",
                "43,754/s to 29,240/s, 1.50x",
                "6",
                &[BLOCK, UNLIMITED],
            ),
            nowhere(
                "72 h of block I/O, 4 nodes",
                "46,731/s to 28,185/s, 1.66x",
                "a trace that is drawn has no hours",
            ),
            table(
                "Twitter cluster 17, full sharing, 1 node: hit rate",
                "97.70 % both",
                "trace",
                "hits",
                &[CLUSTER_17, UNLIMITED],
            ),
            table(
                "Twitter cluster 17, full sharing, 1 node: throughput",
                "31,121/s to 31,216/s, 1.00x",
                "trace",
                "throughput",
                &[CLUSTER_17, UNLIMITED],
            ),
            table(
                "Twitter cluster 17, full sharing, 1 node: average GET",
                "92.7 us to 95.9 us, 1.03x",
                "trace",
                "get_mean",
                &[CLUSTER_17, UNLIMITED],
            ),
            table(
                "Twitter cluster 17, full sharing, 1 node: average SET",
                "115.2 us to 95.3 us, 0.83x",
                "trace",
                "set_mean",
                &[CLUSTER_17, UNLIMITED],
            ),
            nodes(
                "Twitter cluster 17, full sharing, 2 nodes",
                "27,065/s to 31,112/s, 0.87x",
                "2",
                &[CLUSTER_17, UNLIMITED],
            ),
            nodes(
                "Twitter cluster 17, full sharing, 4 nodes",
                "20,513/s to 31,165/s, 0.66x",
                "4",
                &[CLUSTER_17, UNLIMITED],
            ),
            nodes(
                "Twitter cluster 17, full sharing, 6 nodes",
                "16,058/s to 30,870/s, 0.52x",
                "6",
                &[CLUSTER_17, UNLIMITED],
            ),
            table(
                "Eviction pressure, 1 node: hit rate",
                "20.73 % to 21.18 %, 0.98x",
                "trace",
                "hits",
                &[PRESSURE],
            ),
            table(
                "Eviction pressure, 1 node: throughput",
                "8,789/s to 19,229/s, 0.46x",
                "trace",
                "throughput",
                &[PRESSURE],
            ),
            table(
                "Eviction pressure, 1 node: average GET",
                "199.4 us to 94.6 us, 0.47x",
                "trace",
                "get_mean",
                &[PRESSURE],
            ),
            table(
                "Eviction pressure, 1 node: average SET",
                "260.8 us to 101.5 us, 0.39x",
                "trace",
                "set_mean",
                &[PRESSURE],
            ),
            nowhere(
                "Eviction pressure, 2 nodes",
                "1,947/s to 19,227/s, 8 errors",
                "nodes have no limit of memory yet",
            ),
            table(
                "Values of 30 KB, 500 MB: throughput",
                "22,172/s to 29,051/s, 0.76x, with 4 nodes",
                "trace",
                "throughput",
                &[("values", &["30000"])],
            ),
            table(
                "Values of 1 MB, 500 MB: throughput",
                "466/s to 1,920/s, 0.24x, with 4 nodes",
                "trace",
                "throughput",
                &[("values", &["1000000"])],
            ),
            table(
                "Values of 1 MB, 500 MB: hit rate",
                "91.08 % to 97.22 %, with 4 nodes",
                "trace",
                "hits",
                &[("values", &["1000000"])],
            ),
            table(
                "Network, 1 node",
                "0 B to 2.38 to 78.52 GB: a cache near its client",
                "trace",
                "network",
                &[],
            ),
            beside(
                "CloxCacheGet, beside dashmap",
                "no figures, beside sync.Map",
                "engine",
                "throughput",
                &[("workload", &["get"])],
                "dashmap",
            ),
            beside(
                "CloxCachePut, beside dashmap",
                "no figures, beside sync.Map",
                "engine",
                "throughput",
                &[("workload", &["put"])],
                "dashmap",
            ),
            beside(
                "CloxCacheMixed, beside dashmap",
                "no figures, beside sync.Map",
                "engine",
                "throughput",
                &[("workload", &["mixed"])],
                "dashmap",
            ),
            beside(
                "CloxCacheZipf, beside dashmap",
                "no figures, beside sync.Map",
                "engine",
                "throughput",
                &[("workload", &["zipf"])],
                "dashmap",
            ),
            beside(
                "CloxCacheContention, beside dashmap",
                "no figures, beside sync.Map",
                "engine",
                "throughput",
                &[("workload", &["contention"])],
                "dashmap",
            ),
            beside(
                "CloxCacheSizes, beside dashmap",
                "no figures, beside sync.Map",
                "engine",
                "throughput",
                &[(
                    "workload",
                    &[
                        "small (1 K keys)",
                        "medium (10 K keys)",
                        "large (100 K keys)",
                        "extra large (1 M keys)",
                    ],
                )],
                "dashmap",
            ),
            beside(
                "CloxCachePointers, beside dashmap",
                "no figures, beside sync.Map",
                "engine",
                "throughput",
                &[("workload", &["pointers"])],
                "dashmap",
            ),
            own("Handler_Set", "handlers", "ns", &[("workload", &["SET"]), ONE_THREAD, P1]),
            own("Handler_Get", "handlers", "ns", &[("workload", &["GET"]), ONE_THREAD, P1]),
            own("Handler_Incr", "handlers", "ns", &[("workload", &["INCR"]), ONE_THREAD, P1]),
            own("Handler_IncrBy", "handlers", "ns", &[("workload", &["INCRBY"]), ONE_THREAD, P1]),
            own("Handler_LPush", "handlers", "ns", &[("workload", &["LPUSH"]), ONE_THREAD, P1]),
            own("Handler_RPush", "handlers", "ns", &[("workload", &["RPUSH"]), ONE_THREAD, P1]),
            own("Handler_LPop", "handlers", "ns", &[("workload", &["LPOP"]), ONE_THREAD, P1]),
            own("Handler_RPop", "handlers", "ns", &[("workload", &["RPOP"]), ONE_THREAD, P1]),
            own(
                "Handler_LRange",
                "handlers",
                "ns",
                &[("workload", &["LRANGE of 10"]), ONE_THREAD, P1],
            ),
            own("Handler_LIndex", "handlers", "ns", &[("workload", &["LINDEX"]), ONE_THREAD, P1]),
            own("Handler_HSet", "handlers", "ns", &[("workload", &["HSET"]), ONE_THREAD, P1]),
            own("Handler_HGet", "handlers", "ns", &[("workload", &["HGET"]), ONE_THREAD, P1]),
            own("Handler_HGetAll", "handlers", "ns", &[("workload", &["HGETALL"]), ONE_THREAD, P1]),
            own("Handler_HIncrBy", "handlers", "ns", &[("workload", &["HINCRBY"]), ONE_THREAD, P1]),
            own("Handler_Mixed", "handlers", "ns", &[("workload", &["80/20"]), ONE_THREAD, P1]),
            own(
                "Handler_LargeValues",
                "handlers",
                "ns",
                &[("workload", &["SET of 10 KB", "GET of 10 KB"]), ONE_THREAD, P1],
            ),
            own(
                "Handler_LPushScalability",
                "handlers",
                "ns",
                &[
                    (
                        "workload",
                        &[
                            "LPUSH to 1 K",
                            "LPUSH to 10 K",
                            "LPUSH to 100 K",
                            "LPUSH to 1 M",
                            "LPUSH to 10 M",
                        ],
                    ),
                    P1,
                ],
            ),
            own("Handler_Parallel", "handlers", "throughput", &[("workload", &["SET", "GET"]), P1]),
            own("Effects", "effects", "ns", &[]),
        ],
    },
    Published {
        title: "Redis 2.0, 1 to 64 K connections",
        about: "Requests a second over concurrency, and latency surfaces over concurrency and percentile. 100,000 \
                requests per level, all connections active. Here: `connections --active 0`.",
        tables: &[
            table(
                "Requests a second",
                "highest at 10, then a slow fall",
                "connections",
                "throughput",
                &[],
            ),
            table("90th percentile", "low to 30 K", "connections", "q90", &[]),
            table("99th percentile", "low to 30 K", "connections", "p99", &[]),
        ],
    },
    Published {
        title: "Rueidis",
        about: "Client library against client library, SET at 1 to 128 callers.",
        tables: &[nowhere(
            "SET by parallelism and value",
            "up to 10x go-redis",
            "a client's benchmark",
        )],
    },
];
