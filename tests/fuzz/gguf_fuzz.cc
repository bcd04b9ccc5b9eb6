// Any bytes are a GGUF file whose tensors lie in it and whose keys hold what they say, or an Error.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/error.h"
#include "checkpoint/gguf/block_codec.h"
#include "checkpoint/gguf/gguf_file.h"
#include "tokenizer/gguf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const baleen::GgufContents contents = baleen::parse_gguf(bytes, "fuzz");
    for (const baleen::GgufTensor& tensor : contents.tensors) {
      if (!tensor.bytes.empty() && (tensor.bytes.data() < bytes.data() ||
                                    tensor.bytes.data() + tensor.bytes.size() > bytes.data() + size)) {
        std::abort();
      }
      if (!baleen::has_decoder(tensor.type)) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
      baleen::decode_blocks(tensor.type, tensor.bytes, values);
    }
    static_cast<void>(baleen::gguf_tokenizer(contents.keys));
  } catch (const baleen::Error&) {
  }
  return 0;
}
