/// What a kernel asks the host to compute, without a GPU: posts a request as the kernel does and waits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "numeric/block_scale.h"
#include "numeric/e8m0.h"
#include "ops/experts/experts.h"
#include "ops/experts/stated_sums.h"

namespace baleen::test {

struct AskedExpert {
  std::int32_t expert;
  std::int32_t place;
  std::vector<std::int32_t> tokens;
  const ExpertWeights* weights;  ///< what the expert has, wherever it lies
};

/// Rows of random codes. How many rows of the answer have wrong bits.
inline int wrong_rows(const ComputedExperts& host, std::uint64_t number,
                      const std::vector<AskedExpert>& experts, std::int32_t num_tokens, float swiglu_limit,
                      std::mt19937& random) {
  HostExpertRequest& request = *host.request;
  const std::int64_t width = experts.front().weights->w1.cols, stride = host_scale_stride(num_tokens);
  for (std::int64_t i = 0; i < num_tokens * width; ++i)
    host.codes[i] = static_cast<std::uint8_t>(random() % 0x7F | random() % 2 << 7);
  for (std::int64_t i = 0; i < width / kActivationGroup * stride; ++i)
    host.scales[i] = e8m0_to_float(static_cast<std::uint8_t>(120 + random() % 10));
  std::int32_t num_rows = 0;
  request.num_experts = 0;
  for (const AskedExpert& asked : experts) {
    request.experts[request.num_experts] = asked.expert;
    request.places[request.num_experts] = asked.place;
    request.first_rows[request.num_experts++] = num_rows;
    for (const std::int32_t token : asked.tokens) {
      request.tokens[num_rows] = token;
      request.weights[num_rows++] = static_cast<float>(random() % 100) / 50;
    }
  }
  request.first_rows[request.num_experts] = num_rows;
  request.block = host.block;
  request.num_tokens = num_tokens;
  std::atomic_ref(request.posted).store(number, std::memory_order_release);
  while (std::atomic_ref(request.answered).load(std::memory_order_acquire) < number)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  int num_wrong = 0;
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const std::int32_t first = request.first_rows[i], count = request.first_rows[i + 1] - first;
    std::vector<Bf16Bits> want(static_cast<std::size_t>(count * width));
    stated_expert_ref({.expert = experts[i].weights,
                       .x = {host.codes, host.scales, stride},
                       .row_index = request.tokens + first,
                       .weights = request.weights + first,
                       .num_rows = count,
                       .y = want.data()},
                      swiglu_limit);
    for (std::int32_t row = 0; row < count; ++row) {
      const Bf16Bits* const got = host.y + (first + row) * width;
      num_wrong += std::equal(got, got + width, want.data() + row * width) ? 0 : 1;
    }
  }
  return num_wrong;
}

}  // namespace baleen::test
