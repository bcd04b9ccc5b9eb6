/// Implementations of operations, as values that declare themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ops/operation/operation_sequence.h"
#include "ops/operation/step_shape.h"

namespace baleen {

/// Why a variant is not chosen: a clause, without the variant's name. Lives as long as the program.
using Reason = std::string_view;

/// One implementation of `Ops`: of one operation, or of several in one pass. `Context` is where it runs.
///
/// Of the variants that take the arguments the one runs that is predicted to take the least time, unless
/// another is forced by name; of equal predictions, and of variants without one, the first of the table, and
/// one with a prediction before one without. What a variant requires is asked at every call and must be a few
/// comparisons: of extents, formats, alignment, the device. What it takes is asked once for each `key` of the
/// operation's calls, so a prediction may depend on the key and the device alone.
template <class Context, class... Ops>
struct Variant {
  std::string_view name;  ///< "simd", "reference", "sm90/few_tokens"
  void (*run)(const typename Ops::Args&... args, Context& context) = nullptr;
  /// Why it cannot run; null: it takes whatever the contract allows.
  std::optional<Reason> (*why_not)(const typename Ops::Args&... args, const DeviceTraits& traits) = nullptr;
  /// Seconds that a call takes, as predicted (kernel_time.h); null: not known.
  double (*predict)(const typename Ops::Args&... args, const DeviceTraits& traits) = nullptr;
  /// Scratch of the largest call in steps of such a shape; null: none.
  std::int64_t (*scratch_bytes)(const StepShape& shape, const DeviceTraits& traits) = nullptr;
};

/// Names that most operations have on a CPU: vector code for the machine's best instruction set, and the
/// specification.
inline constexpr std::string_view kSimdVariant = "simd";
inline constexpr std::string_view kReferenceVariant = "reference";
/// On a CPU, the order of sums and the roundings that training has: the bits of its logs and checkpoints. Of
/// float32 weights. They run where they are forced, as the trainer does; operations without them train by
/// `simd`. The second rounds the operands of its products to BF16.
inline constexpr std::string_view kTrainingVariant = "training";
inline constexpr std::string_view kTrainingBf16Variant = "training_bf16";
inline constexpr Reason kTrainsFloat32 = "takes float32 weights";
/// Products of activations of 8 bits, on a CPU: other results than the model's, as far from them as is
/// measured (docs/performance.md), so it runs where it is forced.
inline constexpr std::string_view kInt8Variant = "int8";
inline constexpr Reason kInt8RoundsActivations =
    "rounds activations to 8 bits, which `released` alone allows";

template <class... Ops>
using CpuVariant = Variant<CpuContext, Ops...>;
template <class... Ops>
using CudaVariant = Variant<CudaContext, Ops...>;

}  // namespace baleen
