/// Whole-model logits against those that the NumPy forward pass left (tests/forward/make_goldens.py).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/golden_file.h"

namespace baleen::test {

/// float32 sums in another order than NumPy's. Every position of the goldens stays within 2e-6.
inline constexpr double kExactLogitError = 1e-5;

inline double norm_of(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

/// How far each row of `got` [T, V] is from the array called `name`, of which the golden has norms and
/// projections on its random directions: by norm, and by the part of the difference that lies in the
/// directions, scaled up to the whole.
inline std::vector<double> row_errors(const GoldenFile& golden, const std::string& name,
                                      std::span<const float> got) {
  const std::vector<float> norms = golden.floats(name + ".norm"),
                           projections = golden.floats(name + ".projection");
  const std::vector<float> directions = golden.floats("directions");
  const std::size_t num_directions = projections.size() / norms.size(),
                    width = directions.size() / num_directions;
  if (got.size() != norms.size() * width) throw std::runtime_error("rows of another number or width");
  std::vector<double> errors;
  for (std::size_t t = 0; t < norms.size(); ++t) {
    const auto row = got.subspan(t * width, width);
    double squares = 0;
    for (std::size_t i = 0; i < num_directions; ++i) {
      double projection = 0;
      for (std::size_t v = 0; v < width; ++v)
        projection += static_cast<double>(row[v]) * directions[i * width + v];
      squares += std::pow(projection - projections[t * num_directions + i], 2);
    }
    const double seen = std::sqrt(squares * static_cast<double>(width) / static_cast<double>(num_directions));
    errors.push_back(std::max(seen / norms[t], std::fabs(norm_of(row) - norms[t]) / norms[t]));
  }
  return errors;
}

/// `got` [T, V] against the array called `name`: in full where the golden has it, elsewhere by `row_errors`.
inline void expect_golden(const GoldenFile& golden, const std::string& name, std::span<const float> got) {
  const double worst = std::ranges::max(row_errors(golden, name, got));
  EXPECT_LE(worst, kExactLogitError) << name;
  testing::Test::RecordProperty(name, std::to_string(worst * 1e6) + "e-6");

  const std::vector<std::int32_t> positions = golden.ints("positions");
  const std::vector<float> rows = golden.floats(name);
  const std::size_t width = got.size() / golden.floats(name + ".norm").size();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    EXPECT_CLOSE(got.subspan(static_cast<std::size_t>(positions[i]) * width, width),
                 std::span(rows).subspan(i * width, width), {.norm = kExactLogitError})
        << name << " at position " << positions[i];
  }
}

}  // namespace baleen::test
