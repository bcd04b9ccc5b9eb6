/// The end of a process that was a rank other than the first.
#pragma once

namespace baleen {

/// Thrown in a process that followed the first rank to its end: nothing is left to do, and nothing is wrong.
class FollowedToTheEnd {};

}  // namespace baleen
