// A memory plan for people.

#include <fmt/format.h>

#include <string_view>

#include "base/size_text.h"
#include "engine/memory_plan.h"

namespace baleen {
namespace {

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

std::string line(std::string_view name, std::int64_t bytes, std::string_view note = "") {
  return fmt::format("{:<13}{:10.1f} MB{}\n", name, megabytes(bytes), note);
}

std::string line_if_any(std::string_view name, std::int64_t bytes, std::string_view note = "") {
  return bytes == 0 ? "" : line(name, bytes, note);
}

/// Lines about experts outside the GPU's memory.
std::string experts_text(const MemoryPlan& plan) {
  const ExpertCounts& experts = plan.experts;
  if (experts.num_away() == 0) return "";
  const auto percent = [&](std::int64_t count) {
    return 100.0 * static_cast<double>(count) / static_cast<double>(experts.num_in_all());
  };
  std::string text = line("on the host", plan.host_expert_bytes,
                          fmt::format(" pinned: {} of {} routed experts ({:.1f}%), fetched over PCIe or "
                                      "computed there; {} slots of a layer keep what came last, buffers "
                                      "cache {} between prompts",
                                      experts.num_on_host, experts.num_in_all(), percent(experts.num_on_host),
                                      experts.num_slots, experts.most_cached(1)));
  if (experts.num_on_disk > 0) {
    text += line("on disk", plan.disk_expert_bytes,
                 fmt::format(": {} routed experts ({:.1f}%), read when they are needed", experts.num_on_disk,
                             percent(experts.num_on_disk)));
  }
  return text;
}

std::string embedding_text(const MemoryPlan& plan) {
  return line_if_any("on the host", plan.host_embedding_bytes,
                     " pinned: the embedding, of which a row is read for each token");
}

std::string engram_text(const MemoryPlan& plan) {
  if (!plan.engram_place) return "";
  const EngramPlace place = *plan.engram_place;
  return line(
      "n-grams", plan.engram_bytes,
      fmt::format("  (tables of {} {}{})", size_text(plan.engram_table_bytes),
                  place == EngramPlace::kDisk ? "on disk, of which the rows of a step are read before it"
                                              : fmt::format("in {}", engram_place_name(place)),
                  place == EngramPlace::kHost ? ", pinned" : ""));
}

std::string cache_text(const MemoryPlan& plan) {
  const std::string cached = plan.cached_window_pages > 0
                                 ? fmt::format(" of which {} for cached prefixes", plan.cached_window_pages)
                                 : "";
  return line(
      "cache", plan.cache_bytes(),
      fmt::format("  ({} pages of {} positions {:.1f}, {} window pages {:.1f}{}, {} state slots {:.1f})",
                  plan.capacity.num_pages, kPageTokens, megabytes(plan.page_bytes),
                  plan.capacity.num_window_pages, megabytes(plan.window_bytes), cached,
                  plan.capacity.num_state_slots, megabytes(plan.state_bytes)));
}

}  // namespace

std::string to_text(const MemoryPlan& plan) {
  const std::string why_not_scratch =
      plan.why_not_scratch.empty() ? "" : fmt::format("  (not known: {})", plan.why_not_scratch);
  return line_if_any("weights", plan.weight_bytes) + line_if_any("int8 copies", plan.int8_copy_bytes) +
         embedding_text(plan) + experts_text(plan) + cache_text(plan) +
         line("activations", plan.activation_bytes) + line("scratch", plan.scratch_bytes, why_not_scratch) +
         line("logits", plan.logit_bytes) + line_if_any("messages", plan.message_bytes) + engram_text(plan) +
         line_if_any("CUDA", plan.overhead_bytes, "  (context, kernels, captured graphs)") +
         line("in all", plan.total_bytes(),
              plan.weight_bytes == 0 ? ", reserved at start and resident as it is used"
                                     : ", reserved at start");
}

}  // namespace baleen
