#include "checkpoint/gguf/gguf_model.h"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".gguf";
constexpr std::size_t kPartDigits = 5;
constexpr std::int64_t kMaxParts = 10'000;

/// What a part's name says: "NAME-00002-of-00005.gguf".
struct PartName {
  std::string stem;  ///< "NAME"
  std::int64_t number = 1;
  std::int64_t count = 1;

  [[nodiscard]] std::string of(std::int64_t part) const {
    return fmt::format("{}-{:05}-of-{:05}{}", stem, part, count, kExtension);
  }
};

/// Nothing for the name of a file that is whole.
std::optional<PartName> part_name(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kTail = 1 + kPartDigits + kOf.size() + kPartDigits + kExtension.size();
  if (name.size() <= kTail || !name.ends_with(kExtension)) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  if (tail.front() != '-' || tail.substr(1 + kPartDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = read_whole(tail.substr(1, kPartDigits), {1, kMaxParts});
  const auto count = read_whole(tail.substr(1 + kPartDigits + kOf.size(), kPartDigits), {1, kMaxParts});
  if (!number || !count) return std::nullopt;
  return PartName{name.substr(0, name.size() - kTail), number.value(), count.value()};
}

}  // namespace

GgufModel::Part::Part(const fs::path& path)
    : file(path), label(path.string()), contents(parse_gguf(file.bytes(), label)) {}

GgufModel::GgufModel(const fs::path& path) {
  open_parts(path);
  path_ = parts_.front()->file.path();
  keys_ = parts_.front()->contents.keys;
  for (const std::unique_ptr<Part>& part : parts_)
    for (GgufTensor& tensor : part->contents.tensors) tensors_.push_back(std::move(tensor));
  std::ranges::sort(tensors_, {}, &GgufTensor::name);
  const auto twin = std::ranges::adjacent_find(tensors_, {}, &GgufTensor::name);
  if (twin != tensors_.end()) {
    fail("tensor {} is in {} and in {}; do the parts come from the same model?", quoted_text(twin->name, 200),
         twin->file, std::next(twin)->file);
  }
  const auto wanted = keys_.whole("split.tensors.count");
  if (wanted && *wanted != std::ssize(tensors_)) {
    fail(
        "{}: {} tensors in {} parts, \"split.tensors.count\" says {}; do the parts come from the same model?",
        path_.string(), tensors_.size(), parts_.size(), *wanted);
  }
}

void GgufModel::open_parts(const fs::path& any) {
  auto opened = std::make_unique<Part>(any);
  const std::int64_t count = opened->contents.keys.whole("split.count").value_or(1);
  if (count <= 1) {
    parts_.push_back(std::move(opened));
    return;
  }
  const auto name = part_name(any);
  if (!name || name->count != count) {
    fail(
        "{}: one of {} parts by its keys, expected a name as NAME-00001-of-{:05}.gguf: give it its name back",
        any.string(), count, count);
  }
  for (std::int64_t number = 1; number <= count; ++number) {
    const fs::path path = any.parent_path() / name->of(number);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      fail("{}: absent, but {} is one of {} parts; is the download complete?", path.string(),
           any.filename().string(), count);
    }
    auto part = number == name->number ? std::move(opened) : std::make_unique<Part>(path);
    const GgufKeys& keys = part->contents.keys;
    if (keys.whole("split.count") != count || keys.whole("split.no") != number - 1) {
      fail("{}: its keys say part {} of {}, its name {} of {}; do the parts come from the same model?",
           path.string(), keys.whole("split.no").value_or(-1) + 1, keys.whole("split.count").value_or(1),
           number, count);
    }
    parts_.push_back(std::move(part));
  }
}

const GgufTensor* GgufModel::find(std::string_view name) const {
  const auto place = std::ranges::lower_bound(tensors_, name, {}, &GgufTensor::name);
  return place != tensors_.end() && place->name == name ? &*place : nullptr;
}

std::vector<const MappedFile*> GgufModel::files() const {
  std::vector<const MappedFile*> files;
  for (const std::unique_ptr<Part>& part : parts_) files.push_back(&part->file);
  return files;
}

bool is_gguf_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;  // a pipe would wait for its writer
  try {
    return has_gguf_magic(MappedFile(path).bytes());
  } catch (const Error&) {
    return false;
  }
}

std::optional<fs::path> find_gguf(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return is_gguf_file(path) ? std::optional(path) : std::nullopt;
  std::map<std::string, fs::path> models;  // by the name without part and extension
  for (fs::directory_iterator it(path, ignored), end; !ignored && it != end; it.increment(ignored)) {
    const fs::path& file = it->path();
    if (file.extension() == ".safetensors") return std::nullopt;
    if (file.extension() != kExtension || !is_gguf_file(file)) continue;
    const auto part = part_name(file);
    const auto [known, is_new] = models.emplace(part ? part->stem : file.stem().string(), file);
    if (!is_new && file < known->second) known->second = file;
  }
  if (models.size() > 1) {
    fail("{}: {} GGUF models ({}, {}{}); pass the file of one", path.string(), models.size(),
         models.begin()->second.filename().string(), std::next(models.begin())->second.filename().string(),
         models.size() > 2 ? ", ..." : "");
  }
  return models.empty() ? std::nullopt : std::optional(models.begin()->second);
}

}  // namespace baleen
