// Key tables of the formats (key_table.hpp) and the names of public models, compiled in.
#pragma once

namespace lockstep {

extern const char* const accelerate_keys;
extern const char* const axolotl_keys;
extern const char* const composer_keys;
extern const char* const deepspeed_keys;
extern const char* const lightning_keys;
extern const char* const litgpt_keys;
extern const char* const llamafactory_keys;
extern const char* const megatron_keys;
extern const char* const nanotron_keys;
extern const char* const torchtitan_json_keys;
extern const char* const torchtitan_toml_keys;
extern const char* const trainer_keys;
extern const char* const public_models;

}  // namespace lockstep
