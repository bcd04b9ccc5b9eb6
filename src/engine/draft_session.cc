#include "engine/draft_session.h"

#include <algorithm>

#include "base/check.h"
#include "engine/engine_limits.h"
#include "engine/finite_values.h"
#include "tensor/chosen_token.h"

namespace baleen {
namespace {

std::int64_t confidence_bytes(const EngineOptions& options, const RankConfig& rank) {
  const bool has_any =
      options.max_draft_tokens > 0 && options.draft_head->traits(rank, draft_sizes(options)).tells_confidence;
  return has_any ? options.max_logit_rows * std::int64_t{sizeof(float)} : 0;
}

}  // namespace

DraftSession::DraftSession(const EngineOptions& options, DeviceModel& model, MainPass& pass, KvCache& cache,
                           const SequenceTable& sequences, TokenChooser& chooser, StepArenas& arenas)
    : type_(*options.draft_head),
      device_(model.device()),
      sequences_(sequences),
      chooser_(chooser),
      logits_(options.max_logit_rows, model, arenas),
      confidence_(confidence_bytes(options, model.rank()), device_.host_visible_memory()),
      head_(type_.make({.rank = model.rank(),
                        .weights = model.weights(),
                        .device = device_,
                        .forward = pass.forward(),
                        .cache = cache,
                        .layout = model.layout(),
                        .precision = options.precision,
                        .sizes = draft_sizes(options),
                        .arena = arenas.device,
                        .all_streams = pass.all_streams(),
                        .wanted_streams = pass.wanted_streams()})) {}

Failure DraftSession::not_numbers() const {
  return failure("the {}'s logits are not numbers; its weights are damaged or leave the range of float32",
                 type_.title);
}

ConstActivations<2> DraftSession::follow(std::span<const StepInput> inputs, const StepBatch& batch,
                                         ConstActivations<3> streams, std::span<const TokenId> chosen) {
  std::vector<FollowedPart> parts;
  const RaggedBatch rows = batch.last_rows();
  for (std::size_t i = 0; i < rows.slices.size(); ++i) {
    const StepInput& input = inputs[batch.last_inputs()[i]];
    // Nothing is before a sequence's own first position: it is at the beginning, behind a found prefix, or
    // where the decoder half begins.
    const std::int64_t first =
        std::max(sequences_.opened_at(input.sequence), sequences_.decoder_begin(input.sequence));
    parts.push_back({.continues = rows.slices[i].start > first,
                     .wants_logits = input.wanted == WantedLogits::kAll && input.wants_draft_logits});
  }
  const std::int64_t num_rows =
      head_->follow({.batch = rows, .parts = parts, .streams = streams, .chosen = chosen}, logits_.all());
  if (num_rows == 0) return {};
  return logits_.read(logits_.first_rows(num_rows));
}

void DraftSession::clear_due_rows(SequenceId sequence, std::int64_t end) {
  head_->clear_due_rows(sequences_.slice(sequence, 0, 0), end);
}

Result<DraftOutput> DraftSession::draft(std::span<const DraftInput> inputs, std::int64_t depth) {
  const Activations<2> out = link(inputs, depth, {}, 0);
  DraftOutput output;
  if (inputs.empty()) return output;
  std::vector<SampleRow> draws;
  for (const DraftInput& input : inputs) {
    if (input.draw) draws.push_back(*input.draw);
  }
  if (draws.size() == inputs.size()) {
    output.chosen = chooser_.choose(out, draws);
    if (!all_chosen(output.chosen)) return not_numbers();
  } else {
    output.logits = logits_.read(out);
    if (!all_finite(output.logits)) return not_numbers();
  }
  if (!confidence().empty()) output.confidence = confidence().first(inputs.size());
  return output;
}

Activations<2> DraftSession::link(std::span<const DraftInput> inputs, std::int64_t depth,
                                  std::span<const TokenId> chosen, std::int64_t first_place) {
  std::vector<DraftRow> rows;
  for (const DraftInput& input : inputs) {
    BALEEN_CHECK_LT(sequences_.opened_at(input.sequence), sequences_.length(input.sequence));
    rows.push_back({.sequence = sequences_.slice(input.sequence, 0, 0), .token = input.token});
  }
  const Activations<2> out = logits_.first_rows(std::ssize(inputs));
  std::span<float> confidence = all_confidences();
  if (!confidence.empty())
    confidence = confidence.subspan(static_cast<std::size_t>(first_place), rows.size());
  head_->draft(rows, depth, chosen, out, confidence);
  return out;
}

std::vector<std::vector<std::int64_t>> DraftSession::queue(std::span<const StepInput> inputs,
                                                           std::int64_t num_links,
                                                           std::span<TokenId> drafted) {
  std::vector<std::vector<std::int64_t>> places(inputs.size());
  std::int64_t num_drafted = 0;
  std::vector<DraftInput> links;
  std::vector<SampleRow> draws;
  for (std::int64_t depth = 0; depth < num_links; ++depth) {
    links.clear();
    draws.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const StepInput& input = inputs[i];
      if (input.num_drafts <= depth) continue;
      const TokenId newest = depth == 0 ? input.tokens.back() : chosen_token(places[i].back());
      places[i].push_back(num_drafted + std::ssize(links));
      links.push_back({.sequence = input.sequence, .token = newest});
      draws.push_back(input.draws[static_cast<std::size_t>(depth)]);
    }
    const Activations<2> logits = link(links, depth, drafted, num_drafted);
    if (links.empty()) continue;
    const auto ids = drafted.subspan(static_cast<std::size_t>(num_drafted), links.size());
    device_.execute<ops::Sample>({.logits = logits, .rows = draws, .ids = ids});
    num_drafted += std::ssize(links);
  }
  return places;
}

}  // namespace baleen
