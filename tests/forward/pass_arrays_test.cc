#include "forward/pass_arrays.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "device/unbacked_device.h"
#include "forward/forward.h"
#include "model/cache_geometry.h"
#include "model/presets.h"
#include "tensor/unbacked_memory.h"

namespace baleen {
namespace {

/// Adds up what it gives.
class SummingMemory final : public Memory {
 public:
  [[nodiscard]] std::byte* allocate(std::int64_t size_bytes) override {
    num_bytes += size_bytes;
    return unbacked_.allocate(size_bytes);
  }
  void release(std::byte* /*data*/, std::int64_t /*size_bytes*/) noexcept override {}
  void upload(std::byte* /*to*/, std::span<const std::byte> /*from*/) override {}
  void download(std::span<std::byte> /*to*/, const std::byte* /*from*/) override {}
  void copy(std::byte* /*to*/, const std::byte* /*from*/, std::int64_t /*size_bytes*/) override {}

  std::int64_t num_bytes = 0;

 private:
  UnbackedMemory unbacked_;
};

/// Has memory, and runs nothing.
class IdleDevice final : public UnbackedDevice {
 public:
  explicit IdleDevice(ElementType type) : UnbackedDevice({.activation_type = type}) {}

  [[nodiscard]] std::string name() const override { return "idle"; }
  [[nodiscard]] Memory& memory() override { return summing; }
  [[nodiscard]] Executor& executor() override { throw std::logic_error("no steps"); }

  SummingMemory summing;
};

/// A pass takes what is counted for it, to the byte: of the arena, and of the device's memory for messages.
void expect_counted(const char* preset, const ParallelPlan& given, ElementType type) {
  constexpr std::int64_t kMaxRows = 192;
  const ModelConfig whole = preset_config(preset);
  const ParallelPlan plan = resolved(given, whole);
  SCOPED_TRACE(to_text(plan));
  for (std::int64_t stage = 0; stage < plan.pp; ++stage) {
    const Stage layers = even_stage(whole, plan.pp, stage);
    const RankLayout layout(whole, plan, layers, stage, 0);
    const auto config = rank_config(whole, plan, layers);
    UnbackedMemory elsewhere;
    const KvCache cache(cache_geometry(config, Precision::kReleased), {1, 1, 1}, elsewhere);
    IdleDevice device(type);
    Arena arena(forward_buffer_bytes(config, kMaxRows, type), elsewhere);
    const WeightTree weights;
    const Forward forward(config, weights, device, cache, Precision::kReleased, kMaxRows, arena, layout);
    EXPECT_EQ(arena.mark(), arena.size_bytes());
    EXPECT_EQ(device.summing.num_bytes, message_buffer_bytes(config, layout, kMaxRows, type));
    EXPECT_EQ(device.summing.num_bytes > 0, plan.stage_ranks() > 1);
  }
}

TEST(PassArrays, APassTakesWhatIsCounted) {
  for (const char* preset : {"tiny-flash", "tiny-real-heads"}) {
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
      expect_counted(preset, {.num_devices = 1}, type);
      expect_counted(preset, {.num_devices = 2, .tp = 2}, type);
      expect_counted(preset, {.num_devices = 2, .dp = 2}, type);
      expect_counted(preset, {.num_devices = 2, .cp = 2}, type);
      expect_counted(preset, {.num_devices = 2, .tp = 2, .sequence_parallel = true}, type);
      expect_counted(preset, {.num_devices = 2, .dp = 2, .o_proj_tp = 2}, type);
      expect_counted(preset, {.num_devices = 2, .tp = 2, .o_proj_tp = 1}, type);
      expect_counted(preset, {.num_devices = 4, .dp = 2, .pp = 2}, type);
      expect_counted(preset, {.num_devices = 2, .dp = 2, .expert_transport = ExpertTransport::kReduceScatter},
                     type);
    }
  }
}

/// What the second of two micro-batches has begins where the first one's rows end.
TEST(PassArrays, RowsFromARowOn) {
  UnbackedMemory memory;
  Arena arena(1 << 20, memory);
  ActivationArrays arrays(16, ElementType::kBf16, &arena);
  const Activations<3> streams = arrays.values(4, 32), rest = rows_from(streams, 8);
  EXPECT_EQ(rest.address(), streams.address() + 8 * 4 * 32 * 2);
  EXPECT_EQ(rest.extent(0), 8);
  const View<std::int32_t, 2> ids = arrays.integers(6);
  EXPECT_EQ(rows_from(ids, 8).data(), ids.data() + 8 * 6);
  EXPECT_EQ(rows_from(ids, 8).extent(0), 8);
  const Fp8Rows codes = arrays.fp8(256, 128), later = rows_from(codes, 8, 256);
  EXPECT_EQ(later.codes, codes.codes + 8 * 256);
  EXPECT_EQ(later.scales, codes.scales + 8);
  EXPECT_EQ(later.scale_stride, codes.scale_stride);
  EXPECT_FALSE(rows_from(Fp8Rows(), 8, 256));
  EXPECT_TRUE(rows_from(Activations<2>(), 8).empty());
  EXPECT_EQ(arrays.bytes(), arena.mark());
}

}  // namespace
}  // namespace baleen
