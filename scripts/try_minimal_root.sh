#!/usr/bin/env bash
# try_minimal_root.sh [OPTION...] [-- CTEST OPTIONS]: what a newcomer meets on a bare Debian 12. Makes a minimal root with
# debootstrap, clones the committed state into it, and runs ./run.sh and ./test.sh there. As root; about 6 GB of disk.
#   --folder DIR   where to make the root (a new folder under /var/tmp); reused when it is there already
#   --keep         leave it there
#   --run-only     only ./run.sh
#   --ccache DIR   lend it this compiler cache, where time matters more than a cold build
#   --nice N       priority of what runs in it (0)
# Mirror and settings of apt, npm's registry and settings, and the certificate authorities that npm trusts are
# those of this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder='' keep=0 run_only=0 ccache='' priority=0
while [[ $# -gt 0 ]]; do
  case $1 in
    --folder) folder=$2; keep=1; shift 2 ;;
    --keep) keep=1; shift ;;
    --run-only) run_only=1; shift ;;
    --ccache) ccache=$2; shift 2 ;;
    --nice) priority=$2; shift 2 ;;
    --) shift; break ;;
    *) echo "try_minimal_root.sh: $1? see the head of this script" >&2; exit 2 ;;
  esac
done

if [[ $EUID -ne 0 ]]; then
  echo "try_minimal_root.sh: changing the root needs root; run it as root" >&2
  exit 1
fi
if ! command -v debootstrap >/dev/null; then
  apt-get -qq install --yes --no-install-recommends debootstrap </dev/null
fi

say() { printf '%(%H:%M:%S)T %s\n' -1 "$*" >&2; }

mounted=()
lend() { # mounts something at a folder of the root, to be taken away at the end
  mkdir -p "${!#}"
  mount "$@"
  mounted=("${!#}" "${mounted[@]}")
}
clean_up() {
  local place
  for place in "${mounted[@]}"; do umount "$place" || umount --lazy "$place" || true; done
  for place in "${mounted[@]}"; do
    if mountpoint -q "$place"; then
      echo "try_minimal_root.sh: $place is still mounted; $folder stays" >&2
      return
    fi
  done
  if [[ $keep -eq 0 ]]; then rm -rf --one-file-system "$folder"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

[[ -n $folder ]] || folder=$(mktemp -d /var/tmp/baleen_root_XXXXXX)
mkdir -p "$folder"
folder=$(readlink -f "$folder")

release=bookworm
sources=$(apt-get indextargets --format "\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" 'Created-By: Packages' |
  awk -v release="$release" '$2 ~ "^" release && $3 == "main"' | sort -u)
mirror=$(awk -v release="$release" '$2 == release { print $1; exit }' <<<"$sources")
if [[ -z $mirror ]]; then
  echo "try_minimal_root.sh: apt knows no source of $release main here; add one, then apt-get update" >&2
  exit 1
fi

if [[ ! -e $folder/etc/debian_version ]]; then
  say "making a minimal root in $folder"
  if ! debootstrap --variant=minbase --include=ca-certificates "$release" "$folder" "$mirror" >"$folder.log" 2>&1; then
    tail -n 20 "$folder.log" >&2
    exit 1
  fi
  rm -f "$folder.log"
fi
awk '{ print "deb", $1, $2, $3 }' <<<"$sources" | grep -v '/debug' >"$folder/etc/apt/sources.list"
apt-config dump Acquire >"$folder/etc/apt/apt.conf.d/90host"
cp /etc/resolv.conf /etc/hosts "$folder/etc/"

rm -rf "$folder/opt/baleen"
git clone --quiet --no-hardlinks . "$folder/opt/baleen"
[[ -z $(git status --porcelain) ]] || say "changes that are not committed are not tried"

lend -t proc proc "$folder/proc"
lend -t tmpfs tmpfs "$folder/dev/shm"
lend -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$folder/dev/pts"  # tests of terminals
ln -sf pts/ptmx "$folder/dev/ptmx"
settings=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
if [[ -n $ccache ]]; then
  lend --bind "$ccache" "$folder/ccache"
  settings+=(CCACHE_DIR=/ccache)
fi
if command -v npm >/dev/null; then settings+=("npm_config_registry=$(npm config get registry 2>/dev/null)"); fi
for file in /root/.npmrc /etc/npmrc; do
  if [[ -r $file ]]; then cp "$file" "$folder$file"; fi
done
# An internal registry is often signed by its own authority, which this machine trusts and a new root
# does not.
if [[ -r ${NODE_EXTRA_CA_CERTS-} ]]; then
  cp -L "$NODE_EXTRA_CA_CERTS" "$folder/etc/ssl/authorities_of_host.crt"
  settings+=(NODE_EXTRA_CA_CERTS=/etc/ssl/authorities_of_host.crt
             npm_config_cafile=/etc/ssl/authorities_of_host.crt)
fi

there() { env -i "${settings[@]}" nice -n "$priority" chroot "$folder" bash -c 'cd /opt/baleen && "$@"' there "$@"; }
say "./run.sh"
there ./run.sh </dev/null
if [[ $run_only -eq 0 ]]; then
  say "./test.sh $*"
  there ./test.sh "$@" </dev/null
fi
say "done"
