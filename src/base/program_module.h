/// Modules of the program: shared objects that it loads when it needs them, so that it starts without what
/// they are linked with.
#pragma once

#include <string>

namespace baleen {

/// What a module exports needs this: everything else in it is its own.
#define BALEEN_EXPORTED extern "C" __attribute__((visibility("default")))

struct ProgramModule {
  void* handle = nullptr;  ///< as of dlopen; null: it cannot be loaded
  std::string path;        ///< that was tried: beside the program, or where it is installed
  bool exists = false;     ///< at that path
  std::string why_not;     ///< the loader's words
};

/// Loads `name`, "baleen_mpi.so", for good. It is looked for beside the program, where it is built; in
/// ../lib/baleen, where it is installed; and where the loader looks by itself, which for tests is the build's
/// folder of programs. `flags` of dlopen beside RTLD_NODELETE.
[[nodiscard]] ProgramModule load_program_module(const std::string& name, int flags);

}  // namespace baleen
