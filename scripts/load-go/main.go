// A load generator over etcd's official client library, driven by `quorate-lab bench compare --client go`.
//
// Each line on standard input is a phase: `fill`, which writes every key once, or `run MS`, in which every client asks
// again as soon as it has its answer, for so many milliseconds. After a phase one line of JSON says what it came to;
// the line `ready` comes before the first phase, when every connection has had an answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

var (
	endpoints  = flag.String("endpoints", "http://127.0.0.1:2379", "URLs; each connection is to one of them, in turn")
	operation  = flag.String("operation", "put", "put, or get (linearizable)")
	clients    = flag.Int("clients", 1, "clients, each with one call under way")
	conns      = flag.Int("conns", 1, "client objects, each with one connection, that the clients share")
	keyBytes   = flag.Int("key-bytes", 16, "bytes of a key")
	valueBytes = flag.Int("value-bytes", 256, "bytes of a value")
	keySpace   = flag.Int("keys", 10_000, "keys that are chosen from")
	patience   = flag.Duration("timeout", 5*time.Second, "a call that takes longer has failed")
)

// Values are cut from one text at so many different places, so that no two in a row are equal.
const offsets = 4096

// What one client saw in a phase.
type tally struct {
	latenciesNs []int64
	misses      int
	errors      map[string]int
}

// What is printed of a phase.
type result struct {
	Seconds float64        `json:"seconds"`
	Latency latency        `json:"latency"`
	Misses  int            `json:"misses"`
	Errors  map[string]int `json:"errors"`
	CPUUs   int64          `json:"cpu_us"`
}

type latency struct {
	Count  int   `json:"count"`
	MeanNs int64 `json:"mean_ns"`
	P50Ns  int64 `json:"p50_ns"`
	P90Ns  int64 `json:"p90_ns"`
	P99Ns  int64 `json:"p99_ns"`
	P999Ns int64 `json:"p999_ns"`
	MaxNs  int64 `json:"max_ns"`
}

func main() {
	flag.Parse()
	generator, err := connect()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot connect:", err)
		os.Exit(1)
	}
	fmt.Println("ready")
	phases := bufio.NewScanner(os.Stdin)
	for phases.Scan() {
		var out result
		var ms int
		switch text := phases.Text(); {
		case text == "fill":
			out = generator.fill()
		case scan(text, &ms):
			out = generator.run(time.Duration(ms) * time.Millisecond)
		default:
			fmt.Fprintln(os.Stderr, "no phase:", text)
			os.Exit(1)
		}
		line, err := json.Marshal(out)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(string(line))
	}
}

func scan(text string, ms *int) bool {
	_, err := fmt.Sscanf(text, "run %d", ms)
	return err == nil
}

type generator struct {
	connections []*clientv3.Client
	letters     string
}

// Opens every connection and waits until each has had an answer.
func connect() (*generator, error) {
	urls := strings.Split(*endpoints, ",")
	made := &generator{letters: letters(*valueBytes + offsets)}
	for index := range *conns {
		client, err := clientv3.New(clientv3.Config{
			Endpoints:          []string{urls[index%len(urls)]},
			DialTimeout:        *patience,
			MaxCallSendMsgSize: 64 << 20,
			Logger:             zap.NewNop(),
		})
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), *patience)
		_, err = client.Get(ctx, "no such key", clientv3.WithSerializable())
		cancel()
		if err != nil {
			return nil, err
		}
		made.connections = append(made.connections, client)
	}
	return made, nil
}

func letters(count int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	out := make([]byte, count)
	for at := range out {
		out[at] = alphabet[rand.IntN(len(alphabet))]
	}
	return string(out)
}

func key(index int) string {
	return fmt.Sprintf("%0*d", *keyBytes, index)
}

func (g *generator) value(number int) string {
	offset := number % offsets
	return g.letters[offset : offset+*valueBytes]
}

// Writes every key once.
func (g *generator) fill() result {
	var next atomic.Int64
	return g.phase(func(client int, _ *rand.Rand, tally *tally) bool {
		index := int(next.Add(1)) - 1
		if index >= *keySpace {
			return false
		}
		g.call(client, "put", key(index), g.value(index), tally)
		return true
	})
}

// Has every client ask until the time is over.
func (g *generator) run(duration time.Duration) result {
	end := time.Now().Add(duration)
	return g.phase(func(client int, random *rand.Rand, tally *tally) bool {
		if !time.Now().Before(end) {
			return false
		}
		value := ""
		if *operation == "put" {
			value = g.value(random.IntN(offsets))
		}
		g.call(client, *operation, key(random.IntN(*keySpace)), value, tally)
		return true
	})
}

func (g *generator) call(client int, operation, key, value string, tally *tally) {
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	connection := g.connections[client%len(g.connections)]
	began := time.Now()
	var err error
	if operation == "put" {
		_, err = connection.Put(ctx, key, value)
	} else {
		var got *clientv3.GetResponse
		if got, err = connection.Get(ctx, key); err == nil && len(got.Kvs) == 0 {
			tally.misses++
		}
	}
	if err != nil {
		tally.errors[err.Error()]++
		return
	}
	tally.latenciesNs = append(tally.latenciesNs, time.Since(began).Nanoseconds())
}

// Has every client take steps until there is none left for it.
func (g *generator) phase(step func(client int, random *rand.Rand, tally *tally) bool) result {
	tallies := make([]tally, *clients)
	var all sync.WaitGroup
	cpuUs, began := usedUs(), time.Now()
	for client := range *clients {
		all.Add(1)
		go func() {
			defer all.Done()
			own := tally{errors: map[string]int{}}
			random := rand.New(rand.NewPCG(uint64(client), uint64(began.UnixNano())))
			for step(client, random, &own) {
			}
			tallies[client] = own
		}()
	}
	all.Wait()
	out := result{Seconds: time.Since(began).Seconds(), CPUUs: usedUs() - cpuUs, Errors: map[string]int{}}
	var latenciesNs []int64
	for _, one := range tallies {
		latenciesNs = append(latenciesNs, one.latenciesNs...)
		out.Misses += one.misses
		for text, count := range one.errors {
			out.Errors[text] += count
		}
	}
	out.Latency = summary(latenciesNs)
	return out
}

// CPU time that this process has used, in microseconds.
func usedUs() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return (usage.Utime.Nano() + usage.Stime.Nano()) / 1000
}

func summary(ns []int64) latency {
	if len(ns) == 0 {
		return latency{}
	}
	slices.Sort(ns)
	var sum int64
	for _, one := range ns {
		sum += one
	}
	at := func(quantile float64) int64 { return ns[int(quantile*float64(len(ns)-1))] }
	return latency{
		Count: len(ns), MeanNs: sum / int64(len(ns)),
		P50Ns: at(0.5), P90Ns: at(0.9), P99Ns: at(0.99), P999Ns: at(0.999), MaxNs: ns[len(ns)-1],
	}
}
