"""The clients of a Redis Cluster and of sentinels, on groups of redis-server."""

import asyncio
import shutil
import socket
import subprocess
import time

import pytest

import petrel
import petrel.asyncio

SLOTS = 16384


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


def start(folder, port, *arguments):
    """A process of redis-server, once it answers."""
    command = ["redis-server", *arguments, "--port", str(port), "--dir", str(folder)]
    with open(folder / f"log-{port}", "a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)

    def answers():
        assert process.poll() is None, (folder / f"log-{port}").read_text()
        try:
            with petrel.Client(port=port) as client:
                return client.ping()
        except petrel.ConnectionError:
            return False

    until("the server answers", answers)
    return process


@pytest.fixture(scope="session")
def ports(tmp_path_factory):
    """The ports of three primaries."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    ports, processes = [], []
    buses = []
    for _ in range(3):
        port, bus = free_port(), free_port()
        folder = tmp_path_factory.mktemp(f"node-{port}")
        options = ["--cluster-enabled", "yes", "--cluster-port", str(bus), "--save", ""]
        processes.append(start(folder, port, *options))
        ports.append(port)
        buses.append(bus)
    clients = [petrel.Client(port=port, decode_responses=True) for port in ports]
    for number, client in enumerate(clients):
        first, last = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for port, bus in list(zip(ports, buses))[1:]:
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
    for client in clients:

        def is_up():
            info = client.execute_command("CLUSTER", "INFO")
            return "cluster_state:ok" in info and "cluster_known_nodes:3" in info

        until("the cluster is up", is_up)
        client.close()
    yield ports
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def cluster(ports):
    with petrel.RedisCluster(host="127.0.0.1", port=ports[0], decode_responses=True) as cluster:
        cluster.flushall()
        yield cluster


def test_commands_go_to_the_nodes_of_their_keys(ports, cluster):
    for number in range(300):
        assert cluster.set(f"k{number}", number) is True
    assert all(cluster.get(f"k{number}") == str(number) for number in range(300))
    assert cluster.dbsize() == 300
    sizes = [primary.dbsize() for primary in cluster.primaries()]
    assert sum(sizes) == 300 and min(sizes) > 50
    assert cluster.mget([f"k{number}" for number in range(5)]) == ["0", "1", "2", "3", "4"]
    assert set(cluster.scan_iter("k1*")) == {f"k{n}" for n in range(300) if str(n)[0] == "1"}
    assert len(cluster.keys("k2?")) == 10
    assert cluster.delete("k1", "k2", "k3", "none") == 3
    with pytest.raises(petrel.ResponseError, match="slot"):
        cluster.mset({"a": 1, "b": 2})
    with pytest.raises(petrel.PetrelError):
        cluster.scan()
    with pytest.raises(NotImplementedError, match="single servers"):
        cluster.lock("name")
    assert cluster.ping() is True
    assert cluster.flushall() is True and cluster.dbsize() == 0


def test_ways_to_connect(ports):
    nodes = [petrel.ClusterNode("127.0.0.1", 1), ("127.0.0.1", ports[1])]
    with petrel.RedisCluster(startup_nodes=nodes) as cluster:
        assert cluster.set("k", "v") is True
    url = f"redis://127.0.0.1:{ports[2]}"
    with petrel.RedisCluster.from_url(url, read_from_replicas=True) as cluster:
        assert cluster.get("k") == b"v"
    with pytest.raises(petrel.DataError):
        petrel.RedisCluster(port=1, nonsense=1)
    with petrel.RedisCluster(host="127.0.0.1", port=1) as cluster:
        with pytest.raises(petrel.ConnectionError):
            cluster.get("k")


def test_pipelines_transactions_and_scripts(cluster):
    with cluster.pipeline() as pipe:
        for number in range(50):
            pipe.set(f"p{number}", number).incr(f"p{number}")
        replies = pipe.execute()
    assert replies[1::2] == list(range(1, 51))
    with cluster.pipeline(transaction=True) as pipe:
        pipe.incr("{t}a").incr("{t}b")
        assert pipe.execute() == [1, 1]

    def add(pipe):
        number = int(pipe.get("{t}a"))
        pipe.multi()
        pipe.set("{t}a", number + 1)

    assert cluster.transaction(add, "{t}a") == [True]
    assert cluster.get("{t}a") == "2"
    script = cluster.register_script("return {KEYS[1], ARGV[1]}")
    assert script(keys=["some key"], args=["v"]) == ["some key", "v"]
    with cluster.connection("k") as connection:
        assert connection.set("k", "v") is True


def test_waiting_messages_and_caches(ports, cluster):
    cluster.rpush("list", "x")
    assert cluster.blpop("list", timeout=5) == ("list", "x")
    assert cluster.blpop("list", timeout=0.05) is None
    with cluster.pubsub() as pubsub:
        pubsub.ssubscribe("a", "b", "c", "foo")
        for channel in ["a", "b", "c", "foo"]:
            assert cluster.spublish(channel, "hello") == 1
            message = pubsub.get_message(timeout=5)
            assert (message["type"], message["channel"]) == ("smessage", channel)
        pubsub.subscribe("news")
        cluster.publish("news", "n")
        assert pubsub.get_message(timeout=5)["data"] == "n"
    near = cluster.near_cache()
    for key in ["a", "b", "c", "foo"]:
        cluster.set(key, "old")
        assert near.get(key) == "old" and near.get(key) == "old"
        cluster.set(key, "new")
        until("the change is told", lambda: near.get(key) == "new")
    assert near.statistics()["hits"] >= 4


def test_asyncio(ports):
    async def main():
        async with petrel.asyncio.RedisCluster(port=ports[0]) as cluster:
            await cluster.flushall()
            await asyncio.gather(*(cluster.set(f"k{number}", number) for number in range(200)))
            values = await asyncio.gather(*(cluster.get(f"k{number}") for number in range(200)))
            assert values == [str(number).encode() for number in range(200)]
            assert await cluster.dbsize() == 200
            assert len({key async for key in cluster.scan_iter()}) == 200
            sizes = [await primary.dbsize() for primary in await cluster.primaries()]
            assert sum(sizes) == 200 and min(sizes) > 30
            async with cluster.pipeline() as pipe:
                pipe.incr("n").incr("m")
                assert await pipe.execute() == [1, 1]
            async with cluster.pubsub() as pubsub:
                await pubsub.ssubscribe("foo", "bar")
                assert await cluster.spublish("foo", "1") == 1
                assert (await pubsub.get_message(timeout=5))["data"] == b"1"
            near = await cluster.near_cache()
            assert await near.get("k7") == b"7" and await near.get("k7") == b"7"
            assert near.statistics()["hits"] == 1
            waiting = asyncio.create_task(cluster.blpop("list", timeout=10))
            await asyncio.sleep(0.05)
            await cluster.rpush("list", "x")
            assert await waiting == (b"list", b"x")

    asyncio.run(main())


def test_sentinel(tmp_path):
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    port, watcher = free_port(), free_port()
    processes = [start(tmp_path, port, "--save", "")]
    configuration = tmp_path / "sentinel.conf"
    configuration.write_text(f"sentinel monitor mymaster 127.0.0.1 {port} 1\n")
    try:
        processes.append(start(tmp_path, watcher, str(configuration), "--sentinel"))
        sentinel = petrel.Sentinel([("127.0.0.1", watcher)], decode_responses=True)
        with sentinel.master_for("mymaster") as client:
            assert client.set("k", "v") is True
            with client.pipeline() as pipe:
                assert pipe.get("k").execute() == ["v"]
        with sentinel.slave_for("mymaster") as client:
            assert client.get("k") == "v"

        async def main():
            sentinel = petrel.asyncio.Sentinel([("127.0.0.1", watcher)])
            async with sentinel.master_for("mymaster") as client:
                return await client.get("k")

        assert asyncio.run(main()) == b"v"
        with petrel.Sentinel([("127.0.0.1", watcher)]).master_for("other") as client:
            with pytest.raises(petrel.PetrelError):
                client.get("k")
    finally:
        for process in processes:
            process.kill()
            process.wait()
