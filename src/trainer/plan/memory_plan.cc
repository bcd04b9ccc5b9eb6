#include "trainer/plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "trainer/config/tensor_patterns.h"
#include "trainer/graph/model.h"
#include "trainer/graph/parameters.h"
#include "trainer/optimiser/schedule.h"
#include "trainer/optimiser/tensor_homes.h"
#include "trainer/run/training_run.h"

namespace baleen {
namespace {

constexpr std::int64_t kValueBytes = 4;
constexpr double kMegabyte = 1e6;
/// Code of the program and its libraries as far as it is used, OpenBLAS's packed matrices, stacks: measured.
constexpr std::int64_t kProgramBytes = 40'000'000;

std::int64_t float_bytes(const std::vector<TensorSpec>& table) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : table)
    if (spec.storage != Storage::kI64) bytes += kValueBytes * spec.num_elements();
  return bytes;
}

/// Factors of low-rank adapters, and the matrices under them, which are kept.
struct AdapterBytes {
  std::int64_t factors = 0, bases = 0;
};

AdapterBytes adapter_bytes(const TrainConfig& config, const std::vector<TensorSpec>& table) {
  AdapterBytes bytes;
  if (config.lora.rank == 0) return bytes;
  for (const TensorSpec& spec : table) {
    if (!spec.is_matrix() || !is_chosen(spec.name, config.tune.tensors)) continue;
    bytes.factors += kValueBytes * config.lora.rank * (spec.shape[0] + spec.shape[1]);
    bytes.bases += kValueBytes * spec.num_elements();
  }
  return bytes;
}

/// What the update of this run holds: states of the rank that has most, and threads' copies of matrices.
struct UpdateBytes {
  std::int64_t states = 0;
  std::int64_t kept_scratch = 0;  ///< what each thread keeps from step to step, its largest matrix
  std::int64_t work = 0;          ///< while matrices are orthogonalised
};

UpdateBytes update_bytes(const TrainConfig& config, const std::vector<TensorSpec>& table,
                         std::int64_t num_threads, std::int64_t num_ranks) {
  std::vector<ParameterGroup> groups;
  std::int64_t largest = 0, largest_gram = 0;
  for (const TensorSpec& spec : table) {
    groups.push_back(parameter_group(spec, config));
    for (const std::int64_t rows : groups.back().matrix_rows) {
      const std::int64_t shorter = std::min(rows, spec.shape[1]);
      largest = std::max(largest, kValueBytes * rows * spec.shape[1]);
      largest_gram = std::max(largest_gram, kValueBytes * shorter * shorter);
    }
  }
  const TensorHomes homes = tensor_homes(table, groups, num_ranks);
  UpdateBytes bytes{.kept_scratch = num_threads * largest,
                    .work = num_threads * 2 * (largest + largest_gram)};
  for (const std::vector<std::size_t>& tensors : homes.of_rank) {
    std::int64_t states = 0;
    for (const std::size_t i : tensors)
      states += (groups[i].rule == UpdateRule::kAdamW ? 2 : 1) * kValueBytes * table[i].num_elements();
    bytes.states = std::max(bytes.states, states);
  }
  return bytes;
}

/// Gradients that are held at once: sums of 2^n micro-batches, and one for each that is computed.
std::int64_t num_gradients(std::int64_t num_parts, std::int64_t num_workers) {
  std::int64_t most = 1;
  for (std::int64_t ended = 0; ended < num_parts; ++ended) {
    const std::int64_t sums = std::popcount(static_cast<std::uint64_t>(ended));
    most = std::max(most, sums + std::min(num_workers, num_parts - ended));
  }
  return most;
}

/// The first step of each stage of a run, and its last.
std::vector<std::int64_t> stage_steps(const TrainConfig& config) {
  const std::int64_t last = config.run.steps - 1;
  std::vector<std::int64_t> steps{0, config.indexer.dense_steps,
                                  config.indexer.dense_steps + config.indexer.warmup_steps,
                                  config.qat.start_step.value_or(0), last};
  for (std::int64_t& step : steps) step = std::clamp<std::int64_t>(step, 0, last);
  return steps;
}

PassMemory largest_pass(const TrainConfig& config, std::int64_t rows, std::int64_t num_threads) {
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(rows), config.data.sequence_length);
  PassMemory most;
  for (const std::int64_t step : stage_steps(config)) {
    const PassMemory pass =
        record_pass(config.model, lengths, pass_options_at(config, step), num_threads).memory;
    if (pass.total_bytes() > most.total_bytes()) most = pass;
  }
  return most;
}

