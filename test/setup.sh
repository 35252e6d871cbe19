#!/usr/bin/env bash
# setup.sh : what `make test` needs beyond Go. As root on Debian it installs what is missing; else it
# names what to type, and fails. What is there already is left as it is.
#
#   Debian  openjdk-17-jdk-headless maven postgresql kcat curl nodejs npm python3-venv openssl exim4-daemon-light chromium
#   PyPI    confluent-kafka, cloudevents, schemathesis, and for clients/python httpx, prometheus-client, pytest, mypy
#           and hatchling, in $SVC_CACHE/venv
#           duckdb, polars, pyarrow and pytz, in $SVC_CACHE/venv-data
#           pyiceberg and sqlalchemy, in $SVC_CACHE/venv-iceberg
#   npm     kafkajs, cloudevents, @asyncapi/parser and axe-core, in $SVC_CACHE/node
#   Maven   the jars of Kafka and Cassandra, in $SVC_CACHE; what clients/java is built with, in $SVC_CACHE/maven
#   promtool, unpacked from Debian's prometheus into $SVC_CACHE/bin without its service
. "$(dirname "${BASH_SOURCE[0]}")/services/common.sh"
CONFLUENT_KAFKA=2.6.1 CLOUDEVENTS=2.2.0 SCHEMATHESIS=4.32.5 HTTPX=0.28.1 PYTEST=9.2.0 MYPY=2.4.1 HATCHLING=1.33.0
PROMETHEUS_CLIENT=0.26.0
DUCKDB=2.0.1 POLARS=2.1.0 PYARROW=26.0.1 PYTZ=2026.6
PYICEBERG=0.12.0 SQLALCHEMY=2.1.9
KAFKAJS=2.2.4 CLOUDEVENTS_JS=10.0.0 ASYNCAPI_PARSER=3.6.3 AXE_CORE=4.14.1
missing=() failed=0

