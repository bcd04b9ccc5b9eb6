/// Timing of kernels: what a step would see of them.
///
/// A measurement captures `launch(i)` for enough different inputs i that together they exceed the L2 (so weights and
/// cache rows come from memory, as they do in a forward pass), replays the graph, and takes the median time of one
/// launch and the spread between the quartiles.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/cuda_error.h"

namespace baleen::bench {

struct Timing {
  double median_us = 0;
  double spread_us = 0;  ///< between the quartiles
};

/// `launch(i)` queues the work on `stream` for input i of `num_inputs`; it must be capturable.
template <class Launch>
[[nodiscard]] Timing time_launches(cudaStream_t stream, int num_inputs, Launch&& launch, int replays = 15) {
  for (int i = 0; i < num_inputs; ++i) launch(i);  // loads modules, sets attributes
  check_cuda(cudaStreamSynchronize(stream), "warming up");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
  for (int i = 0; i < num_inputs; ++i) launch(i);
  check_cuda(cudaStreamEndCapture(stream, &graph), "capturing");
  check_cuda(cudaGraphInstantiate(&exec, graph, 0), "instantiating a graph");
  cudaEvent_t begin = nullptr, end = nullptr;
  check_cuda(cudaEventCreate(&begin), "making an event");
  check_cuda(cudaEventCreate(&end), "making an event");
  std::vector<double> times;
  for (int replay = 0; replay < replays + 3; ++replay) {
    check_cuda(cudaEventRecord(begin, stream), "timing");
    check_cuda(cudaGraphLaunch(exec, stream), "timing");
    check_cuda(cudaEventRecord(end, stream), "timing");
    check_cuda(cudaEventSynchronize(end), "timing");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "timing");
    if (replay >= 3) times.push_back(1e3 * static_cast<double>(milliseconds) / num_inputs);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  return {times[n / 2], times[n * 3 / 4] - times[n / 4]};
}

/// Inputs to rotate through so that they exceed the L2 three times over.
[[nodiscard]] inline int inputs_beyond_l2(double bytes_per_input) {
  constexpr double kL2Bytes = 60e6;
  return std::clamp(static_cast<int>(3 * kL2Bytes / std::max(1.0, bytes_per_input)) + 1, 2, 64);
}

/// One row of the results, as CSV on standard output (the script that runs all benchmarks adds machine, clocks and
/// revision): kernel, shape, median us, spread us, GB/s, TFLOP/s, the figure it is held against.
inline void report(const std::string& kernel, const std::string& shape, const Timing& timing, double bytes,
                   double flops, const std::string& against = "") {
  fmt::print("{},{},{:.2f},{:.2f},{:.0f},{:.1f},{}\n", kernel, shape, timing.median_us, timing.spread_us,
             1e-3 * bytes / timing.median_us, 1e-6 * flops / timing.median_us, against);
  std::fflush(stdout);
}

}  // namespace baleen::bench
