// Drives a Redis client of Go for `petrel-bench client`: reads an order as its only argument and
// prints what it measured, both as JSON.
//
// Every task (a goroutine) sends a command, waits for the reply and sends the next. Tasks warm up,
// then all operations count until the time is over.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	v8 "github.com/go-redis/redis/v8"
	v9 "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Order says what to measure.
type Order struct {
	Client       string `json:"client"`
	Address      string `json:"address"`
	Operation    string `json:"operation"`
	Value        int    `json:"value"`
	Keys         int    `json:"keys"`
	Tasks        int    `json:"tasks"`
	Threads      int    `json:"threads"`
	Milliseconds int    `json:"milliseconds"`
}

// Answer says what was measured; times in nanoseconds.
type Answer struct {
	Operations         uint64 `json:"operations"`
	Nanoseconds        uint64 `json:"nanoseconds"`
	CpuNanoseconds     uint64 `json:"cpu_nanoseconds"`
	CountedOperations  uint64 `json:"counted_operations"`
	CountedAllocations uint64 `json:"counted_allocations"`
	CountedBytes       uint64 `json:"counted_bytes"`
	Failure            string `json:"failure,omitempty"`
}

// exchange sends one command for the key and checks its reply.
type exchange func(key string) error

const (
	warmingUp = iota
	measuring
	over
)

const warmUp = 100 * time.Millisecond

func main() {
	var order Order
	if len(os.Args) != 2 {
		fail("the order, as JSON, should be the only argument")
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &order); err != nil {
		fail(err.Error())
	}
	runtime.GOMAXPROCS(order.Threads)
	send, err := connect(order)
	if err != nil {
		fail(err.Error())
	}
	answer, err := run(order, send)
	if err != nil {
		fail(err.Error())
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fail(err.Error())
	}
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

func run(order Order, send exchange) (Answer, error) {
	keys := make([]string, order.Keys)
	for n := range keys {
		keys[n] = fmt.Sprintf("key:%012d", n)
	}
	if order.Operation == "near" {
		for _, key := range keys {
			if err := send(key); err != nil {
				return Answer{}, err
			}
		}
	}
	var phase atomic.Int32
	var operations atomic.Uint64
	var failure atomic.Pointer[error]
	var tasks sync.WaitGroup
	for task := range order.Tasks {
		random := rand.New(rand.NewPCG(uint64(task), 1))
		tasks.Go(func() {
			counted := uint64(0)
			for now := phase.Load(); now != over; now = phase.Load() {
				key := keys[0]
				if len(keys) > 1 {
					key = keys[random.IntN(len(keys))]
				}
				if err := send(key); err != nil {
					failure.Store(&err)
					break
				}
				if now == measuring {
					counted++
				}
			}
			operations.Add(counted)
		})
	}
	time.Sleep(warmUp)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, begin := cpuTime(), time.Now()
	phase.Store(measuring)
	time.Sleep(time.Duration(order.Milliseconds) * time.Millisecond)
	phase.Store(over)
	took, cpu := time.Since(begin), cpuTime()-cpu
	runtime.ReadMemStats(&after)
	tasks.Wait()
	if err := failure.Load(); err != nil {
		return Answer{}, *err
	}
	return Answer{
		Operations:         operations.Load(),
		Nanoseconds:        uint64(took),
		CpuNanoseconds:     uint64(cpu),
		CountedOperations:  operations.Load(),
		CountedAllocations: after.Mallocs - before.Mallocs,
		CountedBytes:       after.TotalAlloc - before.TotalAlloc,
	}, nil
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err.Error())
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func connect(order Order) (exchange, error) {
	value := strings.Repeat("x", order.Value)
	switch order.Client {
	case "rueidis":
		return connectRueidis(order, value)
	case "go-redis-8":
		return connectGoRedis8(order, value)
	case "go-redis-9", "go-redis-9-auto":
		return connectGoRedis9(order, value)
	}
	return nil, fmt.Errorf("no client is named %s", order.Client)
}

func checkLength(order Order, got int) error {
	if got != order.Value {
		return fmt.Errorf("a value of %d bytes instead of %d", got, order.Value)
	}
	return nil
}

// connectRueidis uses one connection, as the published table does.
func connectRueidis(order Order, value string) (exchange, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{order.Address},
		PipelineMultiplex: -1,
		DisableCache:      order.Operation != "near",
	})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	switch order.Operation {
	case "set":
		return func(key string) error {
			return client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
		}, nil
	case "near":
		return func(key string) error {
			command := client.B().Get().Key(key).Cache()
			got, err := client.DoCache(ctx, command, time.Hour).ToString()
			if err != nil {
				return err
			}
			return checkLength(order, len(got))
		}, nil
	}
	return func(key string) error {
		got, err := client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
		if err != nil {
			return err
		}
		return checkLength(order, len(got))
	}, nil
}

func connectGoRedis8(order Order, value string) (exchange, error) {
	client := v8.NewClient(&v8.Options{Addr: order.Address})
	ctx := context.Background()
	if order.Operation == "set" {
		return func(key string) error { return client.Set(ctx, key, value, 0).Err() }, nil
	}
	return func(key string) error {
		got, err := client.Get(ctx, key).Result()
		if err != nil {
			return err
		}
		return checkLength(order, len(got))
	}, nil
}

func connectGoRedis9(order Order, value string) (exchange, error) {
	client := v9.NewClient(&v9.Options{Addr: order.Address})
	var commands interface {
		Set(ctx context.Context, key string, value any, expiration time.Duration) *v9.StatusCmd
		Get(ctx context.Context, key string) *v9.StringCmd
	} = client
	if order.Client == "go-redis-9-auto" {
		auto, err := client.AutoPipeline()
		if err != nil {
			return nil, err
		}
		commands = auto
	}
	ctx := context.Background()
	if order.Operation == "set" {
		return func(key string) error { return commands.Set(ctx, key, value, 0).Err() }, nil
	}
	return func(key string) error {
		got, err := commands.Get(ctx, key).Result()
		if err != nil {
			return err
		}
		return checkLength(order, len(got))
	}, nil
}