main() {
  mkdir -p "$SVC_CACHE/bin"
  exec 9> "$SVC_CACHE/setup.lock" # two at once would install into the same directories
  ! command -v flock > /dev/null || flock 9
  need "Go 1.26 or newer (https://go.dev/dl)" command -v go
  install_packages
  # One beside the other, because they wait for the network.
  local rest=(get_promtool get_python_packages get_data_packages get_iceberg_packages get_node_packages)
  [ ${#missing[@]} -gt 0 ] || rest+=(get_jars get_maven_packages)
  together "${rest[@]}"
  report
}

# together FUNCTION... : runs them at once, and notes what any of them missed.
together() {
  local notes f job; notes=$(mktemp -d)
  # Process groups of their own: interrupted, this ends them with all that they run.
  trap 'for job in $(jobs -p); do kill -- "-$job" 2> /dev/null; done' EXIT
  trap 'exit 130' INT TERM
  set -m
  for f in "$@"; do
    (missing=(); "$f"; [ ${#missing[@]} -eq 0 ] || printf '%s\n' "${missing[@]}" > "$notes/$f") < /dev/null &
  done
  set +m
  for job in $(jobs -p); do wait "$job" || failed=1; done
  for f in "$@"; do
    if [ -f "$notes/$f" ]; then mapfile -t -O ${#missing[@]} missing < "$notes/$f"; fi
  done
  rm -rf "$notes"
}

# need DESCRIPTION COMMAND... : notes it as missing unless the command succeeds.
need() { local what=$1; shift; "$@" >/dev/null 2>&1 || missing+=("$what"); }

may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# --- Debian ----------------------------------------------------------------

has_postgres() { ls /usr/lib/postgresql/*/bin/initdb; }
has_venv() { python3 -c 'import venv, ensurepip'; }

# wanted : Debian packages of what is not there, however it might have come.
wanted() {
  command -v "$JAVA" >/dev/null && command -v "${JAVA%java}javac" >/dev/null || echo openjdk-17-jdk-headless
  command -v mvn >/dev/null || echo maven
  command -v kcat >/dev/null || echo kcat
  command -v curl >/dev/null || echo curl
  command -v node >/dev/null || echo nodejs
  command -v npm >/dev/null || echo npm
  command -v openssl >/dev/null || echo openssl
  has_venv >/dev/null 2>&1 || echo python3-venv
  has_postgres >/dev/null 2>&1 || echo postgresql
  command -v chromium >/dev/null || echo chromium
  [ -x /usr/sbin/exim4 ] || command -v exim4 >/dev/null || echo exim4-daemon-light
}

install_packages() {
  local packages; mapfile -t packages < <(wanted)
  [ ${#packages[@]} -gt 0 ] || return 0
  if ! may_install; then missing+=("apt-get install -y ${packages[*]}"); return; fi
  say "installing ${packages[*]}"
  # RUNLEVEL=1: Debian starts no service of its own at installation.
  apt_get update
  RUNLEVEL=1 apt_get install -y --no-install-recommends "${packages[@]}" || missing+=("apt-get install -y ${packages[*]}")
}

apt_get() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >&2; }

get_promtool() {
  if command -v promtool >/dev/null || [ -x "$SVC_CACHE/bin/promtool" ]; then return 0; fi
  local hint="promtool: apt-get install -y prometheus"
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { missing+=("$hint"); return 0; }
  say "fetching promtool"
  local tmp; tmp=$(mktemp -d)
  if (cd "$tmp" && { apt-get -qq download prometheus || { may_install && apt_get update && apt-get -qq download prometheus; }; }) >&2 \
    && dpkg-deb -x "$tmp"/prometheus_*.deb "$tmp"; then
    mv "$tmp/usr/bin/promtool" "$SVC_CACHE/bin/"
  else
    missing+=("$hint")
  fi
  rm -rf "$tmp"
}

# --- clients and tools in other languages --------------------------------------------------

get_python_packages() {
  local venv="$SVC_CACHE/venv" wanted=("confluent-kafka==$CONFLUENT_KAFKA" "cloudevents==$CLOUDEVENTS"
    "schemathesis==$SCHEMATHESIS" "httpx==$HTTPX" "pytest==$PYTEST" "mypy==$MYPY" "hatchling==$HATCHLING"
    "prometheus-client==$PROMETHEUS_CLIENT")
  ! "$venv/bin/python" -c 'import confluent_kafka, cloudevents, schemathesis, httpx, pytest, mypy, hatchling, prometheus_client' \
    2>/dev/null || return 0
  say "installing ${wanted[*]} into $venv"
  rm -rf "$venv"
  if python3 -m venv "$venv" >&2 && "$venv/bin/pip" install -q --only-binary :all: "${wanted[@]}" >&2; then return 0; fi
  missing+=("python3 -m venv $venv && $venv/bin/pip install ${wanted[*]}")
}

# Programs that read what events export writes; DuckDB returns instants only with pytz.
get_data_packages() {
  local venv="$SVC_CACHE/venv-data" wanted=("duckdb==$DUCKDB" "polars==$POLARS" "pyarrow==$PYARROW" "pytz==$PYTZ")
  ! "$venv/bin/python" -c 'import duckdb, polars, pyarrow, pytz' 2>/dev/null || return 0
  say "installing ${wanted[*]} into $venv"
  rm -rf "$venv"
  if python3 -m venv "$venv" >&2 && "$venv/bin/pip" install -q --only-binary :all: "${wanted[@]}" >&2; then return 0; fi
  missing+=("python3 -m venv $venv && $venv/bin/pip install ${wanted[*]}")
}

# A program that registers what events export writes as an Iceberg table.
get_iceberg_packages() {
  local venv="$SVC_CACHE/venv-iceberg" wanted=("pyiceberg==$PYICEBERG" "sqlalchemy==$SQLALCHEMY" "pyarrow==$PYARROW")
  ! "$venv/bin/python" -c 'import pyiceberg, sqlalchemy, pyarrow' 2>/dev/null || return 0
  say "installing ${wanted[*]} into $venv"
  rm -rf "$venv"
  if python3 -m venv "$venv" >&2 && "$venv/bin/pip" install -q --only-binary :all: "${wanted[@]}" >&2; then return 0; fi
  missing+=("python3 -m venv $venv && $venv/bin/pip install ${wanted[*]}")
}

get_node_packages() {
  local dir="$SVC_CACHE/node" wanted=("kafkajs@$KAFKAJS" "cloudevents@$CLOUDEVENTS_JS" "@asyncapi/parser@$ASYNCAPI_PARSER"
    "axe-core@$AXE_CORE") name
  for name in kafkajs cloudevents @asyncapi/parser axe-core; do [ -d "$dir/node_modules/$name" ] || break; name=; done
  [ -n "$name" ] || return 0
  say "installing ${wanted[*]} into $dir"
  mkdir -p "$dir"
  npm install --silent --no-audit --no-fund --prefix "$dir" "${wanted[@]}" >&2 \
    || missing+=("npm install --prefix $dir ${wanted[*]}")
}

get_jars() {
  "$HERE/fetch.sh" kafka cassandra > /dev/null
  "$HERE/kafka.sh" classes
}

# One test is run, because surefire fetches what it needs only then. test/java works without a network after it.
get_maven_packages() {
  local java="$HERE/../../clients/java" repo="$SVC_CACHE/maven" stamp tmp
  stamp="$repo/.have-$(cksum < "$java/pom.xml" | cut -d' ' -f1)"
  [ ! -e "$stamp" ] || return 0
  say "fetching what clients/java is built with into $repo"
  tmp=$(mktemp -d)
  if mvn -B -ntp -q -f "$java/pom.xml" "-Dmaven.repo.local=$repo" "-Dbuild.dir=$tmp" -Dtest=PureTest test >&2; then
    touch "$stamp"
  else
    missing+=("mvn -f clients/java/pom.xml -Dmaven.repo.local=$repo -Dtest=PureTest test")
  fi
  rm -rf "$tmp"
}

report() {
  if [ ${#missing[@]} -eq 0 ]; then
    [ $failed = 0 ] || exit 1 # what failed has said why
    say "everything that the tests need is here"; return 0
  fi
  echo "The tests need what is not here. Type, as root where it is apt-get:" >&2
  printf '    %s\n' "${missing[@]}" >&2
  exit 1
}

main
