#include "ops/embed/embed.h"

namespace baleen {

void embed_ref(const EmbedArgs& args) {
  for (std::int64_t t = 0; t < args.out.extent(0); ++t) {
    for (std::int64_t s = 0; s < args.out.extent(1); ++s) {
      for (std::int64_t i = 0; i < args.out.extent(2); ++i) {
        args.out(t, s, i) = bf16_to_float(args.table(args.tokens[static_cast<std::size_t>(t)], i));
      }
    }
  }
}

}  // namespace baleen
