/// DSpark as a draft head: blocks that predict several tokens at once from one pass over rows of noise.
/// (source: releases specification 2.1, 9.B)
///
///     follow   mean of the streams behind each target layer, side by side     [R, m d]
///              u = rms_norm(main_proj(mean))                                  [R, d]
///              of each block the window's row of u's position
///     draft    rows of a sequence of n positions: the token at n, then noise, at n .. n + B - 1
///              depth 0: all blocks over the B rows, which see the window before n and each other;
///                       x = hc_head(streams), l = head(rms_norm(x))           [B, d], [B, V]
///              depth i: l_i + w2 w1[y_i], where y_i is the token before, y_0 the one at n
///                       confidence: proj [x_i ; w1[y_i]], the logit of the chance that y_(i + 1) is accepted
///
/// V4.1 takes the streams that enter each target layer, and its x is collapsed by what the last block leaves.
///
/// Rows of drafts are written where the next step's come, at positions that no other sequence can find, and
/// nothing is kept of a draft beside the cache: behind a prefix that was found, after a truncation or on
/// another rank a sequence drafts as it would have.
#pragma once

#include "drafts/draft_head.h"

namespace baleen {

extern const DraftHeadType kDsparkHead;

}  // namespace baleen
