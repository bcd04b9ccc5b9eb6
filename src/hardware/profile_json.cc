// Device profiles as JSON text.

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/nearest_name.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "hardware/device_profile.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, static_cast<std::size_t>(PeakFormat::kCount)> kFormatNames{
    "fp32", "tf32", "bf16", "fp8", "fp4", "int8"};
constexpr std::size_t kMaxProfileBytes = 1 << 24;
constexpr std::size_t kMaxTextBytes = 4096;

/// What a figure may be: far beyond every device on either side, and near enough that no time or sum of times
/// computed from it is infinite, negative or not a number.
struct FigureRange {
  double min = 0;
  double max = 0;
  bool or_zero = false;  ///< 0 as well, which says nothing or "none"
};

constexpr FigureRange kOperationsPerSecond{1e6, 1e19, true};
constexpr FigureRange kBytesPerSecond{1e3, 1e17, true};
constexpr FigureRange kBytes{0, 1e15};
constexpr FigureRange kSeconds{0, 100};
constexpr FigureRange kShare{1e-9, 4, true};  ///< measured ones may pass a datasheet's peak
constexpr FigureRange kLinkShare{1e-6, 4};
constexpr FigureRange kRows{1, 1e12};
constexpr FigureRange kTile{1, 1e9, true};
constexpr FigureRange kUnits{0, 1e6};
constexpr std::int64_t kMaxCapability = 99;
constexpr FigureRange kPcieGeneration{1, 6};
constexpr FigureRange kPcieLanes{1, 16};
constexpr FigureRange kRanks{2, 1e6};
constexpr FigureRange kLinkSize{1, 1e9};

/// Most entries of each list; those of the program have 21, 12, 12, 3 and 1.
constexpr std::size_t kMaxOperations = 1024, kMaxPoints = 256, kMaxMessages = 64, kMaxLinks = 16,
                      kMaxMemoryLevels = 16, kMaxSources = 4096;

bool holds(const FigureRange& range, double value) {
  return (value >= range.min && value <= range.max) || (range.or_zero && value == 0);
}
bool holds(const FigureRange& range, std::int64_t value) { return holds(range, static_cast<double>(value)); }

std::string words(const FigureRange& range, std::string_view what) {
  return fmt::format("{} from {:g} to {:g}{}", what, range.min, range.max, range.or_zero ? ", or 0" : "");
}
std::string whole_words(const FigureRange& range) { return words(range, "a whole number"); }
std::string real_words(const FigureRange& range) { return words(range, "a number"); }

void check_count(const Json& list, std::size_t most, std::string_view label) {
  if (list.size() > most) fail("{}: expected at most {} entries, found {}", label, most, list.size());
}

/// Empty where it is missing.
std::string short_text(const JsonFields& fields, std::string_view name) {
  std::string text;
  fields.take(name, text);
  if (text.size() > kMaxTextBytes)
    fail("{}: expected at most {} bytes, found {}", fields.label_of(name), kMaxTextBytes, text.size());
  return text;
}

void read_efficiency(const JsonFields& fields, EfficiencyPoint& point) {
  for (const auto& [name, share] :
       {std::pair{"compute", &point.compute}, {"memory", &point.memory}, {"scalar", &point.scalar}}) {
    fields.take(name, *share, kShare);
  }
}

/// "8.9"
void read_capability(const JsonFields& fields, DeviceProfile& profile) {
  constexpr std::string_view kName = "compute_capability";
  const std::string text = short_text(fields, kName);
  if (text.empty()) return;
  const std::size_t point = text.find('.');
  const auto part = [&](std::string_view digits) -> int {
    const Result<std::int64_t> number = read_whole(digits, {0, kMaxCapability});
    if (!number)
      fail("{}: expected two numbers, as \"8.9\", found {}", fields.label_of(kName),
           shortened_text(text, 60));
    return static_cast<int>(number.value());
  };
  profile.capability_major = part(std::string_view(text).substr(0, point));
  profile.capability_minor = part(point == std::string::npos ? "" : std::string_view(text).substr(point + 1));
}

