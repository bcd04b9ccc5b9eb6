// What the program says of GPUs that it cannot use, where a made-up driver has one.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

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
      with_gpu("7.5", BALEEN_PROGRAM, one_token({"--device", "cuda"})),
      "--device cuda: NVIDIA Made-up 1000 has compute capability 7.5; there are kernels for sm90 "
      "(compute capability 9.0, as H100, H200; 227 KiB of shared memory a block, FP8 units, tensor "
      "copies)");
  expect_refusal(with_gpu("7.5", BALEEN_PROGRAM, one_token({"--devices", "0"})),
                 "has compute capability 7.5");
  const ProgramResult by_itself = with_gpu("7.5", BALEEN_PROGRAM, one_token({}));
  EXPECT_EQ(by_itself.status, 0) << by_itself.err;
}

TEST(GpuChoice, AForcedArchitectureRunsThereOrIsRefused) {
  expect_refusal(
      with_gpu("8.6", BALEEN_PROGRAM, one_token({"--arch", "sm90"})),
      "architecture sm90: needs compute capability 9.0, NVIDIA Made-up 1000 has 8.6; there are sm90 (");
  expect_refusal(with_gpu("9.0", BALEEN_PROGRAM, one_token({"--arch", "sm70"})),
                 "architecture sm70: there is none of that name; there are sm90 (");
  expect_refusal(with_gpu("9.0", BALEEN_PROGRAM, one_token({"--device", "cpu", "--arch", "sm90"})),
                 "architecture sm90: is one of GPUs, and the device is the CPU");
}

TEST(GpuChoice, TheDriversWordsAreQuoted) {
  expect_refusal(with_gpu("error", BALEEN_PROGRAM, one_token({"--device", "cuda"})),
                 "--device cuda: the NVIDIA driver says 'unknown error' (error 999)");
}

TEST(GpuChoice, AMissingModuleIsNamedWithWhatBuildsIt) {
  const test::TemporaryFolder folder;
  const std::filesystem::path program = folder / "baleen";
  std::filesystem::copy_file(BALEEN_PROGRAM, program);
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

}  // namespace
}  // namespace baleen
