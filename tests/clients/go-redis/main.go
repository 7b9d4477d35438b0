// Command go-redis runs the same cases against a started server in RESP2 and in RESP3.
//
// Address: PETREL_SOCKET if set, else 127.0.0.1:PETREL_PORT. Prints one line for each case, `ok NAME` or `FAIL NAME: why`. With
// PETREL_SENTINEL there is one case, of a primary that is killed.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

const password = "s3cret phrase"

func main() {
	if os.Getenv("PETREL_SENTINEL") != "" {
		if err := followsPrimary(); err != nil {
			fmt.Printf("FAIL follows a primary that is killed: %s\n", err)
		} else {
			fmt.Println("ok follows a primary that is killed")
		}
		return
	}
	cases := []struct {
		name string
		run  func(protocol int) error
	}{
		{"handshake", handshake},
		{"authentication", authentication},
		{"set options", setOptions},
		{"strings", stringCommands},
		{"expiry", expiry},
		{"pipeline", pipeline},
		{"transactions", transactions},
		{"scan", scan},
		{"binary", binary},
		{"clients", clients},
		{"info and config", infoAndConfig},
		{"many connections", manyConnections},
		{"blocking", blocking},
		{"messages", messages},
		{"script", script},
		{"errors", errorReplies},
		{"reply types", replyTypes},
	}
	for protocol := 2; protocol <= 3; protocol++ {
		connect(protocol).FlushAll(ctx)
		for _, c := range cases {
			if err := c.run(protocol); err != nil {
				fmt.Printf("FAIL %s RESP%d: %s\n", c.name, protocol, err)
			} else {
				fmt.Printf("ok %s RESP%d\n", c.name, protocol)
			}
		}
	}
}

// options are the library's defaults but for address and protocol.
func options(protocol int) *redis.Options {
	o := &redis.Options{Addr: "127.0.0.1:" + os.Getenv("PETREL_PORT"), Protocol: protocol}
	if socket := os.Getenv("PETREL_SOCKET"); socket != "" {
		o.Network, o.Addr = "unix", socket
	}
	return o
}

func connect(protocol int) *redis.Client { return redis.NewClient(options(protocol)) }

// want collects the first difference or error of a case.
type want struct{ err error }

func (w *want) equal(what string, got, expected any) {
	if w.err == nil && !reflect.DeepEqual(got, expected) {
		w.err = fmt.Errorf("%s: got %#v, expected %#v", what, got, expected)
	}
}

func (w *want) that(what string, holds bool) {
	if w.err == nil && !holds {
		w.err = errors.New(what)
	}
}

func (w *want) ok(what string, err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("%s: %w", what, err)
	}
}

func (w *want) fails(what string, err error, beginning string) {
	if w.err == nil && (err == nil || !strings.HasPrefix(err.Error(), beginning)) {
		w.err = fmt.Errorf("%s: got error %v, expected %s", what, err, beginning)
	}
}

func handshake(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	w.equal("PING", client.Ping(ctx).Val(), "PONG")
	me, err := client.ClientInfo(ctx).Result()
	w.ok("CLIENT INFO", err)
	if me != nil {
		w.equal("resp", me.Resp, protocol)
		w.that("lib-name "+me.LibName, strings.HasPrefix(me.LibName, "go-redis"))
	}
	w.equal("ECHO", client.Echo(ctx, "said").Val(), "said")
	return w.err
}

func authentication(protocol int) error {
	var w want
	admin := connect(protocol)
	defer admin.Close()
	w.ok("CONFIG SET", admin.ConfigSet(ctx, "requirepass", password).Err())
	defer func() {
		o := options(protocol)
		o.Password = password
		again := redis.NewClient(o)
		again.ConfigSet(ctx, "requirepass", "")
		again.Close()
	}()
	for given, beginning := range map[string]string{"": "NOAUTH", "wrong": "WRONGPASS", password: ""} {
		o := options(protocol)
		o.Password = given
		client := redis.NewClient(o)
		_, err := client.Get(ctx, "nothing").Result()
		if beginning == "" {
			w.equal("with the password", err, redis.Nil)
		} else {
			w.fails("password '"+given+"'", err, beginning)
		}
		client.Close()
	}
	return w.err
}

