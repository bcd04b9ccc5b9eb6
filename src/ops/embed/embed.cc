#include "ops/embed/embed.h"

namespace baleen {

void embed(const EmbedArgs& args, CpuContext& context) {
  if (context.kernels == Kernels::kReference) return embed_ref(args);
  embed_cpu(args, context);
}

}  // namespace baleen
