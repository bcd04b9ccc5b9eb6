// Several rows at once give what one row after the other gives in double.
#include "numeric/row_products.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace baleen {
namespace {

/// Rows of random values, in the one type and the other.
struct BothRows {
  BothRows(int num_rows, std::int64_t count, std::mt19937& random) {
    std::normal_distribution<float> normal(0, 1);
    singles.resize(static_cast<std::size_t>(num_rows * count));
    for (float& value : singles) value = normal(random);
    doubles.assign(singles.begin(), singles.end());
    for (int row = 0; row < num_rows; ++row) {
      of_singles.push_back(singles.data() + row * count);
      of_doubles.push_back(doubles.data() + row * count);
    }
  }

  std::vector<float> singles;
  std::vector<double> doubles;
  std::vector<float*> of_singles;
  std::vector<double*> of_doubles;
};

TEST(RowProducts, AreThoseOfDoubles) {
  std::mt19937 random(std::random_device{}());
  for (const int num_a : {1, 4, 5, 9}) {
    for (const int num_b : {1, 2, 8}) {
      for (const std::int64_t count : {0, 1, 15, 16, 37, 256, 1030}) {
        SCOPED_TRACE(testing::Message() << num_a << " x " << num_b << " of " << count);
        const BothRows a(num_a, count, random), b(num_b, count, random);
        std::vector<float> products(static_cast<std::size_t>(num_a * num_b));
        std::vector<double> expected(products.size());
        row_math::dot_all(num_a, a.of_singles.data(), num_b, b.of_singles.data(), count, products.data());
        row_math::dot_all<double>(num_a, a.of_doubles.data(), num_b, b.of_doubles.data(), count,
                                  expected.data());
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(static_cast<double>(products[i]), expected[i],
                      1e-6 * static_cast<double>(count) + 1e-7);

        const BothRows weights(1, num_a * num_b, random);
        for (const bool accumulate : {false, true}) {
          BothRows out(num_b, count, random);
          row_math::combine(num_b, out.of_singles.data(), num_a, a.of_singles.data(), weights.singles.data(),
                            count, accumulate);
          row_math::combine<double>(num_b, out.of_doubles.data(), num_a, a.of_doubles.data(),
                                    weights.doubles.data(), count, accumulate);
          for (std::size_t i = 0; i < out.doubles.size(); ++i)
            EXPECT_NEAR(static_cast<double>(out.singles[i]), out.doubles[i], 1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace baleen
