#!/usr/bin/env bash
# completions_test.sh PROGRAM: what `baleen completions` prints parses in its shell, completes commands,
# options, choices and files, and knows every option that the help of every command shows. Shells that are not
# installed are skipped, bash never is.
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() { echo "completions_test.sh: $*" >&2; failed=1; }

for shell in bash zsh fish; do "$program" completions "$shell" >"$folder/$shell"; done
bash -n "$folder/bash"
source "$folder/bash"

# in_bash WORD...: what bash offers for the last of these words.
in_bash() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _baleen
  printf '%s\n' "${COMPREPLY[@]}"
}

# commands_of COMMAND...: its commands, as its help lists them; options_of the same of its options, one a
# line.
help_of() { "$program" "$@" --help; }
commands_of() { help_of "$@" | sed -n '/^Subcommands:/,$p' | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'; }
options_of() { help_of "$@" | sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr , '\n'; }

num_options=0
check_command() {
  local option inner offered of_fish
  offered=$(in_bash baleen "$@" -)
  of_fish=$(grep -F "\"baleen${*:+ $*}\"" "$folder/fish")
  for option in $(options_of "$@"); do
    num_options=$((num_options + 1))
    grep -qxF -e "$option" <<<"$offered" || fail "bash does not offer $option after: baleen $*"
    local pattern=" -s ${option#-}( |\$)"
    if [[ $option == --* ]]; then pattern=" -l ${option#--}( |\$)"; fi
    grep -qE -e "$pattern" <<<"$of_fish" || fail "fish's file lacks $option of: baleen $*"
    grep -qF -e "$option[" -e "$option=[" "$folder/zsh" ||
      fail "zsh's file lacks $option of: baleen $*"
  done
  offered=$(in_bash baleen "$@" "")
  for inner in $(commands_of "$@"); do
    grep -qxF "$inner" <<<"$offered" ||
      fail "bash does not offer the command $inner after: baleen $*"
    check_command "$@" "$inner"
  done
}
check_command
[[ $num_options -gt 200 ]] || fail "only $num_options options read from the helps"

expect() { # expect WANTED WORD...
  local wanted=$1 found
  shift
  found=$(in_bash "$@" | tr '\n' ' ')
  [[ $found == "$wanted " ]] ||
    fail "after '$*' bash offers '$found', expected '$wanted'"
}
cd "$folder"
touch 'a story.txt'
expect 'serve' baleen ser
expect 'search serve' baleen simulate 'se'
expect 'exact bf16 released' baleen run --precision ''
expect 'released' baleen run --precision rel
expect 'bf16' baleen run --precision = b
expect 'a story.txt' baleen run --file 'a st'
expect 'bash zsh fish' baleen completions ''
expect '' baleen run --threads ''
expect '--num-devices' baleen simulate search --num-d

if command -v zsh >/dev/null; then
  zsh -n "$folder/zsh" || fail "zsh does not parse its file"
  # The completion system calls the same functions; here their arguments alone are looked at.
  taken="autoload -Uz compinit && compinit -D -u && source '$folder/zsh' && [[ \$_comps[baleen] == _baleen ]]"
  zsh -fc "$taken" ||
    fail "zsh does not take _baleen for baleen"
else
  echo "skipped: zsh is not installed"
fi
if command -v fish >/dev/null; then
  fish --no-execute "$folder/fish" || fail "fish does not parse its file"
  in_fish() { # in_fish LINE: what fish offers for it
    HOME=$folder XDG_CONFIG_HOME=$folder fish --private -c "source $folder/fish; complete -C '$1'" |
      cut -f 1 | tr '\n' ' '
  }
  expect_in_fish() { # expect_in_fish WANTED LINE
    local found
    found=$(in_fish "$2")
    [[ " $found" == *" $1 "* ]] || fail "after '$2' fish offers '$found', expected '$1' among it"
  }
  expect_in_fish serve 'baleen ser'
  expect_in_fish search 'baleen simulate se'
  expect_in_fish released 'baleen run --precision rel'
  expect_in_fish --num-devices 'baleen simulate search --num-d'
else
  echo "skipped: fish is not installed"
fi
exit $failed
