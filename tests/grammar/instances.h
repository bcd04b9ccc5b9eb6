/// What a schema means, as plainly as possible: a validator, and a writer of random valid values.
#pragma once

#include <random>

#include "chat/python_json.h"

namespace baleen {

/// For the keywords that grammars support; the second half of the tests' pairs, so written apart from them.
bool is_valid(const PythonJson& value, const PythonJson& schema, const PythonJson& root);

/// A value that fits, in the order and with the members that the grammar's canonical form has. No patterns,
/// no allOf.
PythonJson random_instance(const PythonJson& schema, const PythonJson& root, std::mt19937& random,
                           int depth = 0);

}  // namespace baleen
