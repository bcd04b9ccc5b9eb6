// Any bytes are a safetensors file with consistent tensors, an index of shards, or an Error.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    for (const baleen::TensorInfo& tensor : baleen::parse_safetensors(bytes, "fuzz")) {
      if (static_cast<std::int64_t>(tensor.bytes.size()) != tensor.size_bytes()) std::abort();
      if (tensor.bytes.data() < bytes.data() || tensor.bytes.data() + tensor.bytes.size() > bytes.data() + size) {
        std::abort();
      }
    }
  } catch (const baleen::Error&) {
  }
  try {
    static_cast<void>(baleen::parse_weight_map({reinterpret_cast<const char*>(data), size}, "fuzz"));
  } catch (const baleen::Error&) {
  }
  return 0;
}
