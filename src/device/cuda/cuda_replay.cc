#include "device/cuda/cuda_replay.h"

#include "base/check.h"
#include "comm/meet.h"
#include "comm/peer/peer_memory.h"
#include "cuda/cuda_error.h"

namespace baleen {

CudaReplay::CudaReplay(const DeviceTraits& traits, CudaBatches& batches, CudaContext& context)
    : traits_(traits), batches_(batches), context_(context) {
  for (auto& graphs : graphs_) graphs.resize(static_cast<std::size_t>(traits_.max_replayed_rows) + 1);
}

void CudaReplay::set_mark(int mark) { marks_[static_cast<std::size_t>(mark)].record(context_.stream); }

void CudaReplay::wait_for(int mark) {
  marks_[static_cast<std::size_t>(mark)].wait();
  if (context_.peers != nullptr) context_.peers->check();
}

std::unique_ptr<CudaGraph>& CudaReplay::graph_of(StepPart part, std::int64_t num_rows) {
  return graphs_[static_cast<std::size_t>(part)][static_cast<std::size_t>(num_rows)];
}

const CudaGraph* CudaReplay::captured(StepPart part) {
  const std::int64_t num_rows = context_.batch.num_rows;
  // A graph has places for as many rows of other ranks as of its own.
  if (!replaying_ || num_rows > traits_.max_replayed_rows || num_rows != context_.most_rows) return nullptr;
  if (part == StepPart::kHalves && !batches_.parts_are_even()) return nullptr;
  return graph_of(part, num_rows).get();
}

void CudaReplay::run(StepPart part, const std::function<void()>& operations) {
  const CudaGraph* const graph = captured(part);
  if (graph == nullptr) return operations();
  graph->launch(context_.stream);
  context_.stream.order->forget();
}

void CudaReplay::capture(StepPart part, std::int64_t num_rows,
                         const std::function<void(const StepRows&)>& operations) {
  BALEEN_CHECK(num_rows <= traits_.max_replayed_rows && num_rows == traits_.padded_rows(num_rows));
  const StepRows rows = batches_.begin_padded({}, num_rows);
  make_graph(part, num_rows, [&] { operations(rows); });
}

void CudaReplay::capture_halves(std::int64_t num_rows,
                                const std::function<void(const std::array<StepRows, 2>&)>& operations) {
  BALEEN_CHECK(num_rows <= traits_.max_replayed_rows && num_rows == traits_.padded_rows(num_rows));
  const std::array<StepRows, 2> rows = batches_.begin_padded_parts({}, {num_rows, num_rows});
  make_graph(StepPart::kHalves, num_rows, [&] { operations(rows); });
}

void CudaReplay::make_graph(StepPart part, std::int64_t num_rows, const std::function<void()>& operations) {
  // Once for real: kernels load and set their attributes at their first launch, which a capture does not
  // allow.
  operations();
  context_.stream.order->forget();
  // A kernel that waits for another rank must not keep the driver from making the graph.
  check_cuda(cudaStreamSynchronize(context_.stream), "running a step before its capture");
  meet();
  graph_of(part, num_rows) = std::make_unique<CudaGraph>(context_.stream, operations);
  context_.stream.order->forget();
  graph_of(part, num_rows)->upload(context_.stream);
  check_cuda(cudaStreamSynchronize(context_.stream), "capturing a step");
  meet();
}

void CudaReplay::meet() const {
  if (host_ == nullptr) return;
  meet_all(*host_, RankGroup::strided(0, 1, context_.peers->num_ranks(), context_.peers->rank()));
}

}  // namespace baleen
