#include "checkpoint/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read in place");

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::int64_t kDefaultAlignment = 32;
constexpr std::size_t kMaxRank = 4, kMaxNameBytes = 512;
/// Bytes that an entry takes at least: a key with one byte of value; a tensor without a name or axes.
constexpr std::uint64_t kLeastKeyBytes = 8 + 4 + 1, kLeastTensorBytes = 8 + 4 + 4 + 8;

/// Bytes of a value that is neither text nor array; 0 for those and for what is no type.
std::size_t value_bytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kU8:
    case GgufValueType::kI8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kU16:
    case GgufValueType::kI16:
      return 2;
    case GgufValueType::kU32:
    case GgufValueType::kI32:
    case GgufValueType::kF32:
      return 4;
    case GgufValueType::kU64:
    case GgufValueType::kI64:
    case GgufValueType::kF64:
      return 8;
    default:
      return 0;
  }
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

/// Of a whole number's type. Nothing for one beyond 63 bits.
std::optional<std::int64_t> whole_at(GgufValueType type, const std::byte* from) {
  switch (type) {
    case GgufValueType::kU8:
      return load<std::uint8_t>(from);
    case GgufValueType::kI8:
      return load<std::int8_t>(from);
    case GgufValueType::kU16:
      return load<std::uint16_t>(from);
    case GgufValueType::kI16:
      return load<std::int16_t>(from);
    case GgufValueType::kU32:
      return load<std::uint32_t>(from);
    case GgufValueType::kI32:
      return load<std::int32_t>(from);
    case GgufValueType::kU64: {
      const auto value = load<std::uint64_t>(from);
      return value > std::uint64_t{INT64_MAX} ? std::nullopt
                                              : std::optional(static_cast<std::int64_t>(value));
    }
    default:
      return load<std::int64_t>(from);
  }
}

bool is_whole(GgufValueType type) {
  return value_bytes(type) > 0 && type != GgufValueType::kF32 && type != GgufValueType::kF64 &&
         type != GgufValueType::kBool;
}

double real_at(GgufValueType type, const std::byte* from) {
  return type == GgufValueType::kF32 ? static_cast<double>(load<float>(from)) : load<double>(from);
}

