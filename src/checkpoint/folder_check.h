/// What people pass where a checkpoint folder is expected, by its name and first bytes: nothing here
/// knows a model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace baleen {

/// Throws `Error` unless `path` is a folder with a config.json, none of whose JSON and safetensors files is
/// a Git LFS pointer. The sentence says what `path` is instead (a name of the Hub, the root or a parent of
/// a Hub cache, a GGUF file or a folder of them (which most commands take, but not as a folder), a file of a
/// checkpoint, a folder beside one) and what to
/// pass. Reads the beginning of each file in the folder.
void check_checkpoint_folder(const std::filesystem::path& path);

/// The sentence about a file that begins with `bytes`, if that is a Git LFS pointer; nothing for anything
/// else.
[[nodiscard]] std::optional<std::string> lfs_pointer_sentence(std::string_view label,
                                                              std::span<const std::byte> bytes);

/// The sentence about weights in `folder` that no safetensors file holds (GGUF, pickles); nothing if there
/// are none.
[[nodiscard]] std::optional<std::string> other_weights_sentence(const std::filesystem::path& folder);

/// Whether `folder` has a safetensors file. Where it has none its index lists what is still to come.
[[nodiscard]] bool has_tensor_files(const std::filesystem::path& folder);

}  // namespace baleen
