#include "ops/embed/embed.h"

#include <fmt/format.h>

#include <array>

namespace baleen::ops {

CallShape Embed::shape(const EmbedArgs& args) {
  return {.num_rows = args.out.extent(0), .detail = fmt::format("{} streams", args.out.extent(1))};
}

void Embed::accesses(const EmbedArgs& args, Accesses& to) {
  to.read(args.tokens, args.table).write(args.out);
}

std::span<const CpuVariant<Embed>> Embed::cpu_variants() {
  static constexpr std::array<CpuVariant<Embed>, 2> kVariants{
      {{.name = kSimdVariant, .run = embed_cpu},
       {.name = kReferenceVariant,
        .run = [](const EmbedArgs& args, CpuContext& /*context*/) { embed_ref(args); }}}};
  return kVariants;
}

}  // namespace baleen::ops
