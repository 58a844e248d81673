# shellcheck shell=bash
# Shared by the scripts of this folder: their options, and what is known of the program. To be sourced.

usage() { # OPTIONS-LINE
  echo "usage: $0 --program PATH [--out DIR] [--version VERSION]${1:+ $1}" >&2
  exit 2
}

# Reads --program, --out and --version; what else there is goes into `rest`.
read_options() {
  program='' out=target/packages version='' rest=()
  while [ $# -gt 0 ]; do
    case "$1" in
    --program) program=${2:-} ;;
    --out) out=${2:-} ;;
    --version) version=${2:-} ;;
    *)
      rest+=("$1")
      shift
      continue
      ;;
    esac
    shift 2 || usage ''
  done
  [ -n "$program" ] || usage "${extra_options:-}"
  [ -x "$program" ] || { echo "$program is no program" >&2 && exit 1; }
  : "${version:=$("$program" --version | sed -n '1s/^quorate //p')}"
  mkdir -p "$out"
}

# The program's machine, by the names of Linux, of Debian and of images.
machine() {
  case "$(readelf -h "$program" | sed -n 's/ *Machine: *//p')" in
  *X86-64*) echo x86_64 amd64 amd64 ;;
  *AArch64*) echo aarch64 arm64 arm64 ;;
  *) echo "packages are made for x86-64 and aarch64" >&2 && return 1 ;;
  esac
}

# Whether the program needs no library of the machine that it runs on, as seen by ldd and in a folder without any.
must_be_static() {
  local said
  said=$(ldd "$program" 2>&1 || true)
  case "$said" in
  *'not a dynamic executable'* | *'statically linked'*) ;;
  *)
    echo "$program needs libraries of the machine: build it for the target $(uname -m)-unknown-linux-musl" >&2
    return 1
    ;;
  esac
  local empty
  empty=$(mktemp -d)
  install -m 0755 "$program" "$empty/quorate"
  said=$(chroot "$empty" /quorate --version | head -1) || said=failed
  rm -rf "$empty"
  case "$said" in
  'quorate '*) ;;
  *) echo "$program does not run in an empty folder" >&2 && return 1 ;;
  esac
}

# Manual pages and completions, made by the program itself: TREE PREFIX.
add_texts() {
  local share=$1/$2
  "$program" man --into "$share/man/man1"
  gzip -9n "$share"/man/man1/*.1
  mkdir -p "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
  "$program" completions bash >"$share/bash-completion/completions/quorate"
  "$program" completions zsh >"$share/zsh/vendor-completions/_quorate"
  "$program" completions fish >"$share/fish/vendor_completions.d/quorate.fish"
}

# What watches a cluster, alerts for Prometheus and a dashboard for Grafana, into a folder.
add_watching() {
  install -D -m 0644 -t "$1/prometheus" "$here/prometheus/alerts.yaml"
  install -D -m 0644 -t "$1/grafana" "$here/grafana/quorate.json"
}

# An archive of a folder that is the same whenever the folder is: OPTIONS... of tar.
same_tar() { tar --sort=name --mtime=@0 --format=gnu "$@"; }
