// Stated sums on the CPU: one parallel loop over items of three kinds, in this order. (1) A row of x is
// packed; (2) outputs of w1 and w3 of an expert; the item that completes 128 of them computes their
// activation and packs it; (3) outputs of w2. An item waits for the earlier ones whose results it reads,
// which other threads have begun before: so there is no barrier between the products of an expert, at which
// memory would pause.
//
// Each piece of an expert's weights has a thread of its own, whose cache has it if `read_stated_experts` has
// read it; threads that have done their pieces take those of others.

#include "ops/experts/stated_experts.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <initializer_list>
#include <memory>
#include <thread>

#include "base/check.h"
#include "numeric/bf16.h"
#include "numeric/simd_targets.h"
#include "ops/experts/experts.h"
#include "ops/experts/stated_slice.h"
#include "ops/operation/operation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/experts/stated_experts_cpu.cc"
#include <hwy/foreach_target.h>
// Highway's headers come after foreach_target.h.
#include <hwy/highway.h>

#include "numeric/vector_loop-inl.h"
#include "ops/experts/stated_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

/// `scales`: those of the slice, `stride` apart, one for each `group` of its inputs.
void pack_codes_simd(const std::uint8_t* codes, const float* scales, std::int64_t stride, int group,
                     StatedSlice* slice) {
  const auto scale_of = [=](std::int64_t place) { return scales[place * stride]; };
  if (group == kActivationGroup) return pack_codes<kActivationGroup>(codes, scale_of, *slice);
  pack_codes<kSmallActivationGroup>(codes, scale_of, *slice);
}

void pack_values_simd(const float* values, int group, StatedSlice* slice) {
  if (group == kActivationGroup) return pack_values<kActivationGroup>(values, *slice);
  pack_values<kSmallActivationGroup>(values, *slice);
}

void swiglu_simd(const float* gate, const float* up, std::int64_t count, float limit, float weight,
                 bool rounds, float* out) {
  for_each_vector(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto a = stated_swiglu(d, hn::LoadU(d, gate + i), hn::LoadU(d, up + i), limit, weight);
    hn::StoreU(rounds ? round_bf16_simd(d, a) : a, d, out + i);
  });
}

void product_simd(const WeightMatrix& weight, std::int64_t begin, std::int64_t end,
                  const FollowingRows& following, const StatedSlice* const* x, std::int64_t num_rows,
                  bool rounds, bool byte_dots, float* to, std::int64_t stride) {
  const bool dots = byte_dots && has_byte_dots();
  const auto multiply =
      weight.activation_group == kActivationGroup
          ? (dots ? multiply_rows<true, kActivationGroup> : multiply_rows<false, kActivationGroup>)
          : (dots ? multiply_rows<true, kSmallActivationGroup> : multiply_rows<false, kSmallActivationGroup>);
  multiply(weight, begin, end, following, x, num_rows, rounds, to, stride);
}

}  // namespace
}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(pack_codes_simd);
HWY_EXPORT(pack_values_simd);
HWY_EXPORT(swiglu_simd);
HWY_EXPORT(product_simd);

