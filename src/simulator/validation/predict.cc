#include <algorithm>

#include "base/error.h"
#include "ops/experts/experts.h"
#include "ops/linear/linear.h"
#include "ops/operation/expected_distinct.h"
#include "ops/sparse_attention/sparse_attention.h"
#include "simulator/validation/published_set.h"

namespace baleen {
namespace {

constexpr double kMilliseconds = 1e3, kMicroseconds = 1e6;
constexpr std::int64_t kWindow = 128, kHeadDim = 512;

/// Addresses that are not read: only shapes count.
template <class T>
T* unread() {
  return reinterpret_cast<T*>(std::uintptr_t{1} << 56);
}

/// "..._per_device" is of each device what the name before it is of all.
double serving_metric(const PublishedRow& row, const DeploymentEstimate& estimate, const std::string& name) {
  constexpr std::string_view kPerDevice = "_per_device";
  if (name.ends_with(kPerDevice)) {
    return serving_metric(row, estimate, name.substr(0, name.size() - kPerDevice.size())) /
           static_cast<double>(row.plan.num_devices);
  }
  if (name == "ttft_ms") return kMilliseconds * estimate.ttft_seconds;
  if (name == "itl_ms") return kMilliseconds * estimate.tpot_seconds * tokens_per_step(row.load);
  if (name == "tpot_ms") return kMilliseconds * estimate.tpot_seconds;
  if (name == "total_tokens_per_second") {
    return estimate.requests_per_second * static_cast<double>(row.load.prompt_tokens + row.load.reply_tokens);
  }
  if (name == "output_tokens_per_second")
    return estimate.requests_per_second * static_cast<double>(row.load.reply_tokens);
  // Between a reply's tokens, and of one prompt by itself.
  if (name == "user_tokens_per_second") return 1 / estimate.tpot_seconds;
  if (name == "prompt_tokens_per_second")
    return static_cast<double>(row.load.prompt_tokens) / estimate.prefill_seconds;
  fail("row {}: no metric of a deployment is called {}", row.id, name);
}

GraphOp attention_op(const AttentionShape& shape) {
  const std::int64_t selected = shape.num_entries - kWindow;
  SparseAttentionArgs args;
  const std::int64_t rows_each = shape.num_rows / shape.num_sequences;
  std::vector<SequenceSlice> slices;
  for (std::int64_t i = 0; i < shape.num_sequences; ++i) {
    slices.push_back({.first_row = i * rows_each,
                      .num_tokens = rows_each,
                      .start = 4 * std::max(shape.num_keys, selected)});
  }
  args.q = {unread<const std::byte>(), ElementType::kBf16, {shape.num_rows, shape.num_heads, kHeadDim}};
  args.out = {unread<std::byte>(), ElementType::kBf16, {shape.num_rows, shape.num_heads, kHeadDim}};
  args.batch = {.tokens = {unread<const TokenId>(), static_cast<std::size_t>(shape.num_rows)},
                .slices = slices};
  args.ratio = 4;
  args.selected = {unread<const std::int32_t>(), {shape.num_rows, selected}};
  args.sink = {unread<const float>(), static_cast<std::size_t>(shape.num_heads)};
  args.window.base = args.compressed.base = unread<std::byte>();
  return {.name = "sparse_attention",
          .num_rows = static_cast<double>(shape.num_rows),
          .num_heads = static_cast<double>(shape.num_heads),
          .cost = sparse_attention_cost(args)};
}

WeightMatrix matrix(std::int64_t rows, std::int64_t cols, WeightFormat format) {
  return {.format = format,
          .rows = rows,
          .cols = cols,
          .data = unread<const std::byte>(),
          .block_scales = unread<const float>(),
          .group_scales = unread<const std::uint8_t>()};
}

GraphOp experts_op(const ExpertsShape& shape) {
  const ExpertWeights expert{.w1 = matrix(shape.inner_width, shape.hidden_size, shape.format),
                             .w2 = matrix(shape.hidden_size, shape.inner_width, shape.format),
                             .w3 = matrix(shape.inner_width, shape.hidden_size, shape.format)};
  const std::vector<ExpertWeights> local(static_cast<std::size_t>(shape.num_local), expert);
  ExpertsArgs args;
  args.x = {unread<const std::byte>(), ElementType::kBf16, {shape.num_tokens, shape.hidden_size}};
  args.out = {unread<std::byte>(), ElementType::kBf16, {shape.num_tokens, shape.hidden_size}};
  args.routed = local;
  const auto tokens = static_cast<double>(shape.num_tokens), all = static_cast<double>(shape.num_experts);
  const auto here = static_cast<double>(shape.num_local), chosen = static_cast<double>(shape.num_chosen);
  const double ranks = all / here;
  const double active = expected_distinct(all, chosen, tokens) / ranks;
  return {.name = "experts",
          .num_rows = tokens / ranks,
          .cost = routed_experts_cost(args, tokens * chosen / ranks, active)};
}

GraphOp linear_op(const PublishedLinear& shape) {
  const WeightMatrix weight = matrix(shape.num_outputs, shape.num_inputs, shape.format);
  const LinearOutput output{&weight,
                            {unread<std::byte>(), ElementType::kBf16, {shape.num_rows, shape.num_outputs}}};
  return {.name = "linear",
          .num_rows = static_cast<double>(shape.num_rows),
          .cost = linear_cost(
              {.x = {unread<const std::byte>(), ElementType::kBf16, {shape.num_rows, shape.num_inputs}},
               .outputs = {&output, 1}})};
}

double kernel_seconds(const PublishedRow& row, const DeviceProfile& device) {
  const TimeModel times(device, true);
  switch (row.kind) {
    case PublishedKind::kAttention:
      return times.time_of(attention_op(row.attention)).seconds;
    case PublishedKind::kExperts:
      return times.time_of(experts_op(row.experts)).seconds;
    case PublishedKind::kLinear:
      return times.time_of(linear_op(row.linear)).seconds;
    default:
      return times.collective_seconds(row.message);
  }
}

}  // namespace

std::vector<PredictedMetric> predict(const PublishedRow& row, const DeviceProfile& device) {
  std::vector<PredictedMetric> metrics;
  if (row.kind != PublishedKind::kServing) {
    const double seconds = kernel_seconds(row, device);
    for (const PublishedMetric& metric : row.published) {
      if (metric.name != "us") fail("row {}: a kernel's metric is us, not {}", row.id, metric.name);
      metrics.push_back({metric.name, metric.value, kMicroseconds * seconds});
    }
    return metrics;
  }
  const DeploymentEstimate estimate = estimate_deployment({row.model, row.plan}, row.load, device);
  for (const PublishedMetric& metric : row.published)
    metrics.push_back({metric.name, metric.value, serving_metric(row, estimate, metric.name)});
  return metrics;
}

std::vector<ValidatedRow> validate_published(const std::vector<PublishedRow>& rows) {
  std::vector<ValidatedRow> validated;
  for (const PublishedRow& row : rows)
    validated.push_back({row, predict(row, load_device_profile(row.device))});
  return validated;
}

RowGroup group_of(const PublishedRow& row) {
  if (row.calibrates) return RowGroup::kCalibrates;
  if (row.kind != PublishedKind::kServing) return RowGroup::kKernels;
  return row.blind ? RowGroup::kBlind : RowGroup::kDeployments;
}

double median_error(const std::vector<ValidatedRow>& rows, RowGroup group) {
  std::vector<double> errors;
  for (const ValidatedRow& row : rows) {
    if (group_of(row.row) != group) continue;
    for (const PredictedMetric& metric : row.metrics) errors.push_back(std::abs(metric.error()));
  }
  if (errors.empty()) return 0;
  std::ranges::sort(errors);
  const std::size_t middle = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[middle] : (errors[middle - 1] + errors[middle]) / 2;
}

}  // namespace baleen
