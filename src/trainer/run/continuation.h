/// What the model continues `evaluation.prompts` with: a look at a run that figures do not give.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"
#include "trainer/config/train_config.h"
#include "trainer/graph/parameters.h"
#include "trainer/graph/pass_options.h"
#include "training_data/batch_sampler.h"

namespace baleen {

/// Logits [num_tokens, V] of a batch; `TrainingGraph<float>::logits` is one.
using LogitsFunction = std::function<std::vector<float>(
    const Parameters<float>& weights, const TrainingBatch& batch, const PassOptions& options)>;

struct Continuation {
  std::string prompt;
  std::string text;
};

class Continuations {
 public:
  /// Encodes the prompts with the tokenizer beside the data, each as the begin of a document. Throws `Error`
  /// where it is missing, or where a prompt and its continuation are longer than the model's context.
  explicit Continuations(const TrainConfig& config);

  [[nodiscard]] bool empty() const { return prompts_.empty(); }
  /// The likeliest token each time, until a document's end or `evaluation.prompt_tokens`. Costs a forward
  /// over all prompts for each token: the graph has no cache.
  [[nodiscard]] std::vector<Continuation> write(const LogitsFunction& logits,
                                                const Parameters<float>& weights,
                                                const PassOptions& options) const;

 private:
  const TrainConfig& config_;
  std::vector<std::vector<TokenId>> prompts_;
  std::optional<Tokenizer> tokenizer_;  ///< where there are prompts
  std::optional<TokenId> end_;
};

}  // namespace baleen
