// Reading: TOML to a `TrainConfig`. Every sentence names file, line and key.
#include "trainer/config/train_config.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "base/typed_fields.h"
#include "model/config_fields.h"
#include "model/model_family.h"
#include "model/model_folder.h"
#include "model/presets.h"
#include "model/tensor_table.h"
#include "trainer/config/tensor_patterns.h"
#include "trainer/config/toml_text.h"
#include "trainer/config/train_config_fields.h"

namespace baleen {
namespace {

using train_config::Key;
using train_config::Presence;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxConfigBytes = 1 << 20;
constexpr std::string_view kModel = "model";
constexpr std::string_view kPreset = "preset";

/// A value as the file spells it, short.
std::string spelt(const toml::node& node) {
  std::ostringstream text;
  node.visit([&text](const auto& value) { text << value; });
  return shortened_text(text.str(), 60);
}

/// The file, and where its keys are.
class ConfigFile {
 public:
  ConfigFile(toml::table root, std::string_view label) : root_(std::move(root)), label_(label) {}

  [[nodiscard]] const toml::table& root() const { return root_; }
  [[nodiscard]] const toml::table* section(std::string_view name) const {
    return root_.contains(name) ? root_.at(name).as_table() : nullptr;
  }
  [[nodiscard]] const toml::node* find(std::string_view section_name, std::string_view name) const {
    const toml::table* table = section(section_name);
    return table == nullptr ? nullptr : table->get(name);
  }
  /// "FILE, line N: section.name", or without the line where the key is not in the file.
  [[nodiscard]] std::string where(std::string_view section_name, std::string_view name) const {
    const toml::node* node = find(section_name, name);
    const std::string line = node == nullptr ? "" : line_of(*node);
    return fmt::format("{}{}: {}.{}", label_, line, section_name, name);
  }
  void require(bool holds, std::string_view section_name, std::string_view name, const std::string& expected,
               const std::string& found) const {
    if (!holds) fail("{}: expected {}; found {}", where(section_name, name), expected, found);
  }
  [[nodiscard]] std::string label() const { return std::string(label_); }
  [[nodiscard]] static std::string line_of(const toml::node& node) {
    return node.source().begin.line == 0 ? "" : fmt::format(", line {}", node.source().begin.line);
  }

 private:
  toml::table root_;
  std::string_view label_;
};

struct TomlNotation {
  using Value = toml::node;
  /// 7.0 is no whole number in TOML.
  static std::optional<std::int64_t> whole(const toml::node& node) {
    return node.is_integer() ? node.value<std::int64_t>() : std::nullopt;
  }
  static std::optional<double> real(const toml::node& node) {
    return node.is_number() ? node.value<double>() : std::nullopt;
  }
  static std::optional<bool> flag(const toml::node& node) {
    return node.is_boolean() ? node.value<bool>() : std::nullopt;
  }
  static const std::string* text(const toml::node& node) {
    return node.is_string() ? &node.as_string()->get() : nullptr;
  }
};

/// Reads the keys of the list in their order.
class FieldReader : public TypedFields<FieldReader, TomlNotation> {
 public:
  FieldReader(const ConfigFile& file, const std::filesystem::path& base) : file_(file), base_(base) {}

  void operator()(const Key& key, auto& value, const auto&... range) const { take(key, value, range...); }
  void operator()(const Key& key, std::filesystem::path& value) const {
    constexpr std::string_view kExpected = "the name of a folder";
    const std::string* name = text(key, kExpected);
    if (name == nullptr) return;
    if (name->empty()) refuse(key, kExpected, *find(key, kExpected));
    value = (base_ / *name).lexically_normal();
  }
  void operator()(const Key& key, std::vector<std::string>& values) const {
    const toml::node* node = find(key, "a list of texts");
    if (node == nullptr) return;
    if (!node->is_array()) refuse(key, "a list of texts", *node);
    values.clear();
    for (const toml::node& element : *node->as_array()) {
      if (!element.is_string()) refuse(key, "a list of texts", element);
      values.push_back(**element.as_string());
    }
  }
  template <class T, std::size_t N>
  void operator()(const Key& key, T& value,
                  const std::array<std::pair<T, std::string_view>, N>& names) const {
    std::string expected;
    for (const auto& [choice, name] : names)
      expected += fmt::format("{}\"{}\"", expected.empty() ? "" : " or ", name);
    const std::string* found = text(key, expected);
    if (found == nullptr) return;
    const auto named = std::ranges::find(names, *found, [](const auto& pair) { return pair.second; });
    if (named == names.end()) refuse(key, expected, *find(key, expected));
    value = named->first;
  }

