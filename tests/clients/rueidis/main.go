// Command rueidis runs its cases against a started server with the library's default options: RESP3, a near cache by
// CLIENT TRACKING, pipelining by itself.
//
// Address: PETREL_SOCKET if set, else 127.0.0.1:PETREL_PORT. Prints one line for each case, `ok NAME` or `FAIL NAME: why`.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

var ctx = context.Background()

func main() {
	cases := []struct {
		name string
		run  func(client rueidis.Client) error
	}{
		{"handshake", handshake},
		{"pipeline", pipeline},
		{"transaction", transaction},
		{"messages", messages},
		{"script", script},
		{"blocking pop", blockingPop},
		{"near cache", nearCache},
		{"near cache of hashes and expiry", nearCacheOfOthers},
		{"near cache under writes", nearCacheUnderWrites},
		{"near cache by prefix", nearCacheByPrefix},
	}
	client := connect(nil)
	defer client.Close()
	client.Do(ctx, client.B().Flushall().Build())
	for _, c := range cases {
		if err := c.run(client); err != nil {
			fmt.Printf("FAIL %s: %s\n", c.name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Printf("ok %s\n", c.name)
		}
	}
}

// connect changes nothing of the default options but the address, and what change does.
func connect(change func(*rueidis.ClientOption)) rueidis.Client {
	o := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + os.Getenv("PETREL_PORT")}}
	if socket := os.Getenv("PETREL_SOCKET"); socket != "" {
		o.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		}
	}
	if change != nil {
		change(&o)
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		fmt.Printf("FAIL connect: %s\n", err)
		os.Exit(1)
	}
	return client
}

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

func eventually(holds func() bool) bool {
	for range 2000 {
		if holds() {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func text(client rueidis.Client, command ...string) string {
	reply, err := client.Do(ctx, client.B().Arbitrary(command...).Build()).ToString()
	if err != nil {
		return err.Error()
	}
	return reply
}

func handshake(client rueidis.Client) error {
	var w want
	info := text(client, "CLIENT", "INFO")
	w.that("resp=3 and tracking in "+info, strings.Contains(info, " resp=3 ") && strings.Contains(info, " flags=t"))
	w.that("lib-name in "+info, strings.Contains(info, " lib-name=rueidis "))
	return w.err
}

func pipeline(client rueidis.Client) error {
	var w want
	var commands rueidis.Commands
	for i := range 1000 {
		key := fmt.Sprint("p:", i)
		commands = append(commands, client.B().Set().Key(key).Value(key).Build(), client.B().Get().Key(key).Build())
	}
	for i, reply := range client.DoMulti(ctx, commands...) {
		got, err := reply.ToString()
		w.ok("pipeline", err)
		if i%2 == 1 {
			w.equal("GET in a pipeline", got, fmt.Sprint("p:", i/2))
		}
	}
	// Calls of many goroutines share one connection and are pipelined by the library.
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			for range 40 {
				client.Do(ctx, client.B().Incr().Key("together").Build())
			}
		})
	}
	group.Wait()
	w.equal("sum", text(client, "GET", "together"), "2000")
	return w.err
}

func transaction(client rueidis.Client) error {
	var w want
	text(client, "SET", "t", "1")
	attempt := func(conflict bool) (rueidis.RedisMessage, error) {
		connection, release := client.Dedicate()
		defer release()
		connection.Do(ctx, connection.B().Watch().Key("t").Build())
		if conflict {
			text(client, "SET", "t", "5")
		}
		replies := connection.DoMulti(ctx,
			connection.B().Multi().Build(),
			connection.B().Incr().Key("t").Build(),
			connection.B().Get().Key("t").Build(),
			connection.B().Exec().Build())
		return replies[3].ToMessage()
	}
	_, err := attempt(true)
	w.that("EXEC after a conflict is null", rueidis.IsRedisNil(err))
	reply, err := attempt(false)
	w.ok("EXEC", err)
	values, err := reply.ToArray()
	w.ok("replies of EXEC", err)
	if w.err == nil {
		sum, _ := values[0].AsInt64()
		text, _ := values[1].ToString()
		w.equal("EXEC", fmt.Sprint(sum, " ", text), "6 6")
	}
	return w.err
}

