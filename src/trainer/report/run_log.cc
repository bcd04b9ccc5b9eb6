#include "trainer/report/run_log.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "trainer/optimiser/balance.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

/// Tokens that an expert may have in a step; sums stay in range.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;

void add(Series& series, double step, const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return;
  const auto value = found->get<double>();
  if (std::isfinite(value)) series.push_back({step, value});
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

void add_violations(RunLog& log, double step, const Json& line) {
  const auto blocks = line.find("expert_load");
  if (blocks == line.end() || !blocks->is_array()) return;
  if (log.violation.size() < blocks->size()) log.violation.resize(blocks->size());
  for (std::size_t block = 0; block < blocks->size(); ++block) {
    std::vector<std::int64_t> load;
    for (const Json& tokens : (*blocks)[block]) {
      if (!tokens.is_number_integer()) continue;
      const auto count = tokens.get<std::int64_t>();
      if (count >= 0 && count <= kMaxTokens) load.push_back(count);
    }
    if (!load.empty()) log.violation[block].push_back({step, load_balance(load).max_violation});
  }
}

/// False for a line without a step.
bool add_line(RunLog& log, const Json& line) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) return false;
  const auto step_number = line["step"].get<std::int64_t>();
  const auto step = static_cast<double>(step_number);
  if (step_number < 0) return false;
  add(log.loss, step, line, "loss");
  add(log.held_out, step, line, "held_out_bits_per_byte");
  add(log.reward, step, line, "reward");
  add(log.indexer_loss, step, line, "indexer_loss");
  add(log.balance_loss, step, line, "balance_loss");
  add(log.gradient_norm, step, line, "gradient_norm");
  add(log.learning_rate, step, line, "learning_rate");
  add(log.tokens_per_second, step, line, "tokens_per_second");
  if (line.contains("skipped")) ++log.num_skipped;
  add_violations(log, step, line);
  const auto continuations = line.find("continuations");
  if (continuations == line.end() || !continuations->is_array()) return true;
  for (const Json& one : *continuations)
    log.continuations.push_back({step_number, text_of(one, "prompt"), text_of(one, "text")});
  return true;
}

}  // namespace

RunLog read_run_log(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / "log.jsonl";
  if (!std::filesystem::exists(path))
    fail("{}: no log; expected the folder of a training run, which has log.jsonl", folder);
  RunLog log{.name = std::filesystem::canonical(folder).filename()};
  const std::string text = read_text_file(path);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const Result<Json> parsed = parse_ordered_json(std::string(line));
    if (!parsed.ok() || !add_line(log, parsed.value())) ++log.num_damaged;
  }
  if (log.loss.empty())
    fail("{}: no step with a loss in it; expected the log of a training run", path.string());
  return log;
}

}  // namespace baleen