/// Pages of the packed tokens that the run's steps read, at most all of them.
std::int64_t data_bytes(const TrainConfig& config) {
  std::int64_t stored = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(config.data.folder, ignored))
    if (entry.is_regular_file(ignored)) stored += static_cast<std::int64_t>(entry.file_size(ignored));
  const double read = static_cast<double>(sizeof(TokenId)) * static_cast<double>(config.run.steps) *
                      static_cast<double>(config.data.batch_rows * config.data.sequence_length);
  return read < static_cast<double>(stored) ? static_cast<std::int64_t>(read) : stored;
}

}  // namespace

TrainingMemoryPlan plan_training_memory(const TrainConfig& config, std::int64_t num_threads,
                                        std::int64_t num_ranks) {
  const std::vector<TensorSpec> table = training_table(config.model, config.ablation.plain_residual);
  const std::int64_t weights = float_bytes(table);
  const std::int64_t num_parts = (config.num_micro_batches(num_ranks) + num_ranks - 1) / num_ranks;
  const std::int64_t num_workers = std::min({config.run.concurrent_micro_batches, num_parts, num_threads});
  const PassMemory pass = largest_pass(config, config.micro_batch_rows(num_ranks),
                                       std::max<std::int64_t>(1, num_threads / num_workers));
  const AdapterBytes adapters = adapter_bytes(config, table);
  UpdateBytes update;
  if (config.lora.rank == 0) {
    update = update_bytes(config, table, num_threads, num_ranks);
  } else {
    update.states = 2 * adapters.factors;
  }
  const bool rounds = rounds_at(config, config.run.steps - 1);
  const std::int64_t hash_tables = config.model.num_hash_layers * config.model.vocab_size *
                                   config.model.num_experts_per_tok *
                                   static_cast<std::int64_t>(sizeof(std::int64_t));
  // What a pass has given back, the update takes.
  const std::int64_t update_work = std::max<std::int64_t>(0, update.work - num_workers * pass.total_bytes());
  return {{{"program", kProgramBytes, ""},
           {"weights", weights + hash_tables + adapters.factors + adapters.bases, ""},
           {"rounded weights", rounds ? weights : 0, "qat.start_step"},
           {"optimiser states", update.states, "optimizer.matrices, more processes"},
           {"gradients", num_gradients(num_parts, num_workers) * weights + adapters.factors,
            "run.concurrent_micro_batches, more data.micro_batch_rows"},
           {"kept activations", num_workers * pass.kept_bytes,
            "run.recompute, data.micro_batch_rows, run.concurrent_micro_batches"},
           {"activations in work", num_workers * pass.work_bytes,
            "data.micro_batch_rows, run.concurrent_micro_batches, data.sequence_length"},
           {"update", update.kept_scratch + update_work, "run.threads"},
           {"data", data_bytes(config), ""}}};
}

std::int64_t TrainingMemoryPlan::total_bytes() const {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const TrainingMemoryPart& part) { return sum + part.bytes; });
}

std::string TrainingMemoryPlan::table() const {
  std::string text = fmt::format("{:<22}{:>12}\n", "memory", "MB");
  const auto line = [&](std::string_view name, std::int64_t bytes) {
    text += fmt::format("{:<22}{:>12.1f}\n", name, static_cast<double>(bytes) / kMegabyte);
  };
  for (const TrainingMemoryPart& part : parts)
    if (part.bytes > 0) line(part.name, part.bytes);
  line("in all", total_bytes());
  return text;
}

void check_fits(const TrainingMemoryPlan& plan, std::int64_t available_bytes) {
  if (plan.total_bytes() <= available_bytes) return;
  std::string parts;
  std::string_view keys;
  std::int64_t largest = 0;
  for (const TrainingMemoryPart& part : plan.parts) {
    if (part.bytes == 0) continue;
    parts += fmt::format("{}{} {:.1f}", parts.empty() ? "" : ", ", part.name,
                         static_cast<double>(part.bytes) / kMegabyte);
    if (part.lowered_by.empty() || part.bytes <= largest) continue;
    largest = part.bytes;
    keys = part.lowered_by;
  }
  fail("this run needs {:.1f} MB of memory ({}), and {:.1f} MB are available; what helps most: {}",
       static_cast<double>(plan.total_bytes()) / kMegabyte, parts,
       static_cast<double>(available_bytes) / kMegabyte, keys.empty() ? "a smaller model" : keys);
}

}  // namespace baleen
