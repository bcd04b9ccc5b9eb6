#include "model_files/table_rows.h"

#include <algorithm>
#include <vector>

#include "numeric/grouped_row.h"

namespace baleen {
namespace {

GroupedRow row_format(std::size_t width) {
  return {.codes = GroupedCodes::kFp8, .width = static_cast<int>(width)};
}

}  // namespace

void reset_table(EncodedMatrix& table, std::int64_t num_rows, std::int64_t width) {
  const GroupedRow format = row_format(static_cast<std::size_t>(width));
  table.rows = num_rows;
  table.cols = width;
  table.format = WeightFormat::kFp8;
  table.weight.resize(static_cast<std::size_t>(num_rows * format.code_bytes()));
  table.scale.resize(static_cast<std::size_t>(num_rows * format.num_scales()));
  table.matrix_scale.clear();
}

void encode_table_row(EncodedMatrix& table, std::int64_t row, std::span<const float> values) {
  const GroupedRow format = row_format(values.size());
  std::vector<std::byte> stored(static_cast<std::size_t>(format.row_bytes()));
  encode_grouped_row(format, values, stored);
  const auto scales = stored.begin() + format.code_bytes();
  std::copy(stored.begin(), scales, table.weight.begin() + row * format.code_bytes());
  std::copy(scales, stored.end(), table.scale.begin() + row * format.num_scales());
}

void decode_table_row(std::span<const std::byte> codes, std::span<const std::byte> scales, std::int64_t row,
                      std::span<float> values) {
  const GroupedRow format = row_format(values.size());
  std::vector<std::byte> stored;
  const auto append = [&stored, row](std::span<const std::byte> all, std::int64_t size) {
    const auto bytes = all.subspan(static_cast<std::size_t>(row * size), static_cast<std::size_t>(size));
    stored.insert(stored.end(), bytes.begin(), bytes.end());
  };
  append(codes, format.code_bytes());
  append(scales, format.num_scales());
  decode_grouped_row(format, stored, values);
}

}  // namespace baleen
