/// A folder (a checkpoint, a packed corpus) that appears whole or not at all, also where one is replaced.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace baleen {

/// A folder beside `target`, named `.TARGET.partial-XXXXXX`, which `commit` puts in target's place with one
/// rename. Until then target is as it was; without `commit` the folder is removed. What a killed run left
/// beside target is removed first: a lock on the folder tells it from one that is still being written.
class StagedFolder {
 public:
  /// Throws `Error` when target is a file, when it holds anything and `replace` is not set, when it holds
  /// anything besides files of a checkpoint or of these `names` (nothing else is ever deleted), or when
  /// nothing can be written beside it. A link to a folder stays one. `contents` is what sentences call what
  /// is written.
  StagedFolder(const std::filesystem::path& target, bool replace, std::vector<std::string> names,
               std::string contents = "checkpoint");
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();

  /// Where to write.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Puts the folder in place, on disk when this returns, and removes the checkpoint that it replaces. The
  /// files in it must have been flushed. Throws `Error`, leaving target as it was.
  void commit();

 private:
  std::filesystem::path target_;
  bool replace_;
  std::vector<std::string> names_;
  std::string contents_;
  std::filesystem::path path_;  ///< empty once it is in place
  int lock_ = -1;
};

/// Throws `Error` unless `in` and `out` are different folders, neither inside the other, and no file of `in`
/// is a link to one in `out`: replacing `out` would delete what is read.
void check_apart(const std::filesystem::path& in, const std::filesystem::path& out);

}  // namespace baleen