/// Takes what follows, piece by piece, and never passes the end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, std::string_view label) : file_(file), label_(label) {}

  [[nodiscard]] std::size_t place() const { return place_; }
  [[nodiscard]] std::size_t left() const { return file_.size() - place_; }

  std::span<const std::byte> take(std::uint64_t size, std::string_view what) {
    if (size > left()) {
      fail("{}: {} should take {} bytes from byte {} on, the file ends after {}; is the download complete?",
           label_, what, size, place_, left());
    }
    const auto bytes = file_.subspan(place_, static_cast<std::size_t>(size));
    place_ += bytes.size();
    return bytes;
  }
  template <class T>
  T number(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }
  std::string_view text(std::string_view what) {
    const auto size = number<std::uint64_t>(what);
    const auto bytes = take(size, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// A name, which is shown in messages, logs and on terminals.
  std::string_view name(std::string_view what) {
    const std::string_view found = text(what);
    if (found.empty() || found.size() > kMaxNameBytes ||
        std::ranges::any_of(found, [](unsigned char c) { return c < 0x20 || c == 0x7F; })) {
      fail("{}: {} {}: expected 1 to {} bytes without control characters; is the file damaged?", label_, what,
           quoted_text(found, 100), kMaxNameBytes);
    }
    return found;
  }

 private:
  std::span<const std::byte> file_;
  std::string_view label_;
  std::size_t place_ = 0;
};

class Reader {
 public:
  Reader(std::span<const std::byte> file, std::string_view label)
      : file_(file), label_(label), cursor_(file, label) {}

  GgufContents read() {
    read_beginning();
    std::map<std::string, GgufValue, std::less<>> values;
    for (std::uint64_t i = 0; i < num_keys_; ++i) {
      const std::string_view key = cursor_.name("a key");
      if (!values.emplace(key, value(key)).second)
        fail("{}: key {} is there twice; is the file damaged?", label_, quoted_text(key, 200));
    }
    GgufContents contents{.keys = GgufKeys(label_, std::move(values)), .tensors = {}};
    read_tensors(contents);
    return contents;
  }

 private:
  void read_beginning() {
    if (!has_gguf_magic(file_))
      fail("{}: does not begin with {}; is this a GGUF file?", label_, quoted_text(kMagic));
    cursor_.take(kMagic.size(), "the magic");
    const auto version = cursor_.number<std::uint32_t>("the version");
    if (version == 0x0200'0000 || version == 0x0300'0000)
      fail("{}: a GGUF file of a big-endian machine; take the one for little-endian ones", label_);
    if (version != 2 && version != 3)
      fail("{}: GGUF version {}, versions 2 and 3 are read; take a newer file", label_, version);
    const auto count = [&](const char* what, std::uint64_t least_bytes) {
      const auto number = cursor_.number<std::uint64_t>("a count");
      if (number > cursor_.left() / least_bytes) {
        fail("{}: {} {} cannot be in {} bytes; is the download complete?", label_, number, what,
             cursor_.left());
      }
      return number;
    };
    num_tensors_ = count("tensors", kLeastTensorBytes);
    num_keys_ = count("keys", kLeastKeyBytes);
  }

  GgufValue value(std::string_view key) {
    const std::string what = fmt::format("key {}", quoted_text(key, 200));
    const auto type = static_cast<GgufValueType>(cursor_.number<std::uint32_t>(what));
    if (type == GgufValueType::kString) return cursor_.text(what);
    if (type == GgufValueType::kArray) return array(what);
    const std::size_t size = value_bytes(type);
    if (size == 0) refuse_value_type(what, type);
    const std::byte* const from = cursor_.take(size, what).data();
    if (type == GgufValueType::kBool) return load<std::uint8_t>(from) != 0;
    if (!is_whole(type)) return real_at(type, from);
    const auto whole = whole_at(type, from);
    if (!whole) fail("{}: {}: a number beyond 63 bits; is the file damaged?", label_, what);
    return *whole;
  }

  GgufArray array(const std::string& what) {
    GgufArray found;
    found.type = static_cast<GgufValueType>(cursor_.number<std::uint32_t>(what));
    const auto count = cursor_.number<std::uint64_t>(what);
    if (found.type == GgufValueType::kArray)
      fail("{}: {}: an array of arrays, expected one of plain values", label_, what);
    const bool is_text = found.type == GgufValueType::kString;
    const std::size_t least = is_text ? sizeof(std::uint64_t) : value_bytes(found.type);
    if (least == 0) refuse_value_type(what, found.type);
    if (count > cursor_.left() / least) {
      fail("{}: {}: {} values cannot be in {} bytes; is the download complete?", label_, what, count,
           cursor_.left());
    }
    found.count = static_cast<std::int64_t>(count);
    const std::size_t begin = cursor_.place();
    if (is_text) {
      for (std::uint64_t i = 0; i < count; ++i) cursor_.text(what);
    } else {
      cursor_.take(count * least, what);
    }
    found.bytes = file_.subspan(begin, cursor_.place() - begin);
    return found;
  }

  [[noreturn]] void refuse_value_type(const std::string& what, GgufValueType type) const {
    fail("{}: {}: type {} of a value is none that is known here; is the file damaged?", label_, what,
         static_cast<std::uint32_t>(type));
  }

  void read_tensors(GgufContents& contents) {
    std::vector<std::uint64_t> offsets;
    offsets.reserve(num_tensors_);
    contents.tensors.reserve(num_tensors_);
    for (std::uint64_t i = 0; i < num_tensors_; ++i) {
      contents.tensors.push_back(tensor_header());
      offsets.push_back(cursor_.number<std::uint64_t>("a tensor's place"));
    }
    const std::int64_t alignment = contents.keys.whole(kAlignmentKey).value_or(kDefaultAlignment);
    constexpr std::int64_t kMaxAlignment = 1 << 20;
    if (alignment < 1 || alignment > kMaxAlignment ||
        !std::has_single_bit(static_cast<std::uint64_t>(alignment)))
      fail("{}: key {} is {}, expected a power of two; is the file damaged?", label_,
           quoted_text(kAlignmentKey), alignment);
    const auto unit = static_cast<std::size_t>(alignment);
    const std::size_t begin = std::min(file_.size(), (cursor_.place() + unit - 1) / unit * unit);
    for (std::size_t i = 0; i < offsets.size(); ++i)
      place(contents.tensors[i], file_.subspan(begin), offsets[i], unit);
    check_overlaps(contents.tensors);
    std::ranges::sort(contents.tensors, {}, &GgufTensor::name);
    const auto twin = std::ranges::adjacent_find(contents.tensors, {}, &GgufTensor::name);
    if (twin != contents.tensors.end())
      fail("{}: tensor {} is there twice; is the file damaged?", label_, quoted_text(twin->name, 200));
  }

  /// All but its bytes.
  GgufTensor tensor_header() {
    GgufTensor tensor;
    tensor.name = cursor_.name("a tensor's name");
    tensor.file = label_;
    const std::string what = fmt::format("tensor {}", quoted_text(tensor.name, 200));
    const auto rank = cursor_.number<std::uint32_t>(what);
    if (rank > kMaxRank)
      fail("{}: {}: {} axes, at most {} are allowed; is the file damaged?", label_, what, rank, kMaxRank);
    for (std::uint32_t axis = 0; axis < rank; ++axis) {
      const auto extent = cursor_.number<std::uint64_t>(what);
      if (extent > std::uint64_t{INT64_MAX})
        fail("{}: {}: an extent of {}; is the file damaged?", label_, what, extent);
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(extent));
    }
    const auto id = cursor_.number<std::uint32_t>(what);
    const GgmlTypeTraits* const traits = find_ggml_type(id);
    if (traits == nullptr) {
      fail("{}: {}: its type has {}, which is not read here; take a file of another quantisation", label_,
           what, ggml_type_refusal(id));
    }
    tensor.type = traits->type;
    return tensor;
  }

  void place(GgufTensor& tensor, std::span<const std::byte> data, std::uint64_t offset,
             std::size_t alignment) const {
    const GgmlTypeTraits& traits = ggml_type_traits(tensor.type);
    const auto refuse = [&](const std::string& what) {
      fail("{}: tensor {}: {}; is the file damaged?", label_, quoted_text(tensor.name, 200), what);
    };
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.shape)
      if (__builtin_mul_overflow(elements, extent, &elements)) refuse("a shape too large to count");
    const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % traits.block_elements != 0) {
      refuse(fmt::format("rows of {}, which {} divides into blocks of {}", row, traits.name,
                         traits.block_elements));
    }
    std::int64_t size = 0;
    if (__builtin_mul_overflow(elements / traits.block_elements, traits.block_bytes, &size))
      refuse("a shape too large to count");
    if (offset % alignment != 0)
      refuse(fmt::format("begins at byte {} of the data, expected a multiple of {}", offset, alignment));
    if (offset > data.size() || static_cast<std::uint64_t>(size) > data.size() - offset) {
      fail(
          "{}: tensor {}: should take {} bytes from byte {} of the data on, the file has {}; is the download "
          "complete?",
          label_, quoted_text(tensor.name, 200), size, offset, data.size());
    }
    tensor.bytes = data.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
  }

  void check_overlaps(const std::vector<GgufTensor>& tensors) const {
    std::vector<const GgufTensor*> by_place;
    for (const GgufTensor& tensor : tensors)
      if (!tensor.bytes.empty()) by_place.push_back(&tensor);
    std::ranges::sort(by_place, {}, [](const GgufTensor* tensor) { return tensor->bytes.data(); });
    for (std::size_t i = 1; i < by_place.size(); ++i) {
      const GgufTensor &before = *by_place[i - 1], &after = *by_place[i];
      if (before.bytes.data() + before.bytes.size() > after.bytes.data()) {
        fail("{}: tensors {} and {} overlap; is the file damaged?", label_, quoted_text(before.name, 200),
             quoted_text(after.name, 200));
      }
    }
  }

  std::span<const std::byte> file_;
  std::string_view label_;
  Cursor cursor_;
  std::uint64_t num_tensors_ = 0, num_keys_ = 0;
};

}  // namespace

