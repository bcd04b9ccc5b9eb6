/// Loads and stores that other GPUs or the host take part in: never cached where the writer is not seen.
/// (PTX: ld.volatile, st.volatile, ld.acquire, st.release, globaltimer)
#pragma once

#include <cstdint>

namespace baleen::ptx {

/// 16 bytes, of which each half arrives as a whole.
__device__ inline uint4 load_volatile(const uint4* from) {
  uint4 words;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from)
               : "memory");
  return words;
}

__device__ inline void store_volatile(uint4* to, const uint4& words) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
}

/// 16 bytes of another GPU's memory that is not written meanwhile; loads of a loop may be under way together.
__device__ inline uint4 load_remote(const uint4* from) {
  uint4 words;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from));
  return words;
}

/// A word that the host or another GPU writes; what it wrote before is visible afterwards.
__device__ inline std::uint64_t load_acquire_system(const std::uint64_t* from) {
  std::uint64_t word;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
}

/// The other way round: what this thread wrote before is visible to those that see the word.
__device__ inline void store_release_system(std::uint64_t* to, std::uint64_t word) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

/// Nanoseconds, of the whole GPU.
__device__ inline std::uint64_t global_time() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

}  // namespace baleen::ptx
