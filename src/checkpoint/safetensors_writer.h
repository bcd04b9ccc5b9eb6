/// Writes one safetensors file, streamed: the header is known before the first byte of data, so nothing is
/// held.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace baleen {

/// A tensor that starts at an address divisible by this needs no unaligned vector loads.
inline constexpr std::int64_t kTensorAlignment = 64;

/// The order in which tensors lie in a file: those whose size is a multiple of 64 bytes first, then of 32,
/// and so on, otherwise as given. Every tensor then starts at a multiple of the largest power of two (up to
/// 64) that divides its size, hence of its element size, without gaps, which the format forbids.
[[nodiscard]] std::vector<TensorHeader> storage_order(std::vector<TensorHeader> tensors);

/// The file appears under its name at `commit`, complete, or not at all.
class SafetensorsWriter {
 public:
  /// Writes the header. `tensors` have distinct names. Throws `Error` when the path cannot be written.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorHeader> tensors);

  /// The order in which the tensors' bytes must come.
  [[nodiscard]] const std::vector<TensorHeader>& order() const { return order_; }

  /// The next bytes of tensor `name`, all of them or a piece. Throws `Error` when the disk is full. Bytes of
  /// another tensor than the next incomplete one, or more than it has, are a bug of the caller's.
  void append(std::string_view name, std::span<const std::byte> bytes);

  /// Whether every byte has come.
  [[nodiscard]] bool complete() const { return next_ == order_.size(); }

  /// All tensors are complete, otherwise it is a bug. Throws `Error` when the bytes do not reach the disk.
  void commit();

 private:
  void skip_complete();

  std::vector<TensorHeader> order_;
  AtomicFileWriter file_;
  std::size_t next_ = 0;             ///< the first incomplete tensor
  std::int64_t appended_bytes_ = 0;  ///< how many bytes of that tensor are written
};

}  // namespace baleen
