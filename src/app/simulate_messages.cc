#include "app/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "app/options.h"
#include "app/simulation_flags.h"
#include "base/error.h"
#include "model/presets.h"
#include "plots/figure_text.h"
#include "simulator/cost/time_model.h"

namespace baleen {
namespace {

// As `sm90_ranks_bench` measures them.
constexpr std::int64_t kAllReduceKib[] = {4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536};
constexpr std::int64_t kTokensOfARank[] = {1, 8, 32, 64, 128, 256, 1024, 4096};

struct MessageFlags {
  DeviceFlags device;
  std::int64_t num_devices = 2;
  bool json = false;
};

struct TimedMessage {
  std::string name;
  std::int64_t tokens = 0;  ///< what each rank has; 0: `bytes` says how large a message is
  double bytes = 0;
  double seconds = 0;
};

/// The rows of a layer's tokens to their experts and back.
std::vector<TimedMessage> expert_messages(const RankModel& rank, std::int64_t tokens,
                                          const TimeModel& times) {
  const Workload work{.query_length = tokens};
  const OpGraph graph = record_step(rank, {{.num_tokens = tokens}}, work, {});
  std::vector<TimedMessage> found;
  TimedMessage both{.name = "dispatch + combine", .tokens = tokens};
  for (const std::string_view name : {"dispatch", "combine"}) {
    const auto op = std::ranges::find(graph.ops, name, &GraphOp::sent_by);
    if (op == graph.ops.end()) fail("{}: the ranks of this plan send no rows to experts", name);
    found.push_back({std::string(name), tokens, op->message.bytes, times.time_of(*op).seconds});
    both.bytes += found.back().bytes;
    both.seconds += found.back().seconds;
  }
  found.push_back(both);
  return found;
}

void run_simulate_messages(const MessageFlags& flags) {
  SimulatedModel model = flags.device.model.load();
  const DeviceProfile device = flags.device.load_device();
  // All layers send the same.
  model.config = without_drafts(std::move(model.config));
  model.config = with_layers(std::move(model.config), fewest_layers(model.config));
  const ParallelPlan plan =
      resolved({.num_devices = flags.num_devices, .dp = flags.num_devices}, model.config);
  validate(plan, model.config);
  const RankModel rank(model.config, model.formats, plan);
  const TimeModel times(device, true);
  std::vector<TimedMessage> messages;
  for (const std::int64_t kib : kAllReduceKib) {
    const auto bytes = static_cast<double>(kib << 10);
    messages.push_back({"all_reduce", 0, bytes,
                        times.collective_seconds({MessageKind::kAllReduce, flags.num_devices, bytes})});
  }
  for (const std::int64_t tokens : kTokensOfARank) {
    for (TimedMessage& message : expert_messages(rank, tokens, times)) messages.push_back(std::move(message));
  }
  if (!flags.json) fmt::print("{} of {}, {} ranks\n\n", device.description, model.name, flags.num_devices);
  for (const TimedMessage& one : messages) {
    if (flags.json) {
      fmt::print("{}\n", nlohmann::ordered_json{{"message", one.name},
                                                {"ranks", flags.num_devices},
                                                {"device", device.name},
                                                {"tokens", one.tokens},
                                                {"bytes", one.bytes},
                                                {"seconds", one.seconds}}
                             .dump());
    } else {
      fmt::print("{:<20}{:>16}{:>12}{:>12}\n", one.name,
                 one.tokens > 0 ? fmt::format("{} tokens", one.tokens) : "", count_text(one.bytes) + "B",
                 seconds_text(one.seconds));
    }
  }
}

}  // namespace

void add_simulate_messages_command(Options& command) {
  auto flags = std::make_shared<MessageFlags>();
  flags->device.add_to(command);
  command.integer("--num-devices,--world-size", flags->num_devices, {2, kMaxRanks}, "Ranks");
  command.flag("--json", flags->json, "A JSON line for each message");
  command.action([flags] { run_simulate_messages(*flags); });
}

}  // namespace baleen
