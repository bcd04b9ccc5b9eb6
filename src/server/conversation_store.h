/// Conversations of the chat page that the server keeps: a file each, as the page sent them.
///
///     FOLDER/ID.json               without API keys
///     FOLDER/key-HASH/ID.json      those of one key
///
/// A file appears complete or not at all, also when the program is killed. Nothing is kept in memory but
/// what the list shows, and that is read again where a file's size or time changed: files may be copied,
/// edited and deleted beside a running server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/api_request.h"

namespace baleen {

struct ConversationStoreOptions {
  std::filesystem::path folder;                  ///< empty: none are kept
  std::size_t max_bytes = std::size_t{1} << 30;  ///< limit of all conversations of one key
  std::size_t max_conversations = 10'000;        ///< limit of one key
  std::size_t max_conversation_bytes = 8 << 20;  ///< limit of one conversation
};

/// What a client must know to write over what is there: of which version its own is a successor.
struct ExpectedVersion {
  enum class Kind : std::uint8_t { kAny, kAbsent, kThis } kind = Kind::kAny;
  std::string version;  ///< for kThis
};

struct KeptConversation {
  std::string text;     ///< JSON
  std::string version;  ///< 16 hexadecimal digits, a hash of `text`
};

/// Thread-safe. Calls read and write files, and wait for the disk. Every conversation belongs to an API key
/// ("" where no keys are needed); to every other key it does not exist.
class ConversationStore {
 public:
  /// Makes the folder, for its owner alone, and removes what a killed program left half-written in it. Throws
  /// `Error` when it cannot be written to.
  explicit ConversationStore(ConversationStoreOptions options);

  [[nodiscard]] bool keeps() const { return !options_.folder.empty(); }
  /// `{"conversations": [{"id", "title", "changed", "bytes", "version"}]}`, the latest change first. Files
  /// that are no conversation are passed over. The first call reads every file, later ones what changed.
  [[nodiscard]] std::string list(std::string_view key);
  [[nodiscard]] ApiResult<KeptConversation> read(std::string_view key, std::string_view id);
  /// The new version. `text` must be a conversation: a JSON object with a title and turns.
  [[nodiscard]] ApiResult<std::string> write(std::string_view key, std::string_view id, std::string_view text,
                                             const ExpectedVersion& expected);
  /// Nothing, or why it could not be deleted.
  [[nodiscard]] std::optional<ApiError> erase(std::string_view key, std::string_view id,
                                              const ExpectedVersion& expected);

 private:
  struct Entry {
    std::int64_t modified_ns = 0;
    std::size_t bytes = 0;
    bool is_conversation = false;
    std::string title, version;
    double changed = 0;  ///< milliseconds since 1970, by the page that changed it
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  [[nodiscard]] std::filesystem::path folder_of(std::string_view key) const;
  [[nodiscard]] std::filesystem::path file_of(std::string_view key, std::string_view id) const;
  /// The files of a key, with sizes and times as they are now; the rest as it was noted.
  Entries& scan(std::string_view key);
  [[nodiscard]] std::optional<ApiError> refuse_version(const std::filesystem::path& file, std::string_view id,
                                                       const ExpectedVersion& expected) const;

  ConversationStoreOptions options_;
  std::mutex mutex_;  ///< guards the rest, and files between check and write
  std::map<std::string, Entries, std::less<>> by_key_;  ///< keys are the names of the keys' folders
};

}  // namespace baleen
