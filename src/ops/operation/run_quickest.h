/// Operations by the quickest of their variants, for launchers and tests that have no executor.
#pragma once

#include <limits>
#include <span>

#include "base/check.h"
#include "ops/operation/variant.h"

namespace baleen {

/// As `VariantChoice` chooses, on as many units as the context has.
template <class Context, class... Ops>
void run_quickest(std::span<const Variant<Context, Ops...>> variants, Context& context,
                  const typename Ops::Args&... args) {
  const DeviceTraits traits{.num_units = context.num_sms, .rates = context.rates};
  const Variant<Context, Ops...>* best = nullptr;
  double best_seconds = 0;
  for (const Variant<Context, Ops...>& variant : variants) {
    if (variant.why_not != nullptr && variant.why_not(args..., traits)) continue;
    const double seconds = variant.predict != nullptr ? variant.predict(args..., traits)
                                                      : std::numeric_limits<double>::infinity();
    if (best != nullptr && seconds >= best_seconds) continue;
    best = &variant;
    best_seconds = seconds;
  }
  BALEEN_CHECK(best != nullptr);
  best->run(args..., context);
}

}  // namespace baleen
