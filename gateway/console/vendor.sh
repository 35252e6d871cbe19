#!/usr/bin/env bash
# vendor.sh : fetches what assets/vendor has from npm's registry, and checks it before it is put there. htm-preact.js is
# both libraries in one file, as htm publishes it. It does not say which Preact is in it: 10.5.14 is nearest, and its
# notice is that of all releases of 10. Another version: change it here, and the checksums in vendor.sha256.
set -euo pipefail
HTM=3.1.1 PREACT=10.5.14

cd "$(dirname "${BASH_SOURCE[0]}")"
new=$(mktemp -d); trap 'rm -rf "$new"' EXIT
mkdir "$new/htm" "$new/preact" "$new/vendor"
(cd "$new" && npm pack --silent "htm@$HTM" "preact@$PREACT" > /dev/null)
tar -xzf "$new/htm-$HTM.tgz" -C "$new/htm" --strip-components 1
tar -xzf "$new/preact-$PREACT.tgz" -C "$new/preact" --strip-components 1
cp "$new/htm/preact/standalone.module.js" "$new/vendor/htm-preact.js"
cp "$new/htm/LICENSE" "$new/vendor/LICENSE.htm"
cp "$new/preact/LICENSE" "$new/vendor/LICENSE.preact"
sums=$PWD/vendor.sha256
(cd "$new/vendor" && sha256sum --check --strict "$sums")
install -m 644 "$new/vendor/"* assets/vendor/