func setOptions(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	set := func(value string, args redis.SetArgs) (string, error) {
		return client.SetArgs(ctx, "k", value, args).Result()
	}
	w.equal("SET", client.Set(ctx, "k", "1", 0).Val(), "OK")
	w.equal("SETNX", client.SetNX(ctx, "k", "2", 0).Val(), false)
	_, err := set("2", redis.SetArgs{Mode: "NX"})
	w.equal("NX", err, redis.Nil)
	got, _ := set("2", redis.SetArgs{Mode: "XX", Get: true})
	w.equal("XX GET", got, "1")
	_, err = set("3", redis.SetArgs{TTL: 100 * time.Second})
	w.ok("EX", err)
	_, err = set("4", redis.SetArgs{KeepTTL: true})
	w.ok("KEEPTTL", err)
	left := client.PTTL(ctx, "k").Val()
	w.that("KEEPTTL keeps "+left.String(), left > 99*time.Second && left <= 100*time.Second)
	w.equal("PX", client.Set(ctx, "k", "5", 1500*time.Millisecond).Val(), "OK")
	left = client.PTTL(ctx, "k").Val()
	w.that("PX leaves "+left.String(), left > time.Second && left <= 1500*time.Millisecond)
	_, err = set("6", redis.SetArgs{ExpireAt: time.Unix(4_000_000_000, 0)})
	w.ok("EXAT", err)
	w.equal("EXPIRETIME", client.ExpireTime(ctx, "k").Val(), 4_000_000_000*time.Second)
	w.equal("SET with IFEQ", client.Do(ctx, "SET", "k", "7", "IFEQ", "6").Val(), any("OK"))
	w.equal("SET with IFEQ of another", client.Do(ctx, "SET", "k", "8", "IFEQ", "6").Err(), redis.Nil)
	w.equal("GET", client.Get(ctx, "k").Val(), "7")
	w.equal("TTL", client.TTL(ctx, "k").Val(), time.Duration(-1))
	return w.err
}

func stringCommands(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	w.equal("MSET", client.MSet(ctx, "s1", "a", "s2", "b").Val(), "OK")
	w.equal("MGET", client.MGet(ctx, "s1", "none", "s2").Val(), []any{"a", nil, "b"})
	w.equal("MSETNX", client.MSetNX(ctx, "s1", "x", "s3", "y").Val(), false)
	w.equal("APPEND", client.Append(ctx, "s1", "bcd").Val(), int64(4))
	w.equal("GETRANGE", client.GetRange(ctx, "s1", 1, -2).Val(), "bc")
	w.equal("SETRANGE", client.SetRange(ctx, "s1", 6, "z").Val(), int64(7))
	w.equal("GET", client.Get(ctx, "s1").Val(), "abcd\x00\x00z")
	w.equal("GETDEL", client.GetDel(ctx, "s2").Val(), "b")
	w.equal("INCRBY", client.IncrBy(ctx, "n", 42).Val(), int64(42))
	w.equal("INCRBYFLOAT", client.IncrByFloat(ctx, "n", 0.5).Val(), 42.5)
	client.MSet(ctx, "l1", "ohmytext", "l2", "mynewtext")
	lcs, err := client.LCS(ctx, &redis.LCSQuery{Key1: "l1", Key2: "l2", Idx: true, WithMatchLen: true}).Result()
	w.ok("LCS", err)
	if lcs != nil {
		w.equal("LCS LEN", lcs.Len, int64(6))
		w.equal("LCS matches", len(lcs.Matches), 2)
	}
	return w.err
}

func expiry(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	client.Set(ctx, "gone", "v", 30*time.Millisecond)
	client.Set(ctx, "stays", "v", 0)
	w.equal("EXPIRE", client.Expire(ctx, "stays", 10*time.Second).Val(), true)
	w.equal("EXPIRE NX", client.ExpireNX(ctx, "stays", 5*time.Second).Val(), false)
	w.equal("EXPIRE GT", client.ExpireGT(ctx, "stays", 5*time.Second).Val(), false)
	w.equal("EXPIRE LT", client.ExpireLT(ctx, "stays", 5*time.Second).Val(), true)
	w.equal("PERSIST", client.Persist(ctx, "stays").Val(), true)
	w.equal("TTL of nothing", client.TTL(ctx, "never").Val(), time.Duration(-2))
	time.Sleep(50 * time.Millisecond)
	w.equal("GET", client.Get(ctx, "gone").Err(), redis.Nil)
	w.equal("EXISTS", client.Exists(ctx, "gone", "stays", "stays").Val(), int64(2))
	return w.err
}

