#!/usr/bin/env bash
# install_packages.sh [--test]: installs what scripts/packages.txt lists and this machine lacks. With nothing missing it
# asks dpkg alone: no apt, no network, some ten milliseconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [[ ${1-} == --test ]]; then lines=$(cat packages.txt); else lines=$(grep -v '\[test\]' packages.txt); fi
wanted=()
while read -r name; do
  command=${name#*|}
  if [[ $command != "$name" ]] && command -v "$command" >/dev/null; then continue; fi
  wanted+=("${name%|*}")
done < <(sed 's/#.*//' <<<"$lines" | tr -d ' \t' | grep .)

if ! command -v dpkg-query >/dev/null; then
  echo "install_packages.sh: this is no Debian system (no dpkg-query); install these yourself: ${wanted[*]}" >&2
  exit 1
fi

# dpkg-query fails when a package is unknown to it; what matters is the lines it prints about the others.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if [[ $EUID -eq 0 ]]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "install_packages.sh: missing packages, and neither root nor sudo to install them. As root, run:" >&2
  echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

echo "Installing packages: ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run_apt() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "install_packages.sh: apt-get $1 failed; its output is above" >&2
    exit 1
  fi
}
run_apt update
run_apt install --yes --no-install-recommends "${missing[@]}"
