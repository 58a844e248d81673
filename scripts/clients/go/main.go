// Puts in batches through etcd's official client; ../README.md says what is read and printed. With --hasty as the first
// argument, servers are told of less time than the calls have.
package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func main() {
	arguments := os.Args[1:]
	withDeadline := withTimeout
	if arguments[0] == "--hasty" {
		arguments = arguments[1:]
		withDeadline = withHastyServer
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   strings.Split(arguments[0], ","),
		DialTimeout: 5 * time.Second,
		// Each repeated call would be a line.
		Logger: zap.NewNop(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot connect:", err)
		os.Exit(1)
	}
	batches := bufio.NewScanner(os.Stdin)
	for batches.Scan() {
		var prefix string
		var count, spread, least, most int
		if _, err := fmt.Sscan(batches.Text(), &prefix, &count, &spread, &least, &most); err != nil {
			fmt.Fprintln(os.Stderr, "no batch:", err)
			os.Exit(1)
		}
		for outcome, times := range batch(client, withDeadline, prefix, count, spread, least, most) {
			fmt.Printf("%d\t%s\n", times, outcome)
		}
		fmt.Println()
	}
}

// Puts count keys, each at a moment of its own, and counts how the calls ended.
func batch(
	client *clientv3.Client,
	withDeadline func(time.Duration) (context.Context, context.CancelFunc),
	prefix string,
	count, spreadMs, leastMs, mostMs int,
) map[string]int {
	var lock sync.Mutex
	var all sync.WaitGroup
	outcomes := make(map[string]int)
	for number := range count {
		all.Add(1)
		go func() {
			defer all.Done()
			time.Sleep(time.Duration(rand.Intn(spreadMs+1)) * time.Millisecond)
			allowed := time.Duration(leastMs+rand.Intn(mostMs-leastMs+1)) * time.Millisecond
			ctx, cancel := withDeadline(allowed)
			defer cancel()
			outcome := "ok"
			if _, err := client.Put(ctx, fmt.Sprint(prefix, number), "v"); err != nil {
				outcome = strings.ReplaceAll(err.Error(), "\n", " ")
			}
			lock.Lock()
			defer lock.Unlock()
			outcomes[outcome]++
		}()
	}
	all.Wait()
	return outcomes
}

func withTimeout(allowed time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), allowed)
}

// hasteShare is the share of a call's time that the server is told of.
const hasteShare = 0.95

// hastyContext tells a server less time than it has. Between two machines the time left for a call is never the same:
// one that was paused, or whose timers are late, counts less of it. A server that answers when its own count
// is over finds the caller waiting and able to repeat the call.
type hastyContext struct {
	context.Context
	end time.Time
}

func (c hastyContext) Deadline() (time.Time, bool) {
	left := time.Until(c.end)
	return time.Now().Add(time.Duration(float64(left) * hasteShare)), true
}

func withHastyServer(allowed time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), allowed)
	return hastyContext{ctx, time.Now().Add(allowed)}, cancel
}
