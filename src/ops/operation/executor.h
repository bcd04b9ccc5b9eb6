/// What runs operations: the one door through which the forward pass calls them.
#pragma once

#include <array>
#include <cstdint>

#include "ops/operation/operation_sequence.h"

namespace baleen {

class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// Runs one operation, `execute<Linear>({...})`, or several in order, `execute<RmsNorm, Rope>({...},
  /// {...})`, which may be done in one pass: what it means is the sequence. Arguments, and the arrays they
  /// view, stay valid until it took effect.
  template <class... Ops>
  void execute(const typename Ops::Args&... args) {
    const std::array<const void*, sizeof...(Ops)> pointers{static_cast<const void*>(&args)...};
    run(kOperationSequence<Ops...>, pointers.data());
  }

  /// `execute` without types; `args` points to as many arguments as `sequence` has parts.
  virtual void run(const OperationSequence& sequence, const void* const* args) = 0;

  /// What follows belongs to `block` of the model; -1: to none. For those who write operations down.
  virtual void enter_block(std::int64_t /*block*/) {}
};

}  // namespace baleen
