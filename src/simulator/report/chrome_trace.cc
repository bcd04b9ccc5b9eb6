#include <nlohmann/json.hpp>

#include "simulator/report/step_places.h"
#include "simulator/report/step_report.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMicroseconds = 1e6;  ///< the format's unit

Json named(std::string_view kind, std::int64_t process, std::int64_t thread, const std::string& name) {
  return {{"name", kind}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

std::string chrome_trace(const StepReport& report) {
  enum Thread : std::int64_t { kOperations, kMessages };
  Json events = Json::array();
  const StepEstimate& estimate = report.estimate;
  const double between = estimate.stages.size() > 1
                             ? estimate.send_seconds / static_cast<double>(estimate.stages.size() - 1)
                             : 0;
  double begin = 0;
  for (std::size_t s = 0; s < estimate.stages.size(); ++s) {
    const StageEstimate& stage = estimate.stages[s];
    const auto process = static_cast<std::int64_t>(s);
    events.push_back(
        named("process_name", process, kOperations,
              fmt::format("stage {}: layers {} to {}", s, stage.stage.begin, stage.stage.end - 1)));
    events.push_back(named("thread_name", process, kOperations, "operations"));
    events.push_back(named("thread_name", process, kMessages, "messages"));
    for (const OpEstimate& op : stage.ops) {
      events.push_back(
          {{"name", op.op.name},
           {"ph", "X"},
           {"pid", process},
           {"tid", op.op.is_collective() ? kMessages : kOperations},
           {"ts", kMicroseconds * (begin + op.start_seconds)},
           {"dur", kMicroseconds * op.time.seconds},
           {"cat", bound_name(op.time.bound)},
           {"args",
            {{"detail", op.op.detail},
             {"layer", model_layer(stage.stage, op.op)},
             {"micro_batch", op.micro_batch},
             {"rows", op.op.num_rows},
             {"flops", op.op.cost.total_flops()},
             {"bytes", op.op.is_collective() ? op.op.message.bytes : op.op.cost.total_bytes()}}}});
    }
    begin += stage.seconds + between;
  }
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace baleen
