/// Work captured once and replayed.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace baleen {

class CudaGraph {
 public:
  /// Captures what `work` queues on `stream`: nothing runs. All addresses and launch shapes are fixed by it.
  /// Throws `Error` when something in it cannot be captured.
  CudaGraph(cudaStream_t stream, const std::function<void()>& work);
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph();

  void launch(cudaStream_t stream) const;
  /// Brings to the GPU what the first launch would: with nothing left to do there, a launch only queues.
  void upload(cudaStream_t stream) const;

 private:
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace baleen
