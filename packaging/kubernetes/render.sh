#!/usr/bin/env bash
# Makes the plain manifests from the chart; with --check it only says whether they are what the chart renders. It takes
# helm.
set -euo pipefail
cd "$(dirname "$0")"
check=${1:-}
render() { # FILE FLAGS...
  local file=$1
  shift
  {
    echo "# Made by packaging/kubernetes/render.sh from packaging/helm/quorate."
    helm template quorate ../helm/quorate --namespace default --kube-version 1.28.0 "$@" | sed '/^# Source:/d'
  } >"$file.new"
  if [ "$check" = --check ]; then
    cmp "$file.new" "$file"
    rm "$file.new"
  else
    mv "$file.new" "$file"
  fi
}
render three.yaml
render five.yaml --set replicas=5
render three-tls.yaml --set tls.secretName=quorate-tls
