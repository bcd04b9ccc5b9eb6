// The table of tensors against the published totals of the released checkpoints.
#include "model/tensor_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/model_folder.h"
#include "model/presets.h"

namespace baleen {
namespace {

struct Totals {
  std::int64_t num_tensors = 0;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int64_t routed_expert_bytes = 0;
  std::map<DType, std::int64_t> by_dtype;
};

Totals totals_of(const ModelConfig& config, const StorageFormats& formats = {}) {
  Totals totals;
  for (const TensorSpec& spec : tensor_table(config)) {
    for (const TensorHeader& tensor : stored_tensors(spec, formats)) {
      ++totals.num_tensors;
      totals.elements += tensor.num_elements();
      totals.bytes += tensor.size_bytes();
      if (spec.role == TensorRole::kRoutedExpert) totals.routed_expert_bytes += tensor.size_bytes();
      ++totals.by_dtype[tensor.dtype];
    }
  }
  return totals;
}

TEST(TensorTable, FlashTotals) {
  const Totals totals = totals_of(preset_config("flash"));
  EXPECT_EQ(totals.num_tensors, 69'187);
  EXPECT_EQ(totals.elements, 158'069'433'298);
  EXPECT_EQ(totals.bytes, 159'609'485'896);
  EXPECT_EQ(totals.routed_expert_bytes, 150'592'290'816);
  EXPECT_EQ(totals.by_dtype, (std::map<DType, std::int64_t>{{DType::kBF16, 433},
                                                            {DType::kF32, 417},
                                                            {DType::kF8E4M3, 375},
                                                            {DType::kF8E8M0, 34'167},
                                                            {DType::kI8, 33'792},
                                                            {DType::kI64, 3}}));
}

TEST(TensorTable, ProTotals) {
  const Totals totals = totals_of(preset_config("pro"));
  EXPECT_EQ(totals.num_tensors, 145'116);
  EXPECT_EQ(totals.elements, 861'608'274'846);
  EXPECT_EQ(totals.bytes, 864'704'792'696);
  EXPECT_EQ(totals.routed_expert_bytes, 835'530'522'624);
  EXPECT_EQ(totals.by_dtype, (std::map<DType, std::int64_t>{{DType::kBF16, 619},
                                                            {DType::kF32, 590},
                                                            {DType::kF8E4M3, 528},
                                                            {DType::kF8E8M0, 71'952},
                                                            {DType::kI8, 71'424},
                                                            {DType::kI64, 3}}));
}

TEST(TensorTable, BenchPresetSize) {
  const std::int64_t bytes = totals_of(preset_config("bench-1b")).bytes;
  EXPECT_GT(bytes, 1'150'000'000);
  EXPECT_LT(bytes, 1'250'000'000);
}

TEST(TensorTable, NamesAreDistinct) {
  for (const char* preset : {"tiny-flash", "tiny-real-heads", "bench-1b"}) {
    std::set<std::string> names;
    for (const TensorSpec& spec : tensor_table(preset_config(preset))) {
      for (const TensorHeader& tensor : stored_tensors(spec, {}))
        EXPECT_TRUE(names.insert(tensor.name).second);
    }
  }
}

TEST(TensorTable, FormatsOfOneMatrix) {
  const TensorSpec matrix{"x", {192, 256}, Storage::kExpert, TensorRole::kRoutedExpert, 0};
  const auto text = [&](StorageFormats formats) {
    std::string all;
    for (const TensorHeader& tensor : stored_tensors(matrix, formats)) {
      all += tensor.name + " " + tensor.type_text() + ";";
    }
    return all;
  };
  EXPECT_EQ(text({}), "x.weight I8 [192, 128];x.scale F8_E8M0 [192, 8];");
  EXPECT_EQ(text({.experts = WeightFormat::kFp8}), "x.weight F8_E4M3 [192, 256];x.scale F8_E8M0 [2, 2];");
  EXPECT_EQ(text({.experts = WeightFormat::kFp8, .expert_scale = DType::kF32}),
            "x.weight F8_E4M3 [192, 256];x.scale F32 [2, 2];");
  EXPECT_EQ(text({.experts = WeightFormat::kBF16}), "x.weight BF16 [192, 256];");
}

TEST(TensorTable, BundledModelFits) {
  if (!std::filesystem::exists("models/stories/config.json")) GTEST_SKIP() << "no bundled model";
  EXPECT_EQ(mismatches(load_config("models/stories"), Checkpoint("models/stories")),
            std::vector<std::string>{});
}

}  // namespace
}  // namespace baleen
