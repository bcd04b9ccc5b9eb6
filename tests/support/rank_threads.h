/// Runs one operation on ranks that are threads, each with its own arguments.
#pragma once

#include <chrono>
#include <thread>
#include <vector>

#include "comm/local_communicator.h"
#include "tests/support/test_cpu.h"

namespace baleen::test {

template <class Op>
void run_on_ranks(const std::vector<typename Op::Args>& ranks) {
  LocalExchange exchange(std::chrono::seconds(60));
  std::vector<std::jthread> threads;
  for (const typename Op::Args& args : ranks) {
    threads.emplace_back([&] {
      LocalCommunicator communicator(exchange);
      TestCpu cpu;
      cpu.context.communicator = &communicator;
      cpu.run<Op>(args);
    });
  }
}

}  // namespace baleen::test
