#include "checkpoint/folder_check.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "checkpoint/gguf/gguf_file.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "config.json", kSnapshots = "snapshots", kHubPrefix = "models--";
constexpr std::string_view kLfsBegin = "version https://git-lfs.github.com/spec/";
constexpr std::size_t kBeginBytes = 4096;

/// The first bytes of a file; none of what cannot be read.
std::string beginning_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";  // a pipe would wait for its writer
  try {
    const MappedFile file(path);
    const auto bytes = file.bytes().first(std::min(file.bytes().size(), kBeginBytes));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } catch (const Error&) {
    return "";
  }
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// In name order.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::string gguf_sentence(const fs::path& file) {
  return fmt::format(
      "{}: a GGUF file, where this needs a checkpoint folder; `baleen convert FILE FOLDER` writes one",
      file.string());
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// "deepseek-ai/DeepSeek-V4-Flash" of a Hub name or address; nothing for other text.
std::optional<std::string> hub_name(const fs::path& path) {
  const std::string whole = path.string();
  std::string_view text = whole;
  const bool web =
      take_prefix(text, "https://") || take_prefix(text, "http://") || take_prefix(text, "hf://");
  const bool address = take_prefix(text, "huggingface.co/") || take_prefix(text, "hf.co/") || web;
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos || slash == 0 || text.front() == '.') return std::nullopt;
  const std::size_t end = text.find_first_of("/?#@", slash + 1);
  if (end != std::string_view::npos && !address) return std::nullopt;
  text = text.substr(0, end);  // without what follows a name in an address: /tree/main
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./";
  if (text.size() == slash + 1 || text.find_first_not_of(kLetters) != std::string_view::npos)
    return std::nullopt;
  // Where there is a folder of the first name, this is a path with a slip in it.
  if (!address && is_folder(text.substr(0, slash))) return std::nullopt;
  return std::string(text);
}

[[noreturn]] void refuse_absent(const fs::path& path) {
  if (const auto name = hub_name(path)) {
    fail(
        "{}: no such folder. It looks like a model on the Hugging Face Hub, and baleen downloads nothing: "
        "fetch "
        "its files (hf download {} --local-dir FOLDER) and pass FOLDER",
        shortened_text(path.string()), *name);
  }
  fail("{}: no such folder; expected a checkpoint folder with config.json and *.safetensors", path.string());
}

[[noreturn]] void refuse_file(const fs::path& path) {
  const std::string begin = beginning_of(path);
  if (has_gguf_magic(std::as_bytes(std::span(begin)))) fail("{}", gguf_sentence(path));
  if (const auto sentence = lfs_pointer_sentence(path.string(), std::as_bytes(std::span(begin))))
    fail("{}", *sentence);
  fail("{}: a file; expected a checkpoint folder with config.json and *.safetensors{}", path.string(),
       is_there(path.parent_path() / kConfigName)
           ? fmt::format(": pass {}", fs::absolute(path).parent_path().string())
           : "");
}

/// Of the folder that a Hub cache keeps for a model: the snapshot of its main branch, or the last by name.
std::optional<fs::path> snapshot_of(const fs::path& root) {
  std::string revision = beginning_of(root / "refs" / "main");
  while (!revision.empty() && (revision.back() == '\n' || revision.back() == ' ')) revision.pop_back();
  const fs::path snapshots = root / kSnapshots;
  if (!revision.empty() && is_there(snapshots / revision / kConfigName)) return snapshots / revision;
  std::optional<fs::path> last;
  for (const fs::path& entry : entries_of(snapshots))
    if (is_there(entry / kConfigName)) last = entry;
  return last;
}

