"""A Redis Cluster: commands, a pipeline over several nodes, messages of a shard.

python examples/cluster.py [URL of any node]
"""

from __future__ import annotations

import sys

import petrel


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:7000"
    with petrel.RedisCluster.from_url(url, decode_responses=True) as cluster:
        with cluster.pipeline() as pipe:
            for number in range(10):
                pipe.incr(f"example:counter:{number}")
            print(pipe.execute())
        print({number: primary.dbsize() for number, primary in enumerate(cluster.primaries())})
        with cluster.pubsub() as pubsub:
            pubsub.ssubscribe("example:channel")
            cluster.spublish("example:channel", "hello")
            print(pubsub.get_message(timeout=5))


if __name__ == "__main__":
    main()
