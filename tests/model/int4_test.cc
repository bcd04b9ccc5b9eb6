// Routed experts in int4 of compressed-tensors: computed with the values that the files have, converted with
// the loss said, and refused with a sentence where tensors do not fit together.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "model/gpu_formats.h"
#include "model/model_folder.h"
#include "model_files/convert.h"
#include "model_files/inspect.h"
#include "numeric/bf16.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/relative_norm.h"
#include "tests/support/releases.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

using test::EditedCheckpoint;
using test::StoredTensor;

constexpr const char* kW1 = "layers.1.ffn.experts.2.w1";

struct Packing {
  std::int64_t group = 32;
  DType scales = DType::kF16;
};

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto at = bytes.size();
  bytes.resize(at + sizeof(value));
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

/// An expert's words and scales by formula, and its values: the first word of all is 0x76543210, the second
/// 0xFEDCBA98.
class PackedExpert {
 public:
  PackedExpert(std::int64_t out, std::int64_t in, const Packing& packing)
      : out_(out), in_(in), of_(packing) {}

  [[nodiscard]] std::uint32_t word(std::int64_t i) const {
    if (i < 2) return i == 0 ? 0x76543210U : 0xFEDCBA98U;
    return static_cast<std::uint32_t>(i) * 2654435761U;
  }
  /// Between 2^-8 and 2^-7.
  [[nodiscard]] float scale(std::int64_t i) const {
    return std::ldexp(1.0F + static_cast<float>(fraction(i)) / static_cast<float>(parts()), -8);
  }
  [[nodiscard]] float value(std::int64_t i) const {
    const std::uint32_t nibble = word(i / 8) >> (4 * (i % 8)) & 15U;
    return static_cast<float>(static_cast<int>(nibble) - 8) * scale(i / of_.group);
  }

  void put(EditedCheckpoint& c, const std::string& stem) const {
    StoredTensor packed{DType::kI32, {out_, in_ / 8}, {}}, scales{of_.scales, {out_, in_ / of_.group}, {}},
        shape{DType::kI64, {2}, {}};
    for (std::int64_t i = 0; i < out_ * in_ / 8; ++i) append(packed.bytes, word(i));
    for (std::int64_t i = 0; i < out_ * in_ / of_.group; ++i) {
      if (of_.scales == DType::kF32) append(scales.bytes, scale(i));
      if (of_.scales == DType::kF16) append(scales.bytes, static_cast<std::uint16_t>(0x1C00 + fraction(i)));
      if (of_.scales == DType::kBF16) append(scales.bytes, static_cast<std::uint16_t>(0x3B80 + fraction(i)));
    }
    append(shape.bytes, out_);
    append(shape.bytes, in_);
    c.tensors[stem + ".weight_packed"] = std::move(packed);
    c.tensors[stem + ".weight_scale"] = std::move(scales);
    c.tensors[stem + ".weight_shape"] = std::move(shape);
  }
  void put_float32(EditedCheckpoint& c, const std::string& stem) const {
    StoredTensor wide{DType::kF32, {out_, in_}, {}};
    for (std::int64_t i = 0; i < out_ * in_; ++i) append(wide.bytes, value(i));
    c.tensors[stem + ".weight"] = std::move(wide);
  }

 private:
  [[nodiscard]] int parts() const { return of_.scales == DType::kBF16 ? 128 : 1024; }
  [[nodiscard]] int fraction(std::int64_t i) const { return static_cast<int>((i * 37 + 5) % parts()); }

  std::int64_t out_, in_;
  Packing of_;
};

class Int4 : public testing::Test {
 protected:
  [[nodiscard]] static EditedCheckpoint released() {
    static const test::RandomCheckpoint checkpoint(with_experts(preset_config("tiny-flash"), 4));
    return EditedCheckpoint(checkpoint.path());
  }
  [[nodiscard]] static EditedCheckpoint int4(const Packing& packing = {}) {
    EditedCheckpoint c = released();
    test::replace_experts(c, [&](const std::string& stem, std::int64_t out, std::int64_t in) {
      PackedExpert(out, in, packing).put(c, stem);
    });
    return c;
  }
  [[nodiscard]] static EditedCheckpoint float32(const Packing& packing) {
    EditedCheckpoint c = released();
    test::replace_experts(c, [&](const std::string& stem, std::int64_t out, std::int64_t in) {
      PackedExpert(out, in, packing).put_float32(c, stem);
    });
    return c;
  }
  [[nodiscard]] std::filesystem::path written(const EditedCheckpoint& checkpoint) {
    const std::filesystem::path path = folder_ / fmt::format("int4-{}", ++count_);
    checkpoint.write(path, 1'000'000);
    return path;
  }
  static std::vector<float> logits(const std::filesystem::path& model, bool mtp) {
    Engine engine(
        model, {.precision = Precision::kExact, .max_batch_tokens = 64, .max_logit_rows = 64, .drafts = mtp});
    const test::SequenceLogits found =
        test::run_sequence(engine, test::random_tokens(40, engine.config().vocab_size, 1), 16);
    return mtp ? found.mtp : found.main;
  }

