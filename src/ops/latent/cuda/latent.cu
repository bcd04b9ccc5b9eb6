// Latents: a block a row of the step, a thread four channels. The block of a sequence's first row alone reads
// its ring, and writes to it when it has.
#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/warp_reduce.cuh"
#include "ops/compressor/cuda/channels.cuh"
#include "ops/latent/cuda/latent.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kMaxThreads = 256;  ///< 1,024 channels

struct LatentParams {
  const float* kv;      ///< ratio 2
  const Bf16Bits* own;  ///< ratio 1
  const float* gate;
  std::int64_t kv_stride, gate_stride;
  const float* norm_weight;
  float eps;
  int width;
  DeviceBatch batch;
  CompressorState state;
  Bf16Bits* latent;
  std::int64_t latent_stride;
};

/// Sum over the block's threads, in one order.
__device__ float block_sum(float value) {
  __shared__ float of_warp[kMaxThreads / kWarpLanes];
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            num_warps = static_cast<int>(blockDim.x) / kWarpLanes;
  value = warp_sum(value);
  if (threadIdx.x % kWarpLanes == 0) of_warp[warp] = value;
  __syncthreads();
  float sum = of_warp[0];
  for (int i = 1; i < num_warps; ++i) sum += of_warp[i];
  return sum;
}

/// The softmax over two gates weighs two values.
__device__ Channels pooled(const Channels (&kv)[2], const Channels (&gate)[2]) {
  Channels sum;
#pragma unroll
  for (int i = 0; i < kPiece; ++i) {
    const float first = gate[0].value[i], second = gate[1].value[i], most = fmaxf(first, second);
    const float first_weight = __expf(first - most), second_weight = __expf(second - most);
    sum.value[i] = __fdividef(fmaf(second_weight, kv[1].value[i], first_weight * kv[0].value[i]),
                              first_weight + second_weight);
  }
  return sum;
}

/// A thread's channels of a row and of a ring's.
class Pairs {
 public:
  __device__ Pairs(const LatentParams& params, const DeviceSequence& sequence, int channel)
      : p_(params),
        sequence_(sequence),
        channel_(channel),
        ring_(params.state.base + sequence.state_slot * params.state.slot_stride + channel) {}

  /// Of row `row`, whose position is `position`, and the token before it.
  __device__ Channels pool(int row, int position) const {
    const bool stored = row == sequence_.first_row;  // the token before it
    const float* before = stored ? ring_row(position - 1) : p_.kv + (row - 1) * p_.kv_stride + channel_;
    const float* gate_before =
        stored ? ring_row(position - 1) + to_gate() : p_.gate + (row - 1) * p_.gate_stride + channel_;
    const Channels kv[2] = {Channels::load_from_l2(before),
                            Channels::load_from_l2(p_.kv + row * p_.kv_stride + channel_)};
    const Channels gate[2] = {Channels::load_from_l2(gate_before),
                              Channels::load_from_l2(p_.gate + row * p_.gate_stride + channel_)};
    return pooled(kv, gate);
  }

  /// The last of every position modulo the ring.
  __device__ void keep() const {
    const int end = sequence_.start + sequence_.num_tokens;
    for (int position = max(sequence_.start, end - static_cast<int>(p_.state.ring_rows)); position < end;
         ++position) {
      const std::int64_t row = sequence_.first_row + position - sequence_.start;
      Channels::load_from_l2(p_.kv + row * p_.kv_stride + channel_).store(ring_row(position));
      Channels::load_from_l2(p_.gate + row * p_.gate_stride + channel_).store(ring_row(position) + to_gate());
    }
  }

 private:
  [[nodiscard]] __device__ float* ring_row(int position) const {
    return ring_ + position % static_cast<int>(p_.state.ring_rows) * p_.state.width;
  }
  [[nodiscard]] __device__ std::int64_t to_gate() const { return p_.state.ring_rows * p_.state.width; }

