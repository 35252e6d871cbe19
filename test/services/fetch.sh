#!/usr/bin/env bash
# fetch.sh kafka|cassandra... : puts the jars of a real node into $SVC_CACHE, from Maven
# Central or the mirror that ~/.m2/settings.xml names, if they are not there, and prints
# JARS=directory for each.
. "$(dirname "$0")/common.sh"
PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies

# What must be among the jars: a missing one shows itself only as a node that logs nothing, or does not start.
must_have() {
  case $1 in
    kafka) echo "kafka_2.13- kafka-server-[0-9] kafka-clients- log4j-core- log4j-slf4j-impl- slf4j-api-1.7 jackson-databind-" ;;
    cassandra) echo "cassandra-all- jamm- logback-classic-" ;;
  esac
}

fetch() {
  local what=$1 version=$2 out="$SVC_CACHE/$1-$2" new="$SVC_CACHE/.$1-$2.$$"
  mkdir -p "$SVC_CACHE"
  exec 9> "$SVC_CACHE/.$what.lock"; flock 9 # two test binaries may want them at once
  if [ -d "$out" ]; then echo "JARS=$out"; return 0; fi
  command -v mvn >/dev/null || die "no Maven to fetch $what with: type  apt-get install -y maven"
  say "fetching $what $version"
  rm -rf "$new"
  mvn -B -ntp -q -f "$HERE/pom-$what.xml" "-D$what.version=$version" "$PLUGIN" -DincludeScope=runtime -DoutputDirectory="$new" 9>&- \
    || die "Maven could not fetch $what $version"
  local jar
  for jar in $(must_have "$what"); do ls "$new" | grep -q "^$jar" || die "$what $version came without $jar*.jar"; done
  mv "$new" "$out"
  echo "JARS=$out"
  say "$what $version: $(ls "$out" | wc -l) jars, $(du -sh "$out" | cut -f1)"
}

for what in "$@"; do
  case $what in
    kafka) fetch kafka "$KAFKA_VERSION" ;;
    cassandra) fetch cassandra "$CASSANDRA_VERSION" ;;
    *) die "usage: fetch.sh kafka|cassandra..." ;;
  esac
done
