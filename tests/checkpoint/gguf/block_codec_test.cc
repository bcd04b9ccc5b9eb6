// Blocks of every type against NumPy's values (make_block_goldens.py), and the layouts that are computed with
// against those.
#include "checkpoint/gguf/block_codec.h"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/safetensors.h"
#include "numeric/e2m1.h"
#include "numeric/e8m0.h"
#include "numeric/f16.h"
#include "tests/support/compare.h"

namespace baleen {
namespace {

const SafetensorsFile& goldens() {
  static const SafetensorsFile file("tests/checkpoint/gguf/goldens/blocks.safetensors");
  return file;
}

std::vector<float> floats(const TensorInfo& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TEST(BlockCodec, DecodesEveryTypeAsNumPyDoes) {
  std::size_t tested = 0;
  for (std::uint32_t id = 0; id < 40; ++id) {
    const GgmlTypeTraits* const traits = find_ggml_type(id);
    if (traits == nullptr || !has_decoder(traits->type) || traits->block_elements == 1) continue;
    const std::string name(traits->name);
    const TensorInfo* const blocks = goldens().find(name + ".blocks");
    ASSERT_NE(blocks, nullptr) << name;
    ASSERT_EQ(blocks->shape[1], traits->block_bytes) << name;
    const std::vector<float> want = floats(*goldens().find(name + ".values"));
    std::vector<float> values(want.size());
    decode_blocks(traits->type, blocks->bytes, values);
    EXPECT_SAME_BITS(values, want) << name;
    ++tested;
  }
  EXPECT_EQ(2 * tested, goldens().tensors().size());
}

TEST(BlockCodec, PlainTypes) {
  const std::uint16_t halves[] = {0x3C00, 0xC000, 0x0001, 0x8000, 0x7BFF, 0x7C00};
  std::vector<float> values(std::size(halves));
  decode_blocks(GgmlType::kF16, std::as_bytes(std::span(halves)), values);
  EXPECT_EQ(values, (std::vector<float>{1.0F, -2.0F, 0x1p-24F, -0.0F, 65504.0F, INFINITY}));
  EXPECT_FALSE(has_decoder(GgmlType::kI32));
  EXPECT_FALSE(has_decoder(GgmlType::kIq1S));
}

TEST(BlockCodec, Mxfp4InTheCheckpointsLayoutHasTheSameValues) {
  const TensorInfo& blocks = *goldens().find("MXFP4.blocks");
  const std::vector<float> want = floats(*goldens().find("MXFP4.values"));
  std::vector<std::byte> codes(want.size() / 2), scales(want.size() / 32);
  unpack_mxfp4_codes(blocks.bytes, codes);
  unpack_mxfp4_scales(blocks.bytes, scales);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto pair = std::to_integer<std::uint8_t>(codes[i / 2]);
    const auto code = static_cast<std::uint8_t>(i % 2 == 0 ? pair & 15 : pair >> 4);
    EXPECT_EQ(e2m1_to_float(code) * e8m0_to_float(std::to_integer<std::uint8_t>(scales[i / 32])), want[i])
        << i;
  }
}

TEST(BlockCodec, Q8_0AsCodesAndScalesHasTheSameValues) {
  const TensorInfo& blocks = *goldens().find("Q8_0.blocks");
  const std::vector<float> want = floats(*goldens().find("Q8_0.values"));
  std::vector<std::byte> codes(want.size());
  std::vector<float> scales(want.size() / 32);
  unpack_q8_0_codes(blocks.bytes, codes);
  unpack_q8_0_scales(blocks.bytes, scales);
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(static_cast<float>(static_cast<std::int8_t>(codes[i])) * scales[i / 32], want[i]) << i;
}

}  // namespace
}  // namespace baleen
