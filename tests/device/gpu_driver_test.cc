// Sentences for what may be wrong with a driver, over made-up folders of a system and a made-up driver.
#include "device/gpu_driver.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "device/compile_cache.h"
#include "device/pcie_link.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

const std::filesystem::path kDriver = BALEEN_MADE_UP_DRIVER "/libcuda.so.1";

/// A system with the files named, and the made-up driver where the loader looks.
class System {
 public:
  explicit System(const std::string& says) {
    ::setenv("BALEEN_MADE_UP_GPU", says.c_str(), 1);
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  System& with(const std::string& path, const std::string& text = "") {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  System& with_card() {
    with("proc/driver/nvidia/version",
         "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"
         "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
    return with("proc/driver/nvidia/gpus/0000:01:00.0/information");
  }
  System& with_devices() { return with("dev/nvidiactl").with("dev/nvidia0").with("dev/nvidia-uvm"); }
  [[nodiscard]] std::filesystem::path operator/(const std::string& path) const { return folder_ / path; }
  [[nodiscard]] GpuDriver ask(const std::string& library = kDriver) const {
    return ask_driver({.library = library, .root = folder_ / "."});
  }
  [[nodiscard]] std::string why_none(const std::string& library = kDriver) const {
    return ask(library).why_none;
  }

 private:
  test::TemporaryFolder folder_;
};

constexpr const char* kNoLibrary = "libcuda-that-is-not-there.so.1";

void expect_has(const std::string& sentence, const std::string& part) {
  EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
}

TEST(GpuDriver, SaysWhatTheGpuIs) {
  const GpuDriver driver = System("8.9 units=128 shared=99").with_card().ask();
  EXPECT_EQ(driver.why_none, "");
  EXPECT_EQ(driver.release, "550.54.14");
  EXPECT_EQ(driver.cuda_version, 13000);
  ASSERT_EQ(driver.gpus.size(), 1u);
  EXPECT_EQ(driver.gpus[0].name, "NVIDIA Made-up 1000");
  EXPECT_EQ(driver.gpus[0].capability, (ComputeCapability{8, 9}));
  EXPECT_EQ(driver.gpus[0].memory_bytes, 25386352640);
  EXPECT_EQ(driver.gpus[0].num_units, 128);
  EXPECT_EQ(driver.gpus[0].shared_bytes_per_block, 99 << 10);
  EXPECT_EQ(driver.gpus[0].pci_address, "0000:01:00.0");
}

/// Scratch is planned by these: by those of a usual GPU there is too little on one with more units.
TEST(GpuDriver, TraitsAreThoseOfTheGpuThatIsHere) {
  const GpuArchitecture& row = architecture_by_name(gpu_architectures(), "sm80");
  const DeviceTraits traits = traits_of(row, System("8.9 units=170 shared=163").ask().gpus.at(0));
  EXPECT_EQ(traits.num_units, 170);
  EXPECT_EQ(traits.shared_bytes_per_block, 163 << 10);
  EXPECT_EQ(traits.l2_bytes, 50 << 20);
  EXPECT_EQ(traits.architecture, "sm80");
}

TEST(GpuDriver, WithoutADriverThatIsSaidAndNothingMore) {
  const GpuDriver driver = System("8.6").ask(kNoLibrary);
  EXPECT_EQ(driver.why_none, "no NVIDIA driver is installed here");
  EXPECT_FALSE(driver.seems_to_be_here);
}

TEST(GpuDriver, ADriverWhoseLibraryIsNotInTheContainer) {
  const GpuDriver driver = System("8.6").with_card().ask(kNoLibrary);
  EXPECT_TRUE(driver.seems_to_be_here);
  expect_has(driver.why_none, "the NVIDIA driver 550.54.14 runs, but its libcuda.so.1 is not here");
  expect_has(driver.why_none, "docker run --gpus all");
  expect_has(driver.why_none, "podman run --device nvidia.com/gpu=all");
}

TEST(GpuDriver, TheLibraryOfWslIsFoundWhereTheLoaderDoesNotLook) {
  System wsl("8.9");
  wsl.with("dev/dxg");
  expect_has(wsl.why_none(kNoLibrary), "this is Windows' WSL");
  expect_has(wsl.why_none(kNoLibrary), "install NVIDIA's driver in Windows");
  std::filesystem::create_directories(wsl / "usr/lib/wsl/lib");
  std::filesystem::copy_file(kDriver, wsl / "usr/lib/wsl/lib/libcuda.so.1");
  EXPECT_EQ(wsl.why_none(kNoLibrary), "");
  EXPECT_EQ(wsl.ask(kNoLibrary).gpus.size(), 1u);
}

TEST(GpuDriver, ALibraryThatIsNoDriver) {
  expect_has(System("8.6").why_none("libc.so.6"), "libcuda.so.1 is no NVIDIA driver");
}

TEST(GpuDriver, DevicesThatMayNotBeOpened) {
  // Root may open everything: as another user, in a process of its own.
  constexpr uid_t kNobody = 65534;
  for (const char* status : {"8.6 status=100", "8.6 status=304", "8.6 status=999"}) {
    System system(status);
    system.with_card().with_devices();
    ::chmod((system / ".").c_str(), 0755);
    ::chmod((system / "dev/nvidiactl").c_str(), 0);
    const auto say = [&] {
      if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(2);
      std::fputs(system.why_none().c_str(), stderr);
      ::_exit(0);
    };
    EXPECT_EXIT(say(), testing::ExitedWithCode(0),
                "this user may not open /dev/nvidiactl; in a container, docker run --gpus all");
  }
}

TEST(GpuDriver, DevicesThatAreNotThere) {
  System system("8.6 status=100");
  EXPECT_EQ(system.why_none(), "no GPU was found");
  system.with_card();
  expect_has(system.why_none(), "no GPU was found: the driver has 1, but /dev/nvidiactl is not here; in a");
  system.with("dev/nvidiactl").with("dev/nvidia0");
  expect_has(system.why_none(), "/dev/nvidia-uvm is not here; run `sudo nvidia-modprobe -u -c=0`");
}

TEST(GpuDriver, ACardInMigModeNeedsAnInstance) {
  for (const char* says : {"8.0 status=100", "8.0 count=0"}) {
    System system(says);
    system.with_card().with_devices();
    expect_has(system.why_none(),
               "no GPU was found: the driver has 1, and shows none to programs; a card in MIG");
    expect_has(system.why_none(), "sudo nvidia-smi mig -cgi 0 -C");
  }
}

TEST(GpuDriver, CardsThatTheEnvironmentHides) {
  System system("8.0 status=100");
  system.with_card().with_devices();
  ::setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  EXPECT_EQ(system.why_none(), "no GPU was found: CUDA_VISIBLE_DEVICES is \"7\"; unset it");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(GpuDriver, WhatItsStatusMeans) {
  const auto why = [](const std::string& status) {
    return System("9.0 status=" + status).with_card().with_devices().why_none();
  };
  expect_has(why("34"),
             "the stub that programs are linked with, not the driver; take the toolkit's folder stubs");
  expect_has(why("802"), "sudo systemctl start nvidia-fabricmanager");
  expect_has(why("803"), "the driver that runs, 550.54.14, are of different releases; reboot");
  expect_has(why("804"), "CUDA's compatibility package");
  EXPECT_EQ(why("3"), "the NVIDIA driver says 'unknown error' (error 3)");
}

TEST(GpuDriver, OneThatIsTooOldForAModule) {
  GpuDriver driver{.gpus = {}, .cuda_version = 12040, .release = "550.54.14", .why_none = {}};
  EXPECT_EQ(why_too_old(driver, "baleen_sm80.so", "12.8", /*compiles=*/false), "");
  EXPECT_EQ(why_too_old(driver, "baleen_sm80.so", "12.4", /*compiles=*/true), "");
  EXPECT_EQ(
      why_too_old(driver, "baleen_sm80.so", "13.0", /*compiles=*/false),
      "the NVIDIA driver 550.54.14 is for CUDA 12.4; baleen_sm80.so was built with CUDA 13.0 and needs a "
      "driver for CUDA 13.0, release 580.65 or later: update the driver (of WSL: in Windows), or build "
      "the module with an older toolkit");
  // What the driver compiles may use what came with the toolkit's minor version.
  expect_has(why_too_old(driver, "baleen_sm80.so", "12.8", /*compiles=*/true),
             "is for CUDA 12.4; baleen_sm80.so was built with CUDA 12.8 and needs a driver for CUDA 12.8: ");
}

TEST(GpuDriver, WhyAGpuDoesNotStart) {
  expect_has(why_not_started(46, "NVIDIA A100"), "NVIDIA A100 is in use by another process");
  expect_has(why_not_started(46, "NVIDIA A100"), "`sudo nvidia-smi -c DEFAULT`");
  expect_has(why_not_started(2, "NVIDIA A100"), "has no memory left to start with: other processes have it");
  EXPECT_EQ(why_not_started(700, "NVIDIA A100"), "");
}

TEST(GpuDriver, MemoryThatOthersHave) {
  constexpr std::int64_t kGB = 1'000'000'000;
  EXPECT_EQ(taken_memory_text(25 * kGB, 24 * kGB), "");
  EXPECT_EQ(taken_memory_text(25 * kGB, 5 * kGB),
            "of its 25.0 GB, 20.0 were taken before this began; nvidia-smi lists by whom");
}

TEST(PcieLink, IsReadWhereLinuxSaysIt) {
  System system("8.9");
  const std::string folder = "sys/bus/pci/devices/0000:0a:00.0/";
  system.with(folder + "current_link_speed", "2.5 GT/s PCIe\n").with(folder + "current_link_width", "16\n");
  system.with(folder + "max_link_speed", "16.0 GT/s PCIe\n").with(folder + "max_link_width", "16\n");
  const std::optional<PcieLink> link = pcie_link("0000:0A:00.0", system / ".");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->generation, 1);
  EXPECT_EQ(link->lanes, 16);
  EXPECT_EQ(link->most_generation, 4);
  EXPECT_EQ(link->most_lanes, 16);
  EXPECT_FALSE(pcie_link("0000:0b:00.0", system / "."));
}

TEST(CompileCache, WhatIsSaidBeforeTheDriverCompiles) {
  for (const char* name : {"CUDA_CACHE_MAXSIZE", "CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH"}) ::unsetenv(name);
  const auto text = [] { return compilation_text("baleen_sm80.so", 50'000'000, {12, 0}); };
  EXPECT_EQ(
      text(),
      "baleen_sm80.so has no machine code for compute capability 12.0: the driver compiles its kernels, "
      "which takes some seconds at the first start and is kept in ~/.nv/ComputeCache for the others");
  ::setenv("CUDA_CACHE_PATH", "/cache", 1);
  expect_has(text(), "is kept in /cache for the others");
  ::setenv("CUDA_CACHE_MAXSIZE", "1000000", 1);
  expect_has(text(),
             "at every start, as CUDA_CACHE_MAXSIZE is 1000000 and they take up to 50000000; unset it");
  enlarge_compile_cache();
  EXPECT_STREQ(std::getenv("CUDA_CACHE_MAXSIZE"), "1000000") << "what the user set stays";
  ::unsetenv("CUDA_CACHE_MAXSIZE");
  enlarge_compile_cache();
  EXPECT_STREQ(std::getenv("CUDA_CACHE_MAXSIZE"), "1073741824");
  expect_has(text(), "is kept in /cache for the others");
  ::setenv("CUDA_CACHE_DISABLE", "1", 1);
  expect_has(text(), "at every start, as CUDA_CACHE_DISABLE says");
  for (const char* name : {"CUDA_CACHE_MAXSIZE", "CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH"}) ::unsetenv(name);
}

}  // namespace
}  // namespace baleen