OperationEfficiency read_operation(const Json& json, const std::string& label) {
  OperationEfficiency operation;
  const JsonFields fields(json, label);
  fields.take("overlaps_scalar", operation.overlaps_scalar);
  fields.take("rows_per_tile", operation.rows_per_tile, kTile);
  fields.take("heads_per_tile", operation.heads_per_tile, kTile);
  if (const Json* points = fields.find("points")) {
    if (!points->is_array()) fail("{}.points: expected a list, found {}", label, points->type_name());
    check_count(*points, kMaxPoints, label + ".points");
    for (std::size_t i = 0; i < points->size(); ++i) {
      EfficiencyPoint point;
      const JsonFields entry((*points)[i], fmt::format("{}.points[{}]", label, i));
      entry.take("rows", point.num_rows, kRows);
      read_efficiency(entry, point);
      entry.take("static_seconds", point.static_seconds, kSeconds);
      entry.end();
      if (!operation.points.empty() && operation.points.back().num_rows >= point.num_rows) {
        fail("{}: rows {} after {}: expected rising numbers", entry.label(), point.num_rows,
             operation.points.back().num_rows);
      }
      operation.points.push_back(point);
    }
  }
  fields.end();
  return operation;
}

LinkLevel read_link(const Json& json, const std::string& label) {
  LinkLevel link;
  const JsonFields fields(json, label);
  fields.take("size", link.size, kLinkSize);
  fields.take("bytes_per_second", link.bytes_per_second, kBytesPerSecond);
  fields.take("latency_seconds", link.latency_seconds, kSeconds);
  fields.take("efficiency", link.efficiency, kLinkShare);
  fields.take("mesh", link.mesh);
  fields.end();
  if (link.bytes_per_second == 0) fail("{}.bytes_per_second: missing, or 0", label);
  return link;
}

MessageTimes read_message(const Json& json, const std::string& label) {
  MessageTimes times;
  const JsonFields fields(json, label);
  fields.take("num_ranks", times.num_ranks, kRanks);
  fields.take("seconds_per_further_rank", times.seconds_per_further_rank, kSeconds);
  fields.take("whole_up_to_bytes", times.whole_up_to_bytes, kBytes);
  const Json* points = fields.find("points");
  if (points == nullptr || !points->is_array() || points->empty())
    fail("{}.points: expected a list of bytes and seconds", label);
  check_count(*points, kMaxPoints, label + ".points");
  for (std::size_t i = 0; i < points->size(); ++i) {
    MessagePoint point;
    const JsonFields entry((*points)[i], fmt::format("{}.points[{}]", label, i));
    entry.take("bytes", point.bytes, kBytes);
    entry.take("seconds", point.seconds, kSeconds);
    entry.end();
    if (!times.points.empty() && times.points.back().bytes >= point.bytes) {
      fail("{}: {} bytes after {}: expected rising numbers", entry.label(), point.bytes,
           times.points.back().bytes);
    }
    times.points.push_back(point);
  }
  fields.end();
  return times;
}

HostCompute read_host_compute(const Json& json, const std::string& label) {
  HostCompute compute;
  const JsonFields fields(json, label);
  for (const auto& [name, rate] :
       {std::pair{"bytes_per_second", &compute.bytes_per_second},
        {"beside_copies_bytes_per_second", &compute.beside_copies_bytes_per_second},
        {"copies_beside_bytes_per_second", &compute.copies_beside_bytes_per_second}}) {
    fields.take(name, *rate, kBytesPerSecond);
    if (*rate == 0) fail("{}.{}: missing, or 0", label, name);
  }
  fields.take("row_seconds", compute.row_seconds, kSeconds);
  fields.take("hand_over_seconds", compute.hand_over_seconds, kSeconds);
  fields.end();
  return compute;
}

