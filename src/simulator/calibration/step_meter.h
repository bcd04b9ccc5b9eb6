/// Runs real steps of the engine and tells what each operation took beside what it should.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "simulator/calibration/operation_sample.h"
#include "simulator/graph/rank_model.h"

namespace baleen {

/// A kind of step: so many sequences, each with so many tokens cached before and so many new ones.
struct StepSetting {
  std::int64_t num_sequences = 1;
  std::int64_t num_tokens = 1;  ///< tokens that each has; 1: decoding
  std::int64_t context = 0;

  [[nodiscard]] std::int64_t num_rows() const { return num_sequences * num_tokens; }
  [[nodiscard]] bool decodes() const { return num_tokens == 1; }
};

/// A step in which every operation took its typical time: undisturbed, and not by luck.
struct StepMeasurement {
  std::vector<OperationSample> samples;
  double host_seconds = 0;  ///< time of a step that is in no operation
};

class StepMeter {
 public:
  /// `device`: peaks of what `engine` runs on, and whether it fuses. Both outlive this. The engine's
  /// sequences are closed before, and made and closed by this.
  StepMeter(Engine& engine, const DeviceProfile& device);

  /// Lower quartiles of `repetitions`, each of a step or, while decoding, of one for every phase of a
  /// compressor of ratio 4. The first one comes before and does not count. Sequences that decode go on from
  /// one to the next, prompts begin anew; the engine's cache must hold `positions_needed` for each of them.
  /// Throws `Error` when a step fails.
  [[nodiscard]] StepMeasurement measure(const StepSetting& setting, int repetitions);

  [[nodiscard]] static std::int64_t positions_needed(const StepSetting& setting, int repetitions);

 private:
  struct Window;  ///< steps that are timed together

  [[nodiscard]] std::vector<SequenceId> open(const StepSetting& setting);
  void close(std::span<const SequenceId> sequences);
  [[nodiscard]] Window run_window(std::span<const SequenceId> sequences, const StepSetting& setting,
                                  bool profile);
  /// Of the batch that came last.
  [[nodiscard]] OpGraph graph_of(std::span<const SequenceId> sequences, const StepSetting& setting,
                                 const std::vector<std::vector<std::int64_t>>& load_before) const;
  [[nodiscard]] std::vector<TokenId> some_tokens(std::int64_t count);

  Engine& engine_;
  const DeviceProfile& device_;
  RankModel model_;
  std::mt19937 random_;
};

}  // namespace baleen