func messages(client rueidis.Client) error {
	var w want
	other := connect(nil)
	defer other.Close()
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	received := make(chan string, 100)
	go client.Receive(waiting, client.B().Subscribe().Channel("news").Build(), func(m rueidis.PubSubMessage) {
		received <- m.Message
	})
	go client.Receive(waiting, client.B().Psubscribe().Pattern("new?").Build(), func(m rueidis.PubSubMessage) {
		received <- m.Pattern + " " + m.Message
	})
	publish := other.B().Publish().Channel("news").Message("first").Build().Pin()
	w.that("PUBLISH reaches both", eventually(func() bool {
		n, _ := other.Do(ctx, publish).AsInt64()
		return n == 2
	}))
	for _, message := range []string{"second", "third"} {
		text(other, "PUBLISH", "news", message)
	}
	var direct, matched []string
	for len(direct) == 0 || direct[len(direct)-1] != "third" || len(matched) == 0 || matched[len(matched)-1] != "new? third" {
		select {
		case message := <-received:
			if strings.HasPrefix(message, "new? ") {
				matched = append(matched, message)
			} else {
				direct = append(direct, message)
			}
		case <-waiting.Done():
			w.that(fmt.Sprint("messages: ", direct, matched), false)
			return w.err
		}
	}
	w.equal("order", direct[len(direct)-2:], []string{"second", "third"})
	return w.err
}

func script(client rueidis.Client) error {
	var w want
	add := rueidis.NewLuaScript(`return redis.call('INCRBY', KEYS[1], ARGV[1])`)
	for _, expected := range []int64{7, 14} {
		sum, err := add.Exec(ctx, client, []string{"script"}, []string{"7"}).AsInt64()
		w.ok("script", err)
		w.equal("script", sum, expected)
	}
	return w.err
}

func blockingPop(client rueidis.Client) error {
	var w want
	popped := make(chan []string, 1)
	go func() {
		pair, _ := client.Do(ctx, client.B().Blpop().Key("none", "queue").Timeout(10).Build()).AsStrSlice()
		popped <- pair
	}()
	w.that("it waits", eventually(func() bool { return strings.Contains(text(client, "INFO", "clients"), "blocked_clients:1") }))
	text(client, "RPUSH", "queue", "a")
	w.equal("BLPOP", <-popped, []string{"queue", "a"})
	_, err := client.Do(ctx, client.B().Blpop().Key("queue").Timeout(0.05).Build()).ToArray()
	w.that("BLPOP of nothing is null", rueidis.IsRedisNil(err))
	return w.err
}

// cached reads by way of the near cache, and says whether that had it.
func cached(client rueidis.Client, key string) (string, bool) {
	reply := client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Minute)
	value, err := reply.ToString()
	if rueidis.IsRedisNil(err) {
		value = "nil"
	} else if err != nil {
		value = "error: " + err.Error()
	}
	return value, reply.IsCacheHit()
}

func nearCache(client rueidis.Client) error {
	var w want
	other := connect(nil)
	defer other.Close()
	for _, value := range []string{"nil", "1", "2", "3"} {
		if value != "nil" {
			text(other, "SET", "near", value)
			w.that("a change arrives", eventually(func() bool { got, _ := cached(client, "near"); return got == value }))
		}
		got, _ := cached(client, "near")
		w.equal("read", got, value)
		got, hit := cached(client, "near")
		w.equal("read again", got, value)
		w.that("the second read is a hit", hit)
	}
	// Its own changes too.
	text(client, "SET", "near", "4")
	w.that("an own change arrives", eventually(func() bool { got, _ := cached(client, "near"); return got == "4" }))
	cached(client, "near")
	text(other, "FLUSHALL")
	w.that("a flush arrives", eventually(func() bool { got, _ := cached(client, "near"); return got == "nil" }))
	return w.err
}

