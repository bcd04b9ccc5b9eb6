/// Operations, and sequences of them, without their types: what generic code (execution, profiles, the
/// simulator's recorder) sees of them.
///
/// An operation is a type with
///
///     using Args = ...;                             its arguments, a struct of views
///     static constexpr std::string_view kName;      "linear"
///     static OpCost cost(const Args&);              what an ideal kernel does
///     static CallShape shape(const Args&);          how large a call is, for people and for time models
///     static void accesses(const Args&, Accesses&);   adds what it reads and writes, but for weights
///     static std::span<const CpuVariant<Op>> cpu_variants();   its implementations on a CPU, best first
///
/// and optionally
///
///     static OpCost expected_cost(const Args&);     the cost where the host cannot read the arguments' arrays
///     static OpCost backward_cost(const Args&);     of its backward; without one it has none, like a choice
///     static OpCost expected_backward_cost(const Args&);   the same where arrays cannot be read
///     static std::vector<RankMessage> messages(const Args&);   what it sends to other ranks, in order; for
/// one rank nothing
///     static std::vector<RankMessage> backward_messages(const Args&);   where its backward sends something
/// else than `backward_of` each of these
///     static CallKey key(const Args&);              what predictions of its variants depend on: choices
/// among them are kept by it; without one they are made anew at each call
///     static void check(const Args&);               stops the program on arguments that break the contract; called before each
///                                                   run on devices that do not pad steps
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/operation/device_traits.h"
#include "ops/operation/operation.h"
#include "tensor/accesses.h"

namespace baleen {

/// How large a call of an operation is.
struct CallShape {
  std::int64_t num_rows = 0;   ///< tokens it works on: how well a kernel does depends on it
  std::string detail{};        ///< which one it is, or its extents: "64 heads, ratio 4"
  std::int64_t num_heads = 0;  ///< that attention works on; 0: no heads
  int num_kernels = 1;         ///< that do it where nothing is fused
};

/// The figures that decide how long a call takes, mixed to one number.
class CallKey {
 public:
  constexpr CallKey() = default;
  constexpr CallKey(std::initializer_list<std::int64_t> figures) {
    for (const std::int64_t figure : figures) add(figure);
  }

  constexpr void add(std::int64_t figure) {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
    constexpr int kHalf = 32;
    mixed_ = (mixed_ ^ static_cast<std::uint64_t>(figure)) * kOdd;
    mixed_ ^= mixed_ >> kHalf;
  }
  constexpr void add(const CallKey& other) { add(static_cast<std::int64_t>(other.mixed_)); }

  bool operator==(const CallKey&) const = default;
  /// Its place among 2^`bits`.
  [[nodiscard]] constexpr std::size_t place(int bits) const {
    return mixed_ & ((std::uint64_t{1} << bits) - 1);
  }

 private:
  std::uint64_t mixed_ = 1;
};

enum class MessageKind : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSend };

/// "all_reduce"
[[nodiscard]] std::string_view message_name(MessageKind kind);

/// A message of a group of ranks. How long it takes is a matter of who models time.
struct RankMessage {
  MessageKind kind = MessageKind::kAllReduce;
  std::int64_t group_size = 1;
  /// What one rank puts in: of an all-to-all what leaves it, of an all-gather its part, of a send the
  /// message.
  double bytes = 0;
  bool operator==(const RankMessage&) const = default;
};

/// What the backward of an operation sends for this message: gradients go the other way. An all-gather's are
/// reduce-scattered, a reduce-scatter's gathered; of an all-reduce, whose gradient every rank has, the ranks'
/// gradients of what they all read are added up.
[[nodiscard]] RankMessage backward_of(const RankMessage& message);

struct OperationInfo {
  std::string_view name;
  OpCost (*cost)(const void* args, const DeviceTraits& traits);
  OpCost (*backward_cost)(const void* args, const DeviceTraits& traits);
  CallShape (*shape)(const void* args);
  void (*accesses)(const void* args, Accesses& to);
  std::vector<RankMessage> (*messages)(const void* args);
  std::vector<RankMessage> (*backward_messages)(const void* args);  ///< as many as `messages`
  CallKey (*key)(const void* args);                                 ///< null: it has none
  void (*check)(const void* args);
};

