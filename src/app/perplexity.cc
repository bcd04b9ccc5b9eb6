#include "app/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/engine_flags.h"
#include "app/open_model.h"
#include "app/options.h"
#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "rank_engine/rank_engine.h"
#include "sampling/softmax_weights.h"
#include "tokenizer/tokenizer.h"

namespace baleen {
namespace {

struct PerplexityFlags {
  EngineFlags engine;
  std::string text;
  bool json = false;
};

/// Sum of -log p over the tokens of `window` after its first.
double negative_log_likelihood(ModelEngine& engine, std::span<const TokenId> window, Progress& progress,
                               std::int64_t done) {
  const SequenceId sequence = *engine.open({});
  const auto length = static_cast<std::int64_t>(window.size()) - 1;  // the last token is only predicted
  const std::int64_t chunk = engine.options().max_batch_tokens;
  double sum = 0;
  for (std::int64_t begin = 0; begin < length; begin += chunk) {
    const std::int64_t count = std::min(chunk, length - begin);
    const StepInput input{sequence,
                          window.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
                          WantedLogits::kAll};
    const Result<StepOutput> output = engine.step({&input, 1});
    if (!output) fail("{}", output.error());
    for (std::int64_t row = 0; row < count; ++row) {
      const std::span<const float> logits = output.value().logits.row(row);
      const TokenId next = window[static_cast<std::size_t>(begin + row + 1)];
      sum += log_sum_exp(logits, logit_extremes(logits).max) - logits[static_cast<std::size_t>(next)];
    }
    progress.update(done + begin + count,
                    fmt::format("{:.4f} nats/token", sum / static_cast<double>(begin + count)));
  }
  engine.close(sequence, false);
  return sum;
}

void run_perplexity(const PerplexityFlags& flags) {
  EngineOptions options = flags.engine.options();
  if (options.bounded_replay_tokens > 0) {
    fail(
        "--bounded-replay: every token of the text is scored, and those of a prompt would have no logits; "
        "leave it out, or see what it changes by `logits --prompt-tokens`");
  }
  const std::string text = read_text_file(flags.text);
  ModelFolder folder = open_model_folder(flags.engine.model);
  const Tokenizer tokenizer = Tokenizer::load(flags.engine.model);
  auto encoded = tokenizer.encode(text);
  if (!encoded) fail("{}: {}", flags.text, encoded.error());
  std::vector<TokenId> tokens = std::move(encoded).value();
  if (tokens.empty()) fail("{}: it is empty; there is nothing to predict", flags.text);
  options.max_batch_tokens =
      std::min<std::int64_t>(options.max_batch_tokens, static_cast<std::int64_t>(tokens.size()) + 1);
  options.max_logit_rows = options.max_batch_tokens;
  const std::unique_ptr<ModelEngine> opened = open_model(std::move(folder), options);
  ModelEngine& engine = *opened;
  log_expert_transport(engine);
  const auto bos = static_cast<TokenId>(engine.config().bos_token_id);
  if (tokens.front() == bos) tokens.erase(tokens.begin());

  // Texts beyond the context are cut; every piece begins with the token that begins a text.
  const auto piece = static_cast<std::size_t>(engine.context_tokens()) - 1;
  Progress progress("perplexity", "tokens", static_cast<std::int64_t>(tokens.size()));
  double sum = 0;
  for (std::size_t begin = 0; begin < tokens.size(); begin += piece) {
    std::vector<TokenId> window{bos};
    const std::size_t end = std::min(tokens.size(), begin + piece);
    window.insert(window.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                  tokens.begin() + static_cast<std::ptrdiff_t>(end));
    sum += negative_log_likelihood(engine, window, progress, static_cast<std::int64_t>(begin));
  }
  const double per_token = sum / static_cast<double>(tokens.size());
  const double bits_per_byte = sum / std::log(2.0) / static_cast<double>(text.size());
  if (flags.json) {
    fmt::print("{}\n", nlohmann::json{{"tokens", tokens.size()},
                                      {"bytes", text.size()},
                                      {"nats_per_token", per_token},
                                      {"bits_per_byte", bits_per_byte},
                                      {"perplexity", std::exp(per_token)}}
                           .dump());
    return;
  }
  fmt::print("{} tokens, {} bytes: {:.4f} nats/token, {:.4f} bits/byte, perplexity {:.3f}\n", tokens.size(),
             text.size(), per_token, bits_per_byte, std::exp(per_token));
}

}  // namespace

void add_perplexity_command(Options& command) {
  auto flags = std::make_shared<PerplexityFlags>();
  flags->engine.add_to(command);
  command.path("--text", flags->text, "Text file; special tokens in it are recognised").required();
  command.flag("--json", flags->json, "One JSON line instead of a sentence");
  command.action([flags] { run_perplexity(*flags); });
}

}  // namespace baleen
