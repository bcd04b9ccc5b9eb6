#include "trainer/graph/pass_record.h"

#include <algorithm>
#include <utility>

namespace baleen {

PassRecord::PassRecord(bool bf16_products, std::int64_t num_threads)
    : num_threads_(num_threads),
      exact_(*this, Operands::kAsStored),
      products_(*this, bf16_products ? Operands::kBf16 : Operands::kAsStored) {}

void PassRecord::enter(ModelPart part, std::int64_t block, bool trains) {
  part_ = part;
  block_ = block;
  trains_ = trains;
}

void PassRecord::add(std::string_view name, std::string detail, std::int64_t rows, const OpCost& forward,
                     const OpCost& backward) {
  if (num_pauses_ > 0) return;
  operations_.push_back(
      {name, std::move(detail), part_, block_, rows, forward, trains_ ? backward : OpCost()});
}

void PassRecord::scratch(std::int64_t count, std::int64_t bytes) {
  memory_.touch(std::min(num_threads_, count) * bytes);
}

PassMemory PassRecord::memory() const { return {kept_bytes_, memory_.peak_bytes() - kept_bytes_}; }

void PassRecord::Log::run(const OperationSequence& sequence, const void* const* args) {
  // Without routing at hand, experts cost what is expected.
  const DeviceTraits traits{.shares_host_memory = false};
  for (const OperationInfo* part : sequence.parts) {
    OpCost forward = part->cost(*args, traits), backward = part->backward_cost(*args, traits);
    if (operands_ == Operands::kBf16) {
      for (OpCost* cost : {&forward, &backward}) {
        double& exact = cost->flops[static_cast<std::size_t>(MathFormat::kF32)];
        cost->add_flops(math_format(operands_), std::exchange(exact, 0));
      }
    }
    const CallShape shape = part->shape(*args++);
    record_.add(part->name, shape.detail, shape.num_rows, forward, backward);
  }
}

}  // namespace baleen
