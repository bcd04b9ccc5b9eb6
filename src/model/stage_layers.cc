#include "model/stage_layers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/device_weights.h"
#include "model/parallel_plan.h"
#include "model/rank_config.h"

namespace baleen {
namespace {

/// Share of one token's time that may be given up for stages that take equally long.
constexpr double kLatencyForBalance = 0.05;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

struct LayerBytes {
  std::int64_t beside = 0;   ///< all but the routed experts
  std::int64_t experts = 0;  ///< all routed experts
};

class PipelineCosts {
 public:
  PipelineCosts(const ModelConfig& config, const StorageFormats& formats)
      : config_(config),
        formats_(formats),
        plan_(resolved(ParallelPlan{.num_devices = 1}, config)),
        begins_(stage_begins(config)) {
    const std::int64_t num_layers = config.num_hidden_layers;
    for (std::int64_t layer = 0; layer < num_layers; ++layer)
      layers_.push_back(bytes_of(layer, false, false));
    first_ = bytes_of(0, true, false).beside - layers_.front().beside;
    const LayerBytes last = bytes_of(num_layers - 1, false, true);
    last_ = {.beside = last.beside - layers_.back().beside, .experts = last.experts - layers_.back().experts};
    chosen_share_ =
        static_cast<double>(config.num_experts_per_tok) / static_cast<double>(config.n_routed_experts);
  }

  /// Of a stage with layers [begin, end).
  [[nodiscard]] double seconds(const StageDevice& device, std::int64_t begin, std::int64_t end) const {
    LayerBytes sum;
    for (std::int64_t layer = begin; layer < end; ++layer) {
      sum.beside += layers_[static_cast<std::size_t>(layer)].beside;
      sum.experts += layers_[static_cast<std::size_t>(layer)].experts;
    }
    if (end == std::ssize(layers_)) {
      sum.beside += last_.beside;
      sum.experts += last_.experts;
    }
    const std::int64_t table = begin == 0 ? first_ : 0;  // a token reads one row of it
    const std::int64_t away =
        std::max<std::int64_t>(0, table + sum.beside + sum.experts - device.weight_bytes);
    if (away > sum.experts || (away > 0 && device.link_bytes_per_second <= 0)) return kImpossible;
    const double read = static_cast<double>(sum.beside) + chosen_share_ * static_cast<double>(sum.experts);
    const double fetched =
        away == 0 ? 0 : chosen_share_ * static_cast<double>(away) / device.link_bytes_per_second;
    return read / device.memory_bytes_per_second + fetched;
  }

  [[nodiscard]] std::int64_t num_layers() const { return std::ssize(layers_); }
  [[nodiscard]] bool may_begin(std::int64_t layer) const {
    return std::ranges::binary_search(begins_, layer);
  }

 private:
  [[nodiscard]] LayerBytes bytes_of(std::int64_t layer, bool first, bool last) const {
    const RankConfig rank =
        rank_config(config_, plan_, {.begin = layer, .end = layer + 1, .first = first, .last = last});
    const std::int64_t beside = device_weight_bytes(rank, formats_, BlockRange());
    return {.beside = beside, .experts = device_weight_bytes(rank, formats_) - beside};
  }

  const ModelConfig& config_;
  const StorageFormats& formats_;
  ParallelPlan plan_;
  std::vector<LayerBytes> layers_;
  std::vector<std::int64_t> begins_;  ///< layers that a stage may begin with
  std::int64_t first_ = 0;            ///< bytes of the embedding table, of the first stage
  LayerBytes last_;                   ///< what the last stage has besides: the head, a draft head
  double chosen_share_ = 0;
};

struct Split {
  std::vector<std::int64_t> layers;
  double sum = kImpossible;  ///< seconds of all stages
  double slowest = 0;        ///< seconds of one
};

/// The split with the least sum in which no stage takes longer than `most`; an impossible one if there is
/// none.
Split least_sum(const PipelineCosts& costs, std::span<const StageDevice> devices, double most) {
  const std::int64_t num_layers = costs.num_layers();
  // least[s][n]: of the first n layers over the first s devices; begin[s][n]: where the last of them begins.
  const auto size = static_cast<std::size_t>(num_layers + 1);
  std::vector<std::vector<double>> least(1, std::vector<double>(size, kImpossible));
  std::vector<std::vector<std::int64_t>> begin(1, std::vector<std::int64_t>(size, 0));
  least.front().front() = 0;
  for (const StageDevice& device : devices) {
    std::vector<double> times(size, kImpossible);
    std::vector<std::int64_t> begins(size, 0);
    for (std::int64_t end = 1; end <= num_layers; ++end) {
      for (std::int64_t first = 0; first < end; ++first) {
        const double before = least.back()[static_cast<std::size_t>(first)];
        if (before == kImpossible || !costs.may_begin(first)) continue;
        const double own = costs.seconds(device, first, end);
        if (own > most || before + own >= times[static_cast<std::size_t>(end)]) continue;
        times[static_cast<std::size_t>(end)] = before + own;
        begins[static_cast<std::size_t>(end)] = first;
      }
    }
    least.push_back(std::move(times));
    begin.push_back(std::move(begins));
  }
  Split split{.layers = std::vector<std::int64_t>(devices.size()), .sum = least.back().back()};
  if (split.sum == kImpossible) return split;
  std::int64_t end = num_layers;
  for (std::size_t stage = devices.size(); stage > 0; --stage) {
    const std::int64_t first = begin[stage][static_cast<std::size_t>(end)];
    split.layers[stage - 1] = end - first;
    split.slowest = std::max(split.slowest, costs.seconds(devices[stage - 1], first, end));
    end = first;
  }
  return split;
}

}  // namespace

std::optional<std::vector<std::int64_t>> balanced_stage_layers(const ModelConfig& config,
                                                               const StorageFormats& formats,
                                                               std::span<const StageDevice> devices) {
  const PipelineCosts costs(config, formats);
  if (devices.empty() || std::ssize(devices) > costs.num_layers()) return std::nullopt;
  Split best = least_sum(costs, devices, kImpossible);
  if (best.sum == kImpossible) return std::nullopt;
  const double allowed = (1 + kLatencyForBalance) * best.sum;
  double low = 0;
  constexpr int kHalvings = 20;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + best.slowest) / 2;
    Split split = least_sum(costs, devices, middle);
    if (split.sum <= allowed) {
      best = std::move(split);
    } else {
      low = middle;
    }
  }
  return best.layers;
}

}  // namespace baleen
