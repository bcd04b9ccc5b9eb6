/// A training pass written down instead of computed: the operations that it calls, in the order of its
/// forward, with their costs, and the memory that it takes. The graph runs as for numbers (TrainingGraph), on
/// an executor that notes what it is given, with loops that compute nothing and arrays without memory
/// behind them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/dense_product/dense_product.h"
#include "ops/operation/executor.h"
#include "ops/operation/operation.h"
#include "trainer/graph/pass_executor.h"
#include "trainer/graph/recorded_memory.h"

namespace baleen {

enum class ModelPart : std::uint8_t { kAttention, kExperts, kMixing, kHead, kMtpEntry };
inline constexpr std::size_t kNumModelParts = 5;

/// One operation, or several alike: the poolings of all documents.
struct PassOperation {
  std::string_view name;  ///< what the operation is called: "linear", "dense_attention"
  std::string detail;     ///< which one, or its extents
  ModelPart part = ModelPart::kHead;
  std::int64_t block = -1;    ///< layer or MTP block; -1: none
  std::int64_t num_rows = 0;  ///< tokens that it works on
  OpCost forward;
  OpCost backward;  ///< nothing where the pass has no gradient of it
};

/// At the moment of the pass that holds most.
struct PassMemory {
  std::int64_t kept_bytes = 0;  ///< from forward to backward: streams between blocks, activations of blocks
  std::int64_t work_bytes = 0;  ///< beside them: gradients of activations, tiles, a chunk of logits

  [[nodiscard]] std::int64_t total_bytes() const { return kept_bytes + work_bytes; }
};

class PassRecord {
 public:
  /// `bf16_products`: products that are not of `exact` count as of BF16 operands. `num_threads`: of the pass
  /// that is written down, which have tiles of their own.
  PassRecord(bool bf16_products, std::int64_t num_threads);

  [[nodiscard]] PassExecutors executors() { return {exact_, products_, this}; }
  /// What follows belongs to `part` of `block`, and has a gradient where it `trains`.
  void enter(ModelPart part, std::int64_t block, bool trains);
  /// Whether what follows has a gradient.
  void train(bool trains) { trains_ = trains; }
  [[nodiscard]] bool trains() const { return trains_; }
  /// An operation that the graph computes itself.
  void add(std::string_view name, std::string detail, std::int64_t rows, const OpCost& forward,
           const OpCost& backward);
  /// Between these nothing is noted: what is computed again, and what an operation that was noted is made of.
  void pause() { ++num_pauses_; }
  void resume() { --num_pauses_; }
  /// The forward ended: what is held now is kept.
  void end_forward() { kept_bytes_ = memory_.held_bytes(); }
  /// `bytes` beside the pass's arrays, on each of at most `count` threads, for a moment.
  void scratch(std::int64_t count, std::int64_t bytes);

  [[nodiscard]] const std::vector<PassOperation>& operations() const { return operations_; }
  [[nodiscard]] PassMemory memory() const;

 private:
  class Log final : public Executor {
   public:
    Log(PassRecord& record, Operands operands) : record_(record), operands_(operands) {}
    void run(const OperationSequence& sequence, const void* const* args) override;

   private:
    PassRecord& record_;
    Operands operands_;
  };

  graph::RecordedMemory memory_;
  std::int64_t num_threads_;
  Log exact_, products_;
  std::vector<PassOperation> operations_;
  ModelPart part_ = ModelPart::kHead;
  std::int64_t block_ = -1, num_pauses_ = 0, kept_bytes_ = 0;
  bool trains_ = true;
};

/// Nothing is noted during its life; without a record it does nothing.
class RecordedPause {
 public:
  explicit RecordedPause(PassRecord* record) : record_(record) {
    if (record_ != nullptr) record_->pause();
  }
  RecordedPause(const RecordedPause&) = delete;
  RecordedPause& operator=(const RecordedPause&) = delete;
  ~RecordedPause() {
    if (record_ != nullptr) record_->resume();
  }

 private:
  PassRecord* record_;
};

/// What is noted during its life has a gradient or not; without a record it does nothing.
class RecordedTraining {
 public:
  RecordedTraining(PassRecord* record, bool trains) : record_(record) {
    if (record == nullptr) return;
    before_ = record->trains();
    record->train(trains);
  }
  RecordedTraining(const RecordedTraining&) = delete;
  RecordedTraining& operator=(const RecordedTraining&) = delete;
  ~RecordedTraining() {
    if (record_ != nullptr) record_->train(before_);
  }

 private:
  PassRecord* record_;
  bool before_ = true;
};

}  // namespace baleen
