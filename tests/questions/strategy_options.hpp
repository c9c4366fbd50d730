// Options of the strategies with non-default values, and scenarios in which to try them. Used by
// options_test.cpp.
#pragma once

#include <string>
#include <vector>

namespace lockstep::options_test {

struct Option {
  std::string path;   // as in docs/scenario-format.md, below the strategy or the scenario
  std::string value;  // a value other than the default
  // The reason if the option changes nothing in some surroundings and that is a finding, not a
  // mistake.
  std::string finding = "";
  std::string instead = "";  // a value instead of the default
  bool never = false;        // no surroundings exist in which the option changes a figure
};

struct Surroundings {
  std::string fields;
  std::string strategy = "";  // further options of the strategy
};

const std::string gpt = "model: gpt\nmodel_parameters: {layers: 4, vocabulary: 5000}\n";
const std::string cpu = "platform: cpu-loopback-x2\ngpus: 2\nbatch: {per_gpu: 2}\n";

const std::string one_gpu = "of one GPU the whole comm_hook has no effect";
const std::vector<Option> ddp_options{
    {"bucket_size", "4 MiB"},
    {"first_bucket_size", "8 MiB"},
    {"gradient_as_bucket_view", "true"},
    {"broadcast_buffers", "false"},
    {"sync_batch_norm", "true"},
    {"find_unused_parameters", "true"},
    {"static_graph", "true"},
    {"comm_hook", "fp16-compress"},
    {"comm_hook", "bf16-compress"},
    {"comm_hook", "powersgd"},
    {"comm_hook", "top-k"},
    {"comm_hook", "random-k"},
    {"comm_hook", "sign"},
    {"comm_hook", "qsgd"},
    {"comm_hook", "onebit"},
    {"comm_hook.powersgd.rank", "{powersgd: {rank: 4}}", one_gpu, "powersgd"},
    {"comm_hook.powersgd.orthogonalization", "{powersgd: {orthogonalization: gram-schmidt}}",
     one_gpu, "powersgd"},
    {"comm_hook.top-k.fraction", "{top-k: {fraction: 20%}}", one_gpu, "top-k"},
    {"comm_hook.top-k.selection", "{top-k: {selection: one-block}}", one_gpu, "top-k"},
    {"comm_hook.random-k.fraction", "{random-k: {fraction: 20%}}", one_gpu, "random-k"},
    {"fusion", "horovod"},
    {"fusion.horovod.cycle", "{horovod: {cycle: 200 ms}}",
     "of one GPU the whole fusion has no effect", "horovod"},
    {"fusion.horovod.threshold", "{horovod: {threshold: 4 MiB}}",
     "of one GPU the whole fusion has no effect", "horovod"},
    {"power_sgd_rank", "4"},
    {"overlap", "false", "one bucket is full at the end of backward"},
    {"gradient_element_size", "2 B"},
};
const std::vector<Surroundings> ddp_surroundings{
    {"gpus: 8\n"},
    {"gpus: 1\n"},
    {"gpus: [1, 2]\n"},
    {"gpus: 4\nmodel: lenet5\n"},
    {"gpus: 16\nbatch: {per_gpu: 2}\n" + gpt},
    {cpu},
    {"gpus: 4\nbatch: {micro: 4, accumulation: 2}\nprecision: amp-fp16\n"},
    {"gpus: 8\n", "comm_hook: powersgd, "},
    {"gpus: 8\n", "fusion: horovod, "},
    {"gpus: 8\n", "static_graph: true, "},
    {"gpus: 8\n", "find_unused_parameters: true, "},
    {"gpus: 8\n", "overlap: false, "},
    {"gpus: 8\nframework: {name: megatron}\n", "overlap: false, "},
};

const std::string comm_bound = "where the network or the device sets the pace, it hides nothing";
const std::vector<Option> offload_options{
    {"offload.optimizer", "{optimizer: host}"},
    {"offload.fraction", "{optimizer: host, fraction: 50 %}", "", "{optimizer: host}"},
    {"offload.update", "{optimizer: host, update: separate}", "", "{optimizer: host}"},
    {"offload.overlap", "{optimizer: host, overlap: true, sub_group: 100000}", "",
     "{optimizer: host, sub_group: 100000}"},
    {"offload.sub_group", "{optimizer: host, overlap: true, sub_group: 100000}", "",
     "{optimizer: host, overlap: true}"},
    {"offload.delayed_update", "{optimizer: host, delayed_update: true}", "", "{optimizer: host}"},
};
const std::vector<Option> fsdp_options{
    {"version", "2"},
    {"sharding", "shard_grad_op"},
    {"sharding", "no_shard"},
    {"sharding", "hybrid_shard"},
    {"sharding", "hybrid_shard_zero2"},
    {"wrap.policy", "{policy: none}"},
    {"wrap.policy", "{policy: size, min_parameters: 3M}", "", "{min_parameters: 2M}"},
    {"wrap.min_parameters", "{min_parameters: 3M}"},
    {"wrap.min_parameters", "{policy: none, min_parameters: 3M}", "", "{policy: none}", true},
    {"wrap.min_parameters", "{policy: block, min_parameters: 3M}", "", "{policy: block}"},
    {"backward_prefetch", "none", comm_bound},
    {"backward_prefetch", "post", comm_bound},
    {"forward_prefetch", "true", comm_bound},
    {"limit_all_gathers", "false", comm_bound},
    {"cpu_offload", "true"},
    {"offload.parameters", "{optimizer: host, parameters: host}", "", "{optimizer: host}"},
    {"offload.chunks", "{optimizer: host, parameters: host, chunks: true}", "",
     "{optimizer: host, parameters: host}"},
    {"zeropp.quantized_weights", "{quantized_weights: true}"},
    {"zeropp.secondary_shards", "{secondary_shards: true}"},
    {"zeropp.quantized_gradients", "{quantized_gradients: true}"},
    {"gather_element_size", "4 B", "what fp32 gathers anyway"},
    {"reduce_element_size", "2 B", "what AMP reduces anyway"},
    {"sync_every_micro_batch", "false"},
    {"reshard_in_pipeline", "true", "", "", true},  // tests/points/mesh_test.cpp has pipelines
    {"shard_group", "2"},
    {"use_orig_params", "true", comm_bound},
    {"autocast", "true"},
};
const std::vector<Surroundings> fsdp_surroundings{
    {"gpus: 8\nbatch: {per_gpu: 2}\n" + gpt},
    {"gpus: 1\nbatch: {per_gpu: 2}\n" + gpt},
    {"gpus: 16\nbatch: {per_gpu: 2}\n" + gpt, "version: 2, "},
    {"gpus: 8\nbatch: {per_gpu: 2}\n" + gpt, "version: 2, "},
    {"gpus: 8\nmodel: vgg11\n"},
    {cpu},
    {"gpus: 16\nbatch: {per_gpu: 2}\n" + gpt, "sharding: hybrid_shard, "},
    {"gpus: 8\nbatch: {per_gpu: 2}\n" + gpt, "sharding: no_shard, "},
    {"gpus: 8\nbatch: {micro: 2, accumulation: 2}\n" + gpt, "sharding: shard_grad_op, "},
    {"gpus: 8\nbatch: {per_gpu: 2}\n" + gpt, "wrap: {policy: none}, "},
    {"gpus: 8\nbatch: {per_gpu: 2}\nprecision: amp-bf16\n" + gpt},
    {"gpus: 8\nbatch: {per_gpu: 2}\noptimizer: {name: adamw}\n" + gpt},
};

const std::vector<Option> zero_options{
    {"stage", "2", "one bucket holds all gradients"},
    {"shard_group", "2"},
    {"bucket_size", "4 MiB"},
    {"overlap", "false", "one bucket is full at the end of backward"},
    {"reduction", "all-reduce"},
    {"partition", "elements"},
    {"gather", "with-forward"},
    {"gradient_element_size", "2 B", "what bf16 sends anyway"},
    {"offload.keep_master", "{optimizer: host, keep_master: true}", "", "{optimizer: host}"},
};
const std::vector<Surroundings> zero_surroundings{
    {"gpus: 8\n"},
    {"gpus: 1\n"},
    {"gpus: [1, 2]\n"},
    {"gpus: 4\nmodel: lenet5\n"},
    {"gpus: 16\nbatch: {per_gpu: 2}\n" + gpt},
    {cpu},
    {"gpus: 4\nbatch: {micro: 4, accumulation: 2}\nprecision: amp-fp16\n"},
    {"gpus: 8\n", "stage: 2, "},
    {"gpus: 8\n", "gather: with-forward, "},
    {"gpus: 8\n", "reduction: all-reduce, "},
    {"gpus: 8\nbatch: {per_gpu: 2}\nprecision: master-bf16\noptimizer: {name: adamw}\n" + gpt},
};

const std::vector<Option> local_sgd_options{
    {"every", "6"},
    {"average_state", "true"},
    {"outer", "nesterov"},
    {"outer.nesterov.learning_rate", "{nesterov: {learning_rate: 0.5}}",
     "of one GPU the whole outer step has no effect", "nesterov", true},
    {"outer.nesterov.momentum", "{nesterov: {momentum: 0.8}}",
     "of one GPU the whole outer step has no effect", "nesterov", true},
    {"fragments", "2"},
    {"overlap", "1"},
};
const std::vector<Surroundings> local_sgd_surroundings{
    {"gpus: 8\n"},
    {"gpus: 1\n"},
    {"gpus: 8\noptimizer: {name: sgd, momentum: 0.9}\n"},
    {"gpus: 8\n", "outer: nesterov, "},
    {cpu},
};

const std::vector<Option> gossip_options{
    {"graph", "exponential"},
    {"graph", "pairs"},
    {"graph.pairs.partners", "{pairs: {partners: ring}}",
     "of one GPU the whole graph has no effect", "pairs"},
    {"every", "6"},
    {"overlap", "false"},
};
const std::vector<Surroundings> gossip_surroundings{
    {"gpus: 8\n"},
    {"gpus: 1\n"},
    {"gpus: 2\n"},
    {"gpus: 8\n", "graph: pairs, "},
    {"gpus: 16\nplatform: dgx-a100-80gb-10gbe\n", "graph: exponential, "},
    {cpu},
};

const std::string pushed_gradients = "where workers push gradients, outer as a whole has no effect";
const std::vector<Option> server_options{
    {"consistency", "async"},
    {"consistency", "ssp"},
    {"servers", "2"},
    {"staleness_bound", "0"},
    {"placement", "gpu"},
    {"placement", "worker-host"},
    {"placement", "own-hosts"},
    {"placement", "worker-and-own-hosts"},
    {"own_hosts", "2"},
    {"update", "workers"},
    {"local_reduction", "true"},
    {"credit", "2", "a window that is never full holds nothing back"},
    {"keys", "balanced"},
    {"keys", "ranges"},
    {"keys", "hash"},
    {"partition_size", "4 MiB"},
    {"overlap", "true"},
    {"serial", "true"},
    {"element_size", "2 B"},
    {"consistency", "softsync"},
    {"consistency", "elastic"},
    {"consistency", "modified-async"},
    {"highest_staleness_bound", "9", "nobody reaches the bound"},
    {"backup_workers", "1"},
    {"splitting", "2"},
    {"exchange_every", "2"},
    {"elasticity", "0.3", "", "", true},
    {"weighting", "age", "", "", true},
    {"weighting", "compensated"},
    {"weighting", "compensated-adaptive"},
    {"weighting_strength", "0.7", "", "", true},
    {"pull_overlap", "true", "where all weights come back together, forward waits for all"},
    {"priority", "true", "a single worker's queue may be empty"},
    {"push_compression", "fp16", "gradients of amp are fp32 or fp16"},
    {"push_compression", "{top_k: {}}"},
    {"push_compression.top_k.share", "{top_k: {share: 20%}}", "", "{top_k: {}}"},
    {"controller", "{above: 1.05, below: 1.02}", "equal workers keep step by themselves"},
    {"controller.above", "{above: 1.3}", "equal workers keep step by themselves", "{}"},
    {"controller.below", "{below: 1.4}", "equal workers keep step by themselves", "{}"},
    {"controller.communication", "{communication: 5%}", "equal workers keep step by themselves",
     "{}"},
    {"controller.window", "{window: 3}", "equal workers keep step by themselves", "{}"},
    {"push", "parameters"},
    {"outer", "nesterov"},
    {"outer.nesterov.learning_rate", "{nesterov: {learning_rate: 0.5}}", pushed_gradients,
     "nesterov", true},
    {"outer.nesterov.momentum", "{nesterov: {momentum: 0.5}}", pushed_gradients, "nesterov", true},
    {"participants", "50%"},
    {"data.sizes", "{sizes: 50%}"},
    {"data.classes", "{classes: 0.3}", "", "", true},
    {"secure_aggregation", "1.7"},
    {"server_nic_rate", "1 Gbit/s"},
    {"switch", "{to: async}", "the consistency with which the run begins is refused"},
    {"switch.to", "{to: sync}", "equal workers keep step by themselves", "{to: async}"},
    {"switch.at", "{to: async, at: 50%}", "nobody reaches the bound", "{to: async}"},
};
const std::vector<Surroundings> server_surroundings{
    {"gpus: 8\n"},
    {"gpus: 1\n"},
    {"gpus: 16\n", "servers: 2, "},
    {"gpus: 1\n", "placement: gpu, "},
    {"gpus: 1\n", "placement: gpu, serial: true, "},
    {"gpus: 4\n", "servers: 4, "},
    {"gpus: 4\n", "servers: 3, consistency: ssp, "},
    {"gpus: 4\n", "servers: 3, consistency: async, "},
    {"gpus: 4\nstragglers: {per_step: {lognormal: {sigma: 30%}}}\n", "consistency: ssp, "},
    {"gpus: 4\nstragglers: {slow_ranks: [{rank: 0, factor: 2}]}\n",
     "consistency: ssp, staleness_bound: 1, "},
    {"gpus: 4\n", "consistency: softsync, "},
    {"gpus: 8\nsimulation: {steps: 60}\nstragglers: {per_step: {lognormal: {sigma: 60%}}}\n"},
    {"gpus: 4\n", "consistency: modified-async, "},
    {"gpus: 4\n", "push: parameters, exchange_every: 4, "},
    {"gpus: 1\n", "push: parameters, "},
    {"gpus: 4\n", "overlap: true, partition_size: 1 MB, pull_overlap: true, "},
    {"gpus: 4\ngradient_clipping: 1\n"},
    {"gpus: 16\n", "placement: worker-and-own-hosts, partition_size: 16 MB, "},
    {cpu},
};

}  // namespace lockstep::options_test
