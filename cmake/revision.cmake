# Run at build time with -DSOURCE and -DOUTPUT: writes revision.cc, only where the revision has changed, so that nothing is
# compiled again for the same one.
set(revision "unknown")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(NOT failed)
    set(revision ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Made by cmake/revision.cmake.
#include "app/provenance.h"

namespace baleen {

const char* program_revision() { return "@revision@"; }

}  // namespace baleen
]])