namespace {

// Some 70 and 35 KB of weights an item: tens of times what it costs to give one out, and so many of them that
// 16 threads have nearly equal parts of one expert.
constexpr std::int64_t kInnerOutputs = 16;  ///< outputs of w1, and as many of w3
constexpr std::int64_t kOutputs = 32;       ///< outputs of w2
static_assert(kActivationGroup % kInnerOutputs == 0);
constexpr std::int64_t kPiecesOfSlice = kActivationGroup / kInnerOutputs;

std::atomic<bool>& byte_dots() {
  static std::atomic<bool> is_allowed = true;
  return is_allowed;
}

bool byte_dots_allowed() { return byte_dots().load(std::memory_order_relaxed); }

using Counter = std::atomic<std::int32_t>;

/// Spins for about as long as the rest of an item takes.
void wait_for(const Counter& counter, std::int64_t wanted) {
  constexpr int kSpins = 2000;
  for (int spin = 0; counter.load(std::memory_order_acquire) != wanted; ++spin) {
    if (spin < kSpins) {
      hwy::Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

// Pieces of an expert are shared out to threads.

constexpr int kMaxShares = 64;  ///< several threads have the same one where there are more
/// Counters on cache lines of their own.
constexpr std::int64_t kCounterStride = 64 / sizeof(Counter);

int num_shares_of(const ThreadPool& pool) { return std::min(pool.num_threads(), kMaxShares); }

/// Pieces of an expert that a share has at most.
std::int64_t most_pieces(std::int64_t num_pieces, int num_shares) {
  return (num_pieces + num_shares - 1) / num_shares;
}

/// The `number`th of them; none if it is not less than there are. Experts begin with different shares, for
/// some shares have one piece more.
std::int64_t piece_of_share(const ExpertWeights& expert, std::int64_t number, int share, int num_shares) {
  constexpr std::uintptr_t kPage = 4096;
  const auto first = static_cast<int>(reinterpret_cast<std::uintptr_t>(expert.w1.data) / kPage %
                                      static_cast<std::uintptr_t>(num_shares));
  return number * num_shares + (share + first) % num_shares;
}

/// Brings what is there to the core's cache.
void touch(std::span<const std::byte> bytes) {
  constexpr std::size_t kLine = 64;
  unsigned sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kLine) sum += std::to_integer<unsigned>(bytes[at]);
  asm volatile("" : : "r"(sum));
}

Counter* zero_counters(std::int64_t count, Arena& scratch) {
  auto* counters = scratch.allocate<Counter>(count);
  std::uninitialized_value_construct_n(counters, count);
  return counters;
}

/// One expert of a call, and its rows.
struct Entry {
  const ExpertWeights* expert = nullptr;
  const float* weights = nullptr;
  std::int64_t num_rows = 0;
  const StatedSlice** x = nullptr;  ///< [num_rows] slices of w1.cols
  StatedSlice** inner = nullptr;    ///< [num_rows] slices of w1.rows
  float* gate = nullptr;            ///< [num_rows, w1.rows]
  float* up = nullptr;
  Counter* pieces = nullptr;  ///< [w1.rows / 128] items of w1 and w3 that are done
  Counter* slices = nullptr;  ///< slices of `inner` that are done
};

/// Of all entries together.
struct Widths {
  std::int64_t width = 0, inner = 0, outputs = 0;
  int group = kActivationGroup;  ///< inputs that share a scale

  [[nodiscard]] std::int64_t slices() const { return width / kActivationGroup; }
  [[nodiscard]] std::int64_t inner_slices() const { return inner / kActivationGroup; }
};

template <class Rows>
Widths widths_of(std::span<const Rows> experts) {
  Widths widths;
  for (const Rows& rows : experts) {
    if (rows.num_rows == 0) continue;
    const auto& [w1, w2, w3] = *rows.expert;
    if (widths.outputs == 0) widths = {w1.cols, w1.rows, w2.rows, w1.activation_group};
    for (const WeightMatrix* weight : {&w1, &w2, &w3}) {
      BALEEN_CHECK(weight->format == WeightFormat::kFp4);
      BALEEN_CHECK_EQ(weight->activation_group, widths.group);
    }
    BALEEN_CHECK_EQ(w1.cols, widths.width);
    BALEEN_CHECK_EQ(w3.cols, widths.width);
    BALEEN_CHECK_EQ(w1.rows, widths.inner);
    BALEEN_CHECK_EQ(w3.rows, widths.inner);
    BALEEN_CHECK_EQ(w2.cols, widths.inner);
    BALEEN_CHECK_EQ(w2.rows, widths.outputs);
  }
  BALEEN_CHECK(widths.group == kActivationGroup || widths.group == kSmallActivationGroup);
  BALEEN_CHECK_EQ(widths.width % kActivationGroup, 0);
  BALEEN_CHECK_EQ(widths.inner % kActivationGroup, 0);
  BALEEN_CHECK_EQ(widths.outputs % kOutputs, 0);
  return widths;
}

constexpr std::int64_t kNoPiece = -1;

FollowingRows following(const WeightMatrix& weight, std::int64_t piece, std::int64_t rows_of_piece) {
  return piece == kNoPiece ? FollowingRows() : FollowingRows{&weight, piece * rows_of_piece};
}

/// Activation of a slice of inner columns, packed for w2.
void finish_slice(const Entry& entry, const Widths& widths, std::int64_t slice, float limit) {
  for (std::int64_t row = 0; row < entry.num_rows; ++row) {
    const std::int64_t at = row * widths.inner + slice * kActivationGroup;
    HWY_DYNAMIC_DISPATCH(swiglu_simd)
    (entry.gate + at, entry.up + at, kActivationGroup, limit, entry.weights[row], true, entry.gate + at);
    HWY_DYNAMIC_DISPATCH(pack_values_simd)
    (entry.gate + at, widths.group, entry.inner[row] + slice);
  }
}

void run_inner(const Entry& entry, const Widths& widths, std::int64_t piece, std::int64_t next_piece,
               float limit) {
  const std::int64_t begin = piece * kInnerOutputs;
  const ExpertWeights& expert = *entry.expert;
  const auto multiply = [&](const WeightMatrix& weight, const FollowingRows& following, float* to) {
    HWY_DYNAMIC_DISPATCH(product_simd)
    (weight, begin, begin + kInnerOutputs, following, entry.x, entry.num_rows, true, byte_dots_allowed(),
     to + begin, widths.inner);
  };
  multiply(expert.w1, {&expert.w3, begin}, entry.gate);
  multiply(expert.w3, following(expert.w1, next_piece, kInnerOutputs), entry.up);
  const std::int64_t slice = piece / kPiecesOfSlice;
  if (entry.pieces[slice].fetch_add(1, std::memory_order_acq_rel) + 1 < kPiecesOfSlice) return;
  finish_slice(entry, widths, slice, limit);
  entry.slices->fetch_add(1, std::memory_order_release);
}

/// Calls store(row, first output, count, values) for the outputs of a piece of w2.
template <class Store>
void run_outer(const Entry& entry, std::int64_t piece, std::int64_t next_piece, bool rounds,
               const Store& store) {
  constexpr std::int64_t kRows = 4;
  alignas(64) float tile[kRows * kOutputs];
  const WeightMatrix& weight = entry.expert->w2;
  const std::int64_t begin = piece * kOutputs;
  for (std::int64_t row = 0; row < entry.num_rows; row += kRows) {
    const std::int64_t count = std::min(kRows, entry.num_rows - row);
    HWY_DYNAMIC_DISPATCH(product_simd)
    (weight, begin, begin + kOutputs, row == 0 ? following(weight, next_piece, kOutputs) : FollowingRows(),
     entry.inner + row, count, rounds, byte_dots_allowed(), tile, kOutputs);
    for (std::int64_t i = 0; i < count; ++i) store(row + i, begin, kOutputs, tile + i * kOutputs);
  }
}

/// Items of one kind: pieces of every entry, in shares.
class SharedItems {
 public:
  /// `next`: a counter of each share, zeroed.
  SharedItems(std::span<const Entry> entries, std::int64_t num_pieces, int num_shares, Counter* next)
      : entries_(entries),
        num_pieces_(num_pieces),
        num_shares_(num_shares),
        most_(most_pieces(num_pieces, num_shares)),
        next_(next) {}

  /// Calls run(entry, piece, next) for all that no thread has begun, the thread's own first; `next` is the
  /// piece that follows in the same share, or kNoPiece.
  template <class Run>
  void drain(int thread, const Run& run) const {
    const std::int64_t end = std::ssize(entries_) * most_;
    for (int distance = 0; distance < num_shares_; ++distance) {
      const int share = (thread + distance) % num_shares_;
      Counter& next = next_[share * kCounterStride];
      while (next.load(std::memory_order_relaxed) < end) {
        const std::int64_t item = next.fetch_add(1, std::memory_order_relaxed);
        if (item >= end) break;
        const Entry& entry = entries_[static_cast<std::size_t>(item / most_)];
        const std::int64_t piece = piece_of_share(*entry.expert, item % most_, share, num_shares_);
        const std::int64_t next_piece = piece + num_shares_;
        if (piece < num_pieces_) run(entry, piece, next_piece < num_pieces_ ? next_piece : kNoPiece);
      }
    }
  }

 private:
  std::span<const Entry> entries_;
  std::int64_t num_pieces_;
  int num_shares_;
  std::int64_t most_;  ///< pieces of an entry that a share has
  Counter* next_;
};

/// A row of x that entries have.
template <class Rows>
struct PackedRow {
  const Rows* rows;
  std::int64_t row;
};

/// `pack(rows, row, widths, slices)` packs a row of x; `pack.same_rows(a, b)`: whether two entries have
/// one x. `store(rows, place in y, count, values)` takes outputs.
template <class Rows, class Pack, class Store>
void run(std::span<const Rows> experts, float limit, bool rounds, ThreadPool& pool, Arena& scratch,
         const Pack& pack, const Store& store) {
  const ScratchScope scope(scratch);
  const Widths widths = widths_of(experts);
  std::int64_t num_entries = 0, num_rows = 0;
  for (const Rows& rows : experts) {
    num_entries += rows.num_rows > 0 ? 1 : 0;
    num_rows += rows.num_rows;
  }
  if (num_entries == 0) return;
  auto* entries = scratch.allocate<Entry>(num_entries);
  auto* rows_of_entries = scratch.allocate<const Rows*>(num_entries);
  auto* packed_rows = scratch.allocate<PackedRow<Rows>>(num_rows);
  auto* x = scratch.allocate<const StatedSlice*>(num_rows);
  auto* inner = scratch.allocate<StatedSlice*>(num_rows);
  auto* packed_x = scratch.allocate<StatedSlice>(num_rows * widths.slices());
  auto* packed_inner = scratch.allocate<StatedSlice>(num_rows * widths.inner_slices());
  auto* gate = scratch.allocate<float>(2 * num_rows * widths.inner);
  float* up = gate + num_rows * widths.inner;
  Counter* counters = zero_counters(2 + num_entries * (widths.inner_slices() + 1), scratch);
  Counter* rows_begun = counters++;
  Counter* rows_done = counters++;
  const int num_shares = num_shares_of(pool);
  Counter* next = zero_counters(2 * num_shares * kCounterStride, scratch);

  std::int64_t num_packed = 0, first = 0, which = 0;
  for (const Rows& rows : experts) {
    if (rows.num_rows == 0) continue;
    rows_of_entries[which] = &rows;
    entries[which++] = {.expert = rows.expert,
                        .weights = rows.weights,
                        .num_rows = rows.num_rows,
                        .x = x + first,
                        .inner = inner + first,
                        .gate = gate + first * widths.inner,
                        .up = up + first * widths.inner,
                        .pieces = counters + 1,
                        .slices = counters};
    counters += 1 + widths.inner_slices();
    for (std::int64_t i = 0; i < rows.num_rows; ++i, ++first) {
      const std::int64_t row = rows.row_index[i];
      // Few rows: a search costs less than packing one twice.
      const PackedRow<Rows>* found =
          std::find_if(packed_rows, packed_rows + num_packed,
                       [&](const auto& one) { return one.row == row && pack.same_rows(*one.rows, rows); });
      if (found == packed_rows + num_packed) packed_rows[num_packed++] = {&rows, row};
      x[first] = packed_x + (found - packed_rows) * widths.slices();
      inner[first] = packed_inner + first * widths.inner_slices();
    }
  }

  const std::span<const Entry> all(entries, static_cast<std::size_t>(num_entries));
  const SharedItems inner_items(all, widths.inner / kInnerOutputs, num_shares, next);
  const SharedItems outer_items(all, widths.outputs / kOutputs, num_shares,
                                next + num_shares * kCounterStride);
  pool.parallel_for(pool.num_threads(), [&](std::int64_t, int thread) {
    for (std::int64_t row; (row = rows_begun->fetch_add(1, std::memory_order_relaxed)) < num_packed;) {
      pack(*packed_rows[row].rows, packed_rows[row].row, widths, packed_x + row * widths.slices());
      rows_done->fetch_add(1, std::memory_order_release);
    }
    wait_for(*rows_done, num_packed);
    inner_items.drain(thread, [&](const Entry& entry, std::int64_t piece, std::int64_t next_piece) {
      run_inner(entry, widths, piece, next_piece, limit);
    });
    outer_items.drain(thread, [&](const Entry& entry, std::int64_t piece, std::int64_t next_piece) {
      wait_for(*entry.slices, widths.inner_slices());
      run_outer(entry, piece, next_piece, rounds,
                [&](std::int64_t row, std::int64_t begin, std::int64_t count, const float* values) {
                  store(*rows_of_entries[&entry - entries], row * widths.outputs + begin, count, values);
                });
    });
  });
}

/// Rows of x that are quantised.
struct PackCodes {
  [[nodiscard]] static bool same_rows(const StatedExpertRows& a, const StatedExpertRows& b) {
    return a.x.codes == b.x.codes && a.x.scales == b.x.scales;
  }
  void operator()(const StatedExpertRows& rows, std::int64_t row, const Widths& widths,
                  StatedSlice* to) const {
    BALEEN_DCHECK(rows.x.group == widths.group);
    const std::uint8_t* codes = rows.x.codes + row * widths.width;
    for (std::int64_t slice = 0; slice < widths.slices(); ++slice) {
      const std::int64_t first = slice * kActivationGroup;
      HWY_DYNAMIC_DISPATCH(pack_codes_simd)
      (codes + first, rows.x.scales + first / widths.group * rows.x.scale_stride + row, rows.x.scale_stride,
       widths.group, to + slice);
    }
  }
};

/// Rows that are not.
struct PackValues {
  View<const float, 2> x;

  [[nodiscard]] static bool same_rows(const StatedExpertValues& /*a*/, const StatedExpertValues& /*b*/) {
    return true;
  }
  void operator()(const StatedExpertValues& /*rows*/, std::int64_t row, const Widths& widths,
                  StatedSlice* to) const {
    const float* values = x.row(row).data();
    for (std::int64_t slice = 0; slice < widths.slices(); ++slice)
      HWY_DYNAMIC_DISPATCH(pack_values_simd)(values + slice * kActivationGroup, widths.group, to + slice);
  }
};

}  // namespace

std::int64_t stated_experts_scratch_bytes(std::int64_t num_experts, std::int64_t num_rows, std::int64_t width,
                                          std::int64_t inner_width) {
  const std::int64_t slices = width / kActivationGroup, inner_slices = inner_width / kActivationGroup;
  return Arena::bytes_for<Entry>(num_experts) + Arena::bytes_for<const void*>(num_experts) +
         Arena::bytes_for<PackedRow<StatedExpertRows>>(num_rows) +
         2 * Arena::bytes_for<const StatedSlice*>(num_rows) +
         Arena::bytes_for<StatedSlice>(num_rows * slices) +
         Arena::bytes_for<StatedSlice>(num_rows * inner_slices) +
         Arena::bytes_for<float>(2 * num_rows * inner_width) +
         Arena::bytes_for<Counter>(2 + num_experts * (inner_slices + 1)) +
         Arena::bytes_for<Counter>(2 * kMaxShares * kCounterStride);
}

void read_stated_experts(std::span<const ExpertWeights> experts, ThreadPool& pool,
                         const std::function<bool()>& stops) {
  // Less than the second-level cache of a core that has 2 MB.
  constexpr std::int64_t kMaxBytes = std::int64_t{3} << 19, kChunkBytes = std::int64_t{8} << 10;
  const int num_shares = num_shares_of(pool);
  pool.parallel_for(pool.num_threads(), [&](std::int64_t, int thread) {
    if (thread >= num_shares) return;
    std::int64_t left = kMaxBytes;
    const auto read = [&](const std::byte* data, std::int64_t size) {
      for (std::int64_t at = 0; at < size && left > 0; at += kChunkBytes) {
        if (stops()) left = 0;
        touch({data + at, static_cast<std::size_t>(std::min(kChunkBytes, size - at))});
      }
      left -= size;
    };
    const auto read_pieces = [&](const ExpertWeights& expert, std::initializer_list<const WeightMatrix*> of,
                                 std::int64_t rows_of_piece) {
      const std::int64_t num_pieces = (*of.begin())->rows / rows_of_piece;
      for (std::int64_t i = 0; i < most_pieces(num_pieces, num_shares) && left > 0; ++i) {
        const std::int64_t piece = piece_of_share(expert, i, thread, num_shares);
        if (piece >= num_pieces) return;
        for (const WeightMatrix* weight : of) {
          const std::int64_t codes = rows_of_piece * weight->cols / 2,
                             scales = rows_of_piece * weight->cols / 32;
          read(weight->data + piece * codes, codes);
          read(reinterpret_cast<const std::byte*>(weight->group_scales) + piece * scales, scales);
        }
      }
    };
    // In the order in which a call multiplies them.
    for (const ExpertWeights& expert : experts) read_pieces(expert, {&expert.w1, &expert.w3}, kInnerOutputs);
    for (const ExpertWeights& expert : experts) read_pieces(expert, {&expert.w2}, kOutputs);
  });
}

void stated_experts(std::span<const StatedExpertRows> experts, float swiglu_limit, ThreadPool& pool,
                    Arena& scratch) {
  const auto store = [](const StatedExpertRows& rows, std::int64_t at, std::int64_t count,
                        const float* values) {
    // They are BF16 values already.
    for (std::int64_t i = 0; i < count; ++i)
      rows.y[at + i] = static_cast<Bf16Bits>(std::bit_cast<std::uint32_t>(values[i]) >> 16);
  };
  run(experts, swiglu_limit, true, pool, scratch, PackCodes(), store);
}

void stated_experts(std::span<const StatedExpertValues> experts, View<const float, 2> x, float swiglu_limit,
                    bool rounds, ThreadPool& pool, Arena& scratch) {
  const auto store = [](const StatedExpertValues& rows, std::int64_t at, std::int64_t count,
                        const float* values) { std::copy_n(values, count, rows.y + at); };
  run(experts, swiglu_limit, rounds, pool, scratch, PackValues{x}, store);
}

void allow_byte_dots(bool allowed) { byte_dots().store(allowed, std::memory_order_relaxed); }

void stated_swiglu_row(const float* gate, const float* up, std::int64_t count, float limit, float weight,
                       float* out) {
  HWY_DYNAMIC_DISPATCH(swiglu_simd)(gate, up, count, limit, weight, false, out);
}

}  // namespace baleen
#endif
