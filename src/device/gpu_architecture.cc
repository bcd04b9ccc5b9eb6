#include "device/gpu_architecture.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/number.h"
#include "base/quoted_text.h"

namespace baleen {
namespace {

std::string text_of(ComputeCapability capability) {
  return fmt::format("{}.{}", capability.major, capability.minor);
}

std::string needed_by(const GpuArchitecture& row) {
  if (row.least == row.most) return text_of(row.least);
  if (row.most == kAnyLater) return fmt::format("{} and later", text_of(row.least));
  return fmt::format("{} to {}", text_of(row.least), text_of(row.most));
}

std::string list(std::span<const GpuArchitecture> rows) {
  std::vector<std::string> texts;
  for (const GpuArchitecture& row : rows) texts.push_back(to_text(row));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

bool GpuArchitecture::has_machine_code(ComputeCapability capability) const {
  constexpr std::string_view kCode = "sm_";
  for (std::size_t at = compiler_flags.find(kCode); at < compiler_flags.size();
       at = compiler_flags.find(kCode, at)) {
    at += kCode.size();
    const std::size_t end =
        std::min(compiler_flags.find_first_not_of("0123456789", at), compiler_flags.size());
    const Result<std::int64_t> number = read_whole(compiler_flags.substr(at, end - at), {0, 1000});
    if (!number.ok()) continue;
    const ComputeCapability code{static_cast<int>(number.value() / 10),
                                 static_cast<int>(number.value() % 10)};
    // "sm_90a" runs on 9.0 alone; "sm_80" on all of 8.x.
    const bool is_exact = end < compiler_flags.size() && compiler_flags[end] == 'a';
    if (is_exact ? code == capability : code.major == capability.major && code.minor <= capability.minor)
      return true;
  }
  return false;
}

const GpuArchitecture& architecture_by_name(std::span<const GpuArchitecture> rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &GpuArchitecture::name);
  if (found == rows.end())
    fail("architecture {}: there is none of that name; there are {}", shortened_text(name), list(rows));
  return *found;
}

const GpuArchitecture& choose_architecture(std::span<const GpuArchitecture> rows, const std::string& gpu_name,
                                           ComputeCapability capability, std::string_view forced) {
  if (!forced.empty()) {
    const GpuArchitecture& row = architecture_by_name(rows, forced);
    if (row.runs_on(capability)) return row;
    fail("architecture {}: needs compute capability {}, {} has {}; there are {}", row.name, needed_by(row),
         gpu_name, text_of(capability), list(rows));
  }
  const auto found =
      std::ranges::find_if(rows, [&](const GpuArchitecture& row) { return row.runs_on(capability); });
  if (found == rows.end())
    fail("{} has compute capability {}; there are kernels for {}", gpu_name, text_of(capability), list(rows));
  return *found;
}

std::string to_text(const GpuArchitecture& row) {
  std::string text = fmt::format("{} (compute capability {}, as {}; {} KiB of shared memory a block",
                                 row.name, needed_by(row), row.gpus, row.traits.shared_bytes_per_block >> 10);
  if (row.traits.has_fp8_units) text += ", FP8 units";
  if (row.traits.has_tensor_copies) text += ", tensor copies";
  return text + ")";
}

}  // namespace baleen
