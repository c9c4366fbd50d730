// Preparations of a config's tree before its key table is applied.
#pragma once

#include "core/yaml.hpp"
#include "training_configs/facts.hpp"

namespace lockstep {

// States the sizes that torchtitan's JSON holds layer by layer, and its kind of recomputation.
Node with_torchtitan_sizes(const Node& root, Facts& facts);
// MCLI's `parameters` beside `compute`; `${a.b}` in place.
Node composer_tree(const Node& root, Facts& facts);
// A trainer or a strategy that stands alone, below `trainer`; `${a.b}` in place.
Node lightning_tree(const Node& root, Facts& facts);
// MODEL_ARGS of a test recipe, or the arguments that a launch script passes; names with underscores.
Node megatron_tree(const Node& root, Facts& facts);

// Values `${path}` replaced by what stands at the path, from the root or (`${.x}`) from the same map.
Node resolved(const Node& root);

}  // namespace lockstep