func nearCacheOfOthers(client rueidis.Client) error {
	var w want
	other := connect(nil)
	defer other.Close()
	text(other, "HSET", "hash", "f", "1", "g", "2")
	field := func() string {
		value, _ := client.DoCache(ctx, client.B().Hget().Key("hash").Field("f").Cache(), time.Minute).ToString()
		return value
	}
	w.equal("HGET", field(), "1")
	text(other, "HINCRBY", "hash", "f", "41")
	w.that("HINCRBY arrives", eventually(func() bool { return field() == "42" }))
	text(other, "HPEXPIRE", "hash", "30", "FIELDS", "1", "f")
	w.that("the end of a field arrives", eventually(func() bool { return field() == "" }))
	text(other, "SET", "brief", "v", "PX", "50")
	cached(client, "brief")
	w.that("the end of a key arrives", eventually(func() bool { got, _ := cached(client, "brief"); return got == "nil" }))
	// Several at once; those that are held are not asked for again.
	text(other, "MSET", "m1", "1", "m2", "2")
	cached(client, "m1")
	values, err := rueidis.MGetCache(client, ctx, time.Minute, []string{"m1", "m2", "m3"})
	w.ok("MGET", err)
	for key, expected := range map[string]string{"m1": "1", "m2": "2"} {
		message := values[key]
		got, _ := message.ToString()
		w.equal(key, got, expected)
	}
	return w.err
}

const (
	keys    = 20
	writers = 4
	readers = 4
	rounds  = 15
)

func nearCacheUnderWrites(rueidis.Client) error {
	return underWrites(nil)
}

func nearCacheByPrefix(rueidis.Client) error {
	return underWrites(func(o *rueidis.ClientOption) {
		o.ClientTrackingOptions = []string{"BCAST", "PREFIX", "k:"}
	})
}

// underWrites lets clients read through their near caches while others write; whenever the writers pause, each cache
// comes to hold what was written last. Values of a key grow, and no reader may see one shrink.
func underWrites(change func(*rueidis.ClientOption)) error {
	var w want
	admin := connect(nil)
	defer admin.Close()
	text(admin, "FLUSHALL")
	var near, far []rueidis.Client
	for range readers {
		near = append(near, connect(change))
	}
	for range writers {
		far = append(far, connect(nil))
	}
	var hits atomic.Int64
	for round := range rounds {
		var writing, reading sync.WaitGroup
		stop := make(chan struct{})
		failures := make(chan error, readers)
		for _, client := range near {
			reading.Go(func() {
				if err := readWhile(client, stop, &hits); err != nil {
					failures <- err
				}
			})
		}
		for _, client := range far {
			writing.Go(func() {
				for range 100 {
					text(client, "INCR", fmt.Sprint("k:", rand.IntN(keys)))
				}
			})
		}
		writing.Wait()
		close(stop)
		reading.Wait()
		select {
		case err := <-failures:
			w.ok(fmt.Sprint("round ", round), err)
		default:
		}
		for key := range keys {
			name := fmt.Sprint("k:", key)
			truth := text(admin, "GET", name)
			for _, client := range near {
				w.that(name+" is stale for ever", w.err != nil || eventually(func() bool {
					got, _ := cached(client, name)
					return got == truth || truth == "redis nil message"
				}))
			}
		}
	}
	w.that("no read was a hit", hits.Load() > 0)
	for _, client := range append(near, far...) {
		client.Close()
	}
	return w.err
}

func readWhile(client rueidis.Client, stop chan struct{}, hits *atomic.Int64) error {
	seen := map[int]int{}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		key := rand.IntN(keys)
		got, hit := cached(client, fmt.Sprint("k:", key))
		if hit {
			hits.Add(1)
		}
		if got == "nil" {
			continue
		}
		n, err := strconv.Atoi(got)
		if err != nil || n < seen[key] {
			return fmt.Errorf("k:%d was %d and is %s", key, seen[key], got)
		}
		seen[key] = n
	}
}
