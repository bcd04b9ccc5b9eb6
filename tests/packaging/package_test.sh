#!/usr/bin/env bash
# package_test.sh BUILD: the Debian package builds, contains what it should, and its program, unpacked into a
# folder, tells a story with the model beside it; its service is right, and as closed as it claims.
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for tool in cpack dpkg-deb dpkg-shlibdeps; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
failed=0
fail() { echo "package_test.sh: $*" >&2; failed=1; }

# No compression: the test would spend its time there.
pack() { (cd "$build" && cpack -G DEB -B "$folder/packages" -D CPACK_DEBIAN_COMPRESSION_TYPE=none); }
if ! pack >"$folder/log" 2>&1; then
  cat "$folder/log" >&2
  exit 1
fi
package=$(ls "$folder"/packages/*.deb)
version=$("$build/src/app/baleen" --version | sed -n '1s/^baleen //p')
[[ $(basename "$package") == "baleen_${version}_$(dpkg --print-architecture).deb" ]] ||
  fail "unexpected name: $package"

field() { dpkg-deb --field "$package" "$1"; }
[[ $(field Package) == baleen && $(field Version) == "$version" ]] ||
  fail "$(field Package) $(field Version)"
for library in libc6 libstdc++6 libfmt9 libpcre2-8-0 libzstd1; do
  [[ $(field Depends) == *"$library"* ]] ||
    fail "depends on $(field Depends); expected $library among them"
done

root=$folder/root
dpkg-deb --extract "$package" "$root"
for file in bin/baleen share/baleen/models/stories/config.json share/baleen/models/stories/tokenizer.json \
  share/man/man1/baleen.1.gz share/bash-completion/completions/baleen share/zsh/vendor-completions/_baleen \
  share/fish/vendor_completions.d/baleen.fish share/doc/baleen/copyright share/doc/baleen/notices.txt \
  share/doc/baleen/CHANGELOG.md lib/systemd/system/baleen.service; do
  [[ -s $root/usr/$file ]] || fail "the package has no /usr/$file"
done
[[ -s $root/etc/default/baleen ]] || fail "the package has no /etc/default/baleen"
conffiles=$(dpkg-deb --ctrl-tarfile "$package" | tar -xO ./conffiles)
[[ $conffiles == /etc/default/baleen ]] || fail "configuration files are $conffiles"
# Every module of kernels that was built is installed, and found where it is.
found=$("$root/usr/bin/baleen" --version | sed -n 's/^CUDA  *//p')
for module in "$build"/src/app/baleen_sm*.so; do
  [[ -e $module ]] || continue
  module=${module##*/}
  architecture=${module#baleen_}
  [[ -s $root/usr/lib/baleen/$module ]] || fail "the package has no /usr/lib/baleen/$module"
  [[ ", $found" == *", ${architecture%.so}, "* ]] ||
    fail "the package's program finds no kernels for ${architecture%.so}, only: $found"
done
places='usr/share/(baleen|man|bash-completion|zsh|fish|doc/baleen)/'
places+='|usr/lib/baleen/baleen_sm[0-9]+[.]so$'
places+='|usr/bin/baleen$|usr/lib/systemd/system/baleen.service$|etc/default/baleen$'
strays=$(cd "$root" && find . -type f | grep -vE "^\./($places)" || true)
[[ -z $strays ]] || fail "unexpected files: $strays"
loose=$(find "$root" -perm /022 ! -type l)
[[ -z $loose ]] || fail "writable by others: $loose"

[[ -z $(nm "$root/usr/bin/baleen" 2>/dev/null) ]] || fail "the program carries its symbols"

# Away from the repository, so that nothing of it is found by accident.
installed() { (cd / && "$root/usr/bin/baleen" "$@"); }
story=$(installed run "Once upon a time" -n 8 --temperature 0 --threads 1 2>"$folder/err") ||
  { cat "$folder/err" >&2; fail "no story"; }
[[ -n $story ]] || fail "the story is empty"
[[ $(installed inspect --help) == *"$root/usr/share/baleen/models/stories"* ]] ||
  fail "the default model is another than the package's"

service=$root/usr/lib/systemd/system/baleen.service
grep -qF 'ExecStart=/usr/bin/baleen serve' "$service" || fail "the service starts another program"
grep -qF 'EnvironmentFile=-/etc/default/baleen' "$service" ||
  fail "the service reads another file of options"
help=$(installed serve --help)
for option in $(grep -ohE -e '--[a-z-]+' "$service" "$root/etc/default/baleen" | sort -u); do
  [[ $help == *"  $option "* || $help == *",$option "* ]] ||
    fail "the service names $option, which is no option of serve"
done
if command -v systemd-analyze >/dev/null; then
  # The program of the unit is the unpacked one: none is installed here.
  sed "s#/usr/bin/baleen#$root/usr/bin/baleen#" "$service" >"$folder/baleen.service"
  complaints=$(systemd-analyze verify --man=no "$folder/baleen.service" 2>&1) ||
    fail "systemd-analyze verify: $complaints"
  [[ -z $complaints ]] || fail "systemd-analyze verify: $complaints"
  # In tenths: 2.0 of 10, where 10 is a service without any protection.
  systemd-analyze security --offline=yes --threshold=20 "$folder/baleen.service" >"$folder/security" 2>&1 ||
    fail "the service is less closed than it was"
  tail -n 1 "$folder/security"
else
  echo "skipped: systemd-analyze is not installed"
fi
exit $failed
