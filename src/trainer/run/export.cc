#include "trainer/run/export.h"

#include "base/error.h"
#include "model/weight_binding.h"
#include "model_files/folder.h"
#include "model_files/staged_folder.h"
#include "model_files/weight_stream.h"
#include "trainer/run/stored_weights.h"

namespace baleen {
namespace {

constexpr std::int64_t kMaxShardBytes = 5'000'000'000;

class TrainedWeights : public WeightSource {
 public:
  TrainedWeights(const ModelConfig& model, const Parameters<float>& weights, const TokenTables& token_tables,
                 const StorageFormats& formats, ThreadPool& pool)
      : model_(model),
        weights_(weights),
        rows_(bind_rows(model, weights.table())),
        engram_tables_(engram_table_rows(weights.table())),
        token_tables_(token_tables),
        formats_(formats),
        pool_(pool) {}

  void write_plain(const TensorSpec& tensor, const Sink& sink) override {
    if (tensor.storage == Storage::kI64) {
      sink(std::as_bytes(std::span(token_tables_.experts[static_cast<std::size_t>(tensor.block)])));
      return;
    }
    const std::span<const float> values = values_of(tensor);
    if (tensor.storage == Storage::kF32) {
      sink(std::as_bytes(values));
      return;
    }
    const std::vector<Bf16Bits> rounded = bf16_of(values);
    sink(std::as_bytes(std::span(rounded)));
  }

  void encode(const TensorSpec& tensor, EncodedMatrix& encoded) override {
    encode_matrix(tensor, values_of(tensor), formats_, encoded, pool_);
  }

 private:
  std::span<const float> values_of(const TensorSpec& tensor) {
    if (tensor.role == TensorRole::kEngramTable)
      return weights_.values(engram_tables_[*model_.engram_table(tensor.block)]);
    return weights_.values(tensor.place.in(rows_, tensor.block, tensor.expert));
  }

  const ModelConfig& model_;
  const Parameters<float>& weights_;
  RowTree rows_;
  std::vector<TensorRow> engram_tables_;  ///< which no tree has
  const TokenTables& token_tables_;
  StorageFormats formats_;
  ThreadPool& pool_;
};

}  // namespace

void check_released_layout(const TrainConfig& config) {
  if (has_released_layout(config)) return;
  fail(
      "ablation.plain_residual = true: a model with one residual stream has no released layout, so none is "
      "exported and the engine does not run it; train without it");
}

void export_model(const std::filesystem::path& folder, const TrainConfig& config,
                  const Parameters<float>& weights, const TokenTables& token_tables, bool replace,
                  ThreadPool& pool) {
  check_released_layout(config);
  const ModelConfig& model = config.model;
  StagedFolder staged(folder, replace, {});
  StreamPlan plan{.folder = staged.path(),
                  .table = tensor_table(model),
                  .formats = stored_formats(model),
                  .max_shard_bytes = kMaxShardBytes,
                  .other_files = tokenizer_files(config.data.folder),
                  .job = "export"};
  plan.other_files.push_back({"config.json", config_text(model)});
  TrainedWeights source(model, weights, token_tables, plan.formats, pool);
  verify_weights(staged.path(), model, write_weights(plan, source));
  staged.commit();
}

}  // namespace baleen
