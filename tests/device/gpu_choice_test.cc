// What the program says of GPUs that it cannot use, where a made-up driver has one.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using test::ProgramResult;

/// `program` with one GPU of that compute capability.
ProgramResult with_gpu(const std::string& capability, const std::filesystem::path& program,
                       const std::vector<std::string>& arguments) {
  std::vector<std::string> command{"/usr/bin/env", "LD_LIBRARY_PATH=" BALEEN_MADE_UP_DRIVER,
                                   "BALEEN_MADE_UP_GPU=" + capability, program.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return test::run_program(command);
}

std::vector<std::string> one_token(const std::vector<std::string>& options) {
  std::vector<std::string> arguments{"run", "Once",    "-n",
                                     "1",   "--model", std::filesystem::absolute("models/stories").string()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return arguments;
}

void expect_refusal(const ProgramResult& result, const std::string& sentence) {
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find(sentence), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "");
}

TEST(GpuChoice, WithoutKernelsForItTheRowsAreListed) {
  expect_refusal(
      with_gpu("7.5", test::kBaleenProgram, one_token({"--device", "cuda"})),
      "--device cuda: NVIDIA Made-up 1000 has compute capability 7.5; there are kernels for sm90 "
      "(compute capability 9.0, as H100, H200; 227 KiB of shared memory a block, FP8 units, tensor "
      "copies)");
  expect_refusal(with_gpu("7.5", test::kBaleenProgram, one_token({"--devices", "0"})),
                 "has compute capability 7.5");
  const ProgramResult by_itself = with_gpu("7.5", test::kBaleenProgram, one_token({}));
  EXPECT_EQ(by_itself.status, 0) << by_itself.err;
}

TEST(GpuChoice, AForcedArchitectureRunsThereOrIsRefused) {
  expect_refusal(
      with_gpu("8.6", test::kBaleenProgram, one_token({"--arch", "sm90"})),
      "architecture sm90: needs compute capability 9.0, NVIDIA Made-up 1000 has 8.6; there are sm90 (");
  expect_refusal(with_gpu("9.0", test::kBaleenProgram, one_token({"--arch", "sm70"})),
                 "architecture sm70: there is none of that name; there are sm90 (");
  expect_refusal(with_gpu("9.0", test::kBaleenProgram, one_token({"--device", "cpu", "--arch", "sm90"})),
                 "architecture sm90: is one of GPUs, and the device is the CPU");
}

TEST(GpuChoice, TheDriversWordsAreQuoted) {
  expect_refusal(with_gpu("9.0 status=999", test::kBaleenProgram, one_token({"--device", "cuda"})),
                 "--device cuda: the NVIDIA driver says 'unknown error' (error 999)");
}

TEST(GpuChoice, AMissingModuleIsNamedWithWhatBuildsIt) {
  const test::TemporaryFolder folder;
  const std::filesystem::path program = folder / "baleen";
  std::filesystem::copy_file(test::kBaleenProgram, program);
  const std::string why =
      "NVIDIA Made-up 1000 is here, but " + (folder / "baleen_sm90.so").string() +
      ", the kernels for H100, H200, is not there; where nvcc 12.3 or later is, scripts/build.sh release "
      "gpu_modules builds it";
  expect_refusal(with_gpu("9.0", program, one_token({"--device", "cuda"})), "--device cuda: " + why);
  expect_refusal(with_gpu("8.6", program, one_token({"--device", "cuda"})),
                 (folder / "baleen_sm80.so").string() + ", the kernels for A100, RTX 3090, ");
  expect_refusal(with_gpu("9.0", program, one_token({"--arch", "sm80"})),
                 (folder / "baleen_sm80.so").string() + ", the kernels for A100, RTX 3090, ");
  const ProgramResult by_itself = with_gpu("9.0", program, one_token({}));
  EXPECT_EQ(by_itself.status, 0) << by_itself.err;
  EXPECT_NE(by_itself.err.find("the CPU is used: " + why), std::string::npos) << by_itself.err;
}

/// The program beside a module that loads, and says that CUDA 13.0 made it.
class WithModule {
 public:
  WithModule() {
    std::filesystem::copy_file(test::kBaleenProgram, folder_ / "baleen");
    std::filesystem::copy_file(BALEEN_MADE_UP_MODULE, folder_ / "baleen_sm80.so");
  }
  [[nodiscard]] ProgramResult run(const std::string& gpu, const std::vector<std::string>& options) const {
    return with_gpu(gpu, folder_ / "baleen", one_token(options));
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(GpuChoice, WhatWasFoundAndWhatItRunsIsOneLine) {
  const WithModule program;
  // The made-up module drives no GPU: the program ends behind the line.
  expect_refusal(program.run("8.9", {"--device", "cuda"}),
                 "NVIDIA Made-up 1000 (compute capability 8.9, 25.4 GB): module sm80\n");
  const ProgramResult compiled = program.run("9.0", {"--arch", "sm80"});
  EXPECT_NE(
      compiled.err.find("(compute capability 9.0, 25.4 GB): module sm80\nbaleen_sm80.so has no machine code "
                        "for compute capability 9.0: the driver compiles its kernels"),
      std::string::npos)
      << compiled.err;
  EXPECT_EQ(program.run("8.9", {"--device", "cuda"}).err.find("compiles"), std::string::npos);
}

TEST(GpuChoice, ACardIsImposedAndSaid) {
  const WithModule program;
  expect_refusal(
      program.run("9.0", {"--as-card", "rtx-3090"}),
      "(compute capability 9.0, 25.4 GB): module sm80, with the traits of rtx-3090: 82 multiprocessors, "
      "99 KiB of shared memory a block, 6.3 MB of L2 (--gpu-weights-bytes imposes its memory)\n");
  expect_refusal(program.run("9.0", {"--as-card", "a100-40gb"}), "163 KiB of shared memory a block");
}

TEST(GpuChoice, ACardThatTheGpuCannotBeIsRefused) {
  const WithModule program;
  expect_refusal(program.run("8.9 shared=99", {"--as-card", "a100-40gb"}),
                 "card a100-40gb: has 163 KiB of shared memory a block, NVIDIA Made-up 1000 has 99; impose a "
                 "smaller card");
  expect_refusal(
      program.run("9.0 units=114", {"--as-card", "rtx-4090"}),
      "card rtx-4090: has 128 multiprocessors, NVIDIA Made-up 1000 has 114; impose a smaller card");
  expect_refusal(program.run("9.0", {"--as-card", "voodoo-2"}),
                 "card voodoo-2: there is none of that name; there are a100-40gb, ");
  expect_refusal(program.run("9.0", {"--as-card", "rtx-3090", "--arch", "sm90"}),
                 "architecture sm90: needs compute capability 9.0, rtx-3090 has 8.6");
  expect_refusal(program.run("9.0", {"--as-card", "rtx-3090", "--device", "cpu"}),
                 "card rtx-3090: is imposed on GPUs, and the device is the CPU");
}

TEST(GpuChoice, ADriverThatIsTooOldIsNamedWithWhatIsNeeded) {
  const WithModule program;
  expect_refusal(
      program.run("8.6 cuda=12040", {"--device", "cuda"}),
      "--device cuda: NVIDIA Made-up 1000 is here, but the NVIDIA driver is for CUDA 12.4; baleen_sm80.so "
      "was built with CUDA 13.0 and needs a driver for CUDA 13.0, release 580.65 or later");
}

TEST(GpuChoice, AGpuThatNoProgramMayUse) {
  expect_refusal(with_gpu("8.6 mode=2", test::kBaleenProgram, one_token({"--device", "cuda"})),
                 "its compute mode is prohibited: no program may use it; `sudo nvidia-smi -c DEFAULT`");
}

TEST(GpuChoice, WhyTheCpuIsUsedIsSaid) {
  const ProgramResult old = with_gpu("7.5", test::kBaleenProgram, one_token({}));
  EXPECT_EQ(old.status, 0) << old.err;
  EXPECT_NE(
      old.err.find("the CPU is used: NVIDIA Made-up 1000 has compute capability 7.5; there are kernels for"),
      std::string::npos)
      << old.err;
}

}  // namespace
}  // namespace baleen
