#include "moe/placement/expert_maps.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
constexpr const char* kMember = "physical_to_logical";

/// Errors of a file begin with its name.
class TableReader {
 public:
  explicit TableReader(const std::filesystem::path& path) : name_(path.string()) {}

  ExpertTable read(const nlohmann::json& json) const {
    if (!json.is_object() || !json.contains(kMember)) {
      fail(R"({}: expected an object with "{}", a list of slots for each layer; GET /experts answers one)",
           name_, kMember);
    }
    const nlohmann::json& rows = json.at(kMember);
    if (!rows.is_array())
      fail("{}: \"{}\": expected a list of lists, found {}", name_, kMember, rows.type_name());
    ExpertTable table;
    for (const nlohmann::json& row : rows) table.push_back(read_row(row, std::ssize(table)));
    return table;
  }

 private:
  std::vector<std::int32_t> read_row(const nlohmann::json& row, std::int64_t block) const {
    if (!row.is_array()) {
      fail("{}: layer {}: expected a list of the experts in its slots, found {}", name_, block,
           row.type_name());
    }
    std::vector<std::int32_t> slots;
    for (const nlohmann::json& value : row) {
      // What is beyond 32 bits is no expert of any model.
      const std::int64_t expert = value.is_number_integer() ? value.get<std::int64_t>() : -1;
      if (expert < 0 || expert > std::numeric_limits<std::int32_t>::max()) {
        fail("{}: layer {}, slot {}: expected an expert's number, found {}", name_, block, slots.size(),
             value.is_number() ? value.dump() : value.type_name());
      }
      slots.push_back(static_cast<std::int32_t>(expert));
    }
    return slots;
  }

  std::string name_;
};

}  // namespace

ExpertTable read_expert_table(const std::filesystem::path& path) {
  const Result<nlohmann::json> json = parse_json(read_text_file(path, kMaxFileBytes));
  if (!json) fail("{}: not JSON: {}", path.string(), json.error());
  return TableReader(path).read(json.value());
}

ParallelPlan with_table(ParallelPlan plan, const ExpertTable& table, const ModelConfig& config) {
  if (std::ssize(table) != config.num_blocks()) {
    fail(
        "‹expert map›: {} layers, but the model has {} and {} blocks of a draft head behind them: a list for "
        "each is due",
        table.size(), config.num_hidden_layers, config.num_draft_blocks());
  }
  const std::int64_t num_copies = std::ssize(table.front()) - config.num_routed_experts(0);
  for (std::int64_t block = 0; block < std::ssize(table); ++block) {
    const std::vector<std::int32_t>& slots = table[static_cast<std::size_t>(block)];
    const std::int64_t num_experts = config.num_routed_experts(block);
    if (std::ssize(slots) != num_experts + num_copies) {
      fail("‹expert map›: layer {} has {} slots, layer 0 has {} for {} experts: with as many copies {} here",
           block, slots.size(), table.front().size(), config.num_routed_experts(0), num_experts + num_copies);
    }
    std::vector<bool> is_held(static_cast<std::size_t>(num_experts));
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot] < 0 || slots[slot] >= num_experts) {
        fail("‹expert map›: layer {}, slot {}: expert {}, but the model has experts 0 to {}", block, slot,
             slots[slot], num_experts - 1);
      }
      is_held[static_cast<std::size_t>(slots[slot])] = true;
    }
    for (std::size_t expert = 0; expert < is_held.size(); ++expert) {
      if (!is_held[expert])
        fail("‹expert map›: layer {}: no slot holds expert {}; each is held at least once", block, expert);
    }
  }
  if (plan.redundant_experts != 0 && plan.redundant_experts != num_copies) {
    fail(
        "‹copies of experts› {}, but ‹expert map› has {} slots for {} experts: {} copies; leave the option "
        "out",
        plan.redundant_experts, table.front().size(), config.num_routed_experts(0), num_copies);
  }
  plan.redundant_experts = num_copies;
  return plan;
}

std::vector<ExpertMap> expert_maps(const ParallelPlan& plan, const ModelConfig& config,
                                   const ExpertTable* table) {
  std::vector<ExpertMap> maps;
  for (std::int64_t block = 0; block < config.num_blocks(); ++block) {
    const std::int64_t num_experts = config.num_routed_experts(block);
    if (table != nullptr) {
      maps.emplace_back((*table)[static_cast<std::size_t>(block)], num_experts, plan.ep);
    } else if (!maps.empty() && maps.back().num_experts() == num_experts) {
      maps.push_back(maps.back());
    } else {
      maps.push_back(ExpertMap::placed(plan.expert_placement, num_experts, plan.redundant_experts, plan.ep));
    }
  }
  return maps;
}

}  // namespace baleen