MemoryLevel read_memory_level(const Json& json, const std::string& label) {
  MemoryLevel level;
  const JsonFields fields(json, label);
  level.name = short_text(fields, "name");
  fields.take("bytes", level.bytes, kBytes);
  fields.take("bytes_per_second", level.bytes_per_second, kBytesPerSecond);
  fields.take("kernel_bytes_per_second", level.kernel_bytes_per_second, kBytesPerSecond);
  if (const Json* compute = fields.find("compute"))
    level.compute = read_host_compute(*compute, label + ".compute");
  fields.end();
  for (const auto& [name, rate] : {std::pair{"bytes_per_second", level.bytes_per_second},
                                   {"kernel_bytes_per_second", level.kernel_bytes_per_second}}) {
    if (rate == 0) fail("{}.{}: missing, or 0", label, name);
  }
  return level;
}

Json message_json(const MessageTimes& times) {
  Json json{{"num_ranks", times.num_ranks}};
  if (times.seconds_per_further_rank > 0) json["seconds_per_further_rank"] = times.seconds_per_further_rank;
  if (times.whole_up_to_bytes > 0) json["whole_up_to_bytes"] = times.whole_up_to_bytes;
  json["points"] = Json::array();
  for (const MessagePoint& point : times.points)
    json["points"].push_back({{"bytes", point.bytes}, {"seconds", point.seconds}});
  return json;
}

