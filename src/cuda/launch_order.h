/// Which launches may still run when the next one of a stream begins, and what they read and write.
///
/// A kernel that starts early (kernel_launch.h) runs beside kernels before it until it waits for them. What
/// it may touch by then follows from what is queued: launches come here in order, each with the accesses of
/// its operation, whether it starts early, and when it lets the next one begin.
///
///     queued                                   may run when the next one begins
///     A  lets the next begin behind its wait   A
///     B  at once                               B, A
///     C  at once                               C, B, A
///     D  behind its wait                       D
///     E  does not start early                  E
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "cuda/next_kernel.h"
#include "tensor/accesses.h"

struct CUstream_st;  // cudaStream_t without the toolkit's headers

namespace baleen {

/// Of one device. Knows nothing of what streams did before, of copies, and of replayed graphs: `forget` says
/// that there was such work. A graph replays what was captured in the same order, so what is right while it
/// is captured is right in every replay. Not thread-safe.
class LaunchOrder {
  static constexpr std::size_t kMaxStreams = 4;
  /// Of each stream, how many of its launches are done.
  using Done = std::array<std::int64_t, kMaxStreams>;

 public:
  /// What was queued on a stream up to a place, as an event recorded there.
  class Place {
    friend class LaunchOrder;
    Done done_{};
  };

  /// `stream`: the one from which others fork, and which waits for them. Anything may be under way on it.
  explicit LaunchOrder(const CUstream_st* stream) : main_(stream) { forget(); }
  LaunchOrder(const LaunchOrder&) = delete;
  LaunchOrder& operator=(const LaunchOrder&) = delete;

  /// Anything may be under way on the stream from which others fork, and nothing on those.
  void forget();
  /// The launches that follow are of an operation, and each may do any of the accesses that are added to what
  /// is returned. Launches of no operation may do anything.
  [[nodiscard]] Accesses& begin_operation();

  void add_launch(const CUstream_st* stream, bool early, NextKernel next);
  [[nodiscard]] Place place(const CUstream_st* stream);
  /// What is launched on `stream` from now on is behind `place`, as by a wait for its event. The next launch
  /// does not start early: that is promised of one predecessor, and it has two.
  void wait(const CUstream_st* stream, const Place& place);

  /// Whether the next kernel on `stream`, started early, may do all of `accesses` before its wait: nothing
  /// that may still run writes what it reads or writes, or reads what it writes.
  [[nodiscard]] bool is_settled(const CUstream_st* stream, const Accesses& accesses);
  /// How often that was asked, and the answer was yes.
  struct Answers {
    std::int64_t asked = 0, settled = 0;
    bool operator==(const Answers&) const = default;
  };
  [[nodiscard]] const Answers& answers() const { return answers_; }

  /// Whether of all launches on `stream` only those of the operation under way may run when the next one
  /// begins early.
  [[nodiscard]] bool earlier_operations_are_done(const CUstream_st* stream);

 private:
  struct Operation {
    Accesses accesses;
    bool is_anything = false;  ///< reads and writes all memory
    int num_launches = 0;      ///< that are remembered
  };
  struct Launch {
    std::int64_t number = 0;  ///< on its stream
    Operation* operation = nullptr;
  };
  struct Stream {
    const CUstream_st* stream = nullptr;
    std::int64_t num_launches = 0;
    Done at_begin{};      ///< what was done when the last launch began
    Done behind_wait{};   ///< done when it has waited; when it has ended, itself too
    Done awaited{};       ///< what events awaited since then say is done
    bool awaits = false;  ///< an event, since then
    NextKernel next = NextKernel::kAtOnce;
    std::deque<Launch> launches;  ///< that may still run
  };

  [[nodiscard]] std::size_t index_of(const CUstream_st* stream);
  [[nodiscard]] Done done_before_next(std::size_t stream) const;
  [[nodiscard]] const Done& done_at_begin_of_next(std::size_t stream) const;
  void drop_done();

  [[nodiscard]] bool conflicts_with_running(std::size_t stream, const Accesses& accesses) const;

  const CUstream_st* main_;
  Answers answers_;
  std::vector<Stream> streams_;       ///< the main one first
  std::deque<Operation> operations_;  ///< those of remembered launches, and the last one
};

}  // namespace baleen
