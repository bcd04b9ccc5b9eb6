/// The program that tests start.
#pragma once

namespace baleen::test {

/// The path of `baleen` as this build made it. One file alone depends on it, so that all others compile to
/// the same in every checkout.
extern const char* const kBaleenProgram;

}  // namespace baleen::test
