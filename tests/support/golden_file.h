/// Committed arrays with known answers: a small safetensors file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "numeric/bf16.h"

namespace baleen::test {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path) : file_(path) {}

  /// F32, or BF16 as float32.
  [[nodiscard]] std::vector<float> floats(std::string_view name) const {
    const TensorInfo& tensor = at(name);
    if (tensor.dtype == DType::kF32) return elements<float>(tensor);
    std::vector<float> values;
    for (const Bf16Bits bits : elements<Bf16Bits>(tensor)) values.push_back(bf16_to_float(bits));
    return values;
  }

  /// I64, which must fit.
  [[nodiscard]] std::vector<std::int32_t> ints(std::string_view name) const {
    std::vector<std::int32_t> values;
    for (const std::int64_t value : elements<std::int64_t>(at(name))) {
      values.push_back(static_cast<std::int32_t>(value));
    }
    return values;
  }

  [[nodiscard]] std::int64_t scalar(std::string_view name) const {
    return elements<std::int64_t>(at(name)).at(0);
  }
  [[nodiscard]] const std::vector<std::int64_t>& shape(std::string_view name) const { return at(name).shape; }

 private:
  [[nodiscard]] const TensorInfo& at(std::string_view name) const {
    const TensorInfo* tensor = file_.find(name);
    if (tensor == nullptr) throw std::runtime_error("no array " + std::string(name) + " in " + file_.label());
    return *tensor;
  }

  template <class T>
  [[nodiscard]] static std::vector<T> elements(const TensorInfo& tensor) {
    if (tensor.num_elements() * static_cast<std::int64_t>(sizeof(T)) != tensor.size_bytes()) {
      throw std::runtime_error("array " + tensor.name + " is " + tensor.type_text());
    }
    std::vector<T> values(static_cast<std::size_t>(tensor.num_elements()));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }

  SafetensorsFile file_;
};

/// Of the data of a checkpoint of one file, as golden_arrays.py has it: whether a test's weights are those of
/// the goldens.
[[nodiscard]] inline std::int64_t checksum(const std::filesystem::path& weights) {
  const MappedFile file(weights);
  std::uint64_t header = 0;
  std::memcpy(&header, file.bytes().data(), sizeof(header));
  const auto data = file.bytes().subspan(sizeof(header) + header);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < data.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data() + i, std::min(sizeof(word), data.size() - i));
    sum += word * (2 * (i / sizeof(word)) + 1);
  }
  return static_cast<std::int64_t>(sum);
}

}  // namespace baleen::test
