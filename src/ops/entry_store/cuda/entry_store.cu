// Entries and index keys: a block a row of the step, a thread four channels; the last warp has the key.
#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/latent_rows.cuh"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/rotation.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/compressor/cuda/channels.cuh"
#include "ops/compressor/cuda/index_key_row.cuh"
#include "ops/entry_store/cuda/entry_store.h"
#include "ops/rope/cuda/device_angle.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kKeyDim = kPiece * kWarpLanes;
constexpr int kMaxThreads = 256 + kWarpLanes;  ///< 1,024 channels, and the key's

struct EntryStoreParams {
  const Bf16Bits* latent;
  const Bf16Bits* key;
  std::int64_t latent_stride, key_stride;
  const float* key_norm;
  float eps;
  const float* frequencies;
  int width, rope, ratio;
  DeviceBatch batch;
  DeviceLatentPool entries;
  DeviceIndexKeyPool index_keys;
};

/// Turns channels from `channel` on, of `width` whose last `rope` are rotated, by the angles of `position`.
class Rotation {
 public:
  __device__ Rotation(const EntryStoreParams& p, int channel, int width, int position) {
    const int pair = (channel - (width - p.rope)) / 2;
    turns_ = channel >= width - p.rope;
    if (!turns_) return;
    first_ = rope_angle(p.frequencies[pair], position);
    second_ = rope_angle(p.frequencies[pair + 1], position);
  }
  __device__ void rotate(Channels& y) const {
    if (!turns_) return;
    rotate_pair(y.value[0], y.value[1], first_.cosine, first_.sine);
    rotate_pair(y.value[2], y.value[3], second_.cosine, second_.sine);
#pragma unroll
    for (float& value : y.value) value = rounded_to_bf16(value);
  }

 private:
  bool turns_;
  CosineSine first_{1.0F, 0.0F}, second_{1.0F, 0.0F};
};

__device__ Channels load_bf16(const Bf16Bits* from) {
  Channels values;
  unpack_bf16(__ldcg(reinterpret_cast<const uint2*>(from)), values.value);
  return values;
}

__global__ void __launch_bounds__(kMaxThreads)
    entry_store_kernel(const __grid_constant__ EntryStoreParams p, NextAtOnce order) {
  order.launch_next();
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int end = p.batch.positions[row] + 1;  // padding: 0
  const DeviceSequence& sequence = p.batch.sequences[p.batch.sequence_of[row]];
  const int entry = end / p.ratio - 1;
  const bool stores =
      end > 0 && end % p.ratio == 0 && end / p.ratio > max(sequence.start, sequence.entries_until) / p.ratio;
  const bool is_key = thread >= p.width / kPiece;
  const int channel = kPiece * (is_key ? thread - p.width / kPiece : thread);
  PageId page = PageId::kNone;
  int row_of_page = 0;
  if (stores) {
    const int rows_per_page = is_key ? p.index_keys.rows_per_page : p.entries.rows_per_page;
    page = sequence.pages[entry / rows_per_page];
    row_of_page = entry % rows_per_page;
  }
  ptx::wait_for_previous_kernel();
  if (!stores) return;

  const Rotation rotation(p, channel, is_key ? kKeyDim : p.width, entry * p.ratio);
  if (!is_key) {
    Channels latent = load_bf16(p.latent + row * p.latent_stride + channel);
    rotation.rotate(latent);
    store_entry_values(p.entries, page, row_of_page, channel, latent.value);
    return;
  }
  Channels key = load_bf16(p.key + row * p.key_stride + channel);
  const Channels weight = Channels::load(p.key_norm + channel);
  float squares = 0.0F;
#pragma unroll
  for (const float value : key.value) squares = fmaf(value, value, squares);
  const float inverse = 1.0F / sqrtf(warp_sum(squares) / kKeyDim + p.eps);
#pragma unroll
  for (int i = 0; i < kPiece; ++i) key.value[i] = rounded_to_bf16(weight.value[i] * key.value[i] * inverse);
  rotation.rotate(key);
  store_index_key(p.index_keys, page, row_of_page, key);
}

}  // namespace

void entry_store(const EntryStoreArgs& args, CudaContext& context) {
  const std::int64_t width = args.latent.extent(1), num_rows = args.latent.extent(0);
  const auto rope = static_cast<std::int64_t>(2 * args.frequencies.size());
  BALEEN_CHECK(width % (kPiece * kWarpLanes) == 0 && width <= kMaxThreads * kPiece - kKeyDim);
  BALEEN_CHECK(rope % kPiece == 0 && rope <= kKeyDim && rope <= width);
  BALEEN_CHECK_EQ(num_rows, context.batch.num_rows);
  BALEEN_CHECK(args.key.extent(0) == num_rows && args.key.extent(1) == kKeyDim);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.key_norm.size()), std::int64_t{kKeyDim});
  BALEEN_CHECK(args.latent.stride(0) % kPiece == 0 && args.key.stride(0) % kPiece == 0);
  BALEEN_CHECK(args.entries.format.width() == width && args.entries.format.rope == rope);
  BALEEN_CHECK(args.index_keys.format.dim == kKeyDim &&
               args.index_keys.format.precision == Precision::kReleased);
  const DeviceLatentPool entries(args.entries);
  BALEEN_CHECK(entries.groups == DeviceLatentPool::Groups::kFp4);
  if (num_rows == 0) return;
  launch_kernel("entry_store", entry_store_kernel,
                {.grid = dim3(static_cast<unsigned>(num_rows)),
                 .threads = static_cast<int>(width / kPiece) + kWarpLanes},
                context.stream,
                EntryStoreParams{.latent = args.latent.bf16().data(),
                                 .key = args.key.bf16().data(),
                                 .latent_stride = args.latent.stride(0),
                                 .key_stride = args.key.stride(0),
                                 .key_norm = args.key_norm.data(),
                                 .eps = args.eps,
                                 .frequencies = args.frequencies.data(),
                                 .width = static_cast<int>(width),
                                 .rope = static_cast<int>(rope),
                                 .ratio = args.ratio,
                                 .batch = context.batch,
                                 .entries = entries,
                                 .index_keys = {args.index_keys.base, args.index_keys.page_stride_bytes,
                                                args.index_keys.rows_per_page}});
}

}  // namespace baleen::BALEEN_ARCH
