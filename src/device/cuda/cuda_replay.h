/// Captures steps as CUDA graphs, one for each part of a step and number of rows, and replays them: between
/// layers the host does nothing.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "cuda/cuda_graph.h"
#include "cuda/cuda_stream.h"
#include "device/cuda/cuda_batches.h"
#include "device/step_replay.h"

namespace baleen {

class CudaReplay final : public StepReplay {
 public:
  /// All outlive this.
  CudaReplay(const DeviceTraits& traits, CudaBatches& batches, CudaContext& context);

  void set_mark(int mark) override;
  void wait_for(int mark) override;
  void run(StepPart part, const std::function<void()>& operations) override;
  void capture(StepPart part, std::int64_t num_rows,
               const std::function<void(const StepRows&)>& operations) override;
  void capture_halves(std::int64_t num_rows,
                      const std::function<void(const std::array<StepRows, 2>&)>& operations) override;

  /// Ranks that exchange data wait for each other, through the host, before and after one makes a graph: the
  /// driver may have to wait for all that runs on a GPU which ranks share, and what runs must not wait for
  /// this rank then. `host` outlives this.
  void meet_before_capture(Communicator& host) { host_ = &host; }

  /// While it is off, steps are queued operation by operation.
  void set_replaying(bool on) { replaying_ = on; }

 private:
  static constexpr unsigned kWaitAsleep = cudaEventBlockingSync | cudaEventDisableTiming;
  static constexpr int kNumParts = static_cast<int>(StepPart::kCount);

  /// What was captured for the current batch; null: nothing.
  [[nodiscard]] const CudaGraph* captured(StepPart part);
  [[nodiscard]] std::unique_ptr<CudaGraph>& graph_of(StepPart part, std::int64_t num_rows);

  void make_graph(StepPart part, std::int64_t num_rows, const std::function<void()>& operations);
  void meet() const;

  const DeviceTraits& traits_;
  CudaBatches& batches_;
  CudaContext& context_;
  /// One for each part and number of rows.
  std::array<std::vector<std::unique_ptr<CudaGraph>>, kNumParts> graphs_;
  std::array<CudaEvent, kNumMarks> marks_{CudaEvent(kWaitAsleep), CudaEvent(kWaitAsleep)};
  Communicator* host_ = nullptr;  ///< null: of one rank
  bool replaying_ = true;
};

}  // namespace baleen
