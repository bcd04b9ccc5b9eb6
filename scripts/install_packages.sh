#!/usr/bin/env bash
# install_packages.sh [--test]: installs what scripts/packages.txt lists and this machine lacks; [unpacked]
# packages are only unpacked under build/unpacked, so that no service of theirs starts. With nothing missing
# it asks dpkg alone: no apt, no network, some ten milliseconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [[ ${1-} == --test ]]; then lines=$(cat packages.txt); else lines=$(grep -v '\[test\]' packages.txt); fi
unpacked=$(readlink -m ../build/unpacked)
# Names of packages in $1 whose command is not there, in PATH or in a further folder.
without_command() {
  local name command
  while read -r name; do
    command=${name#*|}
    if [[ $command != "$name" ]] && PATH=$PATH:/usr/sbin${2:+:$2} command -v "$command" >/dev/null; then
      continue
    fi
    echo "${name%|*}"
  done < <(sed 's/#.*//' <<<"$1" | tr -d ' \t' | grep .)
}
mapfile -t wanted < <(without_command "$(grep -v '\[unpacked\]' <<<"$lines")")
mapfile -t to_unpack < <(without_command "$(grep '\[unpacked\]' <<<"$lines")" "$unpacked/usr/sbin")

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
[[ ${#missing[@]} -eq 0 && ${#to_unpack[@]} -eq 0 ]] && exit 0

if [[ $EUID -eq 0 ]]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "install_packages.sh: missing packages, and neither root nor sudo to install them. As root, run:" >&2
  echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

log=$(mktemp)
folder=$(mktemp -d)
trap 'rm -rf "$log" "$folder"' EXIT
run_apt() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "install_packages.sh: apt-get $1 failed; its output is above" >&2
    exit 1
  fi
}
run_apt update
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "Installing packages: ${missing[*]}" >&2
  run_apt install --yes --no-install-recommends "${missing[@]}"
fi
if [[ ${#to_unpack[@]} -gt 0 ]]; then
  echo "Unpacking packages: ${to_unpack[*]}" >&2
  cd "$folder"
  as_root=()
  run_apt download "${to_unpack[@]}"
  mkdir -p "$unpacked"
  for archive in *.deb; do dpkg-deb --extract "$archive" "$unpacked"; done
fi