template <class Op>
inline constexpr OperationInfo kOperationInfo{
    .name = Op::kName,
    .cost = [](const void* args, const DeviceTraits& traits) -> OpCost {
      const auto& typed = *static_cast<const typename Op::Args*>(args);
      if constexpr (requires { Op::expected_cost(typed); }) {
        if (!traits.shares_host_memory) return Op::expected_cost(typed);
      }
      return Op::cost(typed);
    },
    .backward_cost = [](const void* args, const DeviceTraits& traits) -> OpCost {
      const auto& typed = *static_cast<const typename Op::Args*>(args);
      if constexpr (requires { Op::expected_backward_cost(typed); }) {
        if (!traits.shares_host_memory) return Op::expected_backward_cost(typed);
      }
      if constexpr (requires { Op::backward_cost(typed); }) return Op::backward_cost(typed);
      return {};
    },
    .shape = [](const void* args) { return Op::shape(*static_cast<const typename Op::Args*>(args)); },
    .accesses = [](const void* args,
                   Accesses& to) { Op::accesses(*static_cast<const typename Op::Args*>(args), to); },
    .messages = [](const void* args) -> std::vector<RankMessage> {
      if constexpr (requires(const typename Op::Args& typed) { Op::messages(typed); })
        return Op::messages(*static_cast<const typename Op::Args*>(args));
      return {};
    },
    .backward_messages = [](const void* args) -> std::vector<RankMessage> {
      if constexpr (requires(const typename Op::Args& typed) { Op::backward_messages(typed); })
        return Op::backward_messages(*static_cast<const typename Op::Args*>(args));
      std::vector<RankMessage> messages = kOperationInfo<Op>.messages(args);
      for (RankMessage& message : messages) message = backward_of(message);
      return messages;
    },
    .key =
        [] {
          CallKey (*key)(const void*) = nullptr;
          if constexpr (requires(const typename Op::Args& typed) { Op::key(typed); })
            key = [](const void* args) { return Op::key(*static_cast<const typename Op::Args*>(args)); };
          return key;
        }(),
    .check =
        [](const void* args) {
          if constexpr (requires(const typename Op::Args& typed) { Op::check(typed); })
            Op::check(*static_cast<const typename Op::Args*>(args));
        }};

/// A sequence that may be done in one pass has a name, a cost and a shape of its own: specialise this beside
/// the last of its operations, with kName, cost(args...) and shape(args...). What it means is the sequence.
template <class... Ops>
struct Fusion {};

/// One operation, or several one after the other.
struct OperationSequence {
  std::string_view name;  ///< what the operation or the fusion is called; empty: never done in one pass
  std::span<const OperationInfo* const> parts;
  /// `args`: as many pointers as there are parts. Of a fusion what lies between its operations is not moved;
  /// without one the sum of the parts.
  OpCost (*cost)(const void* const* args, const DeviceTraits& traits);
  /// Of an operation or a fusion.
  CallShape (*shape)(const void* const* args);

  /// Adds what its parts read and write.
  void add_accesses(const void* const* args, Accesses& to) const {
    for (const OperationInfo* part : parts) part->accesses(*args++, to);
  }
};

namespace operation_details {

template <class... Ops>
inline constexpr std::array<const OperationInfo*, sizeof...(Ops)> kParts{&kOperationInfo<Ops>...};

template <class... Ops, std::size_t... kIndex>
OpCost fusion_cost(const void* const* args, std::index_sequence<kIndex...> /*indices*/) {
  return Fusion<Ops...>::cost(*static_cast<const typename Ops::Args*>(args[kIndex])...);
}

template <class... Ops, std::size_t... kIndex>
CallShape fusion_shape(const void* const* args, std::index_sequence<kIndex...> /*indices*/) {
  return Fusion<Ops...>::shape(*static_cast<const typename Ops::Args*>(args[kIndex])...);
}

template <class... Ops>
constexpr std::string_view sequence_name() {
  if constexpr (sizeof...(Ops) == 1) {
    return (Ops::kName, ...);
  } else if constexpr (requires { Fusion<Ops...>::kName; }) {
    return Fusion<Ops...>::kName;
  } else {
    return {};
  }
}

}  // namespace operation_details

template <class... Ops>
inline constexpr OperationSequence kOperationSequence{
    .name = operation_details::sequence_name<Ops...>(),
    .parts = operation_details::kParts<Ops...>,
    .cost = [](const void* const* args, const DeviceTraits& traits) -> OpCost {
      if constexpr (requires { Fusion<Ops...>::kName; }) {
        return operation_details::fusion_cost<Ops...>(args, std::index_sequence_for<Ops...>());
      } else {
        OpCost sum;
        for (const OperationInfo* part : operation_details::kParts<Ops...>)
          sum += part->cost(*args++, traits);
        return sum;
      }
    },
    .shape = [](const void* const* args) -> CallShape {
      if constexpr (requires { Fusion<Ops...>::kName; }) {
        return operation_details::fusion_shape<Ops...>(args, std::index_sequence_for<Ops...>());
      } else {
        return operation_details::kParts<Ops...>.front()->shape(args[0]);
      }
    }};

}  // namespace baleen
