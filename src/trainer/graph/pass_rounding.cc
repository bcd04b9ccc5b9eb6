#include "trainer/graph/pass_rounding.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>
#include <vector>

#include "numeric/block_scale.h"
#include "numeric/grouped_row.h"
#include "numeric/row_rounding.h"
#include "ops/linear/linear.h"

namespace baleen::graph {
namespace {

/// body(row) for each row of x as float32.
template <class T, class Body>
void for_each_row(std::int64_t rows, std::int64_t width, T* x, const Body& body) {
  if constexpr (std::is_same_v<T, float>) {
    for (std::int64_t row = 0; row < rows; ++row)
      body(std::span<float>(x + row * width, static_cast<std::size_t>(width)));
  } else {
    std::vector<float> values(static_cast<std::size_t>(width));
    for (T* at = x; at != x + rows * width; at += width) {
      std::transform(at, at + width, values.begin(), [](T value) { return static_cast<float>(value); });
      body(std::span<float>(values));
      std::copy(values.begin(), values.end(), at);
    }
  }
}

}  // namespace

template <class T>
bool PassRounding<T>::rounds_inputs(WeightFormat format) const {
  return active_ &&
         fp8_group(activation_rounding(format, config_.activation_group(), Precision::kReleased)) > 0;
}

template <class T>
void PassRounding<T>::result(std::int64_t rows, std::int64_t width, T* x) const {
  if (active_) for_each_row(rows, width, x, row_rounding::to_bf16);
}

template <class T>
void PassRounding<T>::input(WeightFormat format, std::int64_t rows, std::int64_t width, T* x) const {
  if (!rounds_inputs(format)) return;
  const int group = config_.activation_group();
  for_each_row(rows, width, x, [group](std::span<float> row) { row_rounding::to_fp8(row, group); });
}

template <class T>
void PassRounding<T>::latent(const std::optional<GroupedRow>& grouped, std::int64_t rows, T* x) const {
  if (!active_) return;
  if (grouped) {
    std::vector<std::byte> stored(static_cast<std::size_t>(grouped->row_bytes()));
    return for_each_row(rows, config_.head_dim, x, [&](std::span<float> row) {
      encode_grouped_row(*grouped, row, stored);
      decode_grouped_row(*grouped, stored, row);
    });
  }
  const auto nope = static_cast<std::size_t>(config_.nope_dim());
  for_each_row(rows, config_.head_dim, x, [nope](std::span<float> row) {
    row_rounding::to_fp8(row.first(nope), kLatentGroup);
    row_rounding::to_bf16(row.subspan(nope));
  });
}

template <class T>
void PassRounding<T>::index_vectors(EntryForm form, std::int64_t rows, T* x) const {
  if (!active_) return;
  for_each_row(rows, config_.index_head_dim, x, [form](std::span<float> row) {
    if (form == EntryForm::kPooled) {
      row_rounding::hadamard(row);
      row_rounding::to_bf16(row);
    }
    row_rounding::to_fp4(row, kIndexerGroup);
  });
}

template <class T>
void PassRounding<T>::index_vectors_backward(EntryForm form, std::int64_t rows, T* dx) const {
  if (!active_ || form != EntryForm::kPooled) return;
  for_each_row(rows, config_.index_head_dim, dx, [](std::span<float> row) { row_rounding::hadamard(row); });
}

template <class T>
void PassRounding<T>::index_weights(std::int64_t rows, T* x) const {
  if (!active_) return;
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.index_head_dim) *
                                                         static_cast<double>(config_.index_n_heads)));
  for_each_row(rows, config_.index_n_heads, x, [factor](std::span<float> row) {
    row_rounding::to_bf16(row);
    for (float& value : row) value *= factor;
    row_rounding::to_bf16(row);
    for (float& value : row) value /= factor;
  });
}

template class PassRounding<float>;
template class PassRounding<double>;

}  // namespace baleen::graph