func pipeline(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	batch := client.Pipeline()
	var gets []*redis.StringCmd
	for i := range 1000 {
		batch.Set(ctx, fmt.Sprint("p:", i), i, 0)
		gets = append(gets, batch.Get(ctx, fmt.Sprint("p:", i)))
	}
	_, err := batch.Exec(ctx)
	w.ok("pipeline", err)
	for i, get := range gets {
		w.equal("GET in a pipeline", get.Val(), fmt.Sprint(i))
	}
	return w.err
}

func transactions(protocol int) error {
	var w want
	client, other := connect(protocol), connect(protocol)
	defer client.Close()
	defer other.Close()
	client.Set(ctx, "t", "1", 0)
	var count *redis.IntCmd
	_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		count = p.Incr(ctx, "t")
		return nil
	})
	w.ok("EXEC", err)
	w.equal("INCR in EXEC", count.Val(), int64(2))
	rewrite := func(conflict bool) error {
		return client.Watch(ctx, func(tx *redis.Tx) error {
			if conflict {
				other.Set(ctx, "t", "changed", 0)
			}
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "t", "written", 0)
				return nil
			})
			return err
		}, "t")
	}
	w.equal("EXEC after a conflict", rewrite(true), redis.TxFailedErr)
	w.equal("GET after a conflict", client.Get(ctx, "t").Val(), "changed")
	w.ok("EXEC without a conflict", rewrite(false))
	w.equal("GET after EXEC", client.Get(ctx, "t").Val(), "written")
	return w.err
}

func scan(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	var pairs []any
	for i := range 1000 {
		pairs = append(pairs, fmt.Sprint("scan:", i), "v")
	}
	w.ok("MSET", client.MSet(ctx, pairs...).Err())
	for _, count := range []int64{10, 100, 5000} {
		seen := map[string]int{}
		keys := client.ScanType(ctx, 0, "scan:*", count, "string").Iterator()
		for keys.Next(ctx) {
			seen[keys.Val()]++
		}
		w.ok("SCAN", keys.Err())
		w.equal("keys seen", len(seen), 1000)
		for key, times := range seen {
			w.equal("times that SCAN gave "+key, times, 1)
		}
	}
	return w.err
}

func binary(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	big := make([]byte, 1<<20)
	rand.Read(big)
	key := "\x00\r\n$3\r\n\xff\xfe key"
	w.equal("SET of 1 MiB", client.Set(ctx, key, big, 0).Val(), "OK")
	back, err := client.Get(ctx, key).Bytes()
	w.ok("GET of 1 MiB", err)
	w.that("1 MiB came back changed", bytes.Equal(back, big))
	w.equal("SET of nothing", client.Set(ctx, "", "", 0).Val(), "OK")
	w.equal("DEL", client.Del(ctx, key, "").Val(), int64(2))
	return w.err
}

func clients(protocol int) error {
	var w want
	o := options(protocol)
	o.ClientName = "first"
	client := redis.NewClient(o)
	defer client.Close()
	w.equal("CLIENT GETNAME", client.ClientGetName(ctx).Val(), "first")
	list, err := client.ClientList(ctx).Result()
	w.ok("CLIENT LIST", err)
	w.that("CLIENT LIST has no name=first: "+list, strings.Contains(list, " name=first "))
	id := client.ClientID(ctx).Val()
	w.that("CLIENT LIST has no such id: "+list, strings.Contains(list, fmt.Sprintf("id=%d ", id)))
	w.fails("CLIENT SETNAME", client.Do(ctx, "CLIENT", "SETNAME", "two words").Err(), "ERR Client names cannot contain spaces")
	w.equal("CLIENT KILL", client.ClientKillByFilter(ctx, "ID", "999999999").Val(), int64(0))
	w.equal("CLIENT PAUSE", client.ClientPause(ctx, time.Millisecond).Val(), true)
	w.equal("CLIENT UNPAUSE", client.ClientUnpause(ctx).Val(), true)
	return w.err
}

