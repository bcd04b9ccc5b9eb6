#include "model_files/init.h"

#include "model/tensor_table.h"
#include "model_files/folder.h"
#include "model_files/random_weights.h"
#include "model_files/staged_folder.h"
#include "model_files/weight_stream.h"

namespace baleen {

std::int64_t init_checkpoint(const std::filesystem::path& folder, const ModelConfig& config,
                             const InitOptions& options, ThreadPool& pool) {
  validate(config, folder.string());
  StagedFolder staged(folder, options.force, {});
  const StorageFormats formats{.dense = config.dense_format, .experts = config.expert_format};
  StreamPlan plan{.folder = staged.path(),
                  .table = tensor_table(config),
                  .formats = formats,
                  .max_shard_bytes = options.max_shard_bytes,
                  .other_files = {},
                  .job = "init",
                  .cancelled = options.cancelled};
  if (!options.tokenizer.empty()) plan.other_files = tokenizer_files(options.tokenizer);
  plan.other_files.push_back({"config.json", config_text(config)});
  write_weights(plan, *make_random_weights(config, plan.formats, options.seed, pool));
  staged.commit();
  return stored_bytes(plan.table, plan.formats);
}

}  // namespace baleen