std::int64_t GgufTensor::num_elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string GgufTensor::type_text() const {
  return fmt::format("{} [{}]", ggml_type_traits(type).name, fmt::join(shape, ", "));
}

const GgufValue* GgufKeys::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void GgufKeys::refuse(std::string_view key, std::string_view expected) const {
  fail("{}: key {}: expected {}; is this the file of a DeepSeek-V4 model?", label_, quoted_text(key),
       expected);
}

template <class T>
std::optional<T> GgufKeys::get(std::string_view key, std::string_view expected) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const T* const found = std::get_if<T>(value);
  if (found == nullptr) refuse(key, expected);
  return *found;
}

std::optional<std::string_view> GgufKeys::text(std::string_view key) const {
  return get<std::string_view>(key, "a text");
}

std::optional<std::int64_t> GgufKeys::whole(std::string_view key) const {
  return get<std::int64_t>(key, "a whole number");
}

std::optional<bool> GgufKeys::flag(std::string_view key) const { return get<bool>(key, "true or false"); }

std::optional<double> GgufKeys::real(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value != nullptr && std::holds_alternative<std::int64_t>(*value))
    return static_cast<double>(std::get<std::int64_t>(*value));
  return get<double>(key, "a number");
}

const GgufArray* GgufKeys::array(std::string_view key, std::string_view expected) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return nullptr;
  const auto* const found = std::get_if<GgufArray>(value);
  if (found == nullptr) refuse(key, expected);
  return found;
}

