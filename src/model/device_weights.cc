#include "model/device_weights.h"

#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/progress.h"
#include "numeric/bf16.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

/// Calls visit(address, bytes) for every array of a tree, where `address` is a reference to the array's
/// pointer.
template <class Visit>
class ArrayWalk {
 public:
  explicit ArrayWalk(Visit visit) : visit_(visit) {}

  void tree(WeightTree& t) {
    view(t.embedding);
    matrix(t.head);
    vector(t.norm);
    hyper_connection(t.hc_head);
    for (BlockWeights& block : t.blocks) {
      hyper_connection(block.hc_attn);
      hyper_connection(block.hc_ffn);
      vector(block.attn_norm);
      vector(block.ffn_norm);
      attention(block.attention);
      moe(block.moe);
    }
    for (MtpWeights& mtp : t.mtp) {
      matrix(mtp.e_proj);
      matrix(mtp.h_proj);
      vector(mtp.enorm);
      vector(mtp.hnorm);
      vector(mtp.norm);
      hyper_connection(mtp.hc_head);
    }
  }

 private:
  template <class T>
  void array(const T*& data, std::int64_t count) {
    if (data == nullptr || count == 0) return;
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    visit_(bytes, count * static_cast<std::int64_t>(sizeof(T)));
    data = reinterpret_cast<const T*>(bytes);
  }
  template <class T>
  void vector(std::span<const T>& values) {
    const T* data = values.data();
    array(data, static_cast<std::int64_t>(values.size()));
    values = {data, values.size()};
  }
  template <class T>
  void view(View<const T, 2>& values) {
    const T* data = values.data();
    array(data, values.size());
    values = {data, values.extents()};
  }
  static std::int64_t num_blocks(std::int64_t count) { return (count + kWeightBlock - 1) / kWeightBlock; }
  void scales(WeightMatrix& m) {
    if (m.format == WeightFormat::kFp8) array(m.block_scales, num_blocks(m.rows) * num_blocks(m.cols));
    if (m.format == WeightFormat::kFp4) array(m.group_scales, m.rows * (m.cols / kIndexerBlock));
  }
  void matrix(WeightMatrix& m) {
    array(m.data, m.rows * m.row_bytes());
    scales(m);
  }
  void hyper_connection(HcWeights& hc) {
    view(hc.fn);
    vector(hc.base);
    vector(hc.scale);
  }
  void compressor(CompressorWeights& c) {
    view(c.ape);
    matrix(c.wkv);
    matrix(c.wgate);
    vector(c.norm);
  }
  void attention(AttentionWeights& a) {
    vector(a.sink);
    for (WeightMatrix* m :
         {&a.wq_a, &a.wq_b, &a.wkv, &a.wo_a, &a.wo_b, &a.indexer.wq_b, &a.indexer.weights_proj}) {
      matrix(*m);
    }
    vector(a.q_norm);
    vector(a.kv_norm);
    compressor(a.compressor);
    compressor(a.indexer.compressor);
  }
  void moe(MoeWeights& w) {
    matrix(w.gate);
    vector(w.bias);
    view(w.hash_table);
    vector(w.map_table);
    for (WeightMatrix ExpertWeights::*part : {&ExpertWeights::w1, &ExpertWeights::w3, &ExpertWeights::w2}) {
      for (ExpertWeights& expert : w.routed)
        array((expert.*part).data, (expert.*part).rows * (expert.*part).row_bytes());
      for (ExpertWeights& expert : w.routed) scales(expert.*part);
      if (w.has_shared) matrix(w.shared.*part);
    }
  }

  Visit visit_;
};

template <class Visit>
void walk(WeightTree& tree, Visit visit) {
  ArrayWalk<Visit>(visit).tree(tree);
}

