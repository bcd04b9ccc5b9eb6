/// Predictions beside published figures as a page.
#pragma once

#include <string>
#include <vector>

#include "plots/html_page.h"
#include "simulator/validation/published_set.h"

namespace baleen {

/// A page in one file: the error of every row as a plot, rows, sources and what is not known as tables.
[[nodiscard]] std::string validation_html(const std::vector<ValidatedRow>& rows,
                                          const Provenance& provenance);

}  // namespace baleen
