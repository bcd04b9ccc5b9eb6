#include "model_files/random_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "model_files/random.h"
#include "model_files/table_rows.h"
#include "numeric/bf16.h"

namespace baleen {
namespace {

/// mean + deviation * normal.
struct Distribution {
  float mean;
  float deviation;
};

/// Scales and sinks of the size that trained models show; gates and head wide enough that top-k and logits
/// have clear winners.
Distribution distribution_of(const TensorSpec& tensor) {
  const float root = std::sqrt(static_cast<float>(tensor.shape.back()));
  switch (tensor.kind) {
    case TensorKind::kNorm:
      return {1.0F, 0.1F};
    case TensorKind::kGate:
      return {0.0F, 2.0F / root};
    case TensorKind::kRoutingBias:
      return {0.0F, 0.2F};
    case TensorKind::kSink:
      return {0.0F, 1.0F};
    case TensorKind::kPositionBias:
      return {0.0F, 0.5F};
    case TensorKind::kMixingBias:
      return {0.0F, 0.3F};
    case TensorKind::kMixingScale:
      return {1.0F, 0.2F};
    case TensorKind::kLinear:
    case TensorKind::kIds:
    case TensorKind::kAdapter:
      break;
  }
  if (tensor.role == TensorRole::kEmbedding) return {0.0F, 1.0F};
  return {0.0F, (tensor.role == TensorRole::kHead ? 3.0F : 1.0F) / root};
}

class RandomSource final : public WeightSource {
 public:
  RandomSource(const ModelConfig& config, const StorageFormats& formats, std::uint64_t seed, ThreadPool& pool,
               double zipf_exponent)
      : config_(config),
        formats_(formats),
        seed_(seed),
        pool_(pool),
        zipf_exponent_(zipf_exponent),
        scratch_(static_cast<std::size_t>(pool.num_threads())) {}

  void write_plain(const TensorSpec& tensor, const Sink& sink) override {
    switch (tensor.storage) {
      case Storage::kI64:
        return zipf_exponent_ == 0 ? write_hash_table(tensor, sink) : write_skewed_table(tensor, sink);
      case Storage::kF32:
        return write_values<float>(tensor, sink, [](float value) { return value; });
      default:
        return write_values<Bf16Bits>(tensor, sink, float_to_bf16);
    }
  }

  void encode(const TensorSpec& tensor, EncodedMatrix& encoded) override {
    if (tensor.storage == Storage::kFp8Rows) return encode_rows(tensor, encoded);
    encoded.reset(tensor.shape[0], tensor.shape[1], formats_.of(tensor));
    const CounterRandom random(seed_, tensor.name);
    const Distribution distribution = distribution_of(tensor);
    const StoredMatrix geometry = encoded.view();
    pool_.parallel_for(geometry.num_panels(), [&](std::int64_t panel, int thread) {
      std::vector<float>& values = scratch_[static_cast<std::size_t>(thread)];
      values.resize(static_cast<std::size_t>(geometry.panel_rows(panel) * geometry.cols));
      fill(random, distribution, panel * kPanelRows * geometry.cols, values);
      encode_panel(encoded, panel, values);
    });
  }

 private:
  static void fill(const CounterRandom& random, const Distribution& distribution, std::int64_t begin,
                   std::span<float> values) {
    auto idx = static_cast<std::uint64_t>(begin);
    for (float& value : values) value = distribution.mean + distribution.deviation * random.normal(idx++);
  }

  /// Rows of a table are of magnitudes of their own, from 2^-6 to 2: each has its scales.
  void encode_rows(const TensorSpec& tensor, EncodedMatrix& encoded) {
    const std::int64_t num_rows = tensor.shape[0], width = tensor.shape[1];
    reset_table(encoded, num_rows, width);
    const CounterRandom random(seed_, tensor.name), magnitudes(seed_, tensor.name + " magnitudes");
    pool_.parallel_for(num_rows, [&](std::int64_t row, int thread) {
      std::vector<float>& values = scratch_[static_cast<std::size_t>(thread)];
      values.resize(static_cast<std::size_t>(width));
      const int exponent = static_cast<int>(magnitudes.bits(static_cast<std::uint64_t>(row)) % 8) - 6;
      fill(random, {0.0F, std::ldexp(1.0F, exponent)}, row * width, values);
      encode_table_row(encoded, row, values);
    });
  }

