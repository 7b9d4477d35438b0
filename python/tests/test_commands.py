"""Commands and their replies, by the client for threads."""

import datetime

import pytest

import petrel
from petrel import exceptions


def test_strings(client):
    assert client.set("k", "v") is True
    assert client.get("k") == b"v"
    assert client.get("none") is None
    assert client.set("k", "w", nx=True) is None
    assert client.set("k", "w", xx=True, get=True) == b"v"
    assert client.set("k", "w", ex=datetime.timedelta(minutes=1)) is True
    assert 0 < client.ttl("k") <= 60
    assert client.set("k", 7, px=60_000, keepttl=False) is True
    assert client.incr("k") == 8
    assert client.incrby("k", 2) == 10
    assert client.decr("k", 5) == 5
    assert client.incrbyfloat("k", 0.5) == 5.5
    assert client.mset({"a": 1, b"b": 2.5}) is True
    assert client.mget("a", "b", "none") == [b"1", b"2.5", None]
    assert client.mget(["a", "b"]) == [b"1", b"2.5"]
    assert client.delete("a", "b", "none") == 2
    assert client.exists("k", "k") == 2
    assert client.append("k", "x") == 4
    assert client.getrange("k", 0, -1) == b"5.5x"
    assert client.setex("t", 10, "v") and client.expire("t", 20) is True
    assert client.expire("none", 20) is False
    assert client.type("k") == b"string"


def test_every_kind_of_argument(client):
    for value, stored in [
        (b"\x00\xff", b"\x00\xff"),
        ("\u00e9", "\u00e9".encode()),
        (2**70, str(2**70).encode()),
        (-1.5, b"-1.5"),
        (bytearray(b"xy"), b"xy"),
        (memoryview(b"xy"), b"xy"),
        (b"long" * 10_000, b"long" * 10_000),
    ]:
        assert client.set("k", value) is True
        assert client.get("k") == stored
    for value in (None, True, ["x"], object()):
        with pytest.raises(exceptions.DataError):
            client.set("k", value)


def test_decoded_replies(text_client):
    text_client.set("k", "\u00e9")
    assert text_client.get("k") == "\u00e9"
    text_client.hset("h", mapping={"f": 1})
    assert text_client.hgetall("h") == {"f": "1"}
    text_client.set("k", b"\xff")
    with pytest.raises(UnicodeDecodeError):
        text_client.get("k")


def test_collections(client):
    assert client.hset("h", "f", "v") == 1
    assert client.hset("h", mapping={"g": 1, "i": 2}, items=["j", 3]) == 3
    assert client.hgetall("h") == {b"f": b"v", b"g": b"1", b"i": b"2", b"j": b"3"}
    assert client.hmget("h", ["f", "none"]) == [b"v", None]
    assert client.hincrby("h", "g", 4) == 5
    assert client.rpush("l", "a", "b", *["c"]) == 3
    assert client.lrange("l", 0, -1) == [b"a", b"b", b"c"]
    assert client.lpop("l") == b"a" and client.lpop("l", 2) == [b"b", b"c"]
    assert client.sadd("s", "x", "y") == 2
    assert client.smembers("s") == {b"x", b"y"}
    assert client.sismember("s", "x") is True and client.smismember("s", ["x", "z"]) == [True, False]
    assert client.pfadd("p", "a", "b") is True and client.pfcount("p") == 2
    assert client.zadd("z", {"a": 1, "b": 2.5}) == 2
    assert client.zadd("z", {"a": 3}, xx=True, incr=True) == 4.0
    assert client.zrange("z", 0, -1) == [b"b", b"a"]
    assert client.zrange("z", 0, -1, desc=True, withscores=True) == [(b"a", 4.0), (b"b", 2.5)]
    assert client.zrangebyscore("z", "-inf", "(4", withscores=True) == [(b"b", 2.5)]
    assert client.zscore("z", "a") == 4.0 and client.zscore("z", "none") is None
    assert client.zunion({"z": 2}, withscores=True) == [(b"b", 5.0), (b"a", 8.0)]
    assert client.zpopmin("z") == [(b"b", 2.5)]
    assert client.zrank("z", "a") == 0
    assert client.geoadd("g", [13.361389, 38.115556, "Palermo"]) == 1
    found = client.geosearch("g", longitude=15, latitude=37, radius=200, unit="km", sort="ASC")
    assert found == [b"Palermo"]


def test_streams(client):
    first = client.xadd("x", {"f": "v"})
    client.xadd("x", {"f": "w"}, maxlen=10)
    entries = client.xrange("x")
    assert entries[0] == (first, {b"f": b"v"}) and len(entries) == 2
    assert client.xread({"x": "0"}, count=1) == [(b"x", [(first, {b"f": b"v"})])]
    assert client.xgroup_create("x", "group", id="0") is True
    taken = client.xreadgroup("group", "me", {"x": ">"}, count=1)
    assert taken == [(b"x", [(first, {b"f": b"v"})])]
    assert client.xpending("x", "group")["pending"] == 1
    assert client.xpending_range("x", "group")[0]["message_id"] == first
    assert client.xack("x", "group", first) == 1


