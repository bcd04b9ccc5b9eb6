// What the driver gets to compile of a module, by a made-up module and a made-up driver.
#include "device/module_compilation.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

constexpr const char* kDriver = BALEEN_MADE_UP_DRIVER "/libcuda.so.1";
constexpr std::uint32_t kMagic = 0xBA55ED50;

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

std::string fat_binary(const std::string& content, std::uint64_t said_bytes) {
  return bytes_of(kMagic) + bytes_of(std::uint16_t{1}) + bytes_of(std::uint16_t{16}) + bytes_of(said_bytes) +
         content;
}
std::string fat_binary(const std::string& content) { return fat_binary(content, content.size()); }

/// An ELF file with this in the section that nvcc makes, behind another one.
std::string module_with(const std::string& section, const char* name = ".nv_fatbin") {
  const std::string names = std::string("\0.text\0", 7) + name + '\0' + std::string(8, '\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof(header);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  const std::uint64_t begin = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr);
  Elf64_Shdr text{}, code{}, strings{};
  text.sh_name = 1;
  code.sh_name = 7;
  code.sh_offset = begin + names.size();
  code.sh_size = section.size();
  strings.sh_offset = begin;
  strings.sh_size = names.size();
  return bytes_of(header) + bytes_of(text) + bytes_of(code) + bytes_of(strings) + names + section;
}

std::vector<std::string> contents(const std::string& module) {
  std::vector<std::string> found;
  for (const std::span<const std::byte> part : fat_binaries(std::as_bytes(std::span(module))))
    found.emplace_back(reinterpret_cast<const char*>(part.data()) + 16, part.size() - 16);
  return found;
}

int compiled(const std::string& module) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "made_up.so";
  std::ofstream(path) << module;
  return compile_module(path, 0, kDriver);
}

/// Two parts, the first of which ends between two multiples of eight.
std::string two_parts() {
  return fat_binary("a kernel..") + std::string(6, '\0') + fat_binary("and another kernel, of 32 bytes.");
}

TEST(ModuleCompilation, FindsThePartOfEachSourceFile) {
  EXPECT_EQ(contents(module_with(two_parts())),
            (std::vector<std::string>{"a kernel..", "and another kernel, of 32 bytes."}));
  EXPECT_TRUE(contents(module_with(two_parts(), ".other_one")).empty());
  EXPECT_TRUE(contents("").empty());
  EXPECT_TRUE(contents("#!/bin/sh\n").empty());
}

TEST(ModuleCompilation, ReadsNothingBehindTheFile) {
  EXPECT_TRUE(contents(module_with(fat_binary("short", 1 << 20))).empty());
  EXPECT_TRUE(contents(module_with(fat_binary("short", ~std::uint64_t{0}))).empty());
  const std::string module = module_with(two_parts());
  for (std::size_t size = 0; size < module.size(); ++size) {
    const std::vector<std::string> found = contents(module.substr(0, size));
    EXPECT_LE(found.size(), 2u) << size;
  }
}

TEST(ModuleCompilation, GivesTheDriverEveryPart) {
  ::setenv("BALEEN_MADE_UP_GPU", "9.9", 1);
  ::unsetenv("CUDA_CACHE_DISABLE");
  std::string many;
  for (int i = 0; i < 100; ++i) many += fat_binary(std::string(static_cast<std::size_t>(8 * i + 8), 'k'));
  EXPECT_EQ(compiled(module_with(two_parts())), 2);
  EXPECT_EQ(compiled(module_with(many)), 100);
  EXPECT_EQ(compiled("no module"), 0);
}

TEST(ModuleCompilation, LeavesItToTheRuntimeWhereNothingIsKept) {
  ::setenv("BALEEN_MADE_UP_GPU", "9.9", 1);
  ::setenv("CUDA_CACHE_DISABLE", "1", 1);
  EXPECT_EQ(compiled(module_with(two_parts())), 0);
  ::unsetenv("CUDA_CACHE_DISABLE");
  ::setenv("CUDA_CACHE_MAXSIZE", "100", 1);
  EXPECT_EQ(compiled(module_with(two_parts())), 0);
  ::unsetenv("CUDA_CACHE_MAXSIZE");
}

TEST(ModuleCompilation, IsNotHeldUpByADriverThatTakesNothing) {
  ::setenv("BALEEN_MADE_UP_GPU", "9.9 load=200", 1);
  EXPECT_EQ(compiled(module_with(two_parts())), 0);
  EXPECT_EQ(compile_module("/proc/self/exe", 0, "libcuda-that-is-not-there.so.1"), 0);
}

}  // namespace
}  // namespace baleen
