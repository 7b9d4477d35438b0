package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// followsPrimary is the case where a sentinel watches: the client follows when the primary is killed. PETREL_SENTINEL is the
// sentinel's port, PETREL_PRIMARY_PID the primary's process; the servers go by the name `petrel`.
func followsPrimary() error {
	const writes, patience = 50, 45 * time.Second
	sentinel := "127.0.0.1:" + os.Getenv("PETREL_SENTINEL")
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "petrel", SentinelAddrs: []string{sentinel}})
	defer client.Close()
	watcher := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
	defer watcher.Close()
	before, err := watcher.GetMasterAddrByName(ctx, "petrel").Result()
	if err != nil {
		return err
	}
	for number := range writes {
		if err := client.Set(ctx, "last", number, 0).Err(); err != nil {
			return err
		}
	}
	// The connection that wrote is the one that waits: there is only this one.
	if count, err := client.Wait(ctx, 1, 10*time.Second).Result(); err != nil || count != 1 {
		return fmt.Errorf("WAIT: %d, %v", count, err)
	}
	pid, err := strconv.Atoi(os.Getenv("PETREL_PRIMARY_PID"))
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := client.Set(ctx, "after", 1, 0).Err()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no write after %s: %w", patience, err)
		}
	}
	after, err := watcher.GetMasterAddrByName(ctx, "petrel").Result()
	if err != nil {
		return err
	}
	if after[1] == before[1] {
		return fmt.Errorf("the primary is still %v", after)
	}
	role, err := client.Do(ctx, "ROLE").Slice()
	if err != nil || role[0] != "master" {
		return fmt.Errorf("ROLE: %v, %v", role, err)
	}
	if last, err := client.Get(ctx, "last").Int(); err != nil || last != writes-1 {
		return fmt.Errorf("last is %d, %v", last, err)
	}
	return nil
}
