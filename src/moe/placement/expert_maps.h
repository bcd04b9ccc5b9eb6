/// Expert maps of all layers: where each layer's experts lie, as a file or a plan says.
/// (source: parallel MoE 8, 10)
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "model/config.h"
#include "model/parallel_plan.h"
#include "ops/dispatch/expert_map.h"

namespace baleen {

/// physical_to_logical [blocks, P]: main layers, then blocks of the draft head.
using ExpertTable = std::vector<std::vector<std::int32_t>>;

/// The table of a JSON file, an object whose "physical_to_logical" has a list of whole numbers for each
/// block; other members are passed over. Throws `Error` with the file's name for what is none.
[[nodiscard]] ExpertTable read_expert_table(const std::filesystem::path& path);

/// A plan with the number of slots that the table has. Throws `Error` with a sentence where `table` cannot be
/// of the model: blocks, slots or experts that do not fit, or copies other than the plan asks for.
[[nodiscard]] ParallelPlan with_table(ParallelPlan plan, const ExpertTable& table, const ModelConfig& config);

/// The maps of all blocks of the whole model. `plan` resolved and legal; `table` as `with_table` has checked
/// it, or null: as the plan places experts. Throws `Error` for a table that is no map.
[[nodiscard]] std::vector<ExpertMap> expert_maps(const ParallelPlan& plan, const ModelConfig& config,
                                                 const ExpertTable* table);

}  // namespace baleen
