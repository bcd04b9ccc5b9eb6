// Expert maps of a file: what is read, and a sentence for each way in which it can be wrong.
#include "moe/placement/expert_maps.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "model/presets.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

class ExpertMaps : public testing::Test {
 protected:
  [[nodiscard]] ExpertTable read(std::string_view text) const {
    AtomicFileWriter writer(folder_ / "map.json");
    writer.write(text);
    writer.commit();
    return read_expert_table(folder_ / "map.json");
  }
  [[nodiscard]] std::string refusal(std::string_view text) const {
    try {
      static_cast<void>(read(text));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const test::TemporaryFolder folder_;
  const ModelConfig config_ = preset_config("tiny-flash");
};

/// Of tiny-flash's 8 experts in each block.
ExpertTable good_table(const ModelConfig& config) {
  return ExpertTable(static_cast<std::size_t>(config.num_blocks()), {7, 6, 5, 4, 3, 2, 1, 0, 0, 7});
}

TEST_F(ExpertMaps, AFileIsRead) {
  EXPECT_EQ(read(R"({"physical_to_logical": [[1, 0], [0, 1]], "loads": [3]})"),
            (ExpertTable{{1, 0}, {0, 1}}));
  EXPECT_EQ(read(R"({"physical_to_logical": []})"), ExpertTable());
}

TEST_F(ExpertMaps, WhatIsNoTableIsRefused) {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "not JSON"},
           {R"({"physical_to_logical": [[1, 0])", "not JSON"},
           {"[]", "expected an object"},
           {"{}", "expected an object with \"physical_to_logical\""},
           {R"({"physical_to_logical": 3})", "expected a list of lists, found number"},
           {R"({"physical_to_logical": [[0], 1]})", "layer 1: expected a list of the experts"},
           {R"({"physical_to_logical": [[0, 1.5]]})",
            "layer 0, slot 1: expected an expert's number, found 1.5"},
           {R"({"physical_to_logical": [[0, -1]]})",
            "layer 0, slot 1: expected an expert's number, found -1"},
           {R"({"physical_to_logical": [[4294967296]]})", "slot 0: expected an expert's number"},
           {R"({"physical_to_logical": [[18446744073709551615]]})", "slot 0: expected an expert's number"},
           {R"({"physical_to_logical": [["a"]]})", "expected an expert's number, found string"}}) {
    const std::string sentence = refusal(text);
    EXPECT_NE(sentence.find(part), std::string::npos) << text << ": " << sentence;
    EXPECT_NE(sentence.find("map.json"), std::string::npos) << sentence;
  }
  EXPECT_THROW(static_cast<void>(read_expert_table(folder_ / "absent.json")), Error);
}

TEST_F(ExpertMaps, TheTableSaysHowManyCopies) {
  const ExpertTable table = good_table(config_);
  const ParallelPlan plan = with_table({.dp = 2}, table, config_);
  EXPECT_EQ(plan.redundant_experts, 2);
  EXPECT_EQ(with_table(plan, table, config_), plan) << "again";
  ParallelPlan full = resolved(plan, config_);
  const std::vector<ExpertMap> maps = expert_maps(full, config_, &table);
  ASSERT_EQ(std::ssize(maps), config_.num_blocks());
  EXPECT_EQ(maps[3], ExpertMap(table[3], 8, 2));
  const std::vector<ExpertMap> placed = expert_maps(full, config_, nullptr);
  ASSERT_EQ(std::ssize(placed), config_.num_blocks());
  EXPECT_EQ(placed[3], ExpertMap::placed(ExpertOrder::kLinear, 8, 2, 2));
}

/// Blocks of a draft head with fewer experts have fewer slots, and as many copies.
TEST_F(ExpertMaps, ABlockHasSlotsForItsOwnExperts) {
  const ModelConfig config = preset_config("tiny-v41");  // 7 layers of 8, and 3 blocks of 4
  ExpertTable table(7, {7, 6, 5, 4, 3, 2, 1, 0, 0, 7});
  table.resize(10, {3, 2, 1, 0, 0, 3});
  const ParallelPlan plan = resolved(with_table({.dp = 2}, table, config), config);
  EXPECT_EQ(plan.redundant_experts, 2);
  for (const bool is_read : {true, false}) {
    const std::vector<ExpertMap> maps = expert_maps(plan, config, is_read ? &table : nullptr);
    ASSERT_EQ(maps.size(), 10U);
    EXPECT_EQ(maps[6].num_experts(), 8);
    EXPECT_EQ(maps[6].slots_per_rank(), 5);
    EXPECT_EQ(maps[7].num_experts(), 4);
    EXPECT_EQ(maps[9].slots_per_rank(), 3);
  }
  table[8].push_back(1);
  try {
    static_cast<void>(with_table({.dp = 2}, table, config));
    FAIL() << "seven slots were taken";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "‹expert map›: layer 8 has 7 slots, layer 0 has 10 for 8 experts: with as many copies 6 here");
  }
}

TEST_F(ExpertMaps, ATableOfAnotherModelIsRefused) {
  const auto refused = [&](const ExpertTable& table, std::int64_t num_copies = 0) -> std::string {
    try {
      static_cast<void>(with_table({.dp = 2, .redundant_experts = num_copies}, table, config_));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const ExpertTable good = good_table(config_);
  EXPECT_EQ(refused(good), "");
  EXPECT_EQ(refused(good, 2), "");
  EXPECT_NE(refused(good, 4).find("‹copies of experts› 4, but ‹expert map› has 10 slots"), std::string::npos);
  EXPECT_NE(refused({}).find("0 layers, but the model has 5 and 1 blocks of a draft head"),
            std::string::npos);
  ExpertTable wrong = good;
  wrong.pop_back();
  EXPECT_NE(refused(wrong).find("5 layers"), std::string::npos);
  wrong = good;
  wrong[2].pop_back();
  EXPECT_NE(refused(wrong).find("layer 2 has 9 slots, layer 0 has 10"), std::string::npos);
  wrong = good;
  wrong[4][1] = 8;
  EXPECT_NE(refused(wrong).find("layer 4, slot 1: expert 8, but the model has experts 0 to 7"),
            std::string::npos);
  wrong = good;
  wrong[1][2] = 0;  // the only copy of expert 5
  EXPECT_NE(refused(wrong).find("layer 1: no slot holds expert 5"), std::string::npos);
  ExpertTable empty(good.size());
  EXPECT_NE(refused(empty).find("layer 0: no slot holds expert 0"), std::string::npos);
}

}  // namespace
}  // namespace baleen
