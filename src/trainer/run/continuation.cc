#include "trainer/run/continuation.h"

#include <algorithm>

#include "base/error.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "chat/format.h"

namespace baleen {
namespace {

/// Each sequence as a document, in one row.
TrainingBatch batch_of(const std::vector<std::vector<TokenId>>& sequences) {
  TrainingBatch batch;
  for (const std::vector<TokenId>& sequence : sequences) {
    const std::int64_t begin = batch.num_tokens();
    batch.tokens.insert(batch.tokens.end(), sequence.begin(), sequence.end());
    batch.documents.push_back({begin, batch.num_tokens()});
  }
  batch.is_target.assign(batch.tokens.size(), 0);
  batch.row_begin = {0, batch.num_tokens()};
  return batch;
}

}  // namespace

Continuations::Continuations(const TrainConfig& config) : config_(config) {
  if (config.evaluation.prompts.empty()) return;
  tokenizer_ = Tokenizer::load(config.data.folder);
  const std::optional<TokenId> begin = tokenizer_->id_of(chat_format::kBos);
  end_ = tokenizer_->id_of(chat_format::kEos);
  for (const std::string& prompt : config.evaluation.prompts) {
    const Result<std::vector<TokenId>> encoded = tokenizer_->encode(prompt);
    if (!encoded.ok()) fail("evaluation.prompts: {}: {}", quoted_text(prompt), encoded.error());
    std::vector<TokenId> tokens = encoded.value();
    if (begin) tokens.insert(tokens.begin(), *begin);
    if (tokens.empty()) fail("evaluation.prompts: \"\": expected a text of at least one token");
    const auto length = static_cast<std::int64_t>(tokens.size()) + config.evaluation.prompt_tokens;
    if (length > config.model.max_position_embeddings) {
      fail("evaluation.prompts: {}: with evaluation.prompt_tokens {} tokens; the model's context has {}",
           quoted_text(prompt), grouped(length), grouped(config.model.max_position_embeddings));
    }
    prompts_.push_back(std::move(tokens));
  }
}

std::vector<Continuation> Continuations::write(const LogitsFunction& logits, const Parameters<float>& weights,
                                               const PassOptions& options) const {
  std::vector<std::vector<TokenId>> sequences = prompts_;
  std::vector<std::vector<TokenId>> added(prompts_.size());
  std::vector<std::size_t> open(prompts_.size());  // of `sequences`: which prompt each continues
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
  for (std::int64_t token = 0; token < config_.evaluation.prompt_tokens && !open.empty(); ++token) {
    const TrainingBatch batch = batch_of(sequences);
    const std::vector<float> rows = logits(weights, batch, options);
    for (std::size_t i = open.size(); i-- > 0;) {
      const auto row = rows.begin() + (batch.documents[i].end - 1) * config_.model.vocab_size;
      const auto best = static_cast<TokenId>(std::max_element(row, row + config_.model.vocab_size) - row);
      if (best == end_) {
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
        sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        added[open[i]].push_back(best);
        sequences[i].push_back(best);
      }
    }
  }
  std::vector<Continuation> continuations;
  for (std::size_t i = 0; i < added.size(); ++i)
    continuations.push_back({config_.evaluation.prompts[i], tokenizer_->decode(added[i])});
  return continuations;
}

}  // namespace baleen
