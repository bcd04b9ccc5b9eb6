/// Figures that others published, and what the simulator says instead.
/// (source: simulation 11)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/cost/deployment_estimate.h"

namespace baleen {

enum class PublishedKind : std::uint8_t {
  kServing,    ///< a deployment under load
  kAttention,  ///< one call of sparse attention
  kExperts,    ///< one call of the experts of a rank
  kLinear,     ///< one linear layer, or several of one shape side by side
  kMessage     ///< one collective
};

/// Of kAttention: queries that each see so many entries.
struct AttentionShape {
  std::int64_t num_sequences = 1;
  std::int64_t num_rows = 1;  ///< rows of all sequences, each with the same number
  std::int64_t num_heads = 64;
  std::int64_t num_entries = 640;
  std::int64_t num_keys = 8192;  ///< that rows choose from
};

/// Of kExperts: tokens that have k of E experts, of which the rank has some.
struct ExpertsShape {
  std::int64_t num_tokens = 1;  ///< tokens that all ranks have together
  std::int64_t hidden_size = 7168;
  std::int64_t inner_width = 2048;
  std::int64_t num_experts = 256;
  std::int64_t num_chosen = 8;
  std::int64_t num_local = 32;
  WeightFormat format = WeightFormat::kFp8;
};

/// Of kLinear: rows times [outputs, inputs].
struct PublishedLinear {
  std::int64_t num_rows = 1;
  std::int64_t num_outputs = 0;
  std::int64_t num_inputs = 0;
  WeightFormat format = WeightFormat::kFp8;
};

struct PublishedMetric {
  std::string name;  ///< "ttft_ms", "tpot_ms", "output_tokens_per_second", "us", ...: predict.cc
  double value = 0;
};

/// One row with its source and what its publisher did not say.
struct PublishedRow {
  std::string id;
  std::string title;
  PublishedKind kind = PublishedKind::kServing;
  std::string device;
  bool calibrates = false;  ///< the device's profile has its figures from this row
  bool blind = false;    ///< nothing was known of it when what predicts it was written, and nothing changed
  SimulatedModel model;  ///< set with kServing
  ParallelPlan plan;
  ServingLoad load;
  AttentionShape attention;
  ExpertsShape experts;
  PublishedLinear linear;
  RankMessage message;
  std::vector<PublishedMetric> published;
  std::string source;
  std::string unknown;
};

/// JSON text. Throws `Error` with row and field for what is malformed.
[[nodiscard]] std::vector<PublishedRow> parse_published(std::string_view text, std::string_view label);

/// Short: "tokens/s/dev" for "total_tokens_per_second_per_device".
[[nodiscard]] std::string_view metric_name(std::string_view name);

struct PredictedMetric {
  std::string name;
  double published = 0;
  double predicted = 0;

  /// (predicted - published) / published
  [[nodiscard]] double error() const { return predicted / published - 1; }
};

[[nodiscard]] std::vector<PredictedMetric> predict(const PublishedRow& row, const DeviceProfile& device);

struct ValidatedRow {
  PublishedRow row;
  std::vector<PredictedMetric> metrics;
};

/// Every row on its own device. Throws `Error` for a device or model that is not known.
[[nodiscard]] std::vector<ValidatedRow> validate_published(const std::vector<PublishedRow>& rows);

/// Rows of which errors say the same: deployments, those of them that are blind, kernels and messages; rows
/// that calibrate have no errors.
enum class RowGroup : std::uint8_t { kDeployments, kBlind, kKernels, kCalibrates };

[[nodiscard]] RowGroup group_of(const PublishedRow& row);

/// Median of |error| over the metrics of a group's rows; 0: none.
[[nodiscard]] double median_error(const std::vector<ValidatedRow>& rows, RowGroup group);

/// A line for each metric, the medians, sources and unknowns.
[[nodiscard]] std::string validation_table(const std::vector<ValidatedRow>& rows);
[[nodiscard]] std::string validation_json(const std::vector<ValidatedRow>& rows);

}  // namespace baleen