  [[nodiscard]] const toml::node* find(const Key& key, std::string_view expected) const {
    const toml::node* node = file_.find(key.section, key.name);
    const bool makes_data = file_.section("rollout") != nullptr;
    if (node == nullptr &&
        (key.presence == Presence::kRequired || (key.presence == Presence::kRequiredData && !makes_data)))
      fail("{}: {}.{} is missing; expected {}", file_.label(), key.section, key.name, expected);
    return node;
  }
  [[noreturn]] void refuse(const Key& key, std::string_view expected, const toml::node& found) const {
    fail("{}: expected {}; found {}", file_.where(key.section, key.name), expected, spelt(found));
  }

 private:
  const ConfigFile& file_;
  const std::filesystem::path& base_;
};

Json json_of(const toml::node& node) {
  if (const toml::array* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& element : *array) list.push_back(json_of(element));
    return list;
  }
  if (const toml::table* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [name, value] : *table) object[std::string(name.str())] = json_of(value);
    return object;
  }
  if (node.is_integer()) return node.value<std::int64_t>().value_or(0);
  if (node.is_floating_point()) return node.value<double>().value_or(0);
  if (node.is_boolean()) return node.value<bool>().value_or(false);
  if (node.is_string()) return node.value<std::string>().value_or("");
  return spelt(node);  // dates and times, which no field is
}

/// The preset, or the configuration of the checkpoint `from`, or nothing; fields of the file replace theirs.
ModelConfig read_model(const ConfigFile& file, const std::filesystem::path& from) {
  ModelConfig model;
  if (!from.empty() && !file.find(kModel, kPreset)) model = load_config(from);
  if (const toml::node* preset = file.find(kModel, kPreset)) {
    std::vector<std::string> names;
    for (const Preset& known : presets()) names.emplace_back(known.name);
    const std::string name = preset->value<std::string>().value_or("");
    if (std::ranges::find(names, name) == names.end()) {
      fail("{}: expected one of {}; found {}{}", file.where(kModel, kPreset), fmt::join(names, ", "),
           spelt(*preset), did_you_mean(name, names));
    }
    model = preset_config(name);
  }
  Json fields = Json::object();
  if (const toml::table* section = file.section(kModel)) {
    for (const auto& [name, value] : *section) {
      if (name != kPreset && name != "initializer_range") fields[std::string(name.str())] = json_of(value);
    }
  }
  const auto where = [&file](std::string_view name) { return file.where(kModel, name); };
  set_config_fields(model, fields, where);
  if (!file.find(kModel, kPreset) && from.empty()) {
    for (const char* name : {"vocab_size", "hidden_size", "num_hidden_layers"}) {
      if (!fields.contains(name))
        fail("{}: {}.{} is missing; expected it, or {}.{}, or run.from", file.label(), kModel, name, kModel,
             kPreset);
    }
  }
  if (model.dense_format == WeightFormat::kFp8) model.dense_format = model.fp8_format();
  if (model.num_draft_blocks() == 0) model = without_drafts(std::move(model));
  validate(model, file.label() + ": [model]");
  file.require(model.num_draft_blocks() == 0 || model.draft_kind != DraftKind::kDspark, kModel,
               "num_nextn_predict_layers", "0, the model without its DSpark head, which is not trained",
               fmt::to_string(model.num_draft_blocks()));
  return model;
}

