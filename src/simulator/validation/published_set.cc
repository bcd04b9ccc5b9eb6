#include "simulator/validation/published_set.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "model/presets.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

/// Reads typed fields of a row, naming the row in messages.
class RowReader {
 public:
  RowReader(const Json& json, std::string label) : json_(json), label_(std::move(label)) {
    if (!json.is_object()) fail("{}: expected an object, found {}", label_, json.type_name());
  }
  template <class T>
  void take(const char* name, T& value) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    try {
      value = found->template get<T>();
    } catch (const Json::exception&) {
      fail("{}.{}: unexpected {}", label_, name, found->dump());
    }
  }
  template <class T>
  void need(const char* name, T& value) const {
    if (!json_.contains(name)) fail("{}.{}: missing", label_, name);
    take(name, value);
  }
  [[nodiscard]] RowReader at(const char* name) const {
    if (!json_.contains(name)) fail("{}.{}: missing", label_, name);
    return {json_.at(name), fmt::format("{}.{}", label_, name)};
  }
  [[nodiscard]] bool has(const char* name) const { return json_.contains(name); }
  [[nodiscard]] const Json& json() const { return json_; }
  [[nodiscard]] const std::string& label() const { return label_; }

 private:
  const Json& json_;
  std::string label_;
};

WeightFormat format_named(const std::string& name, const std::string& label) {
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kFp8, WeightFormat::kFp4}) {
    if (weight_format_name(format) == name) return format;
  }
  fail("{}: expected bf16, fp8 or fp4, found {}", label, name);
}

void read_serving(const RowReader& reader, PublishedRow& row) {
  reader.need("model", row.model.name);
  row.model.config = preset_config(row.model.name);
  std::string experts = "fp4";
  reader.take("experts_format", experts);
  row.model.formats.experts = format_named(experts, reader.label() + ".experts_format");
  const RowReader plan = reader.at("plan");
  plan.need("num_devices", row.plan.num_devices);
  plan.take("tp", row.plan.tp);
  plan.take("cp", row.plan.cp);
  plan.take("dp", row.plan.dp);
  plan.take("ep", row.plan.ep);
  plan.take("moe_tp", row.plan.moe_tp);
  plan.take("sequence_parallel", row.plan.sequence_parallel);
  const RowReader load = reader.at("load");
  load.need("prompt_tokens", row.load.prompt_tokens);
  load.need("reply_tokens", row.load.reply_tokens);
  load.need("concurrency", row.load.concurrency);
  load.take("max_running", row.load.max_running);
  load.take("num_mtp_tokens", row.load.num_mtp_tokens);
  load.take("mtp_acceptance", row.load.mtp_acceptance);
  row.plan = resolved(row.plan, row.model.config);
  const std::vector<std::string> broken = violations(row.plan, row.model.config);
  if (!broken.empty()) fail("{}.plan: {}", reader.label(), broken.front());
}

void read_attention(const RowReader& reader, AttentionShape& shape) {
  reader.take("num_sequences", shape.num_sequences);
  reader.need("num_rows", shape.num_rows);
  reader.need("num_heads", shape.num_heads);
  reader.need("num_entries", shape.num_entries);
  reader.take("num_keys", shape.num_keys);
}

void read_experts(const RowReader& reader, ExpertsShape& shape) {
  reader.need("num_tokens", shape.num_tokens);
  reader.take("hidden_size", shape.hidden_size);
  reader.take("inner_width", shape.inner_width);
  reader.take("num_experts", shape.num_experts);
  reader.take("num_chosen", shape.num_chosen);
  reader.take("num_local", shape.num_local);
  std::string format = "fp8";
  reader.take("format", format);
  shape.format = format_named(format, reader.label() + ".format");
}

void read_linear(const RowReader& reader, PublishedLinear& shape) {
  reader.need("num_rows", shape.num_rows);
  reader.need("num_outputs", shape.num_outputs);
  reader.need("num_inputs", shape.num_inputs);
  std::string format = "fp8";
  reader.take("format", format);
  shape.format = format_named(format, reader.label() + ".format");
}

void read_message(const RowReader& reader, RankMessage& message) {
  std::string kind;
  reader.need("kind", kind);
  bool known = false;
  for (const MessageKind candidate :
       {MessageKind::kAllReduce, MessageKind::kAllGather, MessageKind::kReduceScatter, MessageKind::kAllToAll,
        MessageKind::kSend}) {
    if (message_name(candidate) != kind) continue;
    message.kind = candidate;
    known = true;
  }
  if (!known) fail("{}.kind: no collective is called {}", reader.label(), kind);
  reader.need("group_size", message.group_size);
  reader.need("bytes", message.bytes);
}

PublishedRow read_row(const RowReader& reader) {
  PublishedRow row;
  reader.need("id", row.id);
  reader.need("title", row.title);
  reader.need("device", row.device);
  reader.need("source", row.source);
  reader.take("unknown", row.unknown);
  reader.take("calibrates", row.calibrates);
  if (reader.has("attention")) {
    row.kind = PublishedKind::kAttention;
    read_attention(reader.at("attention"), row.attention);
  } else if (reader.has("experts")) {
    row.kind = PublishedKind::kExperts;
    read_experts(reader.at("experts"), row.experts);
  } else if (reader.has("linear")) {
    row.kind = PublishedKind::kLinear;
    read_linear(reader.at("linear"), row.linear);
  } else if (reader.has("message")) {
    row.kind = PublishedKind::kMessage;
    read_message(reader.at("message"), row.message);
  } else {
    read_serving(reader, row);
  }
  for (const auto& [name, value] : reader.at("published").json().items()) {
    if (!value.is_number() || value.get<double>() <= 0)
      fail("{}.published.{}: expected a number above 0, found {}", reader.label(), name, value.dump());
    row.published.push_back({name, value.get<double>()});
  }
  return row;
}

}  // namespace

std::vector<PublishedRow> parse_published(std::string_view text, std::string_view label) {
  const Result<Json> parsed = parse_ordered_json(text);
  if (!parsed) fail("{}: expected a list of rows as JSON: {}", label, parsed.error());
  const Json& json = parsed.value();
  if (!json.is_array()) fail("{}: expected a list of rows as JSON, found {}", label, json.type_name());
  std::vector<PublishedRow> rows;
  for (std::size_t i = 0; i < json.size(); ++i)
    rows.push_back(read_row({json[i], fmt::format("{}[{}]", label, i)}));
  return rows;
}

}  // namespace baleen
