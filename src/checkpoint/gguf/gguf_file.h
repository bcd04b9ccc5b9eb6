/// One GGUF file: a magic, a version, counts, keys with values, the tensors' names, shapes, types and places,
/// then their bytes. All of it little-endian. Everything a header says is checked before any of it is
/// believed.                                                            (source: the format's specification)
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "checkpoint/gguf/ggml_type.h"

namespace baleen {

/// Kinds of values by their ids in the file.
enum class GgufValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12
};

/// Values of one type, none of them an array, as they lie in the file.
struct GgufArray {
  GgufValueType type = GgufValueType::kU8;
  std::int64_t count = 0;
  std::span<const std::byte> bytes;
};

/// Whole numbers of any width are 64 bits here; u64 beyond 63 bits are refused.
using GgufValue = std::variant<bool, std::int64_t, double, std::string_view, GgufArray>;

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<std::int64_t> shape;  ///< outermost axis first, as elsewhere here; the file has it reversed
  std::span<const std::byte> bytes;
  std::string_view file;  ///< for messages

  [[nodiscard]] std::int64_t num_elements() const;
  /// `Q8_0 [1024, 4096]`
  [[nodiscard]] std::string type_text() const;
};

/// A file's keys. Views point into the file. Members that look up a key throw `Error` where its value is of
/// another kind, and return nothing where there is no such key.
class GgufKeys {
 public:
  GgufKeys() = default;
  GgufKeys(std::string_view label, std::map<std::string, GgufValue, std::less<>> values)
      : label_(label), values_(std::move(values)) {}

  [[nodiscard]] bool contains(std::string_view key) const { return values_.contains(key); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const;
  [[nodiscard]] std::optional<std::int64_t> whole(std::string_view key) const;
  /// Of a whole number too.
  [[nodiscard]] std::optional<double> real(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> wholes(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<double>> reals(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::string_view>> texts(std::string_view key) const;

  /// Names the file in messages.
  [[nodiscard]] const std::string& label() const { return label_; }

 private:
  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  template <class T>
  [[nodiscard]] std::optional<T> get(std::string_view key, std::string_view expected) const;
  [[nodiscard]] const GgufArray* array(std::string_view key, std::string_view expected) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

  std::string label_;
  std::map<std::string, GgufValue, std::less<>> values_;
};

struct GgufContents {
  GgufKeys keys;
  std::vector<GgufTensor> tensors;  ///< sorted by name
};

/// Whether a file that begins with these bytes is meant as a GGUF file.
[[nodiscard]] bool has_gguf_magic(std::span<const std::byte> bytes);

/// The contents of a file held in memory. `label` names the file in messages and in `GgufTensor::file`, and
/// outlives them. Throws `Error` for everything that the format forbids or that is not known here: another
/// version, counts and lengths beyond the file, keys twice, arrays in arrays, unknown types of values or of
/// tensors, shapes that overflow or break blocks, places that are not aligned, overlap, or lie outside of the
/// file. Bytes that belong to no tensor are passed over. Reads the header only: 1 ms for each MB of it.
[[nodiscard]] GgufContents parse_gguf(std::span<const std::byte> file, std::string_view label);

}  // namespace baleen
