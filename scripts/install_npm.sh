#!/usr/bin/env bash
# install_npm.sh FOLDER...: brings each folder's node_modules to what its package-lock.json says. With nothing changed it
# only compares two files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for folder in "$@"; do
  kept=$folder/node_modules/.installed-lock.json
  if cmp -s "$folder/package-lock.json" "$kept"; then continue; fi
  echo "Installing npm packages of $folder" >&2
  if ! log=$(npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error 2>&1); then
    echo "$log" >&2
    echo "install_npm.sh: npm ci failed in $folder; its output is above" >&2
    exit 1
  fi
  cp "$folder/package-lock.json" "$kept"
done
