/// One safetensors file: a little-endian u64 header length, a JSON header that gives every tensor's dtype,
/// shape and byte range, then the bytes. Everything a header says is checked before any of it is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "numeric/dtype.h"

namespace baleen {

/// What a header says of a tensor, its place aside.
struct TensorHeader {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< outermost axis first; empty for a scalar

  [[nodiscard]] std::int64_t num_elements() const;
  [[nodiscard]] std::int64_t size_bytes() const { return num_elements() * dtype_bytes(dtype); }
  /// `BF16 [4096, 7168]`
  [[nodiscard]] std::string type_text() const;
};

/// A tensor where it lies. `bytes` may start at any address, also one that is misaligned for `dtype`; whoever
/// needs aligned elements copies. `bytes` and `file` live as long as the `SafetensorsFile` or `Checkpoint`.
struct TensorInfo : TensorHeader {
  std::span<const std::byte> bytes;
  std::string_view file;  ///< for messages
};

/// A file begins with its header's length, 8 bytes little-endian.
inline constexpr std::size_t kHeaderLengthBytes = 8;
/// A header longer than this is refused, as the reference implementation of the format does.
inline constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

/// The tensors of a file held in memory, sorted by name. `label` names the file in messages and in
/// `TensorInfo::file`. Throws `Error` for everything the format forbids: a header length beyond the file or
/// `kMaxHeaderBytes`, anything but a JSON object of tensors, an unknown dtype, a negative or overflowing
/// shape, a byte range outside the file or of another length than dtype and shape ask for, overlaps, gaps,
/// bytes that belong to no tensor, duplicate names. Reads the header only. Cost: one pass, about 10 ms for
/// each MB of header (a thousand tensors is 0.13 MB).
[[nodiscard]] std::vector<TensorInfo> parse_safetensors(std::span<const std::byte> file,
                                                        std::string_view label);

/// A mapped file and its tensors. Neither copied nor moved, so that the views into it stay valid.
class SafetensorsFile {
 public:
  /// Throws `Error` when the file cannot be mapped, and as `parse_safetensors` does.
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// In name order.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  /// Null when there is none of that name.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;
  [[nodiscard]] const std::string& label() const { return label_; }
  [[nodiscard]] const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
  std::string label_;
  std::vector<TensorInfo> tensors_;
};

/// The tensor called `name` in a list sorted by name, or null.
[[nodiscard]] const TensorInfo* find_tensor(std::span<const TensorInfo> sorted, std::string_view name);

}  // namespace baleen
