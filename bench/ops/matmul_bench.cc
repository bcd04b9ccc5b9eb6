// The tile kernel on projections of the released models, on every instruction set of this machine: decode (M
// = 1) in GB/s of weights, prefill in GFLOP/s. Each case is verified against the reference first; weights
// rotate over more than the last-level cache.
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "hardware/instruction_sets.h"
#include "ops/matmul/matmul.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"

namespace baleen {
namespace {

constexpr double kRotatedBytes = 192e6;

enum class Inputs { kNormal, kSwiglu };

std::vector<float> inputs_of(Inputs inputs, std::size_t count) {
  auto x = test::random_values(count, 2);
  if (inputs == Inputs::kNormal) return x;
  const auto gates = test::random_values(count, 3);
  for (std::size_t i = 0; i < count; ++i) x[i] *= gates[i] / (1.0F + std::exp(-gates[i]));
  return x;
}

void product(benchmark::State& state, WeightFormat format, Inputs inputs,
             const std::string& instruction_set) {
  limit_instruction_set(instruction_set);
  const std::int64_t num_rows = state.range(0), num_columns = state.range(1), num_inputs = state.range(2);
  std::vector<std::unique_ptr<test::RandomWeight>> weights;
  double bytes = 0;
  while (bytes < kRotatedBytes && (num_rows == 1 || weights.empty())) {
    weights.push_back(std::make_unique<test::RandomWeight>(format, num_columns, num_inputs, 1, 0));
    bytes += weights.back()->matrix().stored_bytes();
  }
  auto x = inputs_of(inputs, static_cast<std::size_t>(num_rows * num_inputs));
  std::vector<float> y(static_cast<std::size_t>(num_rows * num_columns));
  ThreadPool pool(default_num_threads());
  Arena scratch(matmul_scratch_bytes(num_rows, num_inputs));
  CpuContext context{pool, scratch};
  const auto run = [&](const WeightMatrix& weight) {
    const MatmulProduct one{.weight = &weight,
                            .x = {x.data(), {num_rows, num_inputs}},
                            .rounding = ActivationRounding::kFp8,
                            .y = {y.data(), {num_rows, num_columns}}};
    matmul({&one, 1}, context);
  };
  run(weights[0]->matrix());
  std::vector<float> want(static_cast<std::size_t>(num_columns));
  matmul_ref(weights[0]->matrix(), {x.data(), {1, num_inputs}}, ActivationRounding::kFp8, false,
             {want.data(), {1, num_columns}});
  const std::string error = test::difference(std::span(y).first(want.size()), want, {.norm = 1e-5});
  if (!error.empty()) return state.SkipWithError(error.c_str());
  std::size_t next = 0;
  for (auto _ : state) {
    run(weights[next]->matrix());
    next = (next + 1) % weights.size();
  }
  const OpCost cost =
      matmul_cost(weights[0]->matrix(), static_cast<double>(num_rows), ActivationRounding::kFp8);
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(cost.read_bytes * iterations * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(cost.total_flops() * iterations * 1e-9, benchmark::Counter::kIsRate);
}

void register_cases() {
  struct Case {
    const char* name;
    WeightFormat format;
    Inputs inputs = Inputs::kNormal;
  };
  constexpr Case kCases[] = {{"Fp4", WeightFormat::kFp4},
                             {"Fp4OfSwiglu", WeightFormat::kFp4, Inputs::kSwiglu},
                             {"Fp8", WeightFormat::kFp8},
                             {"BF16", WeightFormat::kBF16},
                             {"F32", WeightFormat::kF32}};
  for (const std::string& instruction_set : available_instruction_sets()) {
    for (const auto& [name, format, inputs] : kCases) {
      benchmark::RegisterBenchmark((std::string(name) + "/" + instruction_set).c_str(), product, format,
                                   inputs, instruction_set)
          ->Args({1, 4096, 2048})
          ->Args({4, 4096, 2048})
          ->Args({512, 2048, 2048})
          ->Args({48, 2048, 2048})
          ->Args({512, 512, 8192})
          ->MeasureProcessCPUTime()
          ->UseRealTime()
          ->MinTime(0.3);
    }
  }
}

}  // namespace
}  // namespace baleen

int main(int argc, char** argv) {
  baleen::register_cases();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
