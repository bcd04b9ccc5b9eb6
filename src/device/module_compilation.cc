#include "device/module_compilation.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>
#include <type_traits>

#include "base/file.h"
#include "device/compile_cache.h"

namespace baleen {
namespace {

constexpr int kSuccess = 0;
constexpr std::string_view kSection = ".nv_fatbin";
constexpr unsigned kMaxThreads = 16;  // a part takes up to half a gigabyte while it is compiled

/// As nvcc writes it, before each fat binary.
struct FatBinaryHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t content_bytes;
};
constexpr std::uint32_t kMagic = 0xBA55ED50;

/// `T` at a place of the file, or zeros where it would end behind it.
template <class T>
T read_at(std::span<const std::byte> file, std::uint64_t place) {
  T value{};
  if (place <= file.size() && sizeof(T) <= file.size() - place)
    std::memcpy(&value, file.data() + place, sizeof(T));
  return value;
}

std::span<const std::byte> part_of(std::span<const std::byte> file, std::uint64_t begin, std::uint64_t size) {
  if (begin > file.size() || size > file.size() - begin) return {};
  return file.subspan(begin, size);
}

std::span<const std::byte> section_of(std::span<const std::byte> file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  const auto section = [&](std::uint64_t index) {
    return read_at<Elf64_Shdr>(file, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr found = section(i);
    const auto name = part_of(file, names.sh_offset + found.sh_name, kSection.size() + 1);
    if (name.empty() || std::memcmp(name.data(), kSection.data(), kSection.size()) != 0) continue;
    if (name.back() == std::byte{0}) return part_of(file, found.sh_offset, found.sh_size);
  }
  return {};
}

struct Compiler {
  int (*retain_context)(void** context, int device) = nullptr;
  int (*set_context)(void* context) = nullptr;
  int (*load)(void** library, const void* code, void* compiler_options, void** compiler_values,
              unsigned num_compiler_options, void* options, void** values, unsigned num_options) = nullptr;
  int (*unload)(void* library) = nullptr;

  [[nodiscard]] bool find(void* library) {
    const auto take = [library](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    return take("cuDevicePrimaryCtxRetain", retain_context) && take("cuCtxSetCurrent", set_context) &&
           take("cuLibraryLoadData", load) && take("cuLibraryUnload", unload);
  }
};

}  // namespace

std::vector<std::span<const std::byte>> fat_binaries(std::span<const std::byte> module) {
  std::vector<std::span<const std::byte>> found;
  const std::span<const std::byte> section = section_of(module);
  for (std::uint64_t at = 0; at + sizeof(FatBinaryHeader) <= section.size();) {
    const auto header = read_at<FatBinaryHeader>(section, at);
    const std::span<const std::byte> whole =
        header.magic == kMagic && header.content_bytes <= section.size()
            ? part_of(section, at, header.header_bytes + header.content_bytes)
            : std::span<const std::byte>();
    if (whole.size() > sizeof(FatBinaryHeader)) {
      found.push_back(whole);
      at += (whole.size() + 7) / 8 * 8;
    } else {
      at += 8;
    }
  }
  return found;
}

int compile_module(const std::string& path, int gpu, const char* driver) {
  const MappedFile module(path);
  if (!compile_cache_keeps(static_cast<std::int64_t>(module.bytes().size()))) return 0;
  void* const library = ::dlopen(driver, RTLD_NOW | RTLD_LOCAL);
  Compiler compiler;
  void* context = nullptr;
  if (library == nullptr || !compiler.find(library)) return 0;
  if (compiler.retain_context(&context, gpu) != kSuccess) return 0;
  std::vector<std::span<const std::byte>> parts = fat_binaries(module.bytes());
  // The largest first, so that none of them begins when the others have ended.
  std::ranges::sort(parts, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::atomic<std::size_t> next = 0;
  std::atomic<int> taken = 0;
  const auto compile = [&] {
    if (compiler.set_context(context) != kSuccess) return;
    for (std::size_t i = next++; i < parts.size(); i = next++) {
      void* loaded = nullptr;
      if (compiler.load(&loaded, parts[i].data(), nullptr, nullptr, 0, nullptr, nullptr, 0) != kSuccess)
        continue;
      static_cast<void>(compiler.unload(loaded));
      ++taken;
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads); ++i)
    threads.emplace_back(compile);
  threads.clear();
  return taken;
}

}  // namespace baleen
