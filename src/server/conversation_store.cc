#include "server/conversation_store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kExtension = ".json", kKeyFolder = "key-", kUnfinished = ".json.tmp-";
constexpr std::size_t kMaxIdLength = 64;
/// Of a title in the list, which has as many as there are conversations.
constexpr std::size_t kMaxTitleBytes = 512;
/// Turns hold messages, which hold calls: deeper texts are no conversations.
constexpr JsonLimits kLimits{.max_depth = 64, .max_values = std::size_t{1} << 20};

/// Letters, digits, - and _: such a name leads to no other folder, and no file begins with a dot.
bool is_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdLength && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::string version_of(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

ApiError no_id() {
  return {.status = 400,
          .code = "bad_conversation_id",
          .message = fmt::format("a conversation's id has 1 to {} letters, digits, - or _", kMaxIdLength)};
}

ApiError not_found(std::string_view id) {
  return {.status = 404,
          .code = "conversation_not_found",
          .message = fmt::format("no conversation \"{}\" is kept here", id)};
}

ApiError full(std::string message) {
  return {.status = 507, .type = "server_error", .code = "conversations_full", .message = std::move(message)};
}

struct Outline {
  std::string title;
  double changed = 0;
};

/// What the list shows of a conversation, or why `text` is none.
Result<Outline> outline_of(std::string_view text) {
  Result<Json> parsed = parse_json(text, kLimits);
  if (!parsed) return failure("the conversation is not JSON: {}", parsed.error());
  const Json& value = parsed.value();
  if (!value.is_object()) return failure("expected an object with \"title\" and \"turns\"");
  const auto title = value.find("title"), turns = value.find("turns"), changed = value.find("changed");
  if (title == value.end() || !title->is_string())
    return failure("title: expected text, as the name of the conversation");
  if (turns == value.end() || !turns->is_array()) return failure("turns: expected a list of the messages");
  Outline outline{.title = title->get<std::string>().substr(0, kMaxTitleBytes)};
  outline.title.resize(outline.title.size() - unfinished_utf8(outline.title));
  if (changed != value.end() && changed->is_number()) outline.changed = changed->get<double>();
  return outline;
}

/// A regular file's size and time; nothing for anything else, links included.
std::optional<struct stat> file_status(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status;
}

std::int64_t modified_ns(const struct stat& status) {
  return static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

/// A folder that only this user can read; one that is there stays as it is.
void make_folder(const fs::path& folder) {
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail("{}: cannot make this folder for conversations: {}", folder.string(), std::strerror(errno));
}

/// What a program that was killed between naming a file and finishing it left behind.
void remove_unfinished(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().find(kUnfinished) != std::string::npos && file_status(entry.path()))
      fs::remove(entry.path());
    else if (entry.path().filename().string().starts_with(kKeyFolder) &&
             fs::is_directory(entry.symlink_status()))
      remove_unfinished(entry.path());
  }
}

}  // namespace

ConversationStore::ConversationStore(ConversationStoreOptions options) : options_(std::move(options)) {
  if (!keeps()) return;
  try {
    make_folder(options_.folder);
    remove_unfinished(options_.folder);
  } catch (const fs::filesystem_error& error) {
    fail("‹conversations› {}: {}", options_.folder.string(), error.code().message());
  }
  if (::access(options_.folder.c_str(), R_OK | W_OK | X_OK) != 0)
    fail("‹conversations› {}: {}; the server must be able to read and write there", options_.folder.string(),
         std::strerror(errno));
}

fs::path ConversationStore::folder_of(std::string_view key) const {
  if (key.empty()) return options_.folder;
  // The hash only tells keys apart: who can read this folder can read the conversations in it.
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return options_.folder / fmt::format("{}{:016x}{:016x}", kKeyFolder, hash.high64, hash.low64);
}

fs::path ConversationStore::file_of(std::string_view key, std::string_view id) const {
  return folder_of(key) / fmt::format("{}{}", id, kExtension);
}

ConversationStore::Entries& ConversationStore::scan(std::string_view key) {
  const fs::path folder = folder_of(key);
  Entries& known = by_key_[folder.filename().string()];
  Entries found;
  std::error_code absent;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, absent)) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(kExtension)) continue;
    std::string id = name.substr(0, name.size() - kExtension.size());
    const auto status = is_id(id) ? file_status(file.path()) : std::nullopt;
    if (!status) continue;
    Entry entry{.modified_ns = modified_ns(*status), .bytes = static_cast<std::size_t>(status->st_size)};
    const auto before = known.find(id);
    if (before != known.end() && before->second.modified_ns == entry.modified_ns &&
        before->second.bytes == entry.bytes)
      entry = before->second;
    found.emplace(std::move(id), std::move(entry));
  }
  known = std::move(found);
  return known;
}