def test_server_commands(client):
    assert client.ping() is True and client.ping("hi") == b"hi"
    assert client.info()["tcp_port"] > 0
    assert client.info("keyspace").keys() <= {"db0"}
    assert client.config_get("maxmemory") == {b"maxmemory": b"0"}
    client.set("k", "v")
    assert client.dbsize() == 1 and client.keys() == [b"k"]
    assert isinstance(client.client_list()[0]["id"], str)
    assert client.execute_command("SET", "raw", "1") == b"OK"
    assert client.execute_command("CONFIG GET", "maxmemory") == {b"maxmemory": b"0"}
    assert client.time()[0] > 1_600_000_000


@pytest.mark.parametrize("protocol", [2, 3])
def test_both_protocols(server, protocol):
    with petrel.Client(port=server.port, protocol=protocol) as client:
        client.hset("h", mapping={"f": 1})
        client.zadd("z", {"m": 1.5})
        client.sadd("s", "x")
        assert client.hgetall("h") == {b"f": b"1"}
        assert client.zrange("z", 0, -1, withscores=True) == [(b"m", 1.5)]
        assert client.zscore("z", "m") == 1.5
        assert client.smembers("s") == {b"x"}
        assert client.xread({"none": "0"}) == []


def test_errors(client):
    client.set("k", "v")
    with pytest.raises(petrel.ResponseError) as caught:
        client.lpush("k", "x")
    assert caught.value.code == "WRONGTYPE" and caught.value.command == "LPUSH"
    assert str(caught.value).startswith("WRONGTYPE")
    with pytest.raises(petrel.ResponseError, match="unknown command"):
        client.execute_command("NO-SUCH-COMMAND", "secret")
    with pytest.raises(petrel.NoScriptError):
        client.evalsha("0" * 40, 0)
    with pytest.raises(petrel.NeedsConnectionError):
        client.select(1)
    with pytest.raises(petrel.DataError):
        petrel.Client(no_such_option=1)
    with pytest.raises(petrel.DataError) as caught:
        petrel.from_url("redis://:hunter2@host?no=1")
    assert "hunter2" not in str(caught.value)


def test_authentication(server, client):
    client.acl_setuser("me", enabled=True, passwords="+secret", keys=["*"], categories=["+@all"])
    with petrel.Client(port=server.port, username="me", password="secret") as other:
        assert other.acl_whoami() == b"me"
    with petrel.Client(port=server.port, username="me", password="wrong") as other:
        with pytest.raises(petrel.AuthenticationError) as caught:
            other.ping()
    assert "wrong" not in str(caught.value).split()
    client.acl_deluser("me")


def test_unix_socket(server, client):
    client.set("k", "v")
    with petrel.Client(unix_socket_path=server.socket) as other:
        assert other.get("k") == b"v"
    with petrel.from_url(f"unix://{server.socket}") as other:
        assert other.get("k") == b"v"


def test_walks(client):
    client.mset({f"k{number}": number for number in range(500)})
    assert len(set(client.scan_iter("k*", count=50))) == 500
    assert set(client.scan_iter(_type="list")) == set()
    client.hset("h", mapping={f"f{number}": number for number in range(300)})
    assert dict(client.hscan_iter("h", count=50))[b"f7"] == b"7"
    client.zadd("z", {f"m{number}": number for number in range(300)})
    assert dict(client.zscan_iter("z"))[b"m7"] == 7.0
    client.sadd("s", *range(300))
    assert len(set(client.sscan_iter("s"))) == 300


def test_pipelines(client):
    with client.pipeline() as pipe:
        pipe.set("a", 1).incr("a").hset("h", "f", "v").hgetall("h")
        assert len(pipe) == 4
        assert pipe.execute() == [True, 2, 1, {b"f": b"v"}]
        assert pipe.execute() == []
    pipe = client.pipeline(transaction=False)
    pipe.lpush("a", "x").get("a")
    replies = pipe.execute(raise_on_error=False)
    assert isinstance(replies[0], petrel.ResponseError) and replies[1] == b"2"
    pipe.lpush("a", "x").get("a")
    with pytest.raises(petrel.ResponseError, match="command 1 "):
        pipe.execute()


def test_watched_transactions(server, client):
    client.set("n", 1)
    attempts = []

    def add(pipe):
        number = int(pipe.get("n"))
        attempts.append(number)
        if len(attempts) == 1:
            client.set("n", 10)
        pipe.multi()
        pipe.set("n", number + 1)

    assert client.transaction(add, "n") == [True]
    assert attempts == [1, 10] and client.get("n") == b"11"
    with client.pipeline() as pipe:
        pipe.watch("n")
        client.set("n", 0)
        pipe.multi()
        pipe.incr("n")
        with pytest.raises(petrel.WatchError):
            pipe.execute()


def test_connection(client):
    with client.connection() as connection:
        assert connection.select(1) is True
        connection.set("only", "there")
        assert connection.get("only") == b"there"
    assert client.get("only") is None


def test_scripts(client):
    script = client.register_script("return {KEYS[1], ARGV[1]}")
    assert script(keys=["k"], args=[1]) == [b"k", b"1"]
    assert client.script_exists(script.sha) == [True]
    assert script(keys=["k"], args=[2]) == [b"k", b"2"]
    assert client.eval("return redis.call('SET', KEYS[1], 'v')", 1, "k") == b"OK"
    pipe = client.pipeline()
    script(keys=["k"], args=[3], client=pipe)
    assert pipe.execute() == [[b"k", b"3"]]
