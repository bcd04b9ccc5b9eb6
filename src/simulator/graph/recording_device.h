/// A device that logs what it is asked to run: the engine's forward pass on it yields the operations of a
/// rank.
#pragma once

#include <cstdint>
#include <optional>

#include "device/unbacked_device.h"
#include "simulator/graph/op_graph.h"

namespace baleen {

/// Writes down each operation's name, extents, cost and messages, whichever operation it is.
class RecordingDevice final : public UnbackedDevice {
 public:
  /// Appends to `graph`. All outlive this.
  RecordingDevice(const GraphOptions& options, OpGraph& graph);

  /// What follows belongs to `part`.
  void enter(GraphPart part) { part_ = part; }

  [[nodiscard]] std::string name() const override { return "recorder"; }
  [[nodiscard]] Executor& executor() override { return log_; }

 private:
  class Log final : public Executor {
   public:
    explicit Log(RecordingDevice& device) : device_(device) {}
    void run(const OperationSequence& sequence, const void* const* args) override {
      device_.record(sequence, args);
    }
    void enter_block(std::int64_t block) override { device_.block_ = block; }

   private:
    RecordingDevice& device_;
  };

  void record(const OperationSequence& sequence, const void* const* args);
  void add(std::string_view name, const CallShape& shape, const OpCost& cost, const OpCost& backward,
           std::optional<double> predicted_seconds);
  [[nodiscard]] std::optional<double> predict(const OperationSequence& sequence,
                                              const void* const* args) const;
  void add(std::string_view sent_by, const RankMessage& message, const RankMessage& backward);

  GraphOptions options_;
  OpGraph& graph_;
  Log log_{*this};
  GraphPart part_ = GraphPart::kLayers;
  std::int64_t block_ = -1;
};

}  // namespace baleen
