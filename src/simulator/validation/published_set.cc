#include "simulator/validation/published_set.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "model/presets.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

/// At most `most` numbers; `values` stay where the field is missing.
void take_numbers(const JsonFields& fields, const char* name, std::vector<double>& values, RealRange range,
                  std::size_t most) {
  const Json* found = fields.find(name);
  if (found == nullptr) return;
  if (!found->is_array() || found->size() > most)
    fields.refuse(name, fmt::format("a list of at most {} numbers", most), *found);
  values.clear();
  for (const Json& element : *found) {
    const std::optional<double> value = JsonNotation::real(element);
    if (!value || !range.contains(*value)) fields.refuse(name, range_text(range), element);
    values.push_back(*value);
  }
}

// Of figures that people publish; products of them stay far below 2^63.
constexpr WholeRange kDevices{1, 4096};
constexpr WholeRange kParts{0, 4096};  ///< 0: as the others suggest
constexpr WholeRange kRequests{1, 1 << 20};
constexpr WholeRange kMaxRequests{0, 1 << 20};
constexpr WholeRange kDrafts{0, 16};
constexpr WholeRange kTokens{1, 1 << 20};
constexpr WholeRange kHeads{1, 4096};
constexpr WholeRange kEntries{128, 1 << 20};  ///< the window's 128 rows at least
constexpr WholeRange kKeys{0, 1 << 26};
constexpr WholeRange kWidth{1, 1 << 20};
constexpr WholeRange kExperts{1, 1 << 16};
constexpr RealRange kShare{.min = 0, .max = 1};
constexpr RealRange kMessageBytes{.min = 0, .max = 1e15};
constexpr RealRange kFigure{.min = 0, .max = 1e15, .above_min = true};
constexpr std::size_t kMaxRows = 10'000;

WeightFormat format_named(const std::string& name, const std::string& label) {
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kFp8, WeightFormat::kFp4}) {
    if (weight_format_name(format) == name) return format;
  }
  fail("{}: expected bf16, fp8 or fp4, found {}", label, quoted_text(name));
}

void read_serving(const JsonFields& reader, PublishedRow& row) {
  reader.need("model", row.model.name);
  row.model.config = preset_config(row.model.name);
  std::string experts = "fp4";
  reader.take("experts_format", experts);
  row.model.formats = {.dense = row.model.config.dense_format,
                       .experts = format_named(experts, reader.label() + ".experts_format")};
  const JsonFields plan = reader.fields("plan");
  plan.need("num_devices", row.plan.num_devices, kDevices);
  plan.take("tp", row.plan.tp, kParts);
  plan.take("cp", row.plan.cp, kParts);
  plan.take("dp", row.plan.dp, kParts);
  plan.take("ep", row.plan.ep, kParts);
  plan.take("moe_tp", row.plan.moe_tp, kParts);
  plan.take("sequence_parallel", row.plan.sequence_parallel);
  const JsonFields load = reader.fields("load");
  load.need("prompt_tokens", row.load.prompt_tokens, kTokens);
  load.need("reply_tokens", row.load.reply_tokens, kTokens);
  load.need("concurrency", row.load.concurrency, kRequests);
  load.take("max_running", row.load.max_running, kMaxRequests);
  load.take("num_mtp_tokens", row.load.num_drafts, kDrafts);
  take_numbers(load, "mtp_acceptance", row.load.draft_acceptance, kShare,
               static_cast<std::size_t>(kDrafts.max));
  row.plan = resolved(row.plan, row.model.config);
  const std::vector<std::string> broken = violations(row.plan, row.model.config);
  if (!broken.empty()) fail("{}.plan: {}", reader.label(), broken.front());
}

void read_attention(const JsonFields& reader, AttentionShape& shape) {
  reader.need("num_rows", shape.num_rows, kTokens);
  reader.take("num_sequences", shape.num_sequences, WholeRange{1, shape.num_rows});
  reader.need("num_heads", shape.num_heads, kHeads);
  reader.need("num_entries", shape.num_entries, kEntries);
  reader.take("num_keys", shape.num_keys, kKeys);
}

void read_experts(const JsonFields& reader, ExpertsShape& shape) {
  reader.need("num_tokens", shape.num_tokens, kTokens);
  reader.take("hidden_size", shape.hidden_size, kWidth);
  reader.take("inner_width", shape.inner_width, kWidth);
  reader.take("num_experts", shape.num_experts, kExperts);
  reader.take("num_chosen", shape.num_chosen, WholeRange{1, shape.num_experts});
  reader.take("num_local", shape.num_local, WholeRange{1, shape.num_experts});
  std::string format = "fp8";
  reader.take("format", format);
  shape.format = format_named(format, reader.label() + ".format");
}

void read_linear(const JsonFields& reader, PublishedLinear& shape) {
  reader.need("num_rows", shape.num_rows, kTokens);
  reader.need("num_outputs", shape.num_outputs, kWidth);
  reader.need("num_inputs", shape.num_inputs, kWidth);
  std::string format = "fp8";
  reader.take("format", format);
  shape.format = format_named(format, reader.label() + ".format");
}

void read_message(const JsonFields& reader, RankMessage& message) {
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
  if (!known) fail("{}.kind: no collective is called {}", reader.label(), quoted_text(kind));
  reader.need("group_size", message.group_size, kDevices);
  reader.need("bytes", message.bytes, kMessageBytes);
}

PublishedRow read_row(const JsonFields& reader) {
  PublishedRow row;
  reader.need("id", row.id);
  reader.need("title", row.title);
  reader.need("device", row.device);
  reader.need("source", row.source);
  reader.take("unknown", row.unknown);
  reader.take("calibrates", row.calibrates);
  reader.take("blind", row.blind);
  if (reader.find("attention") != nullptr) {
    row.kind = PublishedKind::kAttention;
    read_attention(reader.fields("attention"), row.attention);
  } else if (reader.find("experts") != nullptr) {
    row.kind = PublishedKind::kExperts;
    read_experts(reader.fields("experts"), row.experts);
  } else if (reader.find("linear") != nullptr) {
    row.kind = PublishedKind::kLinear;
    read_linear(reader.fields("linear"), row.linear);
  } else if (reader.find("message") != nullptr) {
    row.kind = PublishedKind::kMessage;
    read_message(reader.fields("message"), row.message);
  } else {
    read_serving(reader, row);
  }
  const JsonFields published = reader.fields("published");
  for (const auto& [name, value] : reader.at("published").items())
    row.published.push_back({name, *published.real(name, kFigure)});
  return row;
}

}  // namespace

std::vector<PublishedRow> parse_published(std::string_view text, std::string_view label) {
  const Result<Json> parsed = parse_ordered_json(text);
  if (!parsed) fail("{}: expected a list of rows as JSON: {}", label, parsed.error());
  const Json& json = parsed.value();
  if (!json.is_array()) fail("{}: expected a list of rows as JSON, found {}", label, json.type_name());
  if (json.size() > kMaxRows) fail("{}: expected at most {} rows, found {}", label, kMaxRows, json.size());
  std::vector<PublishedRow> rows;
  for (std::size_t i = 0; i < json.size(); ++i)
    rows.push_back(read_row({json[i], fmt::format("{}[{}]", label, i)}));
  return rows;
}

}  // namespace baleen
