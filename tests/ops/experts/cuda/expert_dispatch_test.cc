// The plan of experts and the rows of codes, by the kernels for few and for many tokens, against plain loops;
// and the sums of a token's rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "ops/experts/cuda/expert_dispatch.h"
#include "ops/experts/cuda/expert_layout.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::random_values;
using test::TestCuda;

constexpr std::int64_t kWidth = 1280;  // no whole number of a block's slices

/// A call's sizes, ids, and experts that are elsewhere.
struct Assignments {
  std::int64_t num_tokens = 0, num_selected = 0;
  int num_experts = 0, first_expert = 0;  ///< of this rank
  int tile_tokens = 8;
  bool with_shared = true;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  std::vector<bool> copied, computed;  ///< of each expert; empty: none

  [[nodiscard]] DispatchExtents extents() const {
    return {num_tokens, num_selected, num_experts, with_shared ? num_tokens : 0, tile_tokens};
  }
  [[nodiscard]] int expert_of(std::int64_t slot) const {
    const int expert = ids[static_cast<std::size_t>(slot)] - first_expert;
    return ids[static_cast<std::size_t>(slot)] >= 0 && expert >= 0 && expert < num_experts ? expert : -1;
  }
};

struct Plan {
  std::vector<std::array<std::int32_t, 3>> resident, copied;  ///< expert, first row, rows of each tile
  std::vector<std::int32_t> row_of_slot;
  std::vector<std::optional<float>> row_weight;  ///< nullopt: no row's

  bool operator==(const Plan&) const = default;
};

/// Tiles of `count` rows from `first_row` on: as few as hold them, cut at multiples of four rows that are as
/// even as these allow.
void cut(std::vector<std::array<std::int32_t, 3>>& list, int expert, std::int64_t first_row,
         std::int64_t count, int tile_tokens) {
  const std::int64_t tiles = (count + tile_tokens - 1) / tile_tokens;
  const auto begin = [&](std::int64_t tile) {
    return std::min(count, (count + kRowAlignment - 1) / kRowAlignment * tile / tiles * kRowAlignment);
  };
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    list.push_back({expert, static_cast<std::int32_t>(first_row + begin(tile)),
                    static_cast<std::int32_t>(begin(tile + 1) - begin(tile))});
  }
}

