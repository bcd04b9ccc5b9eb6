/// Text that may come from a pipe: the door for standard input and for prompts that a command writes (`<(...)`). All other
/// files are opened by file.h, which takes regular files alone.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <string>

namespace baleen {

inline constexpr std::size_t kMaxPipedBytes = std::size_t{256} << 20;
/// Of one line of JSON.
inline constexpr std::size_t kMaxLineBytes = std::size_t{256} << 20;

/// All of a regular file or a pipe, waiting for its writers to end. Throws `Error` for devices, sockets and folders, where
/// reading fails, and beyond `limit_bytes`, without reading on.
[[nodiscard]] std::string read_file_or_pipe(const std::filesystem::path& path,
                                            std::size_t limit_bytes = kMaxPipedBytes);

/// All of standard input. Throws `Error` where reading fails, and beyond `limit_bytes`.
[[nodiscard]] std::string read_standard_input(std::size_t limit_bytes = kMaxPipedBytes);

/// The next line without its newline; false at the end. Throws `Error` beyond `limit_bytes`; `name` is for its sentence.
bool read_line(std::istream& in, std::string& line, const char* name,
               std::size_t limit_bytes = kMaxLineBytes);

}  // namespace baleen