/// "models--deepseek-ai--DeepSeek-V4-Flash" as "deepseek-ai/DeepSeek-V4-Flash".
std::string name_of_cache(const fs::path& root) {
  std::string name = (fs::absolute(root) / "").lexically_normal().parent_path().filename().string();
  if (!name.starts_with(kHubPrefix)) return name;
  name.erase(0, kHubPrefix.size());
  if (const std::size_t dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
  return name;
}

void refuse_hub_cache(const fs::path& path) {
  if (is_folder(path / kSnapshots)) {
    const auto snapshot = snapshot_of(path);
    fail("{}: the root of a Hub cache of {}, not a checkpoint; {}", path.string(), name_of_cache(path),
         snapshot ? fmt::format("pass its snapshot {}", snapshot->string())
                  : "none of its snapshots has a config.json: is the download complete?");
  }
  for (const fs::path& entry : entries_of(path)) {
    if (!entry.filename().string().starts_with(kHubPrefix) || !is_folder(entry / kSnapshots)) continue;
    const auto snapshot = snapshot_of(entry);
    fail("{}: a Hub cache of several models, not a checkpoint; pass a snapshot of one, as {}", path.string(),
         snapshot.value_or(entry / kSnapshots).string());
  }
}

[[noreturn]] void refuse_without_config(const fs::path& path) {
  refuse_hub_cache(path);
  if (const auto sentence = other_weights_sentence(path)) fail("{}", *sentence);
  if (has_tensor_files(path)) {
    fail(
        "{}: no config.json here, though there are *.safetensors; it belongs to them: is the download "
        "complete?",
        path.string());
  }
  for (const fs::path& entry : entries_of(path)) {
    if (is_there(entry / kConfigName)) {
      fail(
          "{}: no config.json here; expected a checkpoint folder with config.json and *.safetensors: pass {}",
          path.string(), entry.string());
    }
  }
  fail("{}: no config.json here; expected a checkpoint folder with config.json and *.safetensors",
       path.string());
}

}  // namespace

std::optional<std::string> lfs_pointer_sentence(std::string_view label, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kBeginBytes));
  if (!text.starts_with(kLfsBegin)) return std::nullopt;
  constexpr std::string_view kSize = "\nsize ";
  std::string size;
  if (const std::size_t at = text.find(kSize); at != std::string_view::npos) {
    const std::string_view digits = text.substr(at + kSize.size());
    if (const auto value = read_unsigned(digits.substr(0, digits.find('\n'))))
      size = fmt::format(" ({} bytes)", grouped(value.value()));
  }
  return fmt::format(
      "{}: a Git LFS pointer, not the file itself{}: the repository was cloned without LFS; run `git lfs "
      "pull` "
      "there",
      label, size);
}

bool has_tensor_files(const fs::path& folder) {
  return std::ranges::any_of(entries_of(folder),
                             [](const fs::path& entry) { return entry.extension() == ".safetensors"; });
}

std::optional<std::string> other_weights_sentence(const fs::path& folder) {
  constexpr std::array<std::string_view, 4> kPickles{".bin", ".pt", ".pth", ".ckpt"};
  const std::vector<fs::path> entries = entries_of(folder);
  for (const fs::path& entry : entries) {
    if (entry.extension() != ".gguf") continue;
    const std::string begin = beginning_of(entry);
    const auto pointer = lfs_pointer_sentence(entry.string(), std::as_bytes(std::span(begin)));
    return pointer ? *pointer : gguf_sentence(entry);
  }
  for (const fs::path& entry : entries) {
    if (std::ranges::count(kPickles, entry.extension().string()) == 0) continue;
    return fmt::format(
        "{}: a file of another format, and no *.safetensors beside it; baleen reads safetensors alone: pass "
        "a "
        "folder with those",
        entry.string());
  }
  return std::nullopt;
}

void check_checkpoint_folder(const fs::path& path) {
  if (!is_there(path)) refuse_absent(path);
  if (!is_folder(path)) refuse_file(path);
  if (!is_there(path / kConfigName)) refuse_without_config(path);
  for (const fs::path& entry : entries_of(path)) {
    if (entry.extension() != ".safetensors" && entry.extension() != ".json") continue;
    const std::string begin = beginning_of(entry);
    if (const auto sentence = lfs_pointer_sentence(entry.string(), std::as_bytes(std::span(begin))))
      fail("{}", *sentence);
  }
}

}  // namespace baleen
