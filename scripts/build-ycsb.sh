#!/usr/bin/env bash
# Builds a public YCSB client with its etcd driver (github.com/pingcap/go-ycsb, as a library) into
# target/ycsb: the same workloads as `quorate-lab bench ycsb`, by somebody else's code.
#
#   scripts/build-ycsb.sh
#   target/ycsb/ycsb load -p etcd.endpoints=localhost:2379 -p recordcount=100 -p fieldcount=1 -p fieldlength=1024
#   target/ycsb/ycsb run -p etcd.endpoints=localhost:2379 -p recordcount=100 -p operationcount=10000 \
#     -p threadcount=16 -p readproportion=0.5 -p updateproportion=0.5 -p requestdistribution=zipfian
#
# Needs Go and access to a Go module proxy.
set -euo pipefail

readonly version=v1.0.1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly out="${CARGO_TARGET_DIR:-$root/target}/ycsb"

if ! command -v go >/dev/null; then
  echo "build-ycsb: the 'go' command is not installed" >&2
  exit 1
fi

module=$(mktemp -d)
trap 'rm -rf "$module"' EXIT
cd "$module"
cat >go.mod <<MOD
module ycsb
go 1.23
require github.com/pingcap/go-ycsb $version
MOD
# The client's own program links the drivers of some twenty stores; this one is enough here.
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/magiconair/properties"
	_ "github.com/pingcap/go-ycsb/db/etcd"
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	_ "github.com/pingcap/go-ycsb/pkg/workload"
	"github.com/pingcap/go-ycsb/pkg/ycsb"
)

func fail(what any) {
	fmt.Fprintln(os.Stderr, "ycsb:", what)
	os.Exit(1)
}

func main() {
	if len(os.Args) < 2 || (os.Args[1] != "load" && os.Args[1] != "run") {
		fail("usage: ycsb load|run [-p name=value]...")
	}
	props := properties.NewProperties()
	props.Set(prop.DoTransactions, fmt.Sprint(os.Args[1] == "run"))
	props.Set(prop.Command, os.Args[1])
	for at := 2; at < len(os.Args); at++ {
		name, value, found := strings.Cut(os.Args[at], "=")
		switch {
		case os.Args[at] == "-p":
		case found:
			props.Set(name, value)
		default:
			fail("not name=value: " + os.Args[at])
		}
	}
	measurement.InitMeasure(props)
	workload, err := ycsb.GetWorkloadCreator("core").Create(props)
	if err != nil {
		fail(err)
	}
	db, err := ycsb.GetDBCreator("etcd").Create(props)
	if err != nil {
		fail(err)
	}
	began := time.Now()
	client.NewClient(props, workload, client.DbWrapper{DB: db}).Run(context.Background())
	fmt.Printf("took %.3f s\n", time.Since(began).Seconds())
	measurement.Output()
	db.Close()
	workload.Close()
}
GO
export GOFLAGS=-mod=mod
mkdir -p "$out"
CGO_ENABLED=0 go build -trimpath -o "$out/ycsb" .
echo "built $out/ycsb"
