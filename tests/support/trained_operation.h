/// The forward of an operation as training runs it: floats by the variant `training`, or the best where there
/// is none, doubles as the operation is specified.
#pragma once

#include <type_traits>

#include "tests/support/test_cpu.h"

namespace baleen::test {

template <class Op, class T>
void run_trained(const typename Op::template ArgsOf<T>& args) {
  if constexpr (std::is_same_v<T, double>) {
    Op::run_f64(args);
  } else {
    TestCpu(2, 0, kTrainingVariant).run<Op>(args);
  }
}

}  // namespace baleen::test
