#include "training_data/packed_files.h"

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr std::size_t kMaxBytes = 64 << 20;

std::string checksum_in_list(const fs::path& path) {
  const MappedFile file(path);
  if (is_shard_file_name(path.filename().string())) return shard_checksum(file.bytes(), path.string());
  return checksum_of(file.bytes());
}

[[noreturn]] void fail_damaged(const fs::path& path, std::string_view what) {
  fail("{}: {}; the file is damaged, pack the data again", path.string(), what);
}

}  // namespace

PackedFiles PackedFiles::of_folder(const fs::path& folder) {
  PackedFiles files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files.checksums_[entry.path().filename().string()] = checksum_in_list(entry.path());
  }
  return files;
}

std::string PackedFiles::checksum() const {
  Checksum all;
  for (const auto& [name, checksum] : checksums_) all.add(fmt::format("{} {}\n", name, checksum));
  return all.text();
}

void PackedFiles::write(const fs::path& folder) const {
  const nlohmann::ordered_json json{{"version", kVersion}, {"files", checksums_}, {"checksum", checksum()}};
  AtomicFileWriter writer(folder / kPackedFilesName);
  writer.write(json.dump(1) + "\n");
  writer.commit();
}

std::optional<PackedFiles> PackedFiles::read(const fs::path& folder) {
  const fs::path path = folder / kPackedFilesName;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  const Result<nlohmann::json> parsed = parse_json(read_text_file(path, kMaxBytes));
  if (!parsed.ok()) fail_damaged(path, parsed.error());
  const nlohmann::json& json = parsed.value();
  const auto has = [&json](const char* name, auto is_kind) {
    return json.is_object() && json.contains(name) && (json[name].*is_kind)();
  };
  using Json = nlohmann::json;
  if (!has("version", &Json::is_number_integer) || !has("files", &Json::is_object) ||
      !has("checksum", &Json::is_string))
    fail_damaged(path, "expected version, files and checksum");
  if (json["version"] != kVersion)
    fail("{}: version {}, expected {}; pack the data again", path.string(), json["version"].dump(), kVersion);
  PackedFiles files;
  for (const auto& [name, checksum] : json["files"].items()) {
    if (!checksum.is_string() || name.find('/') != std::string::npos)
      fail_damaged(path, "expected file names, and a text for each");
    files.checksums_[name] = checksum.get<std::string>();
  }
  if (files.checksum() != json["checksum"].get<std::string>())
    fail_damaged(path, "its names do not match its checksum");
  for (const auto& [name, checksum] : files.checksums_) {
    const fs::path file = folder / name;
    if (!fs::exists(file, ignored))
      fail("{}: missing, although it was packed; restore it, or pack the data again", file.string());
    if (!is_shard_file_name(name)) files.check(file, checksum_in_list(file));
  }
  return files;
}

void PackedFiles::check(const fs::path& path, const std::string& checksum) const {
  const auto listed = checksums_.find(path.filename().string());
  if (listed == checksums_.end())
    fail("{}: not one of the files that were packed here; move it away, or pack the data again",
         path.string());
  if (listed->second != checksum)
    fail("{}: not the bytes that were packed (checksum {}, expected {}); restore it, or pack the data again",
         path.string(), checksum, listed->second);
}

}  // namespace baleen
