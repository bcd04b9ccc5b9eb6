/// What captures steps and replays them, and lets the host wait for one of several steps under way.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "device/step_batches.h"

namespace baleen {

/// Sequences of operations that are run again and again with other batches; kFollow, kDraft: what a draft
/// head takes up of a step, and its blocks; kHalves: over two batches of as many rows.
enum class StepPart : std::uint8_t { kMain, kFollow, kDraft, kHalves, kCount };

class StepReplay {
 public:
  static constexpr int kNumMarks = 2;

  virtual ~StepReplay() = default;

  /// Marks the place behind all operations that were called so far; marks have numbers from 0 to kNumMarks -
  /// 1.
  virtual void set_mark(int mark) = 0;
  /// Waits until the place was reached where `mark` was set last. Throws what went wrong on the way.
  virtual void wait_for(int mark) = 0;
  /// Calls `operations`, which calls operations of this device over the current batch; or does without
  /// calling what was captured for this part and as many rows.
  virtual void run(StepPart part, const std::function<void()>& operations) = 0;
  /// Prepares steps of `num_rows` rows (one of padded_rows), where that makes them quicker: `operations` is
  /// what they will do, and depends on nothing but the part and the rows given to it. May call it, over rows
  /// of padding alone.
  virtual void capture(StepPart part, std::int64_t num_rows,
                       const std::function<void(const StepRows&)>& operations) = 0;
  /// The same of kHalves, `num_rows` rows in either batch.
  virtual void capture_halves(std::int64_t num_rows,
                              const std::function<void(const std::array<StepRows, 2>&)>& operations) = 0;
};

/// Of devices whose operations have taken effect when their call returns: nothing to wait for or to prepare.
class ImmediateSteps final : public StepReplay {
 public:
  void set_mark(int /*mark*/) override {}
  void wait_for(int /*mark*/) override {}
  void run(StepPart /*part*/, const std::function<void()>& operations) override { operations(); }
  void capture(StepPart /*part*/, std::int64_t /*num_rows*/,
               const std::function<void(const StepRows&)>& /*operations*/) override {}
  void capture_halves(std::int64_t /*num_rows*/,
                      const std::function<void(const std::array<StepRows, 2>&)>& /*operations*/) override {}
};

}  // namespace baleen
