/// Runs a test once per instruction set: those our SIMD files are compiled for and this machine has.
///
///     class RmsNorm : public test::EveryTarget {};
///     TEST_P(RmsNorm, ...) {...}
///     INSTANTIATE_TEST_SUITE_P(EveryTarget, RmsNorm, testing::ValuesIn(test::compiled_targets()),
///     test::target_name);
#pragma once

#include "numeric/simd_targets.h"  // before Highway

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <string>
#include <vector>

namespace baleen::test {

class EveryTarget : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

[[nodiscard]] inline std::vector<std::int64_t> compiled_targets() {
  return hwy::SupportedAndGeneratedTargets();
}

[[nodiscard]] inline std::string target_name(const testing::TestParamInfo<std::int64_t>& tested) {
  return hwy::TargetName(tested.param);
}

}  // namespace baleen::test
