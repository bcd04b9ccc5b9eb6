#!/usr/bin/env bash
# Says where src/ (and bench/) goes around a shared door, and which one to take; changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
folders=(src)
# refuse PATTERN DOOR FILE...: lines of C++ in `folders` that match, outside comments and outside these files.
refuse() {
  local pattern=$1 door=$2 found
  shift 2
  local allowed=()
  for file in "$@"; do allowed+=(-e "^$file:"); done
  found=$(grep -rnE --include='*.cc' --include='*.h' --include='*.cu' --include='*.cuh' "$pattern" \
    "${folders[@]}" \
    | grep -vE '^[^:]+:[0-9]+: *//' | grep -v "${allowed[@]}" || true)
  if [[ -n $found ]]; then
    printf 'check_doors.sh: %s instead of:\n%s\n' "$door" "$found" >&2
    failed=1
  fi
}

refuse '[Jj]son(>)?::(parse|accept|sax_parse)\(' 'parse_json or read_json of base/json.h' \
  src/base/json.h src/base/json.cc
refuse 'toml::parse(_file)?\(' 'parse_toml of trainer/config/toml_text.h' src/trainer/config/toml_text.cc
folders=(src bench)
refuse 'include <CLI/' 'Options of app/options.h' src/app/options.cc
folders=(src)
refuse '(ifstream|fstream|fopen\(|[^A-Za-z_]::open\(|O_RDONLY)' \
  'MappedFile, read_text_file or read_file_or_pipe of base/' \
  src/base/file.cc src/base/piped_text.cc src/base/standard_streams.cc src/app/provenance.cc \
  src/device/gpu_driver.cc src/device/pcie_link.cc \
  src/disk_tier/cache_folder.cc src/hardware/machine_limits.cc src/hardware/machine_memory.cc \
  src/model_files/staged_folder.cc src/parallel/memory_nodes.cc \
  src/trainer/run/run_folder.cc src/trainer/run/training_log.cc
refuse 'std::(stoi|stol|stoll|stoul|stoull|stof|atoi|atol|atof|strto[a-z]+)\(' \
  'read_whole or read_real of base/number.h' \
  src/chat/python_json.cc src/grammar/schema_compiler.cc src/simulator/calibration/calibrate.cc
# Sentences about files of others show what stands there, but not 16 KB of it.
folders=(src/chat src/checkpoint src/grammar src/tokenizer src/training_data)
refuse '\\"\{\}\\"' 'quoted_text of base/quoted_text.h' src/checkpoint/checkpoint_writer.cc
exit $failed
