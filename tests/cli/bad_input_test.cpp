// Does every wrong file get a located message? Each file goes through the built program, which must
// end within two seconds with exit code 2, without a crash and without output on stdout.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "process.hpp"

namespace lockstep::bad_input_test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

struct BadFile {
  const char* name;     // of the test
  std::string text;     // the whole file, or fields added to a good scenario (scenario_text)
  const char* message;  // a part of the expected message
  bool whole = false;   // `text` is the whole file
};

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string numbers(int count) {
  std::string list = "1";
  for (int i = 2; i <= count; ++i) list += ", " + std::to_string(i);
  return list;
}

// Nine levels of nine aliases each: 3.9e8 values if expanded.
std::string alias_bomb() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias +
            repeated(", " + alias, 8) + "]\n";
  }
  return text;
}

std::vector<BadFile> bad_scenarios() {
  return {
      // Misspelt keys, at every level.
      {"key_top", "gpu: 4\n", "gpu: unknown key"},
      {"key_case", "Model: vgg16\n", "did you mean 'model'?"},
      {"key_input", "input: {imgae: [3, 32, 32]}\n", "did you mean 'image'?"},
      {"key_dataset", "dataset: {sampels: 50000}\n", "did you mean 'samples'?"},
      {"key_batch", "batch: {globl: 128}\n", "did you mean 'global'?"},
      {"key_optimizer", "optimizer: {nmae: sgd}\n", "did you mean 'name'?"},
      {"key_strategy", "strategies: [dpd]\n", "did you mean 'ddp'?"},
      {"key_strategy_option", "strategies: [ddp: {bucket_sise: 1 MiB}]\n",
       "did you mean 'bucket_size'?"},
      {"key_strategy_override", "strategies:\n- ddp: {}\n  prescision: fp32\n",
       "did you mean 'precision'?"},
      {"key_wrap", "strategies: [fsdp: {wrap: {min_parameter: 5}}]\n",
       "strategies[0].fsdp.wrap.min_parameter: unknown key"},
      {"key_stragglers", "stragglers: {per_stepp: {lognormal: {sigma: 2%}}}\n",
       "did you mean 'per_step'?"},
      {"key_jitter", "stragglers: {per_step: {lognormall: {sigma: 2%}}}\n",
       "did you mean 'lognormal'?"},
      {"key_jitter_option", "stragglers: {per_step: {lognormal: {sigmaa: 2%}}}\n",
       "did you mean 'sigma'?"},
      {"key_slow_rank", "gpus: 2\nstragglers: {slow_ranks: [{rank: 0, faktor: 2}]}\n",
       "did you mean 'factor'?"},
      {"key_simulation", "simulation: {seeed: 3}\n", "did you mean 'seed'?"},
      {"key_measured", "measured: [{gpus: 1, steptime: 1 s}]\n", "did you mean 'step_time'?"},
      {"key_anchor", "anchor: [{gpuss: 1, step_time: 1 s}]\n", "did you mean 'gpus'?"},
      {"key_data_loading", "data_loading: {samples_persecond: 1}\n",
       "did you mean 'samples_per_second'?"},
      {"key_model_parameter", "model: gpt\nmodel_parameters: {layerz: 2}\n",
       "did you mean 'layers'?"},
      // Words that are not among the allowed ones.
      {"word_precision", "precision: fp8\n", "precision: unknown value 'fp8'; allowed: fp32"},
      {"word_sharding", "strategies: [fsdp: {sharding: ful_shard}]\n", "did you mean 'full_shard'"},
      {"word_optimizer", "optimizer: {name: adamm}\n", "did you mean 'adam'?"},
      {"word_consistency", "strategies: [parameter_server: {consistency: eventual}]\n",
       "allowed: sync, async, ssp"},
      {"word_boolean", "activation_checkpointing: yes\n", "allowed: true, false"},
      {"word_write", "dataset: {time: 1 d}\nfaults: {}\ncheckpoint: {write: async}\n",
       "checkpoint.write: unknown value 'async'; allowed: blocking, staged"},
      {"word_recovery", "dataset: {time: 1 d}\nfaults: {recovery: replica}\n",
       "did you mean 'replicas'?"},
      {"key_peers", "dataset: {time: 1 d}\nfaults: {}\ncheckpoint: {peers: {copis: 2}}\n",
       "did you mean 'copies'?"},
      {"key_degraded", "dataset: {time: 1 d}\nfaults: {degraded: {meantime: 9 d}}\n",
       "did you mean 'mean_time'?"},
      {"key_until", "dataset: {time: 1 d}\nfaults: {until: {intervall: 1%}}\n",
       "did you mean 'interval'?"},
      // Units and numbers.
      {"number_no_copies", "dataset: {time: 1 d}\nfaults: {}\ncheckpoint: {peers: {copies: 0}}\n",
       "checkpoint.peers.copies: '0' is out of range"},
      {"number_peers_every", "dataset: {time: 1 d}\nfaults: {}\ncheckpoint: {peers: {every: 1}}\n",
       "needs a unit"},
      {"number_until_runs", "dataset: {time: 1 d}\nfaults: {until: {runs: 0}}\n",
       "faults.until.runs: '0' is out of range"},
      {"number_hot_restart", "dataset: {time: 1 d}\nfaults: {hot_restart: -1 s}\n",
       "is out of range"},
      {"number_reconfigure", "dataset: {time: 1 d}\nfaults: {reconfigure: 3}\n", "needs a unit"},
      {"number_slows", "dataset: {time: 1 d}\nfaults: {at: [{time: 1 h, slows: -1}]}\n",
       "slows: '-1' is out of range"},
      {"number_degraded_factor", "dataset: {time: 1 d}\nfaults: {degraded: {factor: 0.5}}\n",
       "is out of range"},
      {"number_evict_after", "dataset: {time: 1 d}\nfaults: {degraded: {evict_after: 5}}\n",
       "needs a unit"},
      {"unit_missing", "strategies: [ddp: {bucket_size: 25}]\n", "needs a unit"},
      {"unit_wrong", "strategies: [ddp: {bucket_size: 25 ms}]\n", "bucket_size"},
      {"unit_case", "strategies: [ddp: {bucket_size: 25 mib}]\n", "MiB"},
      {"unit_time", "measured: [{gpus: 1, step_time: 3}]\n", "needs a unit"},
      {"unit_price", "price_per_gpu_hour: 3.50\n", "needs a unit"},
      {"unit_not_wanted", "gpus: 4 GPUs\n", "gpus"},
      {"number_negative_batch", "batch: {global: -128}\n", "batch.global: '-128' is out of range"},
      {"number_negative_gpus", "gpus: [1, -2]\n", "gpus[1]: '-2' is out of range"},
      {"number_zero_gpus", "gpus: 0\n", "'0' is out of range"},
      {"number_fraction_of_gpu", "gpus: 1.5\n", "'1.5' is not a whole number"},
      {"number_huge_batch", "batch: {global: 1e15}\n", "is out of range"},
      {"number_beyond_integers", "batch: {global: 99999999999999999999}\n", "batch.global"},
      {"number_infinite", "batch: {global: .inf}\n", "batch.global"},
      {"number_nan", "gradient_clipping: nan\n", "gradient_clipping"},
      {"number_hex", "gpus: 0x10\n", "gpus"},
      {"number_word", "gpus: four\n", "gpus: 'four'"},
      {"number_negative_epochs", "dataset: {samples: 10, epochs: -1}\n", "epochs"},
      {"number_huge_sequence", "model: gpt2\ninput: {sequence: 1000000000000}\n", "input.sequence"},
      {"number_steps", "simulation: {steps: 1}\n", "allowed: 2 to"},
      // Values of the wrong kind.
      {"kind_list_for_map", "batch: [128]\n", "must be a map"},
      {"kind_map_for_list", "strategies: {ddp: {}}\n", "must be a list"},
      {"kind_text_for_map", "dataset: CIFAR-10\n", "must be a map"},
      {"kind_map_for_number", "gpus: {count: 4}\n", "gpus: must be a whole number, not a map"},
      {"kind_nothing", "platform:\n", "platform: has no value"},
      {"kind_image", "input: {image: [224, 224]}\n", "image: has 2 elements; allowed: 3, or none"},
      {"kind_no_strategies", "strategies: []\n", "strategies: has 0 elements"},
      {"kind_two_strategies_in_one", "strategies: [{ddp: {}, fsdp: {}}]\n", "strategies[0]"},
      // Values that contradict each other or refer to nothing.
      {"batch_none", "batch: {}\n", "says no batch size"},
      {"batch_twice", "batch: {global: 128, per_gpu: 4}\n", "contradicts global"},
      {"batch_not_divisible", "batch: {global: 100}\ngpus: [1, 8]\n",
       "batch: global batch 100 does not divide among 8 GPUs"},
      {"batch_micro", "batch: {per_gpu: 10, micro: 4}\n", "no whole number of micro-batches"},
      {"batch_accumulation", "batch: {per_gpu: 10, accumulation: 4}\n", "do not divide into 4"},
      {"batch_too_many_micro", "batch: {global: 1000000000, micro: 1}\n", "too many, at most"},
      {"reference_model", "model: resnet5O\n", "did you mean 'resnet50'?"},
      {"reference_platform", "platform: dgx-a100\n", "platform: unknown platform 'dgx-a100'"},
      {"reference_model_file", "model: ./none.yaml\n",
       "model: './none.yaml' cannot be read: No such file"},
      {"reference_model_folder", "model: /\n", "model: '/' is a folder, not a file"},
      {"reference_platform_file", "platform: ./none.yaml\n", "cannot be read: No such file"},
      {"reference_profile", "profile: none-here\n", "none-here"},
      {"reference_label", "measured: [{strategy: dpd, gpus: 1, step_time: 1 s}]\n",
       "did you mean 'ddp'?"},
      {"reference_rank", "gpus: 2\nstragglers: {slow_ranks: [{rank: 2, factor: 2}]}\n",
       "there is no rank 2"},
      {"twice_slow", "stragglers: {slow_ranks: [{rank: 0, factor: 2}, {rank: 0, factor: 3}]}\n",
       "stragglers.slow_ranks: names rank 0 twice"},
      {"twice_labels", "strategies: [ddp, ddp]\n", "two strategies are called 'ddp'"},
      {"twice_gpus", "gpus: [4, 4]\n", "names a count twice"},
      {"twice_key", "gpus: 1\ngpus: 2\n", "the key 'gpus' stands twice"},
      {"too_many_gpus", "gpus: [1, 999999]\n", "999999 GPUs, but dgx-a100-80gb has at most 1024"},
      {"too_many_for_one_node", "platform: a10-x1\ngpus: 2\n",
       "a file of your own with `base: a10-x1`, a `fabric:` and `max_nodes: 2`"},
      {"too_many_points",
       "platform: dgx-h100\ngpus: [" + numbers(1000) + "]\nstrategies:" +
           "\n- {ddp: {}, label: a}\n- {ddp: {}, label: b}\n- {ddp: {}, label: c}" +
           "\n- {ddp: {}, label: d}\n- {ddp: {}, label: e}\n",
       "too many points"},
      {"group_does_not_divide",
       "gpus: 6\nstrategies: [fsdp: {sharding: hybrid_shard, shard_group: 4}]\n",
       "6 GPUs cannot be split into groups of 4"},
      {"offload_nvme_of_zero", "strategies: [zero: {offload: {optimizer: nvme}}]\n",
       "`optimizer: nvme` is for stage 3"},
      {"offload_parameters_of_zero",
       "strategies: [zero: {offload: {optimizer: host, parameters: host}}]\n",
       "`parameters` are whole on every device"},
      {"offload_parameters_alone", "strategies: [fsdp: {offload: {parameters: host}}]\n",
       "the device updates a part of the parameters"},
      {"offload_twice", "strategies: [fsdp: {cpu_offload: true, offload: {optimizer: host}}]\n",
       "contradicts cpu_offload"},
      {"adapters_target", "model: llama2-7b\nadapters: {rank: 8, targets: q_porj}\n",
       "did you mean 'q_proj'?"},
      {"adapters_rank", "model: llama2-7b\nadapters: {rank: 5000}\n",
       "adapters.rank: 5000 is more than"},
      {"adapters_without_rank", "model: llama2-7b\nadapters: {targets: q_proj}\n", "rank"},
      {"adapters_whole_quantised",
       "model: llama2-7b\nadapters: {rank: 8, targets: q_proj, whole: up_proj}\n"
       "frozen: {quantization: nf4}\n",
       "cannot be trained whole: its weights are quantised"},
      {"adapters_of_a_cnn", "adapters: {rank: 8}\n", "adapters.targets"},
      {"adapters_strategy", "model: llama2-7b\nadapters: {rank: 8}\nstrategies: [gossip]\n",
       "gossip is not with adapters"},
      {"frozen_beside_adapters", "adapters: {rank: 8}\nfrozen: {parameters: fc}\n",
       "frozen.parameters: has no effect beside adapters"},
      {"frozen_half", "frozen: {half: true}\n", "frozen.half: has no effect without adapters"},
      {"frozen_nested", "frozen: {nested: true}\n", "frozen.nested: has no effect without nf4"},
      {"frozen_pattern", "frozen: {parameters: layer9}\n", "frozen.parameters: the model has no"},
      {"image_too_small", "model: vgg16\ninput: {image: [3, 8, 8]}\n", "vgg"},
      {"sequence_for_a_cnn", "model: vgg16\ninput: {sequence: 128}\n", "sequence"},
      {"image_huge",
       "model: vgg16\ninput: {image: [3, 65536, 65536]}\nbatch: {micro: 1000000000}\n", "63 bits"},
      {"layers_huge", "model: gpt\nmodel_parameters: {layers: 1000000000000}\n",
       "model_parameters.layers: "},
      {"layers_none", "model: gpt\nmodel_parameters: {layers: 0}\n",
       "0 times is not possible: the network would have no block"},
      {"hidden_huge", "model: gpt\nmodel_parameters: {hidden: 1000000000000}\n",
       "model_parameters.hidden: "},
      {"hidden_negative", "model: gpt\nmodel_parameters: {hidden: -64}\n",
       "model_parameters.hidden: "},
      {"heads_zero", "model: gpt\nmodel_parameters: {heads: 0}\n", "model_parameters.heads: "},
      {"only_together", "model: gpt\nmodel_parameters: {hidden: 900, heads: 16, layers: 2}\n",
       "model_parameters: "},
      {"tokens_of_a_cnn", "dataset: {tokens: 1T}\n",
       "dataset.tokens: model 'lenet5' reads images, not tokens"},
      {"epochs_of_nothing", "dataset: {epochs: 3}\n", "epochs: has no effect without samples"},
      {"element_gradient", "strategies: [ddp: {gradient_element_size: 3 B}]\n",
       "allowed: 2 B, 4 B"},
      {"element_gather", "strategies: [fsdp: {gather_element_size: 1 B}]\n", "allowed: 2 B, 4 B"},
      {"element_reduce", "strategies: [fsdp: {reduce_element_size: 3 B}]\n", "allowed: 2 B, 4 B"},
      {"element_push", "strategies: [parameter_server: {element_size: 1 B}]\n",
       "allowed: 2 B, 4 B"},
      {"servers_consistency", "strategies: [parameter_server: {consistency: modified_async}]\n",
       "did you mean 'modified-async'?"},
      {"servers_bound",
       "strategies: [parameter_server: {consistency: ssp, highest_staleness_bound: 3}]\n",
       "highest_staleness_bound: leaves the bound nothing to adapt"},
      {"servers_backup", "gpus: 4\nstrategies: [parameter_server: {backup_workers: 4}]\n",
       "4 of 4 workers leave nobody to wait for; at most 3"},
      {"servers_nowhere",
       "platform: a10-x1\nstrategies: [parameter_server: {placement: own-hosts}]\n",
       "own-hosts needs a network, and the platform is a single node"},
      {"servers_nowhere_else",
       "platform: a10-x1\nstrategies: [parameter_server: {placement: worker-and-own-hosts}]\n",
       "worker-and-own-hosts needs a network, and the platform is a single node"},
      {"servers_without_use",
       "gpus: 16\nstrategies: [parameter_server: {placement: worker-and-own-hosts, own_hosts: "
       "3}]\n",
       "3 beside 2 nodes with GPUs: more than these have no use; at most 2"},
      {"servers_update", "strategies: [parameter_server: {consistency: async, update: workers}]\n",
       "update: workers with different weights cannot update with one sum"},
      {"servers_update_elastic",
       "strategies: [parameter_server: {consistency: elastic, update: workers}]\n",
       "update: workers with different weights cannot update with one sum"},
      {"servers_update_pull",
       "strategies: [parameter_server: {pull_overlap: true, update: workers}]\n",
       "pull_overlap: begins forward with the weights that came back"},
      {"servers_reduction",
       "strategies: [parameter_server: {consistency: ssp, local_reduction: true}]\n",
       "local_reduction: sums the pushes of a node's GPUs"},
      {"servers_reduction_switch",
       "strategies: [parameter_server: {local_reduction: true, switch: {to: async}}]\n",
       "local_reduction: sums the pushes of a node's GPUs"},
      {"servers_reduction_backup",
       "strategies: [parameter_server: {local_reduction: true, backup_workers: 1}]\n",
       "local_reduction: lets no GPU push by itself"},
      {"servers_reduction_compressed",
       "strategies: [parameter_server: {local_reduction: true, push_compression: fp16}]\n",
       "local_reduction: lets no GPU push by itself"},
      {"servers_reduction_incomplete",
       "gpus: 12\nstrategies: [parameter_server: {local_reduction: true}]\n",
       "12 GPUs leave a node of 8 incomplete"},
      {"servers_splitting",
       "strategies: [parameter_server: {consistency: softsync, splitting: 0}]\n",
       "splitting: '0' is out of range"},
      {"pipedream_sharded",
       "model: vgg11\ngpus: 2\nstrategies: [fsdp]\n"
       "parallel: {pipeline: {stages: 2, schedule: pipedream}}\n",
       "not with fsdp: stages that never drain update apart"},
      {"pipedream_clipped",
       "model: vgg11\ngpus: 2\ngradient_clipping: 1\n"
       "parallel: {pipeline: {stages: 2, schedule: pipedream}}\n",
       "pipedream has no norm of all gradients"},
      {"pipedream_two_versions",
       "model: vgg11\ngpus: 4\nbatch: {global: 32, micro: 16}\n"
       "parallel: {pipeline: {stages: 4, schedule: pipedream-2bw}}\n",
       "2 micro-batches in 4 stages meet more than two versions of the weights"},
      {"slices_of_images",
       "model: vgg11\ngpus: 2\n"
       "parallel: {pipeline: {stages: 2, schedule: gpipe, slices: 2}}\n",
       "parallel.pipeline.slices: model 'vgg11' reads images, not sequences"},
      {"slices_of_no_pipeline", "model: gpt\ngpus: 2\nparallel: {pipeline: {slices: 2}}\n",
       "parallel.pipeline.slices: slices of tokens go through stages"},
      {"slices_of_a_schedule",
       "model: gpt\ngpus: 2\nparallel: {pipeline: {stages: 2, slices: 2}}\n",
       "parallel.pipeline.slices: 1f1b takes whole sequences"},
      {"slices_of_both_sides",
       "model: bert-base\ngpus: 2\n"
       "parallel: {pipeline: {stages: 2, schedule: gpipe, slices: 2}}\n",
       "tokens look at later ones"},
      {"slices_unequal",
       "model: gpt\ngpus: 2\n"
       "parallel: {pipeline: {stages: 2, schedule: gpipe, slices: 3}}\n",
       "3 slices cannot share 1024 tokens evenly; a divisor of 1024"},
      {"servers_push_elastic",
       "strategies: [parameter_server: {consistency: elastic, push: parameters}]\n",
       "parameter_server.push: and consistency: elastic are two exchanges of parameters"},
      {"servers_push_compressed",
       "strategies: [parameter_server: {push: parameters, push_compression: fp16}]\n",
       "parameter_server.push_compression: compresses gradients, and workers push parameters"},
      {"servers_push_overlap",
       "strategies: [parameter_server: {push: parameters, overlap: true}]\n",
       "parameter_server.overlap: moves layers one by one"},
      {"servers_push_update",
       "strategies: [parameter_server: {push: parameters, update: workers}]\n",
       "parameter_server.update: gives workers one sum of gradients"},
      {"servers_push_switch",
       "strategies: [parameter_server: {push: parameters, switch: {to: async}}]\n",
       "parameter_server.switch: changes when gradients are applied"},
      {"servers_push_weighting",
       "strategies: [parameter_server: {consistency: async, push: parameters, weighting: "
       "compensated}]\n",
       "parameter_server.weighting: compensates gradients"},
      {"servers_participants",
       "strategies: [parameter_server: {consistency: async, participants: 50 %}]\n",
       "parameter_server.participants: are drawn for each synchronous update"},
      {"servers_participants_overlap",
       "strategies: [parameter_server: {participants: 50 %, pull_overlap: true}]\n",
       "participants: wait for their round before they compute any layer"},
      {"servers_participants_local",
       "strategies: [parameter_server: {local_reduction: true, participants: 50 %}]\n",
       "parameter_server.participants: leave out some GPUs of a node"},
      {"servers_participants_update",
       "gpus: 8\nstrategies: [parameter_server: {update: workers, participants: 50 %}]\n",
       "leave workers behind that update by themselves; update: servers"},
      {"servers_participants_backup",
       "gpus: 8\nstrategies: [parameter_server: {participants: 25 %, backup_workers: 2}]\n",
       "2 of 2 workers leave nobody to wait for; at most 1"},
      {"servers_exchange", "strategies: [parameter_server: {exchange_every: 0}]\n",
       "exchange_every: '0' is out of range"},
      {"servers_elasticity",
       "strategies: [parameter_server: {consistency: elastic, elasticity: 1.5}]\n",
       "elasticity: '1.5' is out of range"},
      {"servers_weighting", "strategies: [parameter_server: {weighting: aged}]\n",
       "did you mean 'age'?"},
      {"servers_weighted_weights",
       "strategies: [parameter_server: {consistency: elastic, weighting: age}]\n",
       "weighting: weighs gradients, and elastic workers push weights"},
      {"servers_compressed_weights",
       "strategies: [parameter_server: {consistency: elastic, push_compression: fp16}]\n",
       "push_compression: compresses gradients"},
      {"servers_compressed_twice",
       "strategies: [parameter_server: {element_size: 2 B, push_compression: fp16}]\n",
       "push_compression: contradicts element_size"},
      {"horovod_hook", "strategies: [ddp: {fusion: horovod, comm_hook: sign}]\n",
       "comm_hook: Horovod compresses to fp16 only"},
      {"horovod_overlap", "strategies: [ddp: {fusion: horovod, overlap: false}]\n",
       "overlap: Horovod reduces while backward runs"},
      {"local_sgd_fragments", "strategies: [local_sgd: {every: 8, fragments: 3}]\n",
       "fragments: do not divide `every`"},
      {"local_sgd_overlap", "strategies: [local_sgd: {every: 8, overlap: 2}]\n",
       "overlap: would lose the steps made meanwhile"},
      {"local_sgd_long_overlap",
       "strategies: [local_sgd: {every: 8, fragments: 4, overlap: 2, outer: nesterov}]\n",
       "overlap: ends after the next exchange begins"},
      {"gossip_graph", "strategies: [gossip: {graph: star}]\n",
       "unknown name 'star'; allowed: ring, exponential, pairs"},
      {"gossip_partners", "strategies: [gossip: {graph: {pairs: {partners: all}}}]\n",
       "partners: unknown value 'all'; allowed: any, ring"},
      {"gossip_every", "strategies: [gossip: {every: 0}]\n", "every: '0' is out of range"},
      {"gossip_mesh", "strategies: [gossip]\ngpus: 4\nparallel: {tensor: 2}\n",
       "a rank averages the whole model"},
      {"zeropp_version", "strategies: [fsdp: {zeropp: {quantized_weights: true}}]\n",
       "zeropp: is ZeRO-3's, which shards everything over all ranks"},
      {"chunks_on_device", "strategies: [fsdp: {offload: {optimizer: host, chunks: true}}]\n",
       "chunks: hold parameters and state together"},
      {"servers_top_k",
       "strategies: [parameter_server: {push_compression: {top_k: {share: 60%}}}]\n",
       "top_k.share: '60%' is out of range"},
      {"servers_pull_elastic",
       "strategies: [parameter_server: {consistency: elastic, pull_overlap: true}]\n",
       "pull_overlap: needs layers that are pulled by themselves"},
      {"servers_pull_serial",
       "strategies: [parameter_server: {serial: true, pull_overlap: true}]\n",
       "pull_overlap: needs answers that travel side by side"},
      {"servers_switch_to", "strategies: [parameter_server: {switch: {to: ssp}}]\n",
       "switch.to: nothing switches to ssp"},
      {"servers_switch_same",
       "strategies: [parameter_server: {consistency: async, switch: {to: async}}]\n",
       "switch: names the consistency with which the run begins"},
      {"servers_switch_elastic",
       "strategies: [parameter_server: {consistency: elastic, switch: {to: async}}]\n",
       "switch: elastic workers push weights"},
      {"servers_switch_at", "strategies: [parameter_server: {switch: {to: async, at: 100%}}]\n",
       "switch.at: '100%' is out of range"},
      {"measured_two_times", "measured: [{gpus: 1, step_time: 1 s, total_time: 2 s}]\n",
       "more than one figure of time"},
      {"measured_nothing", "measured: [{gpus: 1}]\n", "gives no figure"},
      {"dataset_twice", "dataset: {samples: 5, tokens: 6}\n", "contradicts samples"},
      // Files that are not YAML, not text, or built to do harm.
      {"file_empty", "", "is empty", true},
      {"file_only_comments", "# nothing\n\n", "is empty", true},
      {"file_binary", std::string("\x7f\x45LF\x02\x01\0\0\xff\xfe", 10), "byte 0x7f", true},
      {"file_nul", std::string("name: a\0b", 9), "byte 0x00", true},
      {"file_latin1", "name: caf\xe9\n", "byte 0xe9", true},
      {"file_scalar", "hello\n", "must be a map", true},
      {"file_list", "- a\n- b\n", "must be a map", true},
      {"file_json_trailing", "{\"name\": \"x\",,}", "a key must be a plain word", true},
      {"file_two_documents", "name: a\n---\nname: b\n", "second YAML document", true},
      {"file_open_quote", "name: \"abc\nmodel: vgg16\n", "quoted text is not closed", true},
      {"file_open_bracket", "gpus: [1, 2\n", "not valid YAML", true},
      {"file_tab", "batch:\n\tglobal: 4\n", "tab", true},
      {"file_bad_indent", "batch:\n    global: 4\n  micro: 2\n", "not valid YAML", true},
      {"file_unknown_alias", "name: *nothing\n", "", true},
      {"file_merge_key", "a: &a {x: 1}\n<<: *a\n", "merge keys", true},
      {"bomb_alias", alias_bomb(), "expands to too many values", true},
      {"bomb_alias_in_itself", "a: &a [*a]\n", "alias inside its own anchor", true},
      {"bomb_nested_lists", repeated("[", 100'000), "nested too deeply", true},
      {"bomb_nested_maps", repeated("{a: ", 5'000) + repeated("}", 5'000), "nested too deeply",
       true},
      {"bomb_nested_dashes", repeated("- ", 50'000) + "a", "nested too deeply", true},
      {"bomb_long_list", "gpus: [" + numbers(300'000) + "]\n", "too many values"},
      {"bomb_many_gpus", "gpus: [" + numbers(5'000) + "]\n", "has 5000 elements"},
      {"bomb_long_word", "model: " + std::string(1'000'000, 'x') + "\n",
       "model: there is no model"},
      {"bomb_long_model_path", "model: " + std::string(100'000, 'x') + ".yaml\n",
       "File name too long"},
      {"bomb_long_platform_path", "platform: ./" + std::string(100'000, 'x') + ".yaml\n",
       "File name too long"},
      {"bomb_large_file", "name: " + std::string(5'000'000, 'x') + "\n", "larger than 4 MiB", true},
      {"bomb_many_keys",
       [] {
         std::string text;
         for (int i = 0; i < 5000; ++i) text += "k" + std::to_string(i) + ": 1\n";
         return text;
       }(),
       "more than 2000 keys", true},
  };
}

void expect_refused(const std::string& path, const char* message, const std::string& place) {
  for (const char* verb : {"check", "run"}) {
    const Outcome outcome = lockstep({verb, path}, 10);  // seconds: longer counts as endless
    EXPECT_EQ(outcome.code, 2) << verb << "\n" << outcome.err.substr(0, 2000);
    EXPECT_EQ(outcome.out, "") << verb;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << verb;
    EXPECT_TRUE(testing::internal::RE::PartialMatch(outcome.err, testing::internal::RE(place)))
        << place << " is not in\n"
        << outcome.err.substr(0, 2000);
    EXPECT_LT(outcome.err.size(), 20'000U) << verb;
    EXPECT_THAT(outcome.err, testing::Not(HasSubstr("terminate called"))) << verb;
    EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos) << verb;
  }
}

class BadScenario : public testing::TestWithParam<BadFile> {};

TEST_P(BadScenario, IsRefusedWithAPlace) {
  const BadFile& bad = GetParam();
  const std::string path = test_folder().write(std::string(bad.name) + ".yaml",
                                               bad.whole ? bad.text : scenario_text(bad.text));
  // An error about a whole file has no line. A model that cannot be built as requested has two
  // places: one in the model file, one in the scenario.
  const std::string file = std::string(bad.name) + ".yaml";
  const bool no_line =
      std::string(bad.message) == "is empty" || std::string(bad.message) == "larger than 4 MiB";
  expect_refused(path, bad.message,
                 no_line ? file + ": "
                         : file + ":[0-9]+:[0-9]+: |[.]yaml:[0-9]+:[0-9]+: .*; asked for in .*" +
                               file + ":[0-9]+");
}
INSTANTIATE_TEST_SUITE_P(, BadScenario, testing::ValuesIn(bad_scenarios()),
                         [](const auto& test) { return std::string(test.param.name); });

// A bad file that a scenario names: the message must be about that file.
struct BadPart {
  const char* name;
  const char* field;  // of the scenario
  std::string text;   // of the file it names
  const char* message;
};

std::vector<BadPart> bad_parts() {
  const std::string device = "title: x\n";
  return {
      {"model_empty", "model", "", "is empty"},
      {"model_key", "model", "base: resnet18\ntitel: x\n", "titel"},
      {"model_unknown_base", "model", "base: resnet0\n", "resnet0"},
      {"model_own_base", "model", "base: ./model_own_base-part.yaml\n", "base"},
      {"model_unknown_op", "model",
       "title: x\ninput: {image: [3, 8, 8], classes: 10}\nlayers:\n- convolute: {}\n", "convolute"},
      {"model_block_cycle", "model",
       "title: x\ninput: {image: [3, 8, 8], classes: 10}\nblocks:\n  a: {layers: [b: {}]}\n"
       "  b: {layers: [a: {}]}\nlayers:\n- a: {}\n",
       ""},
      {"model_binary", "model", std::string("\0\1\2", 3), "byte 0x00"},
      {"model_huge_repeat", "model",
       "title: x\ninput: {image: [3, 8, 8], classes: 10}\nlayers:\n"
       "- repeat: 1000000000\n  layers: [relu]\n- flatten\n- linear: {out: 10}\n- cross_entropy\n",
       ""},
      {"platform_empty", "platform", "", "is empty"},
      {"platform_key", "platform", "base: dgx-a100-80gb\ngpus_pernode: 4\n", "gpus_per_node"},
      {"platform_unit", "platform",
       "base: dgx-a100-80gb\nnvlink: {links_per_gpu: 12, link_rate: 25}\n", "needs a unit"},
      {"platform_unknown_base", "platform", "base: dgx-a200\n", "dgx-a200"},
      {"platform_own_base", "platform", "base: ./platform_own_base-part.yaml\n", ""},
      {"platform_no_device", "platform", "title: x\n", "'device' is missing"},
      {"platform_unknown_device", "platform", "title: x\ndevice: a200\n", "unknown device 'a200'"},
      {"platform_device_path", "platform", "title: x\ndevice: ./no-device.yaml\n",
       "no-device.yaml"},
      {"platform_long_device", "platform",
       "title: x\ndevice: " + std::string(100'000, 'x') + ".yaml\n", "File name too long"},
      {"platform_no_link", "platform", "title: x\ndevice: a10\ngpus_per_node: 4\n",
       "need a link between them"},
      {"platform_negative", "platform", "base: dgx-a100-80gb\nmax_nodes: -4\n", "max_nodes"},
      {"platform_binary", "platform", "\x80\x81", "byte 0x80"},
  };
}

class BadPartOfAScenario : public testing::TestWithParam<BadPart> {};

TEST_P(BadPartOfAScenario, IsRefusedWithAPlace) {
  const BadPart& bad = GetParam();
  const std::string part = std::string(bad.name) + "-part.yaml";
  test_folder().write(part, bad.text);
  const std::string path =
      test_folder().write(std::string(bad.name) + ".yaml",
                          scenario_text(std::string(bad.field) + ": ./" + part + "\n"));
  expect_refused(path, bad.message, ".yaml:[0-9]*:?[0-9]*:? ");
}
INSTANTIATE_TEST_SUITE_P(, BadPartOfAScenario, testing::ValuesIn(bad_parts()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(BadPath, AMissingFileAFolderAndAnUnreadableOneAreRefused) {
  const std::string file = test_folder().write("secret.yaml", scenario_text(""));
  const std::string folder = std::filesystem::path(file).parent_path().string();
  expect_refused(folder + "/none.yaml", "No such file or directory", "none.yaml: ");
  expect_refused(folder, "is a folder", "lockstep-tests-");
  expect_refused("", "", "");
  if (::geteuid() == 0) GTEST_SKIP() << "root reads everything";
  std::filesystem::permissions(file, std::filesystem::perms::none);
  expect_refused(file, "Permission denied", "secret.yaml: ");
}

TEST(BadPath, ADeviceWithoutEndIsNotReadToItsEnd) {
  expect_refused("/dev/zero", "is a device, not a file", "/dev/zero");
  const std::string folder = test_folder().path();
  const std::string scenario = test_folder().write(
      "s.yaml", scenario_text("stragglers: {per_step: {empirical: {file: /dev/zero}}}\n"));
  const std::string jobs = test_folder().write(
      "c.yaml",
      "name: c\ncluster: {platform: dgx-a100-80gb, nodes: 1}\nworkloads:\n  w: {training: {model: "
      "lenet5, batch: {per_gpu: 16}, strategies: [ddp]}}\ntrace: {file: /dev/zero, workload: w}\n");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"run", scenario},
           {"run", test_folder().write("m.yaml", scenario_text("model: /dev/zero\n"))},
           {"run", test_folder().write("p.yaml", scenario_text("profile: /dev/zero\n"))},
           {"cluster", jobs},
           {"sweep", "/dev/zero", "--set", "gpus=1"},
           {"sweep", "--merge", "/dev/zero", "-o", folder + "/merged"},
           {"import-model", "/dev/zero"},
           {"import-trace", "/dev/zero", "--model", "lenet5", "--batch", "32"},
           {"import-collectives", "/dev/zero"},
           {"replay", "/dev/zero"}}) {
    const Outcome outcome = lockstep(words, 10);
    EXPECT_EQ(outcome.code, 2) << words[0] << "\n" << outcome.err.substr(0, 2000);
    EXPECT_THAT(outcome.err, HasSubstr("/dev/zero")) << words[0];
  }
}

TEST(BadFiles, AClusterOfWrongTurnsIsRefusedWithAPlace) {
  const std::string good =
      "name: c\ncluster: {platform: dgx-a100-80gb, nodes: 1}\nworkloads:\n  w: {training: {model: "
      "lenet5, batch: {per_gpu: 16}, strategies: [ddp]}}\n"
      "jobs: [{workload: w, duration: 1 h}]\n";
  const auto refused = [&](const std::string& more, const char* message) {
    const Outcome outcome =
        lockstep({"cluster", test_folder().write("turns.yaml", good + more)}, 10);
    EXPECT_EQ(outcome.code, 2) << more;
    EXPECT_EQ(outcome.out, "") << more;
    EXPECT_THAT(outcome.err, testing::AllOf(HasSubstr("turns.yaml:6:"), HasSubstr(message)));
  };
  refused("policies: [time_slcing]\n", "did you mean 'time_slicing'?");
  refused("policies: [migrations]\n", "did you mean 'migration'?");
  refused("time_slicing: {slice: 1 min}\n", "time_slicing: has no effect without the policy");
  refused("time_slicing: {slize: 1 min}\n", "did you mean 'slice'?");
  refused("time_slicing: {slice: 0 s}\n", "time_slicing.slice: '0 s' is out of range");
}

// A reader must stop at the largest size that a file of its kind may have.
TEST(BadPath, APipeWithoutEndIsNotReadToItsEnd) {
  const std::string scenario = test_folder().write(
      "s.yaml", scenario_text("stragglers: {per_step: {empirical: {file: endless}}}\n"));
  const Outcome outcome =
      shell("cd " + test_folder().path() +
            " && mkfifo endless && { yes 1 > endless & } && exec \"$LOCKSTEP\" run s.yaml");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("endless: larger than 256 MiB"));
}

TEST(BadFiles, AllMistakesOfAFileAreSaidAtOnce) {
  const std::string path = test_folder().write(
      "many.yaml", scenario_text("gpus: zero\nprecision: fp7\nbatch: {globl: 4}\n"));
  const Outcome outcome = lockstep({"run", path});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, MatchesRegex("(.*many.yaml:[0-9]+:[0-9]+: .*\n){3,5}"));
}

TEST(BadFiles, OneBadFileDoesNotKeepCheckFromTheOthers) {
  const std::string good = test_folder().write("good.yaml", scenario_text(""));
  const std::string bad = test_folder().write("bad.yaml", scenario_text("gpus: zero\n"));
  const Outcome outcome = lockstep({"check", bad, good});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("good.yaml: ok"));
  EXPECT_THAT(outcome.err, HasSubstr("bad.yaml:"));
}

}  // namespace
}  // namespace lockstep::bad_input_test