func infoAndConfig(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	info := client.InfoMap(ctx).Val()
	w.equal("redis_mode", info["Server"]["redis_mode"], "standalone")
	w.equal("tcp_port", info["Server"]["tcp_port"], os.Getenv("PETREL_PORT"))
	for section, field := range map[string]string{
		"Clients": "connected_clients", "Memory": "used_memory_human", "Stats": "instantaneous_ops_per_sec",
		"Replication": "master_replid", "CPU": "used_cpu_sys", "Persistence": "loading",
	} {
		w.that("INFO has no "+field, info[section][field] != "")
	}
	w.equal("CONFIG GET", client.ConfigGet(ctx, "maxmemory-policy").Val(), map[string]string{"maxmemory-policy": "noeviction"})
	w.fails("CONFIG SET", client.ConfigSet(ctx, "no-such-parameter", "1").Err(), "ERR Unknown option or number of arguments")
	commands, err := client.Command(ctx).Result()
	w.ok("COMMAND", err)
	if get := commands["get"]; get != nil {
		w.equal("arity of GET", get.Arity, int8(2))
		w.equal("first key of GET", get.FirstKeyPos, int8(1))
		w.equal("GET is read-only", get.ReadOnly, true)
	} else {
		w.that("COMMAND has no GET", false)
	}
	w.equal("COMMAND GETKEYS", client.CommandGetKeys(ctx, "MSET", "a", "1", "b", "2").Val(), []string{"a", "b"})
	w.ok("SLOWLOG", client.SlowLogGet(ctx, -1).Err())
	w.that("MEMORY USAGE", client.MemoryUsage(ctx, "t").Val() > 0)
	now := client.Time(ctx).Val()
	w.that("TIME "+now.String(), time.Since(now).Abs() < 5*time.Second)
	return w.err
}

func manyConnections(protocol int) error {
	var w want
	admin := connect(protocol)
	defer admin.Close()
	admin.Del(ctx, "together")
	var ready, done sync.WaitGroup
	failures := make(chan error, 50)
	ready.Add(50)
	done.Add(50)
	for range 50 {
		go func() {
			defer done.Done()
			client := connect(protocol)
			defer client.Close()
			err := client.Ping(ctx).Err()
			ready.Done()
			ready.Wait()
			for range 40 {
				err = errors.Join(err, client.Incr(ctx, "together").Err())
			}
			failures <- err
		}()
	}
	done.Wait()
	for range 50 {
		w.ok("connection", <-failures)
	}
	w.equal("sum", admin.Get(ctx, "together").Val(), "2000")
	return w.err
}

