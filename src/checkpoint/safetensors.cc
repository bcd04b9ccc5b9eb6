#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/quoted_text.h"
#include "checkpoint/folder_check.h"

namespace baleen {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are read in place; the format is little-endian");

constexpr std::size_t kMaxRank = 8;

/// Product of the shape times the element size, or nothing when it does not fit in 63 bits.
std::optional<std::int64_t> checked_size_bytes(const TensorHeader& tensor) {
  std::int64_t size = dtype_bytes(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(size, extent, &size)) return std::nullopt;
  }
  return size;
}

/// Builds the tensor list while the header is read; a header of 145,116 tensors never becomes a JSON tree.
///
/// depth 0: outside    depth 1: { "<name>": ...    depth 2: { "dtype": ..., "shape": [...], "data_offsets":
/// [b, e] }
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::span<const std::byte> data, std::string_view label) : data_(data), label_(label) {}

  std::vector<TensorInfo> take() { return std::move(tensors_); }

  bool start_object(std::size_t) override {
    if (depth_ == 2 || list_ != nullptr) refuse("an object where a value was expected");
    if (++depth_ == 2 && !metadata_) {
      dtype_seen_ = shape_seen_ = false;
      offsets_.clear();
    }
    return true;
  }

  bool key(std::string& name) override {
    if (depth_ == 1) {
      metadata_ = name == "__metadata__";
      if (name.empty()) refuse("a tensor without a name");
      // Names are shown: in messages, in the log, on terminals.
      if (std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
        refuse("after it comes a name with a control character");
      current_ = TensorInfo{};
      current_.name = std::move(name);
      current_.file = label_;
    } else {
      field_ = std::move(name);
    }
    return true;
  }

  bool string(std::string& text) override {
    if (depth_ == 2 && metadata_) return true;
    if (depth_ != 2 || field_ != "dtype" || list_ != nullptr || dtype_seen_) refuse("a misplaced string");
    const auto dtype = dtype_from_name(text);
    if (!dtype) {
      refuse(fmt::format("dtype {} is none that is known here", quoted_text(text)));
    }
    current_.dtype = *dtype;
    dtype_seen_ = true;
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || metadata_ || list_ != nullptr) refuse("a misplaced list");
    if (field_ == "shape" && !shape_seen_) {
      shape_seen_ = true;
      list_ = &current_.shape;
    } else if (field_ == "data_offsets" && offsets_.empty()) {
      list_ = &offsets_;
    } else {
      refuse(fmt::format("a second or unknown list {}", quoted_text(field_)));
    }
    return true;
  }

  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (list_ == nullptr) refuse("a misplaced number");
    if (value > static_cast<std::uint64_t>(INT64_MAX)) refuse(fmt::format("{} is too large", value));
    if (list_->size() == kMaxRank)
      refuse(fmt::format("more than {} numbers in {}", kMaxRank, quoted_text(field_)));
    list_->push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool end_object() override {
    if (--depth_ == 1 && !std::exchange(metadata_, false)) add_tensor();
    return true;
  }

  bool null() override { refuse("null where a value was expected"); }
  bool boolean(bool) override { refuse("true or false where a value was expected"); }
  bool number_integer(std::int64_t value) override { refuse(fmt::format("{} is negative", value)); }
  bool number_float(double, const std::string& text) override {
    refuse(fmt::format("{} is not a whole number of 63 bits", text.substr(0, 40)));
  }
  bool binary(nlohmann::json::binary_t&) override { refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(
        "{}: the header is not valid JSON at its byte {}; is this a safetensors file, and is the download "
        "complete?",
        label_, position);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail("{}: header, tensor {}: {}; is the file damaged?", label_, quoted_text(current_.name, 200), what);
  }

  void add_tensor() {
    if (!dtype_seen_ || !shape_seen_ || offsets_.size() != 2) {
      refuse("expected \"dtype\", \"shape\" and two \"data_offsets\"");
    }
    const auto size = checked_size_bytes(current_);
    if (!size) refuse(fmt::format("shape [{}] is too large to count", fmt::join(current_.shape, ", ")));
    const auto [begin, end] = std::pair(offsets_[0], offsets_[1]);
    const auto available = static_cast<std::int64_t>(data_.size());
    if (begin > end) refuse(fmt::format("data_offsets [{}, {}] run backwards", begin, end));
    if (end > available) {
      refuse(
          fmt::format("data_offsets [{}, {}], but the file holds {} bytes of data", begin, end, available));
    }
    if (end - begin != *size) {
      refuse(fmt::format("data_offsets [{}, {}] hold {} bytes, {} needs {}", begin, end, end - begin,
                         current_.type_text(), *size));
    }
    current_.bytes = data_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(*size));
    tensors_.push_back(std::move(current_));
  }

  std::span<const std::byte> data_;
  std::string_view label_;
  std::vector<TensorInfo> tensors_;
  TensorInfo current_;
  std::string field_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t>* list_ = nullptr;  ///< where numbers go: the shape, the offsets, or nowhere
  int depth_ = 0;
  bool metadata_ = false;
  bool dtype_seen_ = false;
  bool shape_seen_ = false;
};

