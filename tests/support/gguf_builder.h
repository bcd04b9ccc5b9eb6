/// GGUF files byte by byte, sound or damaged.
#pragma once

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/file.h"
#include "checkpoint/gguf/gguf_file.h"

namespace baleen::test {

/// The bytes of a number, or of a text behind its length.
template <class T>
std::string gguf_bytes(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  } else {
    const std::string_view text = value;
    return gguf_bytes(std::uint64_t{text.size()}) + std::string(text);
  }
}

class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::int64_t alignment = 32;

  void key(std::string_view name, GgufValueType type, std::string value) {
    keys_.push_back(gguf_bytes(name) + gguf_bytes(static_cast<std::uint32_t>(type)) + std::move(value));
  }
  void key(std::string_view name, std::string_view text) {
    key(name, GgufValueType::kString, gguf_bytes(text));
  }
  void key(std::string_view name, std::uint32_t value) { key(name, GgufValueType::kU32, gguf_bytes(value)); }
  void key(std::string_view name, float value) { key(name, GgufValueType::kF32, gguf_bytes(value)); }
  void flag(std::string_view name, bool value) {
    key(name, GgufValueType::kBool, gguf_bytes(static_cast<std::uint8_t>(value)));
  }
  template <class T>
  void array(std::string_view name, GgufValueType type, const std::vector<T>& values) {
    std::string all = gguf_bytes(static_cast<std::uint32_t>(type)) + gguf_bytes(std::uint64_t{values.size()});
    for (const T& value : values) all += gguf_bytes(value);
    key(name, GgufValueType::kArray, std::move(all));
  }

  /// `shape`: outermost axis first. Returns the tensor, whose header may be changed.
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::uint32_t type = 0;
    std::string bytes;
    std::int64_t offset = -1;  ///< -1: behind the tensor before
  };
  Tensor& tensor(std::string name, std::vector<std::int64_t> shape, std::uint32_t type, std::string bytes) {
    return tensors.emplace_back(Tensor{std::move(name), std::move(shape), type, std::move(bytes)});
  }
  Tensor& tensor(std::string name, std::vector<std::int64_t> shape, GgmlType type,
                 std::span<const std::byte> bytes) {
    return tensor(std::move(name), std::move(shape), static_cast<std::uint32_t>(type),
                  std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }

  [[nodiscard]] std::string text() const {
    std::string header = "GGUF" + gguf_bytes(version) + gguf_bytes(std::uint64_t{tensors.size()}) +
                         gguf_bytes(std::uint64_t{keys_.size()});
    for (const std::string& one : keys_) header += one;
    std::string data;
    for (const Tensor& tensor : tensors) {
      const std::int64_t offset = tensor.offset < 0 ? std::ssize(data) : tensor.offset;
      header += gguf_bytes(tensor.name) + gguf_bytes(static_cast<std::uint32_t>(tensor.shape.size()));
      for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent)
        header += gguf_bytes(*extent);
      header += gguf_bytes(tensor.type) + gguf_bytes(offset);
      data += tensor.bytes;
      pad(data);
    }
    pad(header);
    return header + data;
  }
  void write(const std::filesystem::path& path) const {
    AtomicFileWriter writer(path);
    writer.write(text());
    writer.commit();
  }

  std::vector<Tensor> tensors;

 private:
  void pad(std::string& bytes) const {
    const auto unit = static_cast<std::size_t>(alignment);
    bytes.resize((bytes.size() + unit - 1) / unit * unit);
  }

  std::vector<std::string> keys_;
};

}  // namespace baleen::test
