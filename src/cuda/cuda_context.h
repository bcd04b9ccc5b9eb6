/// Where operations run on a CUDA device.
///
/// A kernel of an operation (in the folder of its architecture, `sm90/`) gets the same arguments as its
/// siblings. Every pointer in them is a device address, and activations are BF16 where the CPU's hold BF16
/// values (float32 arrays stay float32), with two exceptions: `RaggedBatch` lies in host memory, its device
/// form is `CudaContext::batch`; and the descriptions of weights (`WeightMatrix`, `LinearOutput`, spans of
/// `ExpertWeights`) are host structs that hold device addresses. A variant only queues work on `stream`: no
/// synchronisation, no allocation, no copies to or from the host, so that it can be captured in a graph.
#pragma once

#include "cuda/device_batch.h"
#include "cuda/launch_stream.h"
#include "tensor/buffer.h"
#include "tensor/device_rates.h"

namespace baleen {

class PeerRank;      // comm/peer
class StreamBranch;  // stream_branch.h, which needs the toolkit

struct CudaContext {
  LaunchStream stream;
  Arena& scratch;     ///< device memory; what an operation takes it gives back when its launches are queued
  DeviceBatch batch;  ///< what the step has
  int num_sms = 132;
  DeviceRates rates{};              ///< what predictions take from the device's traits
  const PeerRank* peers = nullptr;  ///< for exchanges with other GPUs; null: there are none
  /// Rows of the step on the rank that has most: by these, arrays have places for what every rank sends.
  std::int64_t most_rows = 0;
  int num_branch_sms = 0;          ///< SMs that what runs on `branch` occupies, which `num_sms` leaves out
  StreamBranch* branch = nullptr;  ///< forks from `stream`, for an operation whose parts run side by side
};

}  // namespace baleen