  test::TemporaryFolder folder_;
  ThreadPool pool_{1};
  int count_ = 0;
};

TEST_F(Int4, ComputesWithTheValuesOfTheFile) {
  for (const Packing packing :
       {Packing{32, DType::kF16}, Packing{128, DType::kBF16}, Packing{128, DType::kF32}}) {
    const auto model = written(int4(packing)), truth = written(float32(packing));
    for (const bool mtp : {false, true}) {
      const std::vector<float> want = logits(truth, mtp);
      ASSERT_FALSE(want.empty());
      EXPECT_CLOSE(logits(model, mtp), want, {.norm = 1e-5});
    }
  }
}

TEST_F(Int4, InspectSaysWhatItIs) {
  EditedCheckpoint c = int4({128, DType::kBF16});
  const CheckpointReport report = inspect_checkpoint(written(c));
  EXPECT_EQ(report.kind.experts.text(), "int4 of compressed-tensors, BF16 scales of 128 inputs");
  EXPECT_EQ(
      report.kind.experts.evidence,
      "layers.0.ffn.experts.0.w1: weight_scale BF16 [128, 2], weight_packed I32 [128, 32], weight_shape "
      "I64 [2]");
  EXPECT_EQ(report.kind.why_not, "");
  EXPECT_EQ(report.mismatches, std::vector<std::string>{});
  EXPECT_EQ(report.by_format.at("int4 (packed in I32)").num_tensors, 60);
  EXPECT_EQ(report.num_tensors, std::ssize(c.tensors));
}

TEST_F(Int4, HeadersAreEnoughToInspect) {
  EditedCheckpoint c = int4();
  for (auto& [name, tensor] : c.tensors)
    if (name.ends_with(".weight_shape")) std::ranges::fill(tensor.bytes, std::byte{0});
  EXPECT_EQ(inspect_checkpoint(written(c)).mismatches, std::vector<std::string>{});
}

/// Every weight as it is packed, rounded to BF16; the first two words are -8 to 7 in order.
TEST_F(Int4, ConvertsToTheNearestBf16) {
  for (const Packing packing : {Packing{32, DType::kF16}, Packing{128, DType::kBF16}}) {
    const std::filesystem::path out = folder_ / fmt::format("bf16-{}", packing.group);
    static_cast<void>(
        convert_checkpoint(written(int4(packing)), out, {.experts = WeightFormat::kBF16}, pool_));
    const EditedCheckpoint found(out);
    const StoredTensor& w1 = found.tensors.at(std::string(kW1) + ".weight");
    ASSERT_EQ(w1.dtype, DType::kBF16);
    const PackedExpert want(w1.shape[0], w1.shape[1], packing);
    for (std::int64_t i = 0; i < 16; ++i)
      ASSERT_EQ(want.value(i), static_cast<float>(i - 8) * want.scale(0)) << i;
    for (std::int64_t i = 0; i < w1.shape[0] * w1.shape[1]; ++i) {
      Bf16Bits bits = 0;
      std::memcpy(&bits, w1.bytes.data() + i * std::int64_t{sizeof(bits)}, sizeof(bits));
      ASSERT_EQ(bits, float_to_bf16(want.value(i))) << i;
    }
  }
}

TEST_F(Int4, ConvertsToFp8AndSaysWhatIsLost) {
  EditedCheckpoint c = int4();
  c.config["quantization_config"] = {{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}};
  const auto model = written(c);
  const ConvertReport report = convert_checkpoint(model, folder_ / "out", {}, pool_);
  EXPECT_FALSE(report.lossless());
  const std::string text = report_text(report);
  EXPECT_NE(text.find("experts q8 -> fp8, dense fp8 -> fp8"), std::string::npos) << text;
  EXPECT_NE(text.find("lost of single tensors:\n  layers.0.ffn.experts.*.w1"), std::string::npos) << text;
  const RoundingLoss& lost = report.lossy_tensors.at("layers.0.ffn.experts.*.w1");
  EXPECT_EQ(lost.num_tensors, 4);
  EXPECT_GT(lost.mean_relative_error(), 1e-3);
  EXPECT_LT(lost.mean_relative_error(), 0.04);  // e4m3 has four significant bits
  const EditedCheckpoint out(folder_ / "out");
  EXPECT_EQ(out.tensors.at(std::string(kW1) + ".weight").dtype, DType::kF8E4M3);
  EXPECT_EQ(out.config["quantization_config"]["quant_method"], "fp8");
  EXPECT_EQ(out.config["expert_dtype"], "fp8");
  EXPECT_EQ(open_model_folder(folder_ / "out").kind.contradictions, std::vector<std::string>{});
  const double off = test::relative_norm(logits(folder_ / "out", false), logits(model, false));
  EXPECT_GT(off, 0);
  EXPECT_LT(off, 0.2);
  static_cast<void>(convert_checkpoint(model, folder_ / "fp4", {.experts = WeightFormat::kFp4}, pool_));
  EXPECT_EQ(open_model_folder(folder_ / "fp4").kind.experts.text(), "MXFP4, E8M0 scales");
}

