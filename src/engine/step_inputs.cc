#include "engine/step_inputs.h"

#include <algorithm>

namespace baleen {

std::int64_t num_rows_of(const StepInput& input) { return std::ssize(input.tokens) + input.num_drafts; }

std::int64_t num_wanted_of(const StepInput& input) {
  switch (input.wanted) {
    case WantedLogits::kNone:
      return 0;
    case WantedLogits::kLast:
      return 1 + input.num_drafts;
    case WantedLogits::kAll:
      return std::ssize(input.tokens);
  }
  return 0;
}

std::int64_t most_drafts(std::span<const StepInput> inputs) {
  std::int64_t most = 0;
  for (const StepInput& input : inputs) most = std::max(most, input.num_drafts);
  return most;
}

std::vector<SampleRow> draws_of(std::span<const StepInput> inputs) {
  std::vector<SampleRow> draws;
  for (const StepInput& input : inputs) draws.insert(draws.end(), input.draws.begin(), input.draws.end());
  return draws;
}

}  // namespace baleen
