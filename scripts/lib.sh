# shellcheck shell=bash
# What the scripts beside this file share. Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
me=scripts/$(basename "$0")

note() { printf '%s: %s\n' "$me" "$*"; }

die() {
  printf '%s: %s\n' "$me" "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# usage prints the comment that opens the script, which is its manual.
usage() {
  awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"
}

# pg_bin prints the folder of the newest PostgreSQL server programs. Debian
# keeps them off the PATH.
pg_bin() {
  local d best=
  for d in /usr/lib/postgresql/*/bin; do
    [[ -x $d/initdb && -x $d/postgres ]] || continue
    if [[ -z $best ]] || (($(pg_major "$d") > $(pg_major "$best"))); then
      best=$d
    fi
  done
  if [[ -z $best ]] && have initdb && have postgres; then
    best=$(dirname "$(command -v initdb)")
  fi
  [[ -n $best ]] && printf '%s\n' "$best"
}

# pgbouncer_bin prints the path of PgBouncer, which Debian keeps in a folder
# that only root has on its PATH.
pgbouncer_bin() { command -v pgbouncer || { [[ -x /usr/sbin/pgbouncer ]] && echo /usr/sbin/pgbouncer; }; }

pg_major() {
  local v
  v=$(basename "$(dirname "$1")")
  [[ $v =~ ^[0-9]+ ]] && printf '%s\n' "${BASH_REMATCH[0]}" || echo 0
}

# list_tests REGEXP PACKAGE… prints "package name" for each test, benchmark or
# fuzz target whose name matches.
list_tests() {
  local regexp=$1 listed
  shift
  listed=$(go test -list "$regexp" "$@") || { printf '%s\n' "$listed" >&2 && return 1; }
  awk '$1 == "ok" { while (n > 0) print $2, name[n--] } NF == 1 { name[++n] = $1 }' <<<"$listed"
}

# borrow_services starts the servers that do not run yet. The script calls
# return_services in its EXIT trap, which stops those and only those.
borrowed=()
borrow_services() {
  local name
  for name in redis redis-cluster postgres pgbouncer s3 s3-rclone; do
    "$root/scripts/services" status "$name" >/dev/null 2>&1 || borrowed+=("$name")
  done
  "$root/scripts/services" start
}

return_services() {
  trap '' INT TERM HUP
  ((${#borrowed[@]} == 0)) || "$root/scripts/services" stop "${borrowed[@]}"
}
