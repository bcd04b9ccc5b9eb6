// Which operations of a decode step of Flash begin before those in front of them have ended: the forward pass
// on a device that queues nothing and keeps the order of launches as a GPU does.
//
// What kernels there are, the table below says, and of three of them that they let the next one begin behind
// their own wait, which the files of those kernels say to the compiler. Others count as letting it begin at
// once, which is the least that is known of a kernel.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cuda/launch_order.h"
#include "device/unbacked_device.h"
#include "forward/forward.h"
#include "model/cache_geometry.h"
#include "model/presets.h"
#include "ops/operations.h"
#include "simulator/graph/rank_model.h"

namespace baleen {
namespace {

/// A kernel that may begin early, or not, and of which block it was.
struct EarlyRead {
  std::string_view operation;
  std::int64_t block = 0;
  bool is_settled = false;
};

class OrderingDevice final : public UnbackedDevice {
 public:
  /// `behind_wait`: operations, or what they are in one pass, whose kernel lets the next begin behind its
  /// wait.
  explicit OrderingDevice(std::vector<std::string_view> behind_wait)
      : UnbackedDevice(
            {.architecture = "orders", .activation_type = ElementType::kBf16, .shares_host_memory = false}),
        executor_(std::move(behind_wait)) {}

  [[nodiscard]] const std::vector<EarlyRead>& reads() const { return executor_.reads; }

  [[nodiscard]] std::string name() const override { return "orders"; }
  [[nodiscard]] Executor& executor() override { return executor_; }

 private:
  class Queue final : public Executor {
   public:
    explicit Queue(std::vector<std::string_view> behind_wait) : behind_wait_(std::move(behind_wait)) {}

    void run(const OperationSequence& sequence, const void* const* args) override {
      if (!sequence.name.empty()) {
        sequence.add_accesses(args, order_.begin_operation());
        return launch(sequence.name, sequence.shape(args).num_rows, args);
      }
      for (const OperationInfo* part : sequence.parts) {
        part->accesses(*args, order_.begin_operation());
        launch(part->name, part->shape(*args).num_rows, args);
        ++args;
      }
    }
    void enter_block(std::int64_t block) override { block_ = block; }

    std::vector<EarlyRead> reads;

   private:
    /// What the kernel of an operation would do before its wait, as launchers ask.
    static std::optional<Accesses> early_accesses(std::string_view name, const void* const* args) {
      Accesses accesses;
      if (name == ops::Compressor::kName) {
        ops::Compressor::accesses(*static_cast<const CompressorArgs*>(*args), accesses);
      } else if (name == ops::Indexer::kName) {
        const auto& call = *static_cast<const IndexerArgs*>(*args);
        accesses.read(call.q, call.head_weights, call.cosine, call.sine).write(call.selected);
      } else if (name == ops::Experts::kName) {
        const auto& call = *static_cast<const ExpertsArgs*>(*args);
        accesses.read(call.x).read(call.x_fp8, call.x.extent(0), call.x.extent(1));
      } else {
        return std::nullopt;
      }
      return accesses;
    }

    void launch(std::string_view name, std::int64_t num_rows, const void* const* args) {
      if (num_rows == 0) return;  // no kernel
      if (const std::optional<Accesses> accesses = early_accesses(name, args))
        reads.push_back({name, block_, order_.is_settled(nullptr, *accesses)});
      const bool behind_wait = std::ranges::count(behind_wait_, name) > 0;
      order_.add_launch(nullptr, true, behind_wait ? NextKernel::kBehindWait : NextKernel::kAtOnce);
    }

    std::vector<std::string_view> behind_wait_;
    LaunchOrder order_{nullptr};
    std::int64_t block_ = -1;
  };

  Queue executor_;
};

constexpr std::string_view kRoute = "route", kRotation = "rms_norm_rope";

/// Of a token at position 4,096 on the rank of this place of `plan`.
std::vector<EarlyRead> decode(const ParallelPlan& plan, std::int64_t place,
                              std::vector<std::string_view> behind_wait) {
  const ModelConfig config = preset_config("flash");
  const RankModel model(config, {}, resolved(plan, config));
  OrderingDevice device(std::move(behind_wait));
  const KvCache cache(cache_geometry(model.config(), Precision::kReleased),
                      {.num_pages = 20, .num_window_pages = 20, .num_state_slots = 1}, device.memory());
  constexpr std::int64_t kMaxRows = 4;
  Arena arena(forward_buffer_bytes(model.config(), kMaxRows, ElementType::kBf16), device.memory());
  const RankLayout layout(config, model.plan(), model.stage(), 0, place);
  Forward forward(model.config(), model.weights(), device, cache, Precision::kReleased, kMaxRows, arena,
                  layout);
  forward.expect_load([](std::int64_t, std::int64_t) { return ExpertLoad{.assignments = 6, .distinct = 6}; });
  const std::vector<TokenId> tokens(1);
  const std::vector<SequenceSlice> slices{{.num_tokens = 1, .start = 4096}};
  static_cast<void>(forward.run({tokens, slices}));
  return device.reads();
}

/// Calls of `operation`, and how many of them may begin early.
using Counts = std::map<std::string_view, std::pair<int, int>>;
Counts counts(const std::vector<EarlyRead>& reads) {
  Counts all;
  for (const EarlyRead& read : reads) {
    ++all[read.operation].first;
    all[read.operation].second += read.is_settled ? 1 : 0;
  }
  return all;
}

TEST(EarlyReads, AreRightInEveryLayerOfADecodeStep) {
  const ModelConfig config = preset_config("flash");
  int num_pooling = 0, num_indexed = 0;
  for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
    num_pooling += config.attention(block).compresses() ? 1 : 0;
    num_indexed += config.attention(block).indexed ? 1 : 0;
  }
  ASSERT_GT(num_indexed, 0);
  ASSERT_GT(num_pooling, num_indexed);
  const int num_compressors = num_pooling + num_indexed;
  const auto num_blocks = static_cast<int>(config.num_hidden_layers);
  EXPECT_EQ(counts(decode({.num_devices = 1}, 0, {kRoute, kRotation})),
            (Counts{{"compressor", {num_compressors, num_compressors}},
                    {"indexer", {num_indexed, num_indexed}},
                    {"experts", {num_blocks, num_blocks}}}));
}

/// Without a kernel that lets the next one begin behind its wait, what is read may still be written.
TEST(EarlyReads, AreRightBecauseOfTheKernelBefore) {
  for (const auto& [operation, count] : counts(decode({.num_devices = 1}, 0, {kRoute}))) {
    EXPECT_EQ(count.second, operation == "experts" ? count.first : 0) << operation;
  }
  for (const auto& [operation, count] : counts(decode({.num_devices = 1}, 0, {kRotation}))) {
    EXPECT_EQ(count.second, operation == "experts" ? 0 : count.first) << operation;
  }
}

/// With --cp a rank may attend with no row of a step. No rotation is queued then, behind which the rows of
/// the compressors are complete: they are on their way in messages.
TEST(EarlyReads, AreWrongOfRowsThatMessagesBring) {
  const ParallelPlan plan{.num_devices = 2, .cp = 2};
  const auto compressors = [&](std::int64_t place) {
    return counts(decode(plan, place, {kRoute, kRotation})).at("compressor");
  };
  const auto with_row = compressors(0), without = compressors(1);
  EXPECT_GT(with_row.first, 0);
  EXPECT_EQ(with_row.second, with_row.first);
  EXPECT_EQ(without, (std::pair{with_row.first, 0}));
}

}  // namespace
}  // namespace baleen
