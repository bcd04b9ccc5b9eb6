/// A random checkpoint with one value that is not a number.
#pragma once

#include <cstring>
#include <string>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "tests/support/random_checkpoint.h"

namespace baleen::test {

/// A copy of the weights in which the first element of a BF16 tensor is `bits`.
class DamagedCheckpoint {
 public:
  DamagedCheckpoint(const std::string& tensor, Bf16Bits bits,
                    const ModelConfig& config = preset_config("tiny-flash"),
                    const std::filesystem::path& tokenizer = {})
      : checkpoint_(config, 1, tokenizer) {
    std::string file = read_text_file(checkpoint_.weights());
    const auto tensors = parse_safetensors(std::as_bytes(std::span(file)), "test");
    const TensorInfo* found = find_tensor(tensors, tensor);
    const auto offset = found->bytes.data() - reinterpret_cast<const std::byte*>(file.data());
    std::memcpy(file.data() + offset, &bits, sizeof(bits));
    AtomicFileWriter writer(checkpoint_.weights());
    writer.write(file);
    writer.commit();
  }
  [[nodiscard]] std::filesystem::path path() const { return checkpoint_.path(); }

 private:
  RandomCheckpoint checkpoint_;
};

inline constexpr Bf16Bits kNaN = 0x7FC0;

}  // namespace baleen::test