/// The bytes of a file belong to exactly one tensor each.
void check_coverage(std::span<const TensorInfo> tensors, std::span<const std::byte> data,
                    std::string_view label) {
  std::vector<const TensorInfo*> by_place(tensors.size());
  std::transform(tensors.begin(), tensors.end(), by_place.begin(),
                 [](const TensorInfo& tensor) { return &tensor; });
  std::sort(by_place.begin(), by_place.end(), [](const TensorInfo* a, const TensorInfo* b) {
    // An empty tensor at the place where another begins comes first, so that it is no overlap.
    return std::pair(a->bytes.data(), a->bytes.size()) < std::pair(b->bytes.data(), b->bytes.size());
  });
  const std::byte* covered = data.data();
  std::string_view before = "the header";
  for (const TensorInfo* tensor : by_place) {
    if (tensor->bytes.data() < covered) {
      fail("{}: tensors {} and {} overlap; is the file damaged?", label, quoted_text(before, 200),
           quoted_text(tensor->name, 200));
    }
    if (tensor->bytes.data() > covered) {
      fail("{}: {} bytes between {} and {} belong to no tensor; is the file damaged?", label,
           tensor->bytes.data() - covered, quoted_text(before, 200), quoted_text(tensor->name, 200));
    }
    covered = tensor->bytes.data() + tensor->bytes.size();
    before = tensor->name;
  }
  const auto left = data.data() + data.size() - covered;
  if (left != 0)
    fail("{}: {} bytes after the last tensor {}; is the file damaged?", label, left,
         quoted_text(before, 200));
}

}  // namespace

std::int64_t TensorHeader::num_elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string TensorHeader::type_text() const {
  return fmt::format("{} [{}]", dtype_name(dtype), fmt::join(shape, ", "));
}

std::vector<TensorInfo> parse_safetensors(std::span<const std::byte> file, std::string_view label) {
  if (const auto pointer = lfs_pointer_sentence(label, file)) fail("{}", *pointer);
  if (file.size() < kHeaderLengthBytes) {
    fail("{}: {} bytes, a safetensors file begins with an 8-byte header length; is the download complete?",
         label, file.size());
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), kHeaderLengthBytes);
  if (header_bytes > kMaxHeaderBytes) {
    fail("{}: a header of {} bytes, at most {} are allowed; is this a safetensors file?", label, header_bytes,
         kMaxHeaderBytes);
  }
  if (header_bytes > file.size() - kHeaderLengthBytes) {
    fail("{}: the header should take {} bytes, the file ends after {}; is the download complete?", label,
         header_bytes, file.size() - kHeaderLengthBytes);
  }
  const char* header = reinterpret_cast<const char*>(file.data() + kHeaderLengthBytes);
  if (header_bytes == 0 || header[0] != '{') {
    fail("{}: the header does not begin with '{{'; is this a safetensors file?", label);
  }
  const auto data = file.subspan(kHeaderLengthBytes + header_bytes);
  HeaderReader reader(data, label);
  if (const auto refused = read_json({header, static_cast<std::size_t>(header_bytes)}, reader)) {
    fail("{}: the header is not valid JSON at its {}; is this a safetensors file?", label, refused->message);
  }
  std::vector<TensorInfo> tensors = reader.take();
  check_coverage(tensors, data, label);
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(tensors.begin(), tensors.end(),
                                       [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twin != tensors.end())
    fail("{}: tensor {} appears twice; is the file damaged?", label, quoted_text(twin->name, 200));
  return tensors;
}

const TensorInfo* find_tensor(std::span<const TensorInfo> sorted, std::string_view name) {
  const auto place =
      std::lower_bound(sorted.begin(), sorted.end(), name,
                       [](const TensorInfo& tensor, std::string_view key) { return tensor.name < key; });
  return place != sorted.end() && place->name == name ? &*place : nullptr;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), label_(path.string()), tensors_(parse_safetensors(file_.bytes(), label_)) {}

const TensorInfo* SafetensorsFile::find(std::string_view name) const { return find_tensor(tensors_, name); }

}  // namespace baleen
