// Printing and comparing: what a run's configuration comes to, whatever its file looked like.
#include <xxhash.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "base/json.h"
#include "trainer/config/train_config.h"
#include "trainer/config/train_config_fields.h"

namespace baleen {
namespace {

using train_config::Effect;
using train_config::Key;

struct Line {
  std::string key;
  std::string value;
  Effect effect;
};

std::string json_text(const auto& value) { return nlohmann::ordered_json(value).dump(); }

class LineWriter {
 public:
  explicit LineWriter(std::vector<Line>& lines) : lines_(lines) {}

  template <class T, class... Limits>
  void operator()(const Key& key, const T& value, const Limits&...) const {
    add(key, json_text(value));
  }
  void operator()(const Key& key, const std::filesystem::path& value) const {
    add(key, json_text(value.string()));
  }
  template <class... Limits>
  void operator()(const Key& key, const std::optional<std::int64_t>& value, const Limits&...) const {
    add(key, value ? json_text(*value) : "never");
  }
  template <class T, std::size_t N>
  void operator()(const Key& key, const T& value,
                  const std::array<std::pair<T, std::string_view>, N>& names) const {
    for (const auto& [choice, name] : names)
      if (choice == value) add(key, json_text(name));
  }

 private:
  void add(const Key& key, std::string value) const {
    lines_.push_back({fmt::format("{}.{}", key.section, key.name), std::move(value), key.effect});
  }
  std::vector<Line>& lines_;
};

std::vector<Line> lines_of(const TrainConfig& config) {
  std::vector<Line> lines;
  train_config::visit_fields(config, LineWriter(lines));
  const Result<nlohmann::ordered_json> model = parse_ordered_json(config_text(config.model));
  BALEEN_CHECK(model.ok());
  for (const auto& [name, value] : model.value().items())
    lines.push_back({"model.config." + name, value.dump(), Effect::kOnWeights});
  return lines;
}

std::string text_of(const std::vector<Line>& lines, bool all) {
  std::string text;
  for (const Line& line : lines) {
    if (all || line.effect == Effect::kOnWeights) text += fmt::format("{} = {}\n", line.key, line.value);
  }
  return text;
}

std::map<std::string, std::string> values_of(std::string_view text) {
  constexpr std::string_view kSeparator = " = ";
  std::map<std::string, std::string> values;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t separator = line.find(kSeparator);
    if (separator != std::string_view::npos)
      values.emplace(line.substr(0, separator), line.substr(separator + kSeparator.size()));
  }
  return values;
}

}  // namespace

std::string canonical_text(const TrainConfig& config) { return text_of(lines_of(config), true); }

std::string config_hash(const TrainConfig& config) {
  const std::string text = text_of(lines_of(config), false);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::vector<std::string> config_differences(std::string_view before, const TrainConfig& now) {
  const std::map<std::string, std::string> earlier = values_of(before);
  std::vector<std::string> differences;
  std::set<std::string> known;
  for (const Line& line : lines_of(now)) {
    known.insert(line.key);
    if (line.effect == Effect::kNone) continue;
    const auto place = earlier.find(line.key);
    if (place == earlier.end()) {
      differences.push_back(fmt::format("{}: not there before, {} now", line.key, line.value));
    } else if (place->second != line.value) {
      differences.push_back(fmt::format("{}: {} before, {} now", line.key, place->second, line.value));
    }
  }
  for (const auto& [key, value] : earlier)
    if (!known.contains(key))
      differences.push_back(fmt::format("{}: {} before, no such key now", key, value));
  return differences;
}

}  // namespace baleen