  const LatentParams& p_;
  const DeviceSequence& sequence_;
  int channel_;
  float* ring_;
};

template <int kRatio>
__global__ void __launch_bounds__(kMaxThreads)
    latent_kernel(const __grid_constant__ LatentParams p, NextAtOnce order) {
  order.launch_next();
  const int row = static_cast<int>(blockIdx.x), channel = kPiece * static_cast<int>(threadIdx.x);
  const int position = p.batch.positions[row];
  const DeviceSequence sequence =
      position < 0 ? DeviceSequence{} : p.batch.sequences[p.batch.sequence_of[row]];
  const bool makes = position >= 0 && (position + 1) % kRatio == 0 &&
                     (position + 1) / kRatio > max(sequence.start, sequence.entries_until) / kRatio;
  const Channels weight = Channels::load(p.norm_weight + channel);
  ptx::wait_for_previous_kernel();

  Bf16Bits* const to = p.latent + row * p.latent_stride + channel;
  const Pairs pairs(p, sequence, channel);
  if (!makes) {
    *reinterpret_cast<uint2*>(to) = {};
  } else {
    Channels value;
    if constexpr (kRatio == 1) {
      unpack_bf16(__ldcg(reinterpret_cast<const uint2*>(p.own + row * p.kv_stride + channel)), value.value);
    } else {
      value = pairs.pool(row, position);
    }
    float squares = 0.0F;
#pragma unroll
    for (float& one : value.value) {
      one = rounded_to_bf16(one);
      squares = fmaf(one, one, squares);
    }
    squares = block_sum(squares);  // `makes` is the block's
    const float inverse = 1.0F / sqrtf(squares / static_cast<float>(p.width) + p.eps);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) value.value[i] = weight.value[i] * value.value[i] * inverse;
    *reinterpret_cast<uint2*>(to) = pack_bf16(value.value);
  }
  // What this thread has read of the ring no other thread reads.
  if (kRatio > 1 && position >= 0 && row == sequence.first_row) pairs.keep();
}

}  // namespace

void latent(const LatentArgs& args, CudaContext& context) {
  const std::int64_t width = args.kv.extent(1), num_rows = args.kv.extent(0);
  BALEEN_CHECK(args.ratio == 1 || args.ratio == 2);
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK(width % (kPiece * kWarpLanes) == 0 && width <= kPiece * kMaxThreads);
  BALEEN_CHECK_EQ(num_rows, context.batch.num_rows);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.norm_weight.size()), width);
  BALEEN_CHECK(args.latent.extents() == args.kv.extents());
  BALEEN_CHECK(args.kv.stride(0) % kPiece == 0 && args.latent.stride(0) % kPiece == 0);
  LatentParams params{.norm_weight = args.norm_weight.data(),
                      .eps = args.eps,
                      .width = static_cast<int>(width),
                      .batch = context.batch,
                      .state = args.state,
                      .latent = args.latent.bf16().data(),
                      .latent_stride = args.latent.stride(0)};
  params.kv_stride = args.kv.stride(0);
  if (args.ratio == 1) {
    params.own = args.kv.bf16().data();
  } else {
    BALEEN_CHECK(args.gate.extents() == args.kv.extents());
    BALEEN_CHECK_EQ(args.gate.stride(0) % kPiece, 0);
    BALEEN_CHECK_EQ(args.state.width, width);
    BALEEN_CHECK(args.state.ring_rows % args.ratio == 0 && args.ratio <= args.state.ring_rows);
    params.kv = args.kv.data();
    params.gate = args.gate.data();
    params.gate_stride = args.gate.stride(0);
  }
  if (num_rows == 0) return;
  launch_kernel("latent", args.ratio == 1 ? latent_kernel<1> : latent_kernel<2>,
                {.grid = dim3(static_cast<unsigned>(num_rows)), .threads = static_cast<int>(width / kPiece)},
                context.stream, params);
}

}  // namespace baleen::BALEEN_ARCH