Json points_json(const std::vector<EfficiencyPoint>& points) {
  Json list = Json::array();
  for (const EfficiencyPoint& point : points) {
    Json entry{{"rows", point.num_rows}};
    if (point.compute > 0) entry["compute"] = point.compute;
    if (point.memory > 0) entry["memory"] = point.memory;
    if (point.scalar > 0) entry["scalar"] = point.scalar;
    if (point.static_seconds >= 0) entry["static_seconds"] = point.static_seconds;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

DeviceProfile parse_device_profile(std::string_view text, std::string_view label) {
  const Result<Json> parsed = parse_ordered_json(text, {.comments = true});
  if (!parsed) fail("{}: not JSON: {}; `baleen calibrate` writes a device profile", label, parsed.error());
  const Json& json = parsed.value();
  DeviceProfile profile;
  const JsonFields fields(json, std::string(label));
  profile.name = short_text(fields, "name");
  profile.description = short_text(fields, "description");
  fields.take("is_cpu", profile.is_cpu);
  fields.take("fuses", profile.fuses);
  fields.take("from_data_sheet", profile.from_data_sheet);
  read_capability(fields, profile);
  if (const Json* peaks = fields.find("peak_flops")) {
    const JsonFields entries(*peaks, fmt::format("{}.peak_flops", label));
    for (std::size_t i = 0; i < kFormatNames.size(); ++i)
      entries.take(std::string(kFormatNames[i]), profile.peak_flops[i], kOperationsPerSecond);
    entries.end();
  }
  fields.take("scalar_ops_per_second", profile.scalar_ops_per_second, kOperationsPerSecond);
  fields.take("memory_bytes", profile.memory_bytes, kBytes);
  fields.take("memory_bytes_per_second", profile.memory_bytes_per_second, kBytesPerSecond);
  fields.take("l2_bytes", profile.l2_bytes, kBytes);
  fields.take("num_units", profile.num_units, kUnits);
  fields.take("shared_bytes_per_block", profile.shared_bytes_per_block, kBytes);
  if (const Json* pcie = fields.find("pcie")) {
    const JsonFields entries(*pcie, fmt::format("{}.pcie", label));
    entries.need("generation", profile.pcie_generation, kPcieGeneration);
    entries.need("lanes", profile.pcie_lanes, kPcieLanes);
    entries.end();
  }
  if (const Json* efficiency = fields.find("efficiency")) {
    const JsonFields entries(*efficiency, fmt::format("{}.efficiency", label));
    read_efficiency(entries, profile.efficiency);
    entries.end();
  }
  if (const Json* operations = fields.find("operations")) {
    if (!operations->is_object())
      fail("{}.operations: expected an object, found {}", label, operations->type_name());
    check_count(*operations, kMaxOperations, fmt::format("{}.operations", label));
    for (const auto& [name, value] : operations->items())
      profile.operations[name] =
          read_operation(value, fmt::format("{}.operations.{}", label, shortened_text(name, 60)));
  }
  fields.take("graph_seconds", profile.graph_seconds, kSeconds);
  fields.take("graph_overlap_seconds", profile.graph_overlap_seconds, kSeconds);
  fields.take("eager_seconds", profile.eager_seconds, kSeconds);
  fields.take("collective_seconds", profile.collective_seconds, kSeconds);
  if (const Json* links = fields.find("links")) {
    if (!links->is_array()) fail("{}.links: expected a list, found {}", label, links->type_name());
    check_count(*links, kMaxLinks, fmt::format("{}.links", label));
    for (std::size_t i = 0; i < links->size(); ++i) {
      profile.links.push_back(read_link((*links)[i], fmt::format("{}.links[{}]", label, i)));
      if (i > 0 && profile.links[i - 1].size >= profile.links[i].size)
        fail("{}.links[{}].size: expected more than the {} of the level within", label, i,
             profile.links[i - 1].size);
    }
  }
  if (const Json* messages = fields.find("messages")) {
    if (!messages->is_object())
      fail("{}.messages: expected an object, found {}", label, messages->type_name());
    check_count(*messages, kMaxMessages, fmt::format("{}.messages", label));
    for (const auto& [name, value] : messages->items())
      profile.messages[name] =
          read_message(value, fmt::format("{}.messages.{}", label, shortened_text(name, 60)));
  }
  if (const Json* levels = fields.find("memory_levels")) {
    if (!levels->is_array()) fail("{}.memory_levels: expected a list, found {}", label, levels->type_name());
    check_count(*levels, kMaxMemoryLevels, fmt::format("{}.memory_levels", label));
    for (std::size_t i = 0; i < levels->size(); ++i) {
      profile.memory_levels.push_back(
          read_memory_level((*levels)[i], fmt::format("{}.memory_levels[{}]", label, i)));
    }
  }
  fields.take("computes_on_host", profile.computes_on_host);
  fields.take("most_weight_bytes", profile.most_weight_bytes, kBytes);
  fields.take("host_seconds_per_step", profile.host_seconds_per_step, kSeconds);
  fields.take("reserved_bytes", profile.reserved_bytes, kBytes);
  if (const Json* sources = fields.find("sources")) {
    const JsonFields entries(*sources, fmt::format("{}.sources", label));
    check_count(*sources, kMaxSources, fmt::format("{}.sources", label));
    for (const auto& [name, value] : sources->items()) profile.sources[name] = short_text(entries, name);
  }
  fields.end();
  for (const auto& [name, figure] : {std::pair{"memory_bytes", static_cast<double>(profile.memory_bytes)},
                                     {"memory_bytes_per_second", profile.memory_bytes_per_second},
                                     {"scalar_ops_per_second", profile.scalar_ops_per_second},
                                     {"efficiency.compute", profile.efficiency.compute},
                                     {"efficiency.memory", profile.efficiency.memory},
                                     {"efficiency.scalar", profile.efficiency.scalar}}) {
    if (figure <= 0) fail("{}: {} is missing, or 0", label, name);
  }
  if (profile.name.empty()) fail("{}: name is missing", label);
  if (profile.peak(PeakFormat::kBf16) <= 0 && profile.peak(PeakFormat::kFp32) <= 0)
    fail("{}: peak_flops has neither bf16 nor fp32", label);
  return profile;
}

std::string profile_text(const DeviceProfile& profile) {
  Json json{{"name", profile.name}, {"description", profile.description}};
  if (profile.is_cpu) json["is_cpu"] = true;
  if (profile.fuses) json["fuses"] = true;
  if (profile.from_data_sheet) json["from_data_sheet"] = true;
  if (profile.capability_major > 0) {
    json["compute_capability"] = fmt::format("{}.{}", profile.capability_major, profile.capability_minor);
  }
  for (std::size_t i = 0; i < kFormatNames.size(); ++i) {
    if (profile.peak_flops[i] > 0) json["peak_flops"][std::string(kFormatNames[i])] = profile.peak_flops[i];
  }
  json["scalar_ops_per_second"] = profile.scalar_ops_per_second;
  json["memory_bytes"] = profile.memory_bytes;
  json["memory_bytes_per_second"] = profile.memory_bytes_per_second;
  json["l2_bytes"] = profile.l2_bytes;
  json["num_units"] = profile.num_units;
  if (profile.shared_bytes_per_block > 0) json["shared_bytes_per_block"] = profile.shared_bytes_per_block;
  if (profile.pcie_generation > 0)
    json["pcie"] = {{"generation", profile.pcie_generation}, {"lanes", profile.pcie_lanes}};
  json["efficiency"] = {{"compute", profile.efficiency.compute},
                        {"memory", profile.efficiency.memory},
                        {"scalar", profile.efficiency.scalar}};
  for (const auto& [name, operation] : profile.operations) {
    Json entry;
    if (operation.overlaps_scalar) entry["overlaps_scalar"] = true;
    if (operation.rows_per_tile > 0) entry["rows_per_tile"] = operation.rows_per_tile;
    if (operation.heads_per_tile > 0) entry["heads_per_tile"] = operation.heads_per_tile;
    entry["points"] = points_json(operation.points);
    json["operations"][name] = std::move(entry);
  }
  json["graph_seconds"] = profile.graph_seconds;
  if (profile.graph_overlap_seconds > 0) json["graph_overlap_seconds"] = profile.graph_overlap_seconds;
  json["eager_seconds"] = profile.eager_seconds;
  json["collective_seconds"] = profile.collective_seconds;
  json["links"] = Json::array();
  for (const LinkLevel& link : profile.links) {
    json["links"].push_back({{"size", link.size},
                             {"bytes_per_second", link.bytes_per_second},
                             {"latency_seconds", link.latency_seconds},
                             {"efficiency", link.efficiency},
                             {"mesh", link.mesh}});
  }
  for (const auto& [name, times] : profile.messages) json["messages"][name] = message_json(times);
  for (const MemoryLevel& level : profile.memory_levels) {
    Json entry{{"name", level.name},
               {"bytes", level.bytes},
               {"bytes_per_second", level.bytes_per_second},
               {"kernel_bytes_per_second", level.kernel_bytes_per_second}};
    if (const HostCompute& compute = level.compute; compute.any()) {
      entry["compute"] = {{"bytes_per_second", compute.bytes_per_second},
                          {"beside_copies_bytes_per_second", compute.beside_copies_bytes_per_second},
                          {"copies_beside_bytes_per_second", compute.copies_beside_bytes_per_second},
                          {"row_seconds", compute.row_seconds},
                          {"hand_over_seconds", compute.hand_over_seconds}};
    }
    json["memory_levels"].push_back(std::move(entry));
  }
  if (profile.computes_on_host) json["computes_on_host"] = true;
  if (profile.most_weight_bytes > 0) json["most_weight_bytes"] = profile.most_weight_bytes;
  json["host_seconds_per_step"] = profile.host_seconds_per_step;
  json["reserved_bytes"] = profile.reserved_bytes;
  json["sources"] = Json::object();
  for (const auto& [figure, source] : profile.sources) json["sources"][figure] = source;
  return json.dump(2) + "\n";
}

DeviceProfile load_device_profile(const std::string& name_or_path) {
  if (const DeviceProfile* known = find_device_profile(name_or_path)) return *known;
  if (name_or_path.ends_with(".json")) {
    return parse_device_profile(read_text_file(name_or_path, kMaxProfileBytes), name_or_path);
  }
  std::vector<std::string> names;
  for (const DeviceProfile& profile : device_profiles()) names.push_back(profile.name);
  fail("no device called {}: there are {}, and .json files of profiles{}", name_or_path,
       fmt::join(names, ", "), did_you_mean(name_or_path, names));
}

}  // namespace baleen