/// Of one stored tensor: see `ModelWeights`, which converts vectors and FP8 scales to float32 and tables to
/// int32.
std::int64_t stored_on_device(const TensorHeader& stored, const TensorSpec& spec,
                              const StorageFormats& formats) {
  const bool block_scale = std::string_view(stored.name).ends_with(".scale") && spec.is_matrix() &&
                           formats.of(spec.storage) == WeightFormat::kFp8;
  const bool vector = stored.shape.size() < 2 || std::string_view(stored.name).ends_with("ape");
  const std::int64_t element =
      block_scale || vector || stored.dtype == DType::kI64 ? 4 : dtype_bytes(stored.dtype);
  return Arena::bytes_for<std::byte>(stored.num_elements() * element);
}

WeightTree without_experts(WeightTree tree) {
  for (BlockWeights& block : tree.blocks) block.moe.routed.clear();
  return tree;
}

/// Of the one FP8 matrix whose inputs are not quantised.
void check_bf16_scales(const WeightTree& tree) {
  constexpr float kMaxScale = 0x1p8F;
  for (std::size_t block = 0; block < tree.blocks.size(); ++block) {
    const WeightMatrix& m = tree.blocks[block].attention.wo_a;
    if (m.format != WeightFormat::kFp8) continue;
    const std::int64_t blocks_per_row = (m.cols + kWeightBlock - 1) / kWeightBlock;
    const std::int64_t count = (m.rows + kWeightBlock - 1) / kWeightBlock * blocks_per_row;
    for (std::int64_t i = 0; i < count; ++i) {
      const float scale = m.block_scales[i];
      if (scale < kMaxScale && round_bf16(scale) == scale) continue;
      fail(
          "block {}: scale {} of wo_a is {}, where GPUs need a power of two, or another BF16 number below "
          "{}; "
          "--device cpu takes any",
          block, i, scale, kMaxScale);
    }
  }
}

}  // namespace

std::int64_t device_weight_bytes(const WeightTree& tree) {
  WeightTree copy = tree;
  std::int64_t bytes = 0;
  walk(copy,
       [&](const std::byte*& /*data*/, std::int64_t size) { bytes += Arena::bytes_for<std::byte>(size); });
  return bytes;
}

std::int64_t device_weight_bytes(const ModelConfig& config, const StorageFormats& formats,
                                 const RankShare& share) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : rank_table(config, share)) {
    const std::int64_t count =
        spec.role == TensorRole::kRoutedExpert ? share.num_experts(config.n_routed_experts) : 1;
    for (const TensorHeader& stored : stored_tensors(spec, formats))
      bytes += count * stored_on_device(stored, spec, formats);
  }
  return bytes;
}

std::int64_t device_bytes_beside_experts(const ModelConfig& config, const StorageFormats& formats) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : tensor_table(config)) {
    if (spec.role == TensorRole::kRoutedExpert) continue;
    for (const TensorHeader& stored : stored_tensors(spec, formats))
      bytes += stored_on_device(stored, spec, formats);
  }
  return bytes;
}

std::int64_t device_bytes_beside_experts(const WeightTree& tree) {
  return device_weight_bytes(without_experts(tree));
}

DeviceWeights::DeviceWeights(const WeightTree& host, Memory& memory)
    : tree_(host), arena_(device_weight_bytes(host), memory) {
  copy(memory);
}

DeviceWeights::DeviceWeights(const WeightTree& host, Memory& memory, const ExpertCounts& counts,
                             Memory& host_memory, BackgroundCopies* copies)
    : tree_(without_experts(host)), arena_(device_weight_bytes(tree_), memory) {
  copy(memory);
  experts_ = std::make_unique<ExpertStore>(host.blocks, counts, memory, host_memory, copies);
  experts_->bind(tree_);
}

void DeviceWeights::copy(Memory& memory) {
  check_bf16_scales(tree_);
  constexpr std::int64_t kMegabyte = 1'000'000;
  Progress progress("loading weights", "MB", arena_.size_bytes() / kMegabyte);
  walk(tree_, [&](const std::byte*& data, std::int64_t size) {
    auto* copy = arena_.allocate<std::byte>(size);
    memory.upload(copy, {data, static_cast<std::size_t>(size)});
    data = copy;
    progress.update(arena_.mark() / kMegabyte);
  });
  BALEEN_CHECK_EQ(arena_.peak_bytes(), arena_.size_bytes());
}

}  // namespace baleen