std::optional<std::vector<std::int64_t>> GgufKeys::wholes(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of whole numbers";
  const GgufArray* const found = array(key, kExpected);
  if (found == nullptr) return std::nullopt;
  if (!is_whole(found->type)) refuse(key, kExpected);
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(found->count));
  const std::size_t size = value_bytes(found->type);
  for (std::size_t at = 0; at < found->bytes.size(); at += size) {
    const auto value = whole_at(found->type, found->bytes.data() + at);
    if (!value) refuse(key, kExpected);
    values.push_back(*value);
  }
  return values;
}

std::optional<std::vector<double>> GgufKeys::reals(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of numbers";
  const GgufArray* const found = array(key, kExpected);
  if (found == nullptr) return std::nullopt;
  if (found->type != GgufValueType::kF32 && found->type != GgufValueType::kF64) refuse(key, kExpected);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(found->count));
  const std::size_t size = value_bytes(found->type);
  for (std::size_t at = 0; at < found->bytes.size(); at += size)
    values.push_back(real_at(found->type, found->bytes.data() + at));
  return values;
}

std::optional<std::vector<std::string_view>> GgufKeys::texts(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of texts";
  const GgufArray* const found = array(key, kExpected);
  if (found == nullptr) return std::nullopt;
  if (found->type != GgufValueType::kString) refuse(key, kExpected);
  std::vector<std::string_view> values;
  values.reserve(static_cast<std::size_t>(found->count));
  Cursor cursor(found->bytes, label_);
  for (std::int64_t i = 0; i < found->count; ++i) values.push_back(cursor.text(key));
  return values;
}

bool has_gguf_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

GgufContents parse_gguf(std::span<const std::byte> file, std::string_view label) {
  return Reader(file, label).read();
}

}  // namespace baleen
