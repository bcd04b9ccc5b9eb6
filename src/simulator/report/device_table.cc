#include "simulator/report/device_table.h"

#include <fmt/format.h>

#include "plots/figure_text.h"

namespace baleen {

Table device_table(const DeviceProfile& device) {
  using enum PeakFormat;
  Table table{
      .id = "device",
      .caption = fmt::format("Figures of {}", device.name),
      .columns = {{.name = "figure", .is_figure = false}, {"value"}, {.name = "source", .is_figure = false}}};
  const auto add = [&](std::string name, double value, std::string text, const std::string& source) {
    const auto found = device.sources.find(source);
    if (value > 0)
      table.rows.push_back({{std::move(name), {}},
                            {std::move(text), value},
                            {found == device.sources.end() ? "" : found->second, {}}});
  };
  for (const auto& [format, name] :
       {std::pair{kFp4, "FP4"}, {kFp8, "FP8"}, {kBf16, "BF16"}, {kTf32, "TF32"}, {kFp32, "FP32"}}) {
    add(fmt::format("peak of {} products", name), device.peak(format), si_text(device.peak(format), "FLOP/s"),
        "peak_flops");
  }
  add("scalar operations", device.scalar_ops_per_second, si_text(device.scalar_ops_per_second, "op/s"),
      "scalar_ops_per_second");
  add("memory", static_cast<double>(device.memory_bytes),
      gigabytes_text(static_cast<double>(device.memory_bytes)) + " GB", "memory_bytes");
  add("memory bandwidth", device.memory_bytes_per_second, si_text(device.memory_bytes_per_second, "B/s"),
      "memory_bytes_per_second");
  for (const auto& [name, share] : {std::pair{"products", device.efficiency.compute},
                                    {"memory", device.efficiency.memory},
                                    {"scalar work", device.efficiency.scalar}}) {
    add(fmt::format("reached share of the peak, {}", name), share, fmt::format("{:.0f}%", 100 * share),
        "efficiency");
  }
  add("an operation within a graph", device.graph_seconds, si_text(device.graph_seconds, "s"),
      "graph_seconds");
  add("an operation by itself", device.eager_seconds, si_text(device.eager_seconds, "s"), "eager_seconds");
  add("a message", device.collective_seconds, si_text(device.collective_seconds, "s"), "collective_seconds");
  for (const LinkLevel& link : device.links) {
    if (link.size < 2) continue;
    add(fmt::format("link of {} devices, one way", link.size), link.bytes_per_second,
        fmt::format("{}, {:.0f}% reached, {}", si_text(link.bytes_per_second, "B/s"), 100 * link.efficiency,
                    si_text(link.latency_seconds, "s")),
        "links");
  }
  add("host, a step", device.host_seconds_per_step, si_text(device.host_seconds_per_step, "s"),
      "host_seconds_per_step");
  add("memory for other things", static_cast<double>(device.reserved_bytes),
      gigabytes_text(static_cast<double>(device.reserved_bytes)) + " GB", "reserved_bytes");
  return table;
}

}  // namespace baleen
