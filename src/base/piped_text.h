/// Text that may come from a pipe: the door for standard input and for prompts that a command writes
/// (`<(...)`). All other files are opened by file.h, which takes regular files alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <span>
#include <string>

namespace baleen {

inline constexpr std::size_t kMaxPipedBytes = std::size_t{256} << 20;
/// Of one line of JSON.
inline constexpr std::size_t kMaxLineBytes = std::size_t{256} << 20;

/// All of a regular file or a pipe, waiting for its writers to end. Throws `Error` for devices, sockets and
/// folders, where reading fails, and beyond `limit_bytes`, without reading on.
[[nodiscard]] std::string read_file_or_pipe(const std::filesystem::path& path,
                                            std::size_t limit_bytes = kMaxPipedBytes);

/// All of standard input. Throws `Error` where reading fails, and beyond `limit_bytes`.
[[nodiscard]] std::string read_standard_input(std::size_t limit_bytes = kMaxPipedBytes);

/// The bytes of a regular file or a pipe as they come, for inputs larger than memory.
class ByteStream {
 public:
  /// Throws `Error` for devices, sockets and folders, and where opening fails.
  explicit ByteStream(const std::filesystem::path& path);
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  ~ByteStream();

  /// Waits for at least one byte and fills a part of `bytes`; 0 at the end. Throws `Error` where reading
  /// fails, and for a pipe that no program opens for writing within 10 s.
  [[nodiscard]] std::size_t read(std::span<char> bytes);
  /// Of a regular file; 0 for a pipe.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  bool awaits_writer_ = false;  ///< a pipe that has given no byte yet
};

/// The next line without its newline; false at the end. Throws `Error` beyond `limit_bytes`; `name` is for
/// its sentence.
bool read_line(std::istream& in, std::string& line, const char* name,
               std::size_t limit_bytes = kMaxLineBytes);

}  // namespace baleen
