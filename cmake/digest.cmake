# Run at build time with -DGLOBS and -DOUTPUT: writes a source file that holds one digest of all files.
file(GLOB_RECURSE files ${GLOBS})
list(SORT files)
set(digests "")
foreach(file ${files})
  file(SHA256 ${file} digest)
  string(APPEND digests ${digest})
endforeach()
string(SHA256 digest "${digests}")
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Made by cmake/digest.cmake.
#include "device/gpu_module.h"

namespace baleen {

const char* gpu_module_sources() { return "@digest@"; }

}  // namespace baleen
]])