  /// In pieces, since an embedding may be larger than everything else that is held.
  template <class T, class Round>
  void write_values(const TensorSpec& tensor, const Sink& sink, Round round) {
    constexpr std::int64_t kPiece = 1 << 16;
    constexpr std::int64_t kPiecesAtOnce = 64;
    const CounterRandom random(seed_, tensor.name);
    const Distribution distribution = distribution_of(tensor);
    std::vector<T> stored;
    for (std::int64_t begin = 0; begin < tensor.num_elements(); begin += kPiece * kPiecesAtOnce) {
      const std::int64_t count = std::min(kPiece * kPiecesAtOnce, tensor.num_elements() - begin);
      stored.resize(static_cast<std::size_t>(count));
      pool_.parallel_for((count + kPiece - 1) / kPiece, [&](std::int64_t piece, int thread) {
        std::vector<float>& values = scratch_[static_cast<std::size_t>(thread)];
        values.resize(static_cast<std::size_t>(std::min(kPiece, count - piece * kPiece)));
        fill(random, distribution, begin + piece * kPiece, values);
        std::transform(values.begin(), values.end(), stored.begin() + piece * kPiece, round);
      });
      sink(std::as_bytes(std::span(stored)));
    }
  }

  /// Each row the first k experts of a random permutation of its own.
  void write_hash_table(const TensorSpec& tensor, const Sink& sink) {
    const std::int64_t k = tensor.shape[1];
    const CounterRandom random(seed_, tensor.name);
    std::vector<std::int64_t> experts(static_cast<std::size_t>(config_.n_routed_experts));
    for (std::size_t i = 0; i < experts.size(); ++i) experts[i] = static_cast<std::int64_t>(i);
    std::vector<std::int64_t> ids;
    ids.reserve(static_cast<std::size_t>(tensor.num_elements()));
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      const auto place = static_cast<std::uint64_t>(i % k);
      const std::uint64_t left = experts.size() - place;
      std::swap(experts[place], experts[place + random.bits(static_cast<std::uint64_t>(i)) % left]);
      ids.push_back(experts[place]);
    }
    sink(std::as_bytes(std::span(ids)));
  }

  /// Each row k distinct experts, one drawn after the other by Zipf's law.
  void write_skewed_table(const TensorSpec& tensor, const Sink& sink) {
    const auto num_experts = static_cast<std::size_t>(config_.n_routed_experts);
    const CounterRandom ranking(seed_, tensor.name + " ranks"), random(seed_, tensor.name);
    std::vector<std::int64_t> ranked(num_experts);
    std::iota(ranked.begin(), ranked.end(), 0);
    for (std::size_t i = num_experts - 1; i > 0; --i) std::swap(ranked[i], ranked[ranking.bits(i) % (i + 1)]);
    std::vector<double> below(num_experts);  // probability of a rank up to each
    double sum = 0;
    for (std::size_t i = 0; i < num_experts; ++i)
      below[i] = sum += std::pow(static_cast<double>(i + 1), -zipf_exponent_);
    constexpr double kTwo64 = 18446744073709551616.0;
    std::uint64_t num_draws = 0;
    std::vector<std::int64_t> ids;
    for (std::int64_t token = 0; token < tensor.shape[0]; ++token) {
      const std::size_t row = ids.size();
      while (static_cast<std::int64_t>(ids.size() - row) < tensor.shape[1]) {
        const double draw = static_cast<double>(random.bits(num_draws++)) / kTwo64 * sum;
        const auto rank = static_cast<std::size_t>(std::ranges::upper_bound(below, draw) - below.begin());
        const std::int64_t expert = ranked[std::min(rank, num_experts - 1)];
        if (std::find(ids.begin() + static_cast<std::ptrdiff_t>(row), ids.end(), expert) == ids.end())
          ids.push_back(expert);
      }
    }
    sink(std::as_bytes(std::span(ids)));
  }

  const ModelConfig& config_;
  StorageFormats formats_;
  std::uint64_t seed_;
  ThreadPool& pool_;
  double zipf_exponent_;
  std::vector<std::vector<float>> scratch_;  ///< one a thread
};

}  // namespace

std::unique_ptr<WeightSource> make_random_weights(const ModelConfig& config, const StorageFormats& formats,
                                                  std::uint64_t seed, ThreadPool& pool,
                                                  double zipf_exponent) {
  return std::make_unique<RandomSource>(config, formats, seed, pool, zipf_exponent);
}

}  // namespace baleen
