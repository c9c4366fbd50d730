// How one replica of a model is spread over GPUs: the `parallel:` mapping of a scenario, with the degree
// and the manner of each axis. Data parallelism is what is left of the GPUs and is never written.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/errors.hpp"
#include "core/fields.hpp"

namespace lockstep {

// Beside which work the tensor-parallel exchanges of backward run.
enum class TensorOverlap : std::uint8_t {
  none,      // every exchange is waited for at once (PyTorch's DTensor without a compiler)
  backward,  // those of column-parallel products beside the products' gradients (Megatron-LM,
             // tensor_parallel/layers.py: LinearWithGradAccumulationAndAsyncCommunication)
  pieces,    // all-gathers and reduce-scatters in pieces beside the products that read or give them
             // (PyTorch's asynchronous tensor parallelism, Transformer Engine's user buffers)
};
template <>
struct EnumNames<TensorOverlap> {
  static constexpr std::array names{"none", "backward", "pieces"};
};

// Tensor parallelism (Shoeybi et al. 2019) with sequence parallelism (Korthikanti et al. 2022).
struct TensorOptions {
  std::int64_t size = 1;
  bool sequence = false;      // norms, dropouts and residuals hold a part of the sequence
  bool keep_gathered = true;  // with `sequence`: the gathered input of a product is kept for
                              // backward; false = gathered again (Megatron-LM)
  bool shared_exchanges =
      false;  // products of one input exchange its gradient once, as if they were
              // one product (Megatron-LM's fused projections); false = each for itself
  bool split_loss = false;  // logits stay split over the vocabulary
  TensorOverlap overlap = TensorOverlap::none;
  bool copies =
      true;  // exchanges give new tensors, and samples lie one after the other, so that parts of
             // sequences are copied together (DTensor); false = in place, tokens before samples
             // (Megatron-LM)
  // With `copies`: exchanges are DTensor's. Recomputation of operators keeps the results of
  // reduce-scatters, and the gradient of an embedding whose rows are split is that of the whole table.
  // false: torchtitan 0.3.0's own (spmd_types; models/common/embedding.py).
  bool dtensor = true;
  bool repeat_last_exchange = false;  // recomputation of a block ends with its last exchange
                                      // (Megatron-LM); false = with its last product's input
};
template <class Visitor>
void describe(Visitor& v, TensorOptions& o) {
  v.field("size", o.size, "GPUs that share every layer.", {.min = 1, .max = 1e6});
  v.field("sequence", o.sequence,
          "Norms, dropouts and residuals hold a part of the sequence (sequence parallelism).");
  v.field("keep_gathered", o.keep_gathered,
          "With `sequence`: the gathered input of a product is kept for backward, not gathered "
          "again.");
  v.field("shared_exchanges", o.shared_exchanges,
          "Products of one input exchange its gradient together.");
  v.field("split_loss", o.split_loss, "The loss is computed of logits split over the vocabulary.");
  v.field(
      "overlap", o.overlap,
      "none: every exchange is waited for at once; backward: exchanges of column-parallel products "
      "run beside the products' gradients; pieces: with `sequence`, exchanges travel in pieces "
      "beside the products (asynchronous tensor parallelism, user buffers).");
  v.field(
      "copies", o.copies,
      "Exchanges give new tensors and copy parts of sequences together, as DTensor's; false: in "
      "place, tokens lie before samples, as Megatron-LM's.");
  v.field(
      "dtensor", o.dtensor,
      "With `copies`: exchanges are DTensor's, whose results `recompute: operators` keeps, and the "
      "gradient of an embedding whose rows are split is that of the whole table; false: "
      "torchtitan's own.");
  v.field("repeat_last_exchange", o.repeat_last_exchange,
          "A block that is computed again repeats its last exchange, too.");
}

// The messages by which every query meets every key.
enum class ContextExchange : std::uint8_t {
  ring,    // keys and values travel from rank to rank (Liu et al. 2023; TransformerEngine's p2p)
  gather,  // keys and values of the whole sequence are gathered (Llama 3)
  all_to_all,  // sequences become heads and back (DeepSpeed-Ulysses)
};
template <>
struct EnumNames<ContextExchange> {
  static constexpr std::array names{"ring", "gather", "all-to-all"};
};
enum class ContextBalance : std::uint8_t { zigzag, none };
template <>
struct EnumNames<ContextBalance> {
  static constexpr std::array names{"zigzag", "none"};
};

struct ContextOptions {
  std::int64_t size = 1;
  ContextExchange exchange = ContextExchange::ring;
  ContextBalance balance = ContextBalance::zigzag;
  bool wide_gradients =
      true;  // ring, gather: gradients of keys and values travel in fp32 (PyTorch);
             // false = in the type of the products (TransformerEngine)
};
template <class Visitor>
void describe(Visitor& v, ContextOptions& o) {
  v.field("size", o.size, "GPUs that share every sequence.", {.min = 1, .max = 1e6});
  v.field("exchange", o.exchange,
          "ring: keys and values travel from rank to rank; gather: they are gathered before "
          "attention; all-to-all: sequences become heads and back.");
  v.field(
      "balance", o.balance,
      "zigzag: a rank holds an early and a late piece of the sequence, so that causal attention "
      "is equal work; none: one piece.");
  v.field("wide_gradients", o.wide_gradients,
          "Gradients of keys and values travel in fp32; false: in the products' type.");
}

enum class ExpertDispatch : std::uint8_t { all_to_all, gather };
template <>
struct EnumNames<ExpertDispatch> {
  static constexpr std::array names{"all-to-all", "gather"};
};

// Beside which work tokens travel.
enum class ExpertOverlap : std::uint8_t {
  none,
  shared,  // experts that see every token: the first products beside the dispatch, the last beside the
           // combination (Megatron-LM's --moe-shared-expert-overlap; fact H100)
};
template <>
struct EnumNames<ExpertOverlap> {
  static constexpr std::array names{"none", "shared"};
};

// How many tokens the router gives each expert of a layer. The k-th most popular one gets 1 / k^exponent of
// what the first one does (Zipf's law); popular experts are dealt to the ranks in turn.
struct ZipfLoad {
  double exponent = 1;
};
template <class Visitor>
void describe(Visitor& v, ZipfLoad& z) {
  v.field("exponent", z.exponent, "Exponent of Zipf's law; 0 = equal load.", {.min = 0, .max = 10});
}
// Shares of the experts in their order, of which each rank has as many in a row; in any unit.
struct ListedLoad {
  std::vector<double> shares;
  std::string file;  // with the shares, one a line; whoever reads the scenario puts them in
  Location where{};
};
template <class Visitor>
void describe(Visitor& v, ListedLoad& l) {
  v.location(l.where);
  v.field("shares", l.shares, "Tokens of each expert, in any unit.",
          {.min = 0, .max = 1e18, .or_empty = true});
  v.field("file", l.file, "A text file with the numbers, one per line.");
  v.check([&](auto report) {
    if (l.shares.empty() == l.file.empty()) {
      report("shares", "the load is listed by `shares` or by a `file`", "one of them");
    }
  });
}
using ExpertLoad = std::variant<ZipfLoad, ListedLoad>;
template <>
struct AlternativeNames<ExpertLoad> {
  static constexpr std::array names{"zipf", "listed"};
};

struct ExpertOptions {
  std::int64_t size = 1;
  std::int64_t tensor = 0;  // ranks that share an expert; 0 = as many as `tensor`
  ExpertDispatch dispatch = ExpertDispatch::all_to_all;
  double capacity = 0;             // tokens that an expert takes, in means; 0 = no token is dropped
  double imbalance = 1;            // tokens of the fullest rank over the mean
  std::optional<ExpertLoad> load;  // of which that follows; none = as `imbalance` says
  ExpertOverlap overlap = ExpertOverlap::none;
  bool keep_exchanged =
      true;  // recomputation of operators keeps the results of all-to-alls; false:
             // repeats them (torchtitan 0.3.0)
};
template <class Visitor>
void describe(Visitor& v, ExpertOptions& o) {
  v.field("size", o.size, "GPUs that share the experts of a layer.", {.min = 1, .max = 1e6});
  v.field("tensor", o.tensor, "GPUs that share one expert; 0 = as many as `tensor`.",
          {.min = 0, .max = 1e6});
  v.field("dispatch", o.dispatch,
          "all-to-all: each token goes to the ranks of its experts; gather: all tokens go to all.");
  v.field(
      "capacity", o.capacity,
      "Largest number of tokens of an expert, as a multiple of the mean; 0 = no token is dropped.",
      {.min = 0, .max = 1e6});
  v.field("imbalance", o.imbalance, "Tokens of the fullest rank, as a multiple of the mean.",
          {.min = 1, .max = 1e6});
  v.field("load", o.load,
          "Tokens of each expert: by Zipf's law, or listed; left out: equal. The GPU with the most "
          "tokens sets the pace.");
  v.field("overlap", o.overlap,
          "shared: shared experts run beside the exchanges of tokens; none: everything waits.");
  v.field(
      "keep_exchanged", o.keep_exchanged,
      "`recompute: operators` keeps the results of all-to-alls; false: they are repeated, as by "
      "torchtitan 0.3.0.");
  v.check([&](auto report) {
    if (o.load && o.imbalance != 1) {
      report("imbalance", "contradicts `load`, from which it follows", "give one of them");
    }
  });
}

// The order in which a stage works on micro-batches (parallel/schedule.hpp).
enum class PipelineSchedule : std::uint8_t {
  gpipe,
  one_f_one_b,
  pipedream,      // never drained, each micro-batch with the weights that its forward had
  pipedream_2bw,  // the same with two versions of the weights
  interleaved,
  looped_bfs,
  zb1p,
  zb_h2,
  zbv,
  dualpipe_v,
};
template <>
struct EnumNames<PipelineSchedule> {
  static constexpr std::array names{"gpipe",       "1f1b",       "pipedream", "pipedream-2bw",
                                    "interleaved", "looped-bfs", "zb1p",      "zb-h2",
                                    "zbv",         "dualpipe-v"};
};

// Whether all stages end a step before one of them begins the next: all have one version of the weights.
constexpr bool drains(PipelineSchedule schedule) {
  return schedule != PipelineSchedule::pipedream && schedule != PipelineSchedule::pipedream_2bw;
}

// Whether the gradients of inputs and those of weights are actions of their own.
constexpr bool splits_backward(PipelineSchedule schedule) {
  return schedule >= PipelineSchedule::zb1p;
}

// The side that waits for the messages between stages.
enum class PipelineTransfers : std::uint8_t {
  stream,  // the device, where it needs them (PyTorch)
  host,  // the host, for the device, after every exchange (Megatron-LM's batch_p2p_sync; fact H51)
};
template <>
struct EnumNames<PipelineTransfers> {
  static constexpr std::array names{"stream", "host"};
};

struct PipelineOptions {
  std::int64_t stages = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::int64_t chunks = 0;           // pieces of the model on each GPU; 0 = what the schedule needs
  std::vector<std::int64_t> layers;  // blocks of each piece in order; empty = as even as can be
  PipelineTransfers transfers = PipelineTransfers::stream;
  bool keep_outputs = true;     // what was sent stays until its backward
  bool return_outputs = false;  // logits of all micro-batches stay to the end of the step
  // Pieces of a micro-batch's tokens (TeraPipe: Li et al. 2021); 0 = as many, and as long, as take least time.
  std::int64_t slices = 1;
};
template <class Visitor>
void describe(Visitor& v, PipelineOptions& o) {
  v.field("stages", o.stages, "GPUs in a row, each with a part of the layers.",
          {.min = 1, .max = 1e6});
  v.field("schedule", o.schedule, "Order of micro-batches on a stage; docs/parallelism.md.",
          {.several = true});
  v.field("chunks", o.chunks, "Parts of the model on each GPU; 0 = as many as the schedule needs.",
          {.min = 0, .max = 1000, .several = true});
  v.field("layers", o.layers,
          "Repeated blocks of each part, in order; left out: as equal as possible.",
          {.min = 0, .max = 1e5, .or_empty = true});
  v.field("transfers", o.transfers,
          "Who waits for messages between stages. stream: the device, before the kernels that need "
          "them; host: the host, after every exchange.");
  v.field("keep_outputs", o.keep_outputs,
          "A stage keeps the outputs that it has sent until their backward.");
  v.field(
      "return_outputs", o.return_outputs,
      "The last part's outputs of all micro-batches stay until the next step (`return_outputs`, "
      "PyTorch's default; torchtitan's is false).");
  v.field(
      "slices", o.slices,
      "gpipe: pieces of each sequence that go through the stages in turn; 0 = TeraPipe's dynamic "
      "programme finds how many, and how long.",
      {.min = 0, .max = 1e4, .several = true});
}

struct ParallelOptions {
  TensorOptions tensor;
  ContextOptions context;
  ExpertOptions expert;
  PipelineOptions pipeline;
  Location where{};
};
template <class Visitor>
void describe(Visitor& v, ParallelOptions& o) {
  v.location(o.where);
  v.field("tensor", o.tensor, "Tensor parallelism; a number is the size.",
          {.single = true, .several = true});
  v.field("context", o.context, "Context parallelism; a number is the size.",
          {.single = true, .several = true});
  v.field("expert", o.expert, "Expert parallelism; a number is the size.",
          {.single = true, .several = true});
  v.field("pipeline", o.pipeline, "Pipeline parallelism; a number is the stages.",
          {.single = true, .several = true});
}

}  // namespace lockstep