/// The MTP block's dense matrices keep their own format, also beside foreign layers.
TEST_F(Int4, DenseMatricesOfADraftHeadStay) {
  EditedCheckpoint c = int4();
  const std::filesystem::path bf16 = folder_ / "bf16";
  static_cast<void>(convert_checkpoint(written(released()), bf16, {.dense = WeightFormat::kBF16}, pool_));
  const EditedCheckpoint wide(bf16);
  c.erase_if(test::is_draft);
  for (const auto& [name, tensor] : wide.tensors)
    if (test::is_draft(name)) c.tensors[name] = tensor;
  static_cast<void>(convert_checkpoint(written(c), folder_ / "out", {}, pool_));
  const EditedCheckpoint out(folder_ / "out");
  EXPECT_EQ(out.tensors.at("mtp.0.attn.wq_a.weight").bytes, c.tensors.at("mtp.0.attn.wq_a.weight").bytes);
  EXPECT_EQ(out.tensors.at("layers.0.attn.wq_a.weight").bytes,
            c.tensors.at("layers.0.attn.wq_a.weight").bytes);
}

TEST_F(Int4, GpusAreToldOfConvert) {
  const ModelWeights weights(written(int4()));
  try {
    const GpuFormats formats(weights.tree(), pool_);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("GPUs do not compute"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("`baleen convert IN OUT`"), std::string::npos) << error.what();
  }
}

TEST_F(Int4, WhatDoesNotFitIsNamed) {
  struct Damage {
    const char* sentence;
    void (*change)(EditedCheckpoint&, const std::string& stem);
  };
  const Damage all[] = {
      {"\"layers.1.ffn.experts.2.w1.weight_scale\" beside it",
       [](EditedCheckpoint& c, const std::string& stem) { c.tensors.erase(stem + ".weight_scale"); }},
      {"F16 [128, 4], expected F16, BF16 or F32 with 128 rows and a scale for 32 or for 128 of 256 inputs",
       [](EditedCheckpoint& c, const std::string& stem) {
         c.add(stem + ".weight_scale", DType::kF16, {128, 4});
       }},
      {"F8_E4M3 [128, 8], expected F16, BF16 or F32 with ",
       [](EditedCheckpoint& c, const std::string& stem) {
         c.add(stem + ".weight_scale", DType::kF8E4M3, {128, 8});
       }},
      {"I32 [4096], expected eight integers in each I32",
       [](EditedCheckpoint& c, const std::string& stem) {
         c.add(stem + ".weight_packed", DType::kI32, {4096});
       }},
      {"weight_shape\" in ",
       [](EditedCheckpoint& c, const std::string& stem) { c.add(stem + ".weight_shape", DType::kI64, {3}); }},
      {"[128, 512], expected [128, 256], which \"layers.1.ffn.experts.2.w1.weight_packed\" has at four bits",
       [](EditedCheckpoint& c, const std::string& stem) {
         const std::int64_t said = 512;
         std::memcpy(c.tensors.at(stem + ".weight_shape").bytes.data() + sizeof(said), &said, sizeof(said));
       }},
      {"weight_zero_point\" in ",
       [](EditedCheckpoint& c, const std::string& stem) {
         c.add(stem + ".weight_zero_point", DType::kI32, {16, 8});
       }},
      {"tensor \"layers.1.ffn.experts.2.w1.weight\" in ",
       [](EditedCheckpoint& c, const std::string& stem) {
         c.add(stem + ".weight_packed", DType::kI32, {64, 32});
         c.add(stem + ".weight_scale", DType::kF16, {64, 8});
         c.tensors.erase(stem + ".weight_shape");
       }},
      {"scale 0 is -", [](EditedCheckpoint& c, const std::string& stem) {
         c.tensors.at(stem + ".weight_scale").bytes[1] = std::byte{0x9C};
       }}};
  for (const Damage& damage : all) {
    EditedCheckpoint checkpoint = int4();
    damage.change(checkpoint, kW1);
    try {
      static_cast<void>(convert_checkpoint(written(checkpoint), folder_ / "out", {}, pool_));
      ADD_FAILURE() << damage.sentence;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(damage.sentence), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(kW1), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace baleen
