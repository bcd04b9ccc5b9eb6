/// Digests of files that were read whole once, kept in a small file so that they need not be read again while
/// the file system says that they are the same.
///
///     FOLDER/.baleen-digests       beside the files, or, where that cannot be written,
///     FALLBACK/0123456789abcdef    in another folder, named for the first
///
///     baleen digests 1
///     <32 digits> <size> <modified ns> <changed ns> <inode> <file name>      a line a file
///     <32 digits>                                                            of the lines before
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"

namespace baleen {

/// Not thread-safe.
class KeptDigests {
 public:
  /// Reads what is kept of the files in `folder`; what is damaged, or no such file, counts as nothing.
  /// `fallback` may be empty: then there is none.
  KeptDigests(std::filesystem::path folder, const std::filesystem::path& fallback);

  /// Empty when none is known of this version.
  [[nodiscard]] std::string find(const std::string& name, const FileVersion& version) const;
  void add(const std::string& name, const FileVersion& version, std::string digest);
  /// Appears whole or not at all, and replaces what was kept. Where it now is; empty where neither folder can
  /// be written: then the files will be read again.
  std::filesystem::path save() const;

 private:
  struct Entry {
    FileVersion version;
    std::string digest;
  };
  void read(const std::filesystem::path& path);

  std::filesystem::path beside_, fallback_;
  std::map<std::string, Entry> entries_;
};

}  // namespace baleen