Plan plan_by_loops(const Assignments& call) {
  const DispatchExtents extents = call.extents();
  Plan plan{.row_of_slot = std::vector<std::int32_t>(static_cast<std::size_t>(extents.num_slots()), -1),
            .row_weight = std::vector<std::optional<float>>(static_cast<std::size_t>(extents.num_rows()))};
  cut(plan.resident, call.num_experts, extents.first_shared_row(), extents.num_shared, call.tile_tokens);
  for (std::int64_t i = 0; i < extents.num_shared; ++i)
    plan.row_weight[static_cast<std::size_t>(extents.first_shared_row() + i)] = 1.0F;
  std::int64_t row = 0;
  for (int expert = 0; expert < call.num_experts; ++expert) {
    row = (row + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
    const std::int64_t first_row = row;
    for (std::int64_t slot = 0; slot < extents.num_slots(); ++slot) {
      if (call.expert_of(slot) != expert) continue;
      plan.row_of_slot[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(row);
      plan.row_weight[static_cast<std::size_t>(row)] = call.weights[static_cast<std::size_t>(slot)];
      ++row;
    }
    const auto at = static_cast<std::size_t>(expert);
    if (!call.computed.empty() && call.computed[at]) continue;
    cut(!call.copied.empty() && call.copied[at] ? plan.copied : plan.resident, expert, first_row,
        row - first_row, call.tile_tokens);
  }
  return plan;
}

/// Ids of 0 to `num_ids` - 1, of which the call has some, and -1. `few_ids`: most slots share three experts.
Assignments random_call(std::int64_t num_tokens, std::int64_t num_selected, int num_experts, int num_ids,
                        bool few_ids, std::uint32_t seed) {
  std::mt19937 random(seed);
  Assignments call{
      .num_tokens = num_tokens,
      .num_selected = num_selected,
      .num_experts = num_experts,
      .first_expert = static_cast<int>(random() % static_cast<unsigned>(num_ids - num_experts + 1)),
      .tile_tokens = std::array{8, 16, 64, 4}[random() % 4],
      .with_shared = random() % 4 != 0};
  for (std::int64_t slot = 0; slot < num_tokens * num_selected; ++slot) {
    const unsigned range = few_ids && random() % 8 != 0 ? 3U : static_cast<unsigned>(num_ids);
    const auto id = static_cast<std::int32_t>((static_cast<unsigned>(call.first_expert) + random() % range) %
                                              static_cast<unsigned>(num_ids));
    call.ids.push_back(random() % 10 == 0 ? -1 : id);
    call.weights.push_back(static_cast<float>(slot + 1) * 0.25F);
  }
  return call;
}

/// What `dispatch_experts` writes.
struct Dispatched {
  Plan plan;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::vector<std::int32_t> counters;
  std::int64_t scale_stride = 0;
};

struct Rows {
  std::vector<float> x;
  int group = kActivationGroup;
  bool planned_only = false;
};

std::vector<std::array<std::int32_t, 3>> tiles_of(TestCuda& cuda, const TileList& list,
                                                  const DispatchExtents& extents) {
  if (list.tiles == nullptr) return {};
  const std::int32_t count = cuda.download(list.count, 1)[0];
  EXPECT_GE(count, 0);
  EXPECT_LE(count, extents.max_tiles());
  std::vector<std::array<std::int32_t, 3>> tiles;
  for (const TokenTile& tile :
       cuda.download(list.tiles, std::clamp<std::int64_t>(count, 0, extents.max_tiles())))
    tiles.push_back({tile.expert, tile.first_row, tile.num_rows});
  return tiles;
}

class OnDevice {
 public:
  explicit OnDevice(TestCuda& cuda) : cuda_(cuda) {}
  template <class T>
  T* allocate(std::int64_t count) {
    return cuda_.allocate<T>(count);
  }

 private:
  TestCuda& cuda_;
};

Dispatched dispatch(TestCuda& cuda, const Assignments& call, const Rows& from) {
  constexpr std::int64_t kCounters = 700;
  const DispatchExtents extents = call.extents();
  const std::vector<ExpertWeights> routed(static_cast<std::size_t>(call.num_experts));
  const std::int64_t rows = call.num_tokens, k = call.num_selected;
  ExpertsArgs args{.x = View<const Bf16Bits, 2>(cuda.upload_bf16(from.x), {rows, kWidth}),
                   .ids = {cuda.upload(call.ids), {rows, k}},
                   .weights = {cuda.upload(call.weights), {rows, k}},
                   .routed = routed,
                   .first_expert = call.first_expert};
  if (!call.copied.empty()) {
    std::vector<std::int32_t> places, copied;
    for (std::int32_t expert = 0; expert < call.num_experts; ++expert) {
      places.push_back(2 * expert);
      copied.push_back(2 * expert + (call.copied[static_cast<std::size_t>(expert)] ? 1 : 0));
    }
    args.places.of_expert = cuda.upload(places);
    args.places.copied = cuda.upload(copied);
  }
  HostExpertRequest request{};
  if (!call.computed.empty()) {
    const auto state = std::make_unique<HostExpertState>();
    for (std::size_t expert = 0; expert < call.computed.size(); ++expert)
      state->computed[expert] = call.computed[expert] ? 1 : 0;
    args.sums = ExpertSums::kStated;
    args.places.slots.host.request = &request;  // is not read here
    args.places.slots.host.state = cuda.upload(std::span<const HostExpertState>(state.get(), 1));
  }
  OnDevice memory(cuda);
  const DispatchPlan plan = lay_out_plan(memory, extents, !call.copied.empty(), kCounters);
  const Fp8Rows to =
      from.planned_only ? Fp8Rows{} : lay_out_rows(memory, extents.num_rows(), kWidth, from.group);
  dispatch_experts(args, extents, plan, to, cuda.context());
  cuda.synchronise();

  Dispatched out{.plan = {.resident = tiles_of(cuda, plan.lists.resident, extents),
                          .copied = tiles_of(cuda, plan.lists.copied, extents),
                          .row_of_slot = cuda.download(plan.row_of_slot, extents.num_slots())},
                 .counters = cuda.download(plan.counters, kCounters)};
  for (const float weight : cuda.download(plan.row_weight, extents.num_rows()))
    out.plan.row_weight.push_back(std::isnan(weight) ? std::nullopt : std::optional(weight));
  if (!from.planned_only) {
    out.codes = cuda.download(to.codes, extents.num_rows() * kWidth);
    out.scale_stride = to.scale_stride;
    out.scales = cuda.download(to.scales, kWidth / from.group * to.scale_stride);
  }
  return out;
}

Rows random_rows(std::int64_t num_tokens, int group) {
  Rows rows{.x = random_values(static_cast<std::size_t>(num_tokens * kWidth), 17, 1.0F), .group = group};
  for (std::size_t i = 0; i < rows.x.size(); ++i) rows.x[i] *= i / 32 % 5 == 2 ? 0.0F : 1.0F;
  return rows;
}

TEST(DispatchOnGpu, PlansAreThoseOfPlainLoops) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  std::uint32_t seed = 0;
  for (const std::int64_t num_tokens : {1, 2, 3, 5, 7, 8, 9, 10, 33, 300}) {
    for (const std::int64_t num_selected : {0, 1, 6, 8, 9}) {
      for (const auto& [num_experts, num_ids] : {std::pair{1, 1}, {16, 16}, {96, 384}, {384, 384}}) {
        for (const bool few_ids : {false, true}) {
          Assignments call = random_call(num_tokens, num_selected, num_experts, num_ids, few_ids, ++seed);
          const bool some_are_elsewhere = seed % 3 == 0;
          std::mt19937 random(seed);
          for (int expert = 0; some_are_elsewhere && expert < num_experts; ++expert) {
            call.copied.push_back(random() % 2 == 0);
            if (num_tokens <= kMaxHostTokens) call.computed.push_back(random() % 4 == 0);
          }
          SCOPED_TRACE(fmt::format("{} tokens, {} slots each, {} of {} experts, seed {}{}", num_tokens,
                                   num_selected, num_experts, num_ids, seed,
                                   some_are_elsewhere ? ", some elsewhere" : ""));
          Rows rows = random_rows(num_tokens, kActivationGroup);
          rows.planned_only = seed % 2 == 0;
          const Dispatched got = dispatch(cuda, call, rows);
          const Plan want = plan_by_loops(call);
          EXPECT_EQ(got.plan.row_of_slot, want.row_of_slot);
          EXPECT_EQ(got.plan.resident, want.resident);
          EXPECT_EQ(got.plan.copied, want.copied);
          EXPECT_EQ(got.plan.row_weight, want.row_weight);
          EXPECT_EQ(std::ranges::count(got.counters, 0), std::ssize(got.counters));
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

/// Each slot's row and the shared expert's: of few tokens as of those among many.
TEST(DispatchOnGpu, RowsOfFewTokensAreThoseAmongMany) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  constexpr std::int64_t kMany = 20;
  for (const int group : {kActivationGroup, kSmallActivationGroup}) {
    const Rows all = random_rows(kMany, group);
    for (const std::int64_t num_selected : {0, 6}) {
      Assignments many = random_call(kMany, num_selected, 40, 48, false, 5);
      many.with_shared = true;
      const Dispatched of_many = dispatch(cuda, many, all);
      for (const std::int64_t num_tokens : {1, 3, 8}) {
        SCOPED_TRACE(fmt::format("{} tokens, {} slots each, scales of {}", num_tokens, num_selected, group));
        Assignments few = many;
        few.num_tokens = num_tokens;
        few.ids.resize(static_cast<std::size_t>(num_tokens * num_selected));
        few.weights.resize(few.ids.size());
        Rows part = all;
        part.x.resize(static_cast<std::size_t>(num_tokens * kWidth));
        const Dispatched of_few = dispatch(cuda, few, part);
        const auto expect_equal = [&](std::int64_t row, std::int64_t want) {
          const auto codes = [](const Dispatched& of, std::int64_t at) {
            return std::vector(of.codes.begin() + at * kWidth, of.codes.begin() + (at + 1) * kWidth);
          };
          EXPECT_EQ(codes(of_few, row), codes(of_many, want));
          for (std::int64_t scale = 0; scale < kWidth / group; ++scale) {
            EXPECT_EQ(of_few.scales[static_cast<std::size_t>(scale * of_few.scale_stride + row)],
                      of_many.scales[static_cast<std::size_t>(scale * of_many.scale_stride + want)]);
          }
        };
        for (std::size_t slot = 0; slot < few.ids.size(); ++slot) {
          ASSERT_EQ(of_few.plan.row_of_slot[slot] < 0, of_many.plan.row_of_slot[slot] < 0);
          if (of_few.plan.row_of_slot[slot] >= 0)
            expect_equal(of_few.plan.row_of_slot[slot], of_many.plan.row_of_slot[slot]);
        }
        for (std::int64_t token = 0; token < num_tokens; ++token)
          expect_equal(few.extents().first_shared_row() + token, many.extents().first_shared_row() + token);
      }
    }
  }
}

/// Rows of y in float32 and in BF16, up to as many slots as a token may have, added in ascending row.
TEST(CombineOnGpu, AddsRowsInTheirOrder) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  for (const std::int64_t num_tokens : {1, 2, 7, 40, 150}) {
    for (const std::int64_t num_selected : {0, 1, 6, 8, 9, 32}) {
      for (const bool partial : {false, true}) {
        Assignments call = random_call(num_tokens, num_selected, 40, 48, false, 3);
        const DispatchExtents extents = call.extents();
        const Plan plan = plan_by_loops(call);
        SCOPED_TRACE(fmt::format("{} tokens, {} slots each, {}{}", num_tokens, num_selected,
                                 partial ? "float32" : "BF16", call.with_shared ? "" : ", no shared expert"));
        std::vector<float> y = random_values(static_cast<std::size_t>(extents.num_rows() * kWidth), 23, 1.0F);
        if (!partial) {
          for (float& value : y) value = round_bf16(value);
        }
        ExpertOutputs of_all;
        if (partial) {
          of_all.partial = cuda.upload(y);
        } else {
          of_all.rounded = cuda.upload_bf16(y);
        }
        float* const out = cuda.allocate<float>(num_tokens * kWidth);
        combine_experts({.out = Activations<2>(out, {num_tokens, kWidth}), .partial_sums = true}, extents,
                        {.row_of_slot = cuda.upload(plan.row_of_slot)}, {.routed = of_all, .shared = of_all},
                        cuda.context());
        cuda.synchronise();
        std::vector<float> want;
        for (std::int64_t token = 0; token < num_tokens; ++token) {
          std::vector<std::int64_t> rows;
          for (std::int64_t slot = token * num_selected; slot < (token + 1) * num_selected; ++slot) {
            if (plan.row_of_slot[static_cast<std::size_t>(slot)] >= 0)
              rows.push_back(plan.row_of_slot[static_cast<std::size_t>(slot)]);
          }
          std::ranges::sort(rows);
          if (call.with_shared) rows.push_back(extents.first_shared_row() + token);
          for (std::int64_t column = 0; column < kWidth; ++column) {
            float sum = 0.0F;
            for (const std::int64_t row : rows) sum += y[static_cast<std::size_t>(row * kWidth + column)];
            want.push_back(sum);
          }
        }
        EXPECT_SAME_BITS(cuda.download(out, num_tokens * kWidth), want);
      }
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
