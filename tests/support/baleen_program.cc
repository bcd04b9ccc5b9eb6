#include "tests/support/baleen_program.h"

namespace baleen::test {

const char* const kBaleenProgram = BALEEN_PROGRAM;

}  // namespace baleen::test
