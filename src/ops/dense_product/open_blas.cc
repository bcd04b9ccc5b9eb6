#include "ops/dense_product/open_blas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "hardware/instruction_sets.h"

namespace baleen {
namespace {

constexpr const char* kFile = "libopenblas.so.0";

/// Its kernels for an instruction set. It chooses by the processor's model, and takes its oldest for a model
/// that is younger than itself: three times slower on a Xeon of 2023.
const char* core_type(std::string_view instruction_set) {
  if (instruction_set.starts_with("AVX3")) return "SkylakeX";
  if (instruction_set == "AVX2") return "Haswell";
  return nullptr;
}

/// Read when it is loaded. With one thread it starts none.
void set_environment() {
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  const char* const type = core_type(instruction_set_in_use());
  if (type != nullptr) ::setenv("OPENBLAS_CORETYPE", type, 0);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) fail("{} has no function {}: another library of that name?", kFile, name);
}

OpenBlas load() {
  set_environment();
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(
        "training computes its matrix products with OpenBLAS, and {} was not found ({}); it is in Debian's "
        "package libopenblas0",
        kFile, ::dlerror());
  }
  OpenBlas functions;
  find(library, "cblas_sgemm", functions.sgemm);
  find(library, "cblas_dgemm", functions.dgemm);
  return functions;
}

}  // namespace

const OpenBlas& open_blas() {
  static const OpenBlas once = load();
  return once;
}

}  // namespace baleen
