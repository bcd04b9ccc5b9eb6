#include "cuda/cuda_graph.h"

#include "cuda/cuda_error.h"

namespace baleen {

CudaGraph::CudaGraph(cudaStream_t stream, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a step");
  try {
    work();
  } catch (...) {
    // A capture that is left open would swallow all later work.
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream, &graph), "capturing a step");
  const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  check_cuda(status, "making a graph of a step");
}

CudaGraph::~CudaGraph() { static_cast<void>(cudaGraphExecDestroy(exec_)); }

void CudaGraph::upload(cudaStream_t stream) const {
  check_cuda(cudaGraphUpload(exec_, stream), "bringing a step to the GPU");
}

void CudaGraph::launch(cudaStream_t stream) const {
  check_cuda(cudaGraphLaunch(exec_, stream), "replaying a step");
}

}  // namespace baleen
