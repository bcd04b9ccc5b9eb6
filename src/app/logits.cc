#include "app/commands.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/engine_flags.h"
#include "app/open_model.h"
#include "app/option_ranges.h"
#include "app/options.h"
#include "app/token_file.h"
#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/safetensors_writer.h"
#include "drafts/heads/draft_heads.h"
#include "rank_engine/rank_engine.h"

namespace baleen {
namespace {

struct LogitsFlags {
  EngineFlags engine;
  std::string tokens;
  std::string out;
  std::int64_t prompt_tokens = 0;
  bool mtp = false;
};

std::span<const std::byte> bytes_of(ConstActivations<2> rows) {
  return std::as_bytes(std::span(rows.data(), static_cast<std::size_t>(rows.size())));
}

/// The first position with logits.
std::int64_t first_row(const LogitsFlags& flags, std::int64_t num_tokens) {
  if (flags.prompt_tokens > num_tokens)
    fail("--prompt-tokens {}: {} has {} tokens", flags.prompt_tokens, flags.tokens, num_tokens);
  if (flags.prompt_tokens == 0 && flags.engine.bounded_replay > 0)
    fail("--bounded-replay wants --prompt-tokens: how many of the tokens are the prompt");
  if (flags.prompt_tokens > 0 && flags.mtp) fail("--mtp: of whole texts; leave out --prompt-tokens");
  return std::max<std::int64_t>(flags.prompt_tokens - 1, 0);
}

/// What `--mtp` asks for.
void check_row_logits(const ModelFolder& folder) {
  check_drafts(folder.kind, "--mtp");
  const DraftHeadType& head = *draft_head_of(folder.config);
  if (!head.has_row_logits)
    fail("--mtp: the {} gives no logits of a text's own rows; leave it out", head.title);
}

void run_logits(const LogitsFlags& flags) {
  const std::vector<TokenId> tokens = read_token_file(flags.tokens);
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const std::int64_t first = first_row(flags, num_tokens);
  EngineOptions options = flags.engine.options();
  options.max_batch_tokens = std::min(options.max_batch_tokens, num_tokens);
  options.max_logit_rows = options.max_batch_tokens;
  options.cache_tokens = num_tokens;
  options.drafts = flags.mtp;
  ModelFolder folder = open_model_folder(flags.engine.model);
  if (flags.mtp) check_row_logits(folder);
  const std::unique_ptr<ModelEngine> opened = open_model(std::move(folder), options);
  ModelEngine& engine = *opened;
  log_expert_transport(engine);
  const std::int64_t vocab_size = engine.config().vocab_size;

  std::vector<TensorHeader> tensors{{"logits", DType::kF32, {num_tokens - first, vocab_size}}};
  if (flags.mtp) tensors.push_back({"mtp_logits", DType::kF32, {num_tokens - 1, vocab_size}});
  SafetensorsWriter writer(flags.out, tensors);
  // Tensors lie one after the other, rows of both arrive together: those of the second wait.
  std::vector<std::byte> waiting;
  const std::string first_tensor = writer.order().front().name;
  const auto append = [&](const std::string& name, std::span<const std::byte> bytes) {
    if (name == first_tensor) {
      writer.append(name, bytes);
    } else {
      waiting.insert(waiting.end(), bytes.begin(), bytes.end());
    }
  };
  const SequenceId sequence = *engine.open_prompt({}, flags.prompt_tokens);
  Progress progress("logits", "tokens", num_tokens);
  for (std::int64_t begin = 0, count = 0; begin < num_tokens; begin += count) {
    // No step has rows on both sides of the first one with logits.
    count = std::min(options.max_batch_tokens, (begin < first ? first : num_tokens) - begin);
    const StepInput input{sequence,
                          {tokens.data() + begin, static_cast<std::size_t>(count)},
                          begin < first ? WantedLogits::kNone : WantedLogits::kAll};
    const Result<StepOutput> output = engine.step({&input, 1});
    if (!output) fail("{}: {}", flags.engine.model, output.error());
    if (begin >= first) append("logits", bytes_of(output.value().logits));
    if (flags.mtp) append("mtp_logits", bytes_of(output.value().draft_logits));
    progress.update(begin + count);
  }
  if (flags.mtp) writer.append(writer.order().back().name, waiting);
  writer.commit();
}

}  // namespace

void add_logits_command(Options& command) {
  auto flags = std::make_shared<LogitsFlags>();
  flags->engine.add_to(command);
  command.path("--tokens", flags->tokens, "File of token ids separated by spaces, commas or newlines")
      .required();
  command.path("--out", flags->out, "safetensors file to write: logits [T, vocab] float32").required();
  command.integer(
      "--prompt-tokens", flags->prompt_tokens, kTokensRange,
      "So many tokens are a prompt: of them only the last one's logits are written, so T is one more "
      "than the others");
  command.flag("--mtp", flags->mtp, "Also write mtp_logits [T - 1, vocab] of the MTP block");
  command.action([flags] { run_logits(*flags); });
}

}  // namespace baleen
