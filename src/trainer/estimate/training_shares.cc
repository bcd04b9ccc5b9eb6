#include "trainer/estimate/training_shares.h"

#include <algorithm>
#include <array>
#include <string>

#include "model/presets.h"
#include "trainer/estimate/run_estimate.h"
#include "trainer/measure/training_step_times.h"

namespace baleen {
namespace {

constexpr std::array<TrainingPartNames, kNumModelParts> kParts{
    {{"attention", "train_attention", "train_attention_backward"},
     {"experts", "train_experts", "train_experts_backward"},
     {"mixing", "train_mixing", "train_mixing_backward"},
     {"head", "train_head", "train_head_backward"},
     // Norms and products: as attention's.
     {"MTP entry", "train_attention", "train_attention_backward"}}};

/// The parts that are measured and how profiles name them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kMeasured{
    {{"attention, forward", "train_attention"},
     {"attention, backward", "train_attention_backward"},
     {"experts, forward", "train_experts"},
     {"experts, backward", "train_experts_backward"},
     {"mixing, forward", "train_mixing"},
     {"mixing, backward", "train_mixing_backward"},
     {"head, forward", "train_head"},
     {"head, backward", "train_head_backward"},
     {"norm and clipping", kTrainNorms},
     {"Muon", kTrainMuon},
     {"AdamW", kTrainAdamW}}};

/// The most that a profile may say: BF16 products count against a processor's float32 peak,
/// which AMX exceeds.
constexpr double kMaxShare = 4;
/// Of memory's rate: what the reference reads and writes is within the other shares.
constexpr double kNoBound = kMaxShare;

constexpr int kRuns = 2;

TrainConfig reference_config(TrainPrecision precision) {
  TrainConfig config;
  config.run.precision = precision;
  // A layer of each kind: window alone, ratio 4, ratio 128.
  config.model = with_layers(preset_config("tiny-flash"), 3);
  config.model.num_nextn_predict_layers = 0;
  config.model.compress_ratios.resize(3);
  config.model.vocab_size = 4096;
  config.model.n_routed_experts = 4;
  config.data.sequence_length = 256;
  config.data.batch_rows = config.data.micro_batch_rows = 2;
  config.run.steps = 1;
  config.run.recompute = false;
  config.schedule.learning_rate = 1e-3;
  return config;
}

}  // namespace

const TrainingPartNames& training_part(ModelPart part) { return kParts[static_cast<std::size_t>(part)]; }

void measure_training_shares(DeviceProfile& profile, TrainPrecision precision, ThreadPool& pool) {
  const TrainConfig config = reference_config(precision);
  const auto full_name = [&](std::string_view name) {
    return std::string(name) + std::string(config.bf16_products() ? kTrainBf16 : "");
  };
  // Everything at the peaks: what arithmetic alone would take.
  DeviceProfile ideal = profile;
  for (const auto& [part, name] : kMeasured) {
    ideal.operations[full_name(name)] = {
        .points = {{.compute = 1, .memory = kNoBound, .scalar = 1, .static_seconds = 0}}};
  }
  const RunStepEstimate arithmetic = estimate_run_step(config, measured_pass_options(config), ideal);
  const TrainingStepTimes measured = measure_step(config, pool, kRuns);
  for (const auto& [part, name] : kMeasured) {
    const auto found = std::ranges::find(measured.parts, part, &PartTime::name);
    if (found == measured.parts.end() || found->seconds <= 0) continue;
    const double share = std::clamp(arithmetic.seconds_of(part) / found->seconds, 1e-3, kMaxShare);
    // What a part reads and writes is in its share: at other sizes it is about as much an operation.
    profile.operations[full_name(name)] = {
        .points = {{.compute = share, .memory = kNoBound, .scalar = share, .static_seconds = 0}}};
  }
}

void measure_all_training_shares(DeviceProfile& profile, ThreadPool& pool) {
  for (const TrainPrecision precision : {TrainPrecision::kFloat32, TrainPrecision::kBf16})
    measure_training_shares(profile, precision, pool);
}

DeviceProfile training_profile(const MachineLimits& limits, TrainPrecision precision, ThreadPool& pool) {
  DeviceProfile profile{.name = "local", .description = processor_name(), .is_cpu = true};
  profile.peak_flops[static_cast<std::size_t>(PeakFormat::kFp32)] = limits.fma_flops_per_second;
  profile.scalar_ops_per_second = limits.fma_flops_per_second;
  profile.memory_bytes_per_second = limits.read_bytes_per_second;
  profile.num_units = pool.num_threads();
  profile.efficiency = {.compute = 1, .memory = 1, .scalar = 1, .static_seconds = 0};
  profile.links = {{.size = 1, .bytes_per_second = limits.read_bytes_per_second}};
  measure_training_shares(profile, precision, pool);
  return profile;
}

}  // namespace baleen
