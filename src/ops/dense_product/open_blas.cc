#include "ops/dense_product/open_blas.h"

#include <dlfcn.h>
#include <pthread.h>

#include <csignal>

#include "base/error.h"

namespace baleen {
namespace {

constexpr const char* kFile = "libopenblas.so.0";

/// Threads that begin meanwhile take no signals: Ctrl-C and SIGTERM are the program's own.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) fail("{} has no function {}: another library of that name?", kFile, name);
}

OpenBlas load() {
  const SignalsBlocked blocked;
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(
        "training computes its matrix products with OpenBLAS, and {} was not found ({}); it is in Debian's "
        "package libopenblas0",
        kFile, ::dlerror());
  }
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
  find(library, "openblas_set_num_threads", set_num_threads);
  set_num_threads(1);
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