/// Every key of the file is one of the list.
void refuse_unknown_keys(const ConfigFile& file) {
  std::map<std::string, std::vector<std::string>> known;
  TrainConfig config;
  train_config::visit_fields(config, [&known](const Key& key, const auto&...) {
    known[std::string(key.section)].emplace_back(key.name);
  });
  std::vector<std::string>& model = known[std::string(kModel)];
  for (std::string& name : config_field_names()) model.push_back(std::move(name));
  model.emplace_back(kPreset);
  std::vector<std::string> sections;
  sections.reserve(known.size());
  for (const auto& [name, keys] : known) sections.push_back(name);
  for (const auto& [section, node] : file.root()) {
    const std::string section_name(section.str());
    const std::string line = ConfigFile::line_of(node);
    const auto place = known.find(section_name);
    if (place == known.end()) {
      fail("{}{}: {}: no such section{}; there are {}", file.label(), line, quoted_text(section_name),
           did_you_mean(section_name, sections), fmt::join(sections, ", "));
    }
    if (!node.is_table())
      fail("{}{}: {}: expected a section, [{}]; found {}", file.label(), line, section_name, section_name,
           spelt(node));
    for (const auto& [name, value] : *node.as_table()) {
      const std::string key(name.str());
      if (std::ranges::find(place->second, key) != place->second.end()) continue;
      fail("{}{}: {}.{}: no such key{}", file.label(), ConfigFile::line_of(value), section_name,
           shortened_text(key, 60), did_you_mean(key, place->second));
    }
  }
}

/// [rollout], [grpo], [distill], [sft].
void check_rollouts(const TrainConfig& c, const ConfigFile& file) {
  const auto has = [&file](std::string_view section) { return file.section(section) != nullptr; };
  file.require(has("rollout") || !(has("grpo") || has("distill") || has("sft")), "rollout", "prompts",
               "a section [rollout] beside [grpo], [distill] or [sft]", "none");
  if (!has("rollout")) return;
  const bool distils = has("distill");
  file.require(!c.rollout.prompts.empty(), "rollout", "prompts", "the name of a file", "none");
  file.require(!c.run.from.empty(), "run", "from", "the checkpoint whose policy is trained", "none");
  file.require(c.rollout.prompt_tokens + c.rollout.max_tokens <= c.model.max_position_embeddings, "rollout",
               "max_tokens",
               fmt::format("prompt_tokens + max_tokens of at most model.max_position_embeddings, {}",
                           c.model.max_position_embeddings),
               fmt::format("{} + {}", c.rollout.prompt_tokens, c.rollout.max_tokens));
  file.require(distils || c.rollout.group_size >= 2, "rollout", "group_size", "at least 2 replies to compare",
               fmt::to_string(c.rollout.group_size));
  file.require(c.indexer.warmup_steps == 0, "indexer", "warmup_steps", "0 beside [rollout]",
               fmt::to_string(c.indexer.warmup_steps));
  if (has("sft")) {
    file.require(!c.sft.folder.empty(), "sft", "folder", "a folder of packed data", "none");
    file.require(c.sft.sequence_length <= c.model.max_position_embeddings, "sft", "sequence_length",
                 fmt::format("at most model.max_position_embeddings, {}", c.model.max_position_embeddings),
                 fmt::to_string(c.sft.sequence_length));
  }
  if (!distils) return;
  const std::size_t num_teachers = c.distill.teachers.size(), num_domains = c.distill.domains.size();
  file.require(!has("grpo"), "distill", "teachers", "either [grpo] or [distill]", "both");
  file.require(num_teachers > 0, "distill", "teachers", "folders of checkpoints", "none");
  file.require(num_domains == num_teachers || (num_domains == 0 && num_teachers == 1), "distill", "domains",
               fmt::format("a domain for each of {} teachers", num_teachers), fmt::to_string(num_domains));
}

/// [indexer]
void check_indexer(const TrainConfig& c, const ConfigFile& file) {
  const std::int64_t steps = c.indexer.warmup_steps;
  file.require(c.indexer.dense_steps + steps <= c.run.steps, "indexer", "dense_steps",
               fmt::format("dense_steps + warmup_steps within run.steps, {}", c.run.steps),
               fmt::format("{} + {}", c.indexer.dense_steps, steps));
  file.require(steps == 0 || c.model.num_layers_of(LayerKind::kCsa) > 0, "indexer", "warmup_steps",
               "0 for a model without indexers: none of its layers selects among entries of its own",
               fmt::to_string(steps));
  file.require(steps == 0 || c.loss.indexer_weight > 0, "loss", "indexer_weight",
               "above 0 where indexer.warmup_steps train nothing else",
               fmt::to_string(c.loss.indexer_weight));
}