func blocking(protocol int) error {
	var w want
	client, other := connect(protocol), connect(protocol)
	defer client.Close()
	defer other.Close()
	meanwhile := func(wait, act func()) {
		done := make(chan struct{})
		go func() { wait(); close(done) }()
		for range 2000 {
			if other.InfoMap(ctx, "clients").Val()["Clients"]["blocked_clients"] != "0" {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		act()
		<-done
	}
	var pair []string
	meanwhile(
		func() { pair = client.BLPop(ctx, 10*time.Second, "none", "queue").Val() },
		func() { other.RPush(ctx, "queue", "a", "b") },
	)
	w.equal("BLPOP", pair, []string{"queue", "a"})
	w.equal("BRPOP", client.BRPop(ctx, time.Second, "queue").Val(), []string{"queue", "b"})
	w.equal("BLPOP of nothing", client.BLPop(ctx, time.Second, "queue").Err(), redis.Nil)
	var moved string
	meanwhile(
		func() { moved = client.BLMove(ctx, "queue", "done", "LEFT", "RIGHT", 10*time.Second).Val() },
		func() { other.RPush(ctx, "queue", "c") },
	)
	w.equal("BLMOVE", moved, "c")
	var least *redis.ZWithKey
	meanwhile(
		func() { least = client.BZPopMin(ctx, 10*time.Second, "scores").Val() },
		func() { other.ZAdd(ctx, "scores", redis.Z{Score: 1.5, Member: "m"}) },
	)
	w.equal("BZPOPMIN", least, &redis.ZWithKey{Z: redis.Z{Score: 1.5, Member: "m"}, Key: "scores"})
	var streams []redis.XStream
	meanwhile(
		func() {
			streams = client.XRead(ctx, &redis.XReadArgs{Streams: []string{"log", "$"}, Block: 10 * time.Second}).Val()
		},
		func() { other.XAdd(ctx, &redis.XAddArgs{Stream: "log", ID: "1-1", Values: []string{"f", "v"}}) },
	)
	w.that("XREAD", len(streams) == 1 && len(streams[0].Messages) == 1 && streams[0].Messages[0].ID == "1-1")
	other.Del(ctx, "queue")
	single := client.Conn()
	defer single.Close()
	id := single.ClientID(ctx).Val()
	var err error
	meanwhile(
		func() { err = single.BLPop(ctx, 10*time.Second, "queue").Err() },
		func() { w.equal("CLIENT UNBLOCK", other.ClientUnblockWithError(ctx, id).Val(), int64(1)) },
	)
	w.fails("the unblocked", err, "UNBLOCKED client unblocked via CLIENT UNBLOCK")
	return w.err
}

func messages(protocol int) error {
	var w want
	client, other := connect(protocol), connect(protocol)
	defer client.Close()
	defer other.Close()
	subscriber := client.Subscribe(ctx, "news")
	defer subscriber.Close()
	w.ok("PSUBSCRIBE", subscriber.PSubscribe(ctx, "new?"))
	for range 2 {
		_, err := subscriber.ReceiveTimeout(ctx, 10*time.Second)
		w.ok("subscribed", err)
	}
	w.equal("PUBLISH", other.Publish(ctx, "news", "said").Val(), int64(2))
	for _, pattern := range []string{"", "new?"} {
		got, err := subscriber.ReceiveTimeout(ctx, 10*time.Second)
		w.ok("message", err)
		w.equal("message", got, any(&redis.Message{Channel: "news", Pattern: pattern, Payload: "said"}))
	}
	w.equal("PUBSUB NUMSUB", other.PubSubNumSub(ctx, "news").Val(), map[string]int64{"news": 1})
	return w.err
}

func script(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	client.Del(ctx, "script")
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	for _, sum := range []int64{7, 14} {
		got, err := add.Run(ctx, client, []string{"script"}, 7).Int64()
		w.ok("script", err)
		w.equal("script", got, sum)
	}
	return w.err
}

func errorReplies(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	client.Set(ctx, "word", "not a number", 0)
	w.fails("unknown", client.Do(ctx, "NOSUCH", "a").Err(), "ERR unknown command 'NOSUCH', with args beginning with: 'a'")
	w.fails("arity", client.Do(ctx, "GET").Err(), "ERR wrong number of arguments for 'get' command")
	w.fails("INCR", client.Incr(ctx, "word").Err(), "ERR value is not an integer or out of range")
	w.fails("option", client.Do(ctx, "SET", "k", "v", "NOSUCH").Err(), "ERR syntax error")
	w.fails("AUTH", client.Do(ctx, "AUTH", "nobody", "x").Err(), "WRONGPASS invalid username-password pair")
	w.fails("EXEC", client.Do(ctx, "EXEC").Err(), "ERR EXEC without MULTI")
	w.fails("SELECT", client.Do(ctx, "SELECT", "4711").Err(), "ERR DB index is out of range")
	return w.err
}

func replyTypes(protocol int) error {
	var w want
	client := connect(protocol)
	defer client.Close()
	reply, err := client.Do(ctx, "CONFIG", "GET", "maxclients").Result()
	w.ok("CONFIG GET", err)
	_, isMap := reply.(map[any]any)
	w.equal("CONFIG GET is a map", isMap, protocol == 3)
	w.equal("null", client.Do(ctx, "GET", "absent").Err(), redis.Nil)
	return w.err
}
