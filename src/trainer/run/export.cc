#include "trainer/run/export.h"

#include <algorithm>

#include "base/check.h"
#include "model_files/folder.h"
#include "model_files/staged_folder.h"
#include "model_files/weight_stream.h"
#include "numeric/bf16.h"

namespace baleen {
namespace {

constexpr std::int64_t kMaxShardBytes = 5'000'000'000;

class TrainedWeights : public WeightSource {
 public:
  TrainedWeights(const Parameters<float>& weights, const HashTables& hash_tables,
                 const StorageFormats& formats, ThreadPool& pool)
      : weights_(weights), hash_tables_(hash_tables), formats_(formats), pool_(pool) {}

  void write_plain(const TensorSpec& tensor, const Sink& sink) override {
    if (tensor.storage == Storage::kI64) {
      sink(std::as_bytes(std::span(hash_tables_[static_cast<std::size_t>(tensor.block)])));
      return;
    }
    const std::span<const float> values = values_of(tensor);
    if (tensor.storage == Storage::kF32) {
      sink(std::as_bytes(values));
      return;
    }
    std::vector<Bf16Bits> rounded(values.size());
    std::ranges::transform(values, rounded.begin(), [](float value) { return float_to_bf16(value); });
    sink(std::as_bytes(std::span(rounded)));
  }

  void encode(const TensorSpec& tensor, EncodedMatrix& encoded) override {
    const std::span<const float> values = values_of(tensor);
    encoded.reset(tensor.shape[0], tensor.shape[1], formats_.of(tensor.storage));
    const StoredMatrix matrix = encoded.view();
    pool_.parallel_for(matrix.num_panels(), [&](std::int64_t panel, int) {
      encode_panel(encoded, panel,
                   values.subspan(static_cast<std::size_t>(panel * kPanelRows * matrix.cols),
                                  static_cast<std::size_t>(matrix.panel_rows(panel) * matrix.cols)));
    });
  }

 private:
  std::span<const float> values_of(const TensorSpec& tensor) const {
    return {weights_.at(tensor.name), static_cast<std::size_t>(tensor.num_elements())};
  }

  const Parameters<float>& weights_;
  const HashTables& hash_tables_;
  StorageFormats formats_;
  ThreadPool& pool_;
};

}  // namespace

void export_model(const std::filesystem::path& folder, const TrainConfig& config,
                  const Parameters<float>& weights, const HashTables& hash_tables, bool replace,
                  ThreadPool& pool) {
  const ModelConfig& model = config.model;
  StagedFolder staged(folder, replace, {});
  StreamPlan plan{.folder = staged.path(),
                  .table = tensor_table(model),
                  .formats = {.dense = model.dense_format, .experts = model.expert_format},
                  .max_shard_bytes = kMaxShardBytes,
                  .other_files = tokenizer_files(config.data.folder),
                  .job = "export"};
  plan.other_files.push_back({"config.json", config_text(model)});
  TrainedWeights source(weights, hash_tables, plan.formats, pool);
  verify_weights(staged.path(), write_weights(plan, source));
  staged.commit();
}

}  // namespace baleen