/// [ablation]
void check_ablation(const TrainConfig& c, const ConfigFile& file) {
  if (!c.ablation.plain_residual) return;
  const auto require = [&file](bool holds, const std::string& what) {
    file.require(holds, "ablation", "plain_residual",
                 fmt::format("false {}, whose models have mixed streams", what), "true");
  };
  require(!c.model.lags_mixing(), fmt::format("of a {}", c.model.family->name));
  require(c.run.from.empty(), "with run.from");
  require(c.rollout.prompts.empty(), "with [rollout]");
  require(c.lora.rank == 0, "with [lora]");
}

/// What single values cannot tell.
void check_together(const TrainConfig& c, const ConfigFile& file) {
  const auto require = [&file](auto&&... what) { file.require(what...); };
  const auto text = [](const auto& value) { return fmt::to_string(value); };
  require(c.schedule.warmup_steps + c.schedule.decay_steps <= c.run.steps, "schedule", "decay_steps",
          fmt::format("warmup_steps + decay_steps within run.steps, {}", c.run.steps),
          fmt::format("{} + {}", c.schedule.warmup_steps, c.schedule.decay_steps));
  require(c.schedule.final_learning_rate <= c.schedule.learning_rate, "schedule", "final_learning_rate",
          fmt::format("at most learning_rate, {}", c.schedule.learning_rate),
          text(c.schedule.final_learning_rate));
  check_rollouts(c, file);
  const std::vector<TensorSpec> table = tensor_table(c.model);
  for (const std::string& pattern : c.tune.tensors) {
    const bool matches = std::ranges::any_of(
        table, [&](const TensorSpec& tensor) { return matches_pattern(tensor.name, pattern); });
    require(matches, "tune", "tensors", "patterns of the model's tensors, as \"layers.*.attn.*\"",
            fmt::format("{}, which matches none", quoted_text(pattern)));
  }
  require(c.data.micro_batch_rows == 0 || c.data.batch_rows % c.data.micro_batch_rows == 0, "data",
          "micro_batch_rows", fmt::format("a divisor of batch_rows, {}", c.data.batch_rows),
          text(c.data.micro_batch_rows));
  require(c.data.sequence_length <= c.model.max_position_embeddings, "data", "sequence_length",
          fmt::format("at most model.max_position_embeddings, {}", c.model.max_position_embeddings),
          text(c.data.sequence_length));
  constexpr std::int64_t kMaxPassTokens = std::int64_t{1} << 26;  // sizes in bytes then stay below 2^63
  const std::int64_t rows = c.data.micro_batch_rows == 0 ? c.data.batch_rows : c.data.micro_batch_rows;
  require(rows * c.data.sequence_length <= kMaxPassTokens, "data",
          c.data.micro_batch_rows == 0 ? "batch_rows" : "micro_batch_rows",
          fmt::format("at most {} tokens of a micro-batch, rows times sequence_length; lower "
                      "data.micro_batch_rows",
                      grouped(kMaxPassTokens)),
          fmt::format("{} x {}", rows, c.data.sequence_length));
  check_indexer(c, file);
  check_ablation(c, file);
  require(c.qat.start_step.value_or(0) <= c.run.steps, "qat", "start_step",
          fmt::format("at most run.steps, {}", c.run.steps), text(c.qat.start_step.value_or(0)));
}

}  // namespace

TrainConfig parse_train_config(std::string_view text, std::string_view label,
                               const std::filesystem::path& base, const std::filesystem::path& from) {
  const ConfigFile file(parse_toml(text, label), label);
  refuse_unknown_keys(file);
  TrainConfig config;
  train_config::visit_fields(config, FieldReader(file, base));
  if (!from.empty()) config.run.from = from;
  if (!config.run.from.empty()) config.run.from = std::filesystem::weakly_canonical(config.run.from);
  config.model = read_model(file, config.run.from);
  if (config.ablation.plain_residual) config.model.hc_mult = 1;
  check_together(config, file);
  for (std::string& teacher : config.distill.teachers)
    teacher = std::filesystem::weakly_canonical(base / teacher).string();
  if (!config.rollout.prompts.empty()) config.data.folder = config.run.from;
  return config;
}

TrainConfig load_train_config(const std::filesystem::path& path, const std::filesystem::path& from) {
  return parse_train_config(read_text_file(path, kMaxConfigBytes), path.string(), path.parent_path(), from);
}

}  // namespace baleen
