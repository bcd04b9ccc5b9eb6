#include "benchmark/drawn_acceptance.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace baleen {

std::int64_t num_accepted(std::span<const TokenId> drafts, std::span<const TokenId> chosen) {
  return std::ranges::mismatch(drafts, chosen).in1 - drafts.begin();
}

std::string acceptance_text(std::span<const DraftsAtDepth> drafts) {
  std::string text = "drafts accepted, by position:";
  for (const DraftsAtDepth& at : drafts) {
    if (at.drafted > 0)
      text +=
          fmt::format(" {:.1f}%", 100 * static_cast<double>(at.accepted) / static_cast<double>(at.drafted));
  }
  return text;
}

nlohmann::ordered_json acceptance_json(std::span<const DraftsAtDepth> drafts) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const DraftsAtDepth& at : drafts) json.push_back({{"drafted", at.drafted}, {"accepted", at.accepted}});
  return json;
}

AcceptingEngine::AcceptingEngine(StepEngine& engine, Acceptance acceptance)
    : engine_(engine), acceptance_(std::move(acceptance)) {
  BALEEN_CHECK(engine.limits().chooses);
}

std::vector<AcceptingEngine::Part> AcceptingEngine::parts_of(std::span<const StepInput> inputs) const {
  std::vector<Part> parts;
  for (const StepInput& input : inputs) {
    Part part{.sequence = input.sequence,
              .start = engine_.length(input.sequence),
              .num_choices = input.draws.size(),
              .num_drafts = static_cast<std::size_t>(input.num_drafts)};
    if (input.wanted == WantedLogits::kAll && !input.draws.empty()) {
      part.drafts.assign(input.tokens.begin() + 1, input.tokens.end());
      part.num_drafts = part.drafts.size();
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

StepOutput AcceptingEngine::accepted(const StepOutput& output, std::span<const Part> parts) {
  StepOutput changed = output;
  chosen_.assign(output.chosen.begin(), output.chosen.end());
  std::span<TokenId> chosen(chosen_);
  std::span<const TokenId> drafted = output.drafted;
  for (const Part& part : parts) {
    const std::span<TokenId> own = chosen.first(part.num_choices);
    chosen = chosen.subspan(part.num_choices);
    std::span<const TokenId> drafts = part.drafts;
    if (drafts.empty()) {
      drafts = drafted.first(part.num_drafts);
      drafted = drafted.subspan(part.num_drafts);
    }
    // Behind a draft that the logits did not give nothing can be right.
    drafts = drafts.first(static_cast<std::size_t>(std::ranges::find(drafts, kNoToken) - drafts.begin()));
    if (drafts.empty()) continue;
    const auto count = static_cast<std::size_t>(
        acceptance_.accepted(static_cast<std::int64_t>(part.sequence), part.start, std::ssize(drafts)));
    std::ranges::copy(drafts.first(count), own.begin());
    if (count < drafts.size() && own[count] == drafts[count])
      own[count] = own[count] == 0 ? 1 : own[count] - 1;
  }
  changed.chosen = chosen_;
  return changed;
}

Result<StepOutput> AcceptingEngine::step(std::span<const StepInput> inputs) {
  const std::vector<Part> parts = parts_of(inputs);
  const Result<StepOutput> output = engine_.step(inputs);
  if (!output) return Failure{output.error()};
  return accepted(output.value(), parts);
}

std::optional<Failure> AcceptingEngine::queue(std::span<const StepInput> inputs) {
  std::vector<Part> parts = parts_of(inputs);
  auto failed = engine_.queue(inputs);
  if (!failed) under_way_.push_back(std::move(parts));
  return failed;
}

Result<StepOutput> AcceptingEngine::collect() {
  BALEEN_CHECK(!under_way_.empty());
  const std::vector<Part> parts = std::move(under_way_.front());
  under_way_.pop_front();
  const Result<StepOutput> output = engine_.collect();
  if (!output) return Failure{output.error()};
  return accepted(output.value(), parts);
}

}  // namespace baleen
