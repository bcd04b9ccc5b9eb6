/// Files: read-only maps, whole-file reads, and writers that never leave half a file under its final name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace baleen {

/// What a file system says of a file: whoever changes its bytes changes this, but for changes within one tick
/// of the file system's clock (`may_change_unseen`).
struct FileVersion {
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;  ///< can be set back by anyone who can write
  std::int64_t changed_ns = 0;   ///< cannot
  std::uint64_t inode = 0;
  bool operator==(const FileVersion&) const = default;

  /// Whether the latest change is so young that another one now might leave all this as it is.
  [[nodiscard]] bool may_change_unseen() const;
};

/// A file mapped read-only for its whole life. Pages are read from disk as they are touched, and shared with
/// every other process that maps the file. An empty file maps to an empty span.
class MappedFile {
 public:
  /// Throws `Error` when the file is absent, unreadable or not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// When it was mapped.
  [[nodiscard]] const FileVersion& version() const { return version_; }

 private:
  std::filesystem::path path_;
  FileVersion version_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Reads the file of a map with calls instead of through the map: for whole files that should not become part
/// of this process's memory. Any thread.
class MappedFileReader {
 public:
  /// `mapped` outlives this. Throws `Error` when its file cannot be opened any more.
  explicit MappedFileReader(const MappedFile& mapped);
  MappedFileReader(const MappedFileReader&) = delete;
  MappedFileReader& operator=(const MappedFileReader&) = delete;
  ~MappedFileReader();

  /// Throws `Error` unless the file of that path is the one that was mapped, as it was then.
  void check() const;
  /// As many bytes from `begin` on as `into` has. Throws `Error` when there are fewer.
  void read(std::int64_t begin, std::span<std::byte> into) const;

 private:
  const MappedFile& mapped_;
  int descriptor_;
};

/// The whole file as text. Throws `Error` when it cannot be read, or is larger than `limit_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::size_t limit_bytes = std::size_t{1} << 32);

/// Writes a file so that it appears under `path` complete or not at all: bytes go to a temporary file in the
/// same folder, which `commit` flushes to disk and renames. Without `commit` (an error, an exception) it is
/// removed; on file systems with nameless files also when the program is killed. A symbolic link stays one:
/// the file it leads to is replaced. Devices and pipes are written to as bytes come.
class AtomicFileWriter {
 public:
  /// Throws `Error` when the folder is absent or not writable, or `path` is a folder.
  explicit AtomicFileWriter(const std::filesystem::path& path);
  AtomicFileWriter(const AtomicFileWriter&) = delete;
  AtomicFileWriter& operator=(const AtomicFileWriter&) = delete;
  ~AtomicFileWriter();

  /// Throws `Error` when the disk is full or the write fails.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path target_;     ///< where `path_` leads
  std::filesystem::path temporary_;  ///< empty for devices and pipes, `target_` for a file without a name
  int descriptor_ = -1;
};

}  // namespace baleen
