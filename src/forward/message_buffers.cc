#include "forward/message_buffers.h"

#include <algorithm>

#include "numeric/block_scale.h"
#include "tensor/unbacked_memory.h"

namespace baleen {

template <class T>
T* MessageBuffers::allocate(std::int64_t count) {
  return reinterpret_cast<T*>(
      buffers_->emplace_back(count * static_cast<std::int64_t>(sizeof(T)), *memory_).data());
}

Activations<2> MessageBuffers::take(std::int64_t num_rows, std::int64_t width, ElementType type) {
  return {allocate<std::byte>(num_rows * width * size_of(type)), type, {num_rows, width}};
}

MessageBuffers::MessageBuffers(const ModelConfig& config, const RankLayout& layout, std::int64_t max_rows,
                               ElementType type, Memory& memory)
    : type_(type), memory_(&memory) {
  if (layout.stage_ranks().size() == 1) return;
  place_output(config, layout, max_rows);
  if (layout.expert_transport().way) place_experts(config, layout, max_rows);
  const std::int64_t parts = layout.vocabulary().size();
  if (layout.stage().last && parts > 1)
    logits = take(max_rows, (config.vocab_size + parts - 1) / parts, ElementType::kF32);
}

MessageBuffers MessageBuffers::from_row(std::int64_t first, std::int64_t first_arrived) const {
  const auto rest_of = [](Activations<2>& view, std::int64_t num_gone) {
    if (!view.empty()) view = view.slice(num_gone, view.extent(0));
  };
  MessageBuffers rest = *this;
  rest_of(rest.arrived, first_arrived);
  rest_of(rest.arrived_weights, first_arrived);
  rest_of(rest.outputs, first_arrived);
  rest_of(rest.shared, first);
  const std::int64_t chosen = arrived_ids.extent(1);
  rest.arrived_ids = {arrived_ids.data() + first_arrived * chosen,
                      {arrived_ids.extent(0) - first_arrived, chosen}};
  if (arrived_fp8) {
    rest.arrived_fp8.codes += first_arrived * arrived.extent(1);
    rest.arrived_fp8.scales += first_arrived;
  }
  return rest;
}

void MessageBuffers::place_output(const ModelConfig& config, const RankLayout& layout,
                                  std::int64_t max_rows) {
  const std::int64_t num_rows = max_rows * layout.output_row_groups();
  // A rank of the config's heads has all of its group's, gathered, or a part of its own, exchanged for rows.
  const std::int64_t gathered = layout.output_heads().size(), exchanged = layout.output_row_groups();
  if (gathered > 1 || exchanged > 1) {
    heads = take(num_rows, config.q_dim() * gathered / exchanged, type_);
    const std::int64_t groups = layout.output_groups();
    grouped = take(num_rows, groups * config.o_lora_rank, type_);
  }
  const bool adds_experts = layout.expert_transport().adds_sums;
  if (layout.output_sums().size() == 1 && !adds_experts) return;
  const std::int64_t arriving =
      adds_experts ? layout.most_arriving_rows(max_rows, config.num_experts_per_tok) : 0;
  sums = take(std::max(num_rows, arriving), config.hidden_size, ElementType::kF32);
}

void MessageBuffers::place_experts(const ModelConfig& config, const RankLayout& layout,
                                   std::int64_t max_rows) {
  const ExpertTransportTraits& transport = layout.expert_transport();
  const std::int64_t most = layout.most_arriving_rows(max_rows, config.num_experts_per_tok);
  const std::int64_t width = config.hidden_size;
  const std::int64_t chosen = *transport.way == DispatchWay::kGatheredTokens ? config.num_experts_per_tok : 1;
  arrived = take(most, width, type_);
  if (type_ == ElementType::kBf16 && sends_fp8_rows(*transport.way)) {
    constexpr std::int64_t kScaleRows = 4;  // scale strides are multiples of it
    arrived_fp8.codes = allocate<std::uint8_t>(most * width);
    arrived_fp8.scale_stride = (most + kScaleRows - 1) / kScaleRows * kScaleRows;
    arrived_fp8.scales = allocate<float>(width / kActivationBlock * arrived_fp8.scale_stride);
  }
  arrived_ids = {allocate<std::int32_t>(most * chosen), {most, chosen}};
  arrived_weights = take(most, chosen, ElementType::kF32);
  if (transport.adds_sums) return;
  outputs = take(most, width, layout.plan().moe_tp > 1 ? ElementType::kF32 : type_);
  shared = take(max_rows, width, type_);
}

std::int64_t MessageBuffers::num_bytes() const {
  std::int64_t sum = 0;
  for (const Buffer& buffer : *buffers_) sum += buffer.size_bytes();
  return sum;
}

std::int64_t message_buffer_bytes(const ModelConfig& config, const RankLayout& layout, std::int64_t max_rows,
                                  ElementType type) {
  UnbackedMemory memory;
  return MessageBuffers(config, layout, max_rows, type, memory).num_bytes();
}

}  // namespace baleen
