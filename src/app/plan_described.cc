#include "app/plan_described.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/number.h"
#include "base/size_text.h"

namespace baleen {
namespace {

/// Of all parts that are read.
std::int64_t weight_bytes(const CheckpointReport& report) {
  std::int64_t bytes = report.total_bytes;
  for (const LeftOut& part : report.kind.left_out) bytes -= part.bytes;
  return bytes;
}

}  // namespace

std::vector<TablePlace> table_places(const CheckpointReport& report, std::int64_t memory_bytes) {
  if (report.engram.num_tables == 0) return {};
  const std::int64_t all = weight_bytes(report), tables = report.engram.bytes;
  std::vector<TablePlace> places{{.name = "devices", .device_bytes = all},
                                 {.name = "host", .device_bytes = all - tables, .host_bytes = tables},
                                 {.name = "disk", .device_bytes = all - tables}};
  for (TablePlace& place : places) place.num_devices = (place.device_bytes + memory_bytes - 1) / memory_bytes;
  return places;
}

std::string described_plan_text(const CheckpointReport& report, const std::string& device,
                                std::int64_t memory_bytes) {
  std::string text = fmt::format("{}: {} layers, {} routed experts, on {} of {}\n\n",
                                 report.kind.published.value, report.config.num_hidden_layers,
                                 report.config.n_routed_experts, device, size_text(memory_bytes));
  const auto line = [&text](const std::string& name, const std::string& value) {
    text += fmt::format("{:<22}{}\n", name, value);
  };
  for (const PartTotal& part : report.parts)
    if (part.parameters > 0) line(part.part, fmt::format("{:>10}", size_text(part.bytes)));
  line("weights", fmt::format("{:>10}", size_text(weight_bytes(report))));
  line("cache", fmt::format("{:.0f} bytes a token, {} a sequence for its window", report.kv.bytes_per_token(),
                            size_text(report.config.num_blocks() * report.kv.window_bytes())));
  if (report.engram.num_tables > 0) {
    text += fmt::format("\nThe Engram tables, of which a token reads {} rows ({} bytes), can lie\n",
                        report.engram.rows_per_token, grouped(report.engram.bytes_per_token));
    for (const TablePlace& place : table_places(report, memory_bytes)) {
      const std::string where = place.name == "devices" ? "on the devices"
                                : place.name == "host"  ? "in the host's memory"
                                                        : "on disk";
      const std::string pinned =
          place.host_bytes > 0 ? fmt::format(", {} pinned", size_text(place.host_bytes)) : "";
      text += fmt::format("  {:<20}  {} of weights in the memory of at least {} device{}{}\n", where,
                          size_text(place.device_bytes), place.num_devices, place.num_devices == 1 ? "" : "s",
                          pinned);
    }
    text +=
        "Weights alone: activations, scratch and the cache come on top; experts are counted as if none lay "
        "on the host.\n";
  }
  return text;
}

std::string described_plan_json(const CheckpointReport& report, const std::string& device,
                                std::int64_t memory_bytes) {
  nlohmann::ordered_json json{{"model", report.kind.published.value},
                              {"device", device},
                              {"memory_bytes", memory_bytes},
                              {"weight_bytes", weight_bytes(report)},
                              {"table_bytes", report.engram.bytes},
                              {"table_bytes_per_token", report.engram.bytes_per_token},
                              {"cache_bytes_per_token", report.kv.bytes_per_token()}};
  json["parts"] = nlohmann::ordered_json::object();
  for (const PartTotal& part : report.parts)
    if (part.parameters > 0) json["parts"][part.part] = part.bytes;
  json["table_places"] = nlohmann::ordered_json::array();
  for (const TablePlace& place : table_places(report, memory_bytes))
    json["table_places"].push_back({{"place", place.name},
                                    {"device_bytes", place.device_bytes},
                                    {"host_bytes", place.host_bytes},
                                    {"devices", place.num_devices}});
  return json.dump() + "\n";
}

}  // namespace baleen