std::string ConversationStore::list(std::string_view key) {
  const std::lock_guard lock(mutex_);
  Entries& entries = scan(key);
  std::vector<std::pair<double, Json>> rows;
  for (auto& [id, entry] : entries) {
    if (entry.version.empty()) {
      try {
        const std::string text = read_text_file(file_of(key, id), options_.max_conversation_bytes);
        entry.version = version_of(text);
        if (Result<Outline> outline = outline_of(text)) {
          entry.is_conversation = true;
          entry.title = std::move(outline.value().title);
          entry.changed = outline.value().changed;
        }
      } catch (const Error&) {
        continue;  // deleted meanwhile, or not to be read
      }
    }
    if (!entry.is_conversation) continue;
    rows.emplace_back(entry.changed, Json{{"id", id},
                                          {"title", entry.title},
                                          {"changed", entry.changed},
                                          {"bytes", entry.bytes},
                                          {"version", entry.version}});
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, [](const auto& row) { return row.first; });
  Json all = Json::array();
  for (auto& [changed, row] : rows) all.push_back(std::move(row));
  return Json{{"conversations", std::move(all)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ApiResult<KeptConversation> ConversationStore::read(std::string_view key, std::string_view id) {
  if (!is_id(id)) return no_id();
  const std::lock_guard lock(mutex_);
  const fs::path file = file_of(key, id);
  if (!file_status(file)) return not_found(id);
  try {
    std::string text = read_text_file(file, options_.max_conversation_bytes);
    std::string version = version_of(text);
    return KeptConversation{.text = std::move(text), .version = std::move(version)};
  } catch (const Error& error) {
    return ApiError{.status = 500, .type = "server_error", .code = "unreadable", .message = error.what()};
  }
}

std::optional<ApiError> ConversationStore::refuse_version(const fs::path& file, std::string_view id,
                                                          const ExpectedVersion& expected) const {
  if (expected.kind == ExpectedVersion::Kind::kAny) return std::nullopt;
  const bool is_there = file_status(file).has_value();
  const bool holds =
      expected.kind == ExpectedVersion::Kind::kAbsent
          ? !is_there
          : is_there && version_of(read_text_file(file, options_.max_conversation_bytes)) == expected.version;
  if (holds) return std::nullopt;
  return ApiError{.status = 412,
                  .code = "conversation_changed",
                  .message = fmt::format("conversation \"{}\" {}; read it again, join your change to it, and "
                                         "name its version in If-Match",
                                         id, is_there ? "has another version here" : "is not here")};
}

ApiResult<std::string> ConversationStore::write(std::string_view key, std::string_view id,
                                                std::string_view text, const ExpectedVersion& expected) {
  if (!is_id(id)) return no_id();
  if (text.size() > options_.max_conversation_bytes)
    return ApiError{.status = 413,
                    .code = "conversation_too_large",
                    .message = fmt::format("the conversation has {} bytes; at most {} are kept of one",
                                           text.size(), options_.max_conversation_bytes)};
  Result<Outline> outline = outline_of(text);
  if (!outline) return ApiError{.code = "no_conversation", .message = outline.error()};

  const std::lock_guard lock(mutex_);
  const fs::path file = file_of(key, id);
  try {
    if (auto refusal = refuse_version(file, id, expected)) return *std::move(refusal);
    // What is no regular file (a link, a folder) is not the server's to replace.
    if (!file_status(file) && fs::exists(fs::symlink_status(file)))
      fail("{}: is no regular file", file.string());
    Entries& entries = scan(key);
    std::size_t bytes = text.size(), others = 0;
    for (const auto& [name, entry] : entries) {
      if (name == id) continue;
      bytes += entry.bytes;
      ++others;
    }
    if (others >= options_.max_conversations)
      return full(fmt::format("{} conversations are kept, as many as may be; delete some", others));
    if (bytes > options_.max_bytes)
      return full(
          fmt::format("the conversations would have {} bytes together, {} are allowed (‹conversation "
                      "bytes›); delete some",
                      bytes, options_.max_bytes));
    make_folder(file.parent_path());
    AtomicFileWriter writer(file);
    writer.write(text);
    writer.commit();
    const std::string version = version_of(text);
    Entry entry{.bytes = text.size(),
                .is_conversation = true,
                .title = std::move(outline.value().title),
                .version = version,
                .changed = outline.value().changed};
    if (const auto status = file_status(file)) entry.modified_ns = modified_ns(*status);
    entries.insert_or_assign(std::string(id), std::move(entry));
    return version;
  } catch (const Error& error) {
    return ApiError{.status = 507,
                    .type = "server_error",
                    .code = "conversation_not_written",
                    .message = fmt::format("the conversation could not be written: {}", error.what())};
  }
}

std::optional<ApiError> ConversationStore::erase(std::string_view key, std::string_view id,
                                                 const ExpectedVersion& expected) {
  if (!is_id(id)) return no_id();
  const std::lock_guard lock(mutex_);
  const fs::path file = file_of(key, id);
  if (!file_status(file)) return not_found(id);
  try {
    if (auto refusal = refuse_version(file, id, expected)) return refusal;
  } catch (const Error&) {
    // Deleted, or unreadable: the next line says which.
  }
  if (::unlink(file.c_str()) != 0 && errno != ENOENT)
    return ApiError{
        .status = 500,
        .type = "server_error",
        .code = "conversation_not_deleted",
        .message = fmt::format("conversation \"{}\" could not be deleted: {}", id, std::strerror(errno))};
  return std::nullopt;
}

}  // namespace baleen
