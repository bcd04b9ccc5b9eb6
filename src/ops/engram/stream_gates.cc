#include "ops/engram/stream_gates.h"

namespace baleen {
namespace {

constexpr double kFloatBytes = 4;
/// Of a value of a stream: a term of the product with its key in four, two squares in two each, the addition
/// in two.
constexpr double kForwardOps = 10;
/// Beside these again: the value's gradient and the gate's in two each; of the streams and of the key four
/// each, of both weights four.
constexpr double kBackwardOps = 16;

double values_of(const StreamGateValues<float>& v) {
  return static_cast<double>(v.rows * v.streams * v.width);
}
double projected_of(const StreamGateValues<float>& v) {
  return static_cast<double>(v.rows * (v.streams + 1) * v.width);
}
double weights_of(const StreamGateValues<float>& v) { return 2 * static_cast<double>(v.streams * v.width); }

}  // namespace

OpCost stream_gates_cost(const StreamGateValues<float>& v) {
  OpCost cost;
  cost.scalar_ops = kForwardOps * values_of(v);
  cost.read_bytes = kFloatBytes * (values_of(v) + projected_of(v));
  cost.read_weights(kFloatBytes * weights_of(v));
  cost.write_bytes = kFloatBytes * values_of(v);
  return cost;
}

OpCost stream_gates_backward_cost(const StreamGateValues<float>& v) {
  OpCost cost;
  cost.scalar_ops = (kForwardOps + kBackwardOps) * values_of(v);
  cost.read_bytes = kFloatBytes * (2 * values_of(v) + projected_of(v));
  cost.read_weights(kFloatBytes * weights_of(v));
  cost.write_bytes = kFloatBytes * (values_of(v) + projected_of(v));
  cost.accumulate_gradients(weights_of(v));
  return cost;
}

}  // namespace baleen
