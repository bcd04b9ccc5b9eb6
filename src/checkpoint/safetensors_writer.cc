#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace baleen {
namespace {

std::int64_t natural_alignment(const TensorHeader& tensor) {
  const std::int64_t size = tensor.size_bytes();
  return std::min(kTensorAlignment, size == 0 ? kTensorAlignment : size & -size);
}

std::string header_text(std::span<const TensorHeader> tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::int64_t offset = 0;
  for (const TensorHeader& tensor : tensors) {
    const std::int64_t end = offset + tensor.size_bytes();
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        nlohmann::json(tensor.name).dump(), dtype_name(tensor.dtype),
                        fmt::join(tensor.shape, ","), offset, end);
    offset = end;
  }
  text += '}';
  const auto alignment = static_cast<std::size_t>(kTensorAlignment);
  text.resize((text.size() + kHeaderLengthBytes + alignment - 1) / alignment * alignment - kHeaderLengthBytes,
              ' ');
  return text;
}

}  // namespace

std::vector<TensorHeader> storage_order(std::vector<TensorHeader> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorHeader& a, const TensorHeader& b) {
    return natural_alignment(a) > natural_alignment(b);
  });
  return tensors;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorHeader> tensors)
    : order_(storage_order(std::move(tensors))), file_(path) {
  const std::string header = header_text(order_);
  BALEEN_CHECK_LE(static_cast<std::int64_t>(header.size()), kMaxHeaderBytes);
  const std::uint64_t length = header.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(header);
  skip_complete();
}

void SafetensorsWriter::append(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  BALEEN_CHECK_LT(next_, order_.size());
  BALEEN_CHECK_EQ(std::string_view(order_[next_].name), name);
  appended_bytes_ += static_cast<std::int64_t>(bytes.size());
  BALEEN_CHECK_LE(appended_bytes_, order_[next_].size_bytes());
  file_.write(bytes);
  skip_complete();
}

void SafetensorsWriter::skip_complete() {
  while (next_ < order_.size() && appended_bytes_ == order_[next_].size_bytes()) {
    ++next_;
    appended_bytes_ = 0;
  }
}

void SafetensorsWriter::commit() {
  BALEEN_CHECK(complete());
  file_.commit();
}

}  // namespace baleen
