/// Work that blocks of a launch share evenly.
#pragma once

namespace baleen::BALEEN_ARCH {

/// `count` things for `num_blocks` blocks, which have equal numbers of them but for one.
struct EvenSplit {
  int num_blocks, each, extra;
  EvenSplit() = default;
  __host__ EvenSplit(int count, int blocks)
      : num_blocks(blocks), each(count / blocks), extra(count % blocks) {}
  [[nodiscard]] __host__ __device__ int begin(int block) const {
    return block * each + (block < extra ? block : extra);
  }
  [[nodiscard]] __host__ __device__ int most() const { return each + (extra > 0 ? 1 : 0); }
};

}  // namespace baleen::BALEEN_ARCH
