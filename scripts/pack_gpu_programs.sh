#!/usr/bin/env bash
# pack_gpu_programs.sh FILE.tar.xz: builds everything that scripts/test_gpu.sh runs and packs it, with the
# libraries that a bare machine lacks, for a machine with a GPU that need not be able to build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
archive=$(realpath -m "${1:?"which archive? e.g. build/gpu_programs.tar.xz"}")
build=build/release

scripts/build.sh release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lib"
find "$build" -type f -perm -u+x \( -path "$build/src/app/baleen" -o -path '*tests/*_sm[0-9]*_*test' \
  -o -name 'device_cuda_*_test' -o -name libkernel_timeline.so \
  -o -name baleen_mpi.so -o -path "$build/src/app/baleen_sm*.so" \
  -o -name engine_tests -o -name rank_engine_tests -o -name generation_tests -o -name forward_tests \
  -o -name '*sm90_*bench' -o -name '*_ranks_bench' \) \
  -exec cp -t "$folder" {} +
for program in "$folder"/*; do
  [[ -f $program ]] || continue
  strip "$program"
  [[ $program != *_mpi.so ]] || continue  # MPI, which the module links, must be the machine's
  # The C and C++ runtimes are everywhere, and must be those of the machine.
  ldd "$program" | awk '$3 ~ /^\// {print $3}' | grep -vE '/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so' || true
done | sort -u | xargs -r cp -Lt "$folder/lib"
# The programs have most kernels in common: a dictionary that spans them makes a quarter of the size.
tar -C "$folder" -cf - . | xz --lzma2=preset=5,dict=256MiB >"$archive"
du -h "$archive"
