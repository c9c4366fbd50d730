// Options of model parallelism: the `parallel:` mapping of a scenario, with the size and the
// variant of each axis. Data parallelism has no option, because it gets all GPUs that the other
// axes leave.
// Each describe() declares the fields of a mapping for the reader, the schema and the docs
// (core/fields.hpp). Comments give the meaning and the source; the texts of describe() are shown to
// users.
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

// The work with which the exchanges of tensor parallelism overlap.
enum class TensorOverlap : std::uint8_t {
  none,  // every exchange is waited for at once (PyTorch's DTensor without a compiler)
  // exchanges of column-parallel products overlap with the products' gradients (Megatron-LM,
  // tensor_parallel/layers.py: LinearWithGradAccumulationAndAsyncCommunication)
  backward,
  // all-gathers and reduce-scatters travel in pieces and overlap with the products that read or
  // write them (PyTorch's asynchronous tensor parallelism, Transformer Engine's user buffers)
  pieces,
};
template <>
struct EnumNames<TensorOverlap> {
  static constexpr std::array names{"none", "backward", "pieces"};
};

// Tensor parallelism (Shoeybi et al. 2019) with sequence parallelism (Korthikanti et al. 2022).
struct TensorOptions {
  std::int64_t size = 1;
  bool sequence = false;  // in norms, dropouts and residuals each rank holds a part of the sequence
  // With `sequence`: true = the gathered input of a product stays in memory for backward; false =
  // backward gathers it a second time (Megatron-LM).
  bool keep_gathered = true;
  // true = products that read the same input exchange its gradient once, as if they were one
  // product (Megatron-LM's fused projections); false = one exchange per product.
  bool shared_exchanges = false;
  bool split_loss = false;  // the loss is computed from logits that are split over the vocabulary
  TensorOverlap overlap = TensorOverlap::none;
  // true = exchanges write new tensors, and the first dimension of a tensor is the samples, so that
  // parts of sequences must be copied together (DTensor); false = exchanges work in place, and the
  // first dimension is the tokens (Megatron-LM).
  bool copies = true;
  // With `copies`: true = the exchanges are DTensor's. Recomputation of operators then stores the
  // results of reduce-scatters, and the gradient of an embedding whose rows are split covers the
  // whole table. false = torchtitan 0.3.0's own exchanges (spmd_types; models/common/embedding.py).
  bool dtensor = true;
  // true = recomputation of a block includes its last exchange (Megatron-LM); false = it stops
  // before that exchange if nothing from there on is saved for backward.
  bool repeat_last_exchange = false;
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

// The messages of context parallelism, through which every query meets every key.
enum class ContextExchange : std::uint8_t {
  ring,    // keys and values travel from rank to rank (Liu et al. 2023; TransformerEngine's p2p)
  gather,  // keys and values of the whole sequence are gathered (Llama 3)
  all_to_all,  // ranks exchange parts of sequences for parts of heads, and back (DeepSpeed-Ulysses)
};
template <>
struct EnumNames<ContextExchange> {
  static constexpr std::array names{"ring", "gather", "all-to-all"};
};
// The pieces of a sequence that a rank holds. zigzag: of 2n pieces, rank i has the pieces i and 2n
// - 1 - i, so that causal attention is equal work on all n ranks. none: rank i has piece i of n.
enum class ContextBalance : std::uint8_t { zigzag, none };
template <>
struct EnumNames<ContextBalance> {
  static constexpr std::array names{"zigzag", "none"};
};

// Context parallelism: `size` ranks share every sequence, and each holds all parameters.
struct ContextOptions {
  std::int64_t size = 1;
  ContextExchange exchange = ContextExchange::ring;
  ContextBalance balance = ContextBalance::zigzag;
  // ring, gather: gradients of keys and values travel in fp32 (true; PyTorch), or in the type of
  // the products (false; TransformerEngine).
  bool wide_gradients = true;
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

// The collective that brings tokens to their experts. all_to_all sends each token to the ranks of
// its experts, gather sends all tokens to all ranks.
enum class ExpertDispatch : std::uint8_t { all_to_all, gather };
template <>
struct EnumNames<ExpertDispatch> {
  static constexpr std::array names{"all-to-all", "gather"};
};

// The work with which the exchanges of tokens overlap.
enum class ExpertOverlap : std::uint8_t {
  none,
  // Shared experts, which process every token: their first products overlap with the dispatch,
  // their last ones with the combination (Megatron-LM's --moe-shared-expert-overlap; fact H100).
  shared,
};
template <>
struct EnumNames<ExpertOverlap> {
  static constexpr std::array names{"none", "shared"};
};

// Router load by Zipf's law: the k-th most popular expert of a layer gets 1 / k^exponent times the
// tokens of the most popular one. Experts are assigned to the ranks in turn, the most popular ones
// first.
struct ZipfLoad {
  double exponent = 1;
};
template <class Visitor>
void describe(Visitor& v, ZipfLoad& z) {
  v.field("exponent", z.exponent, "Exponent of Zipf's law; 0 = equal load.", {.min = 0, .max = 10});
}
// Router load by a list: tokens of each expert, in any unit. Consecutive experts belong to one
// rank.
struct ListedLoad {
  std::vector<double> shares;
  std::string file;  // a file with one share per line; the reader of the scenario fills `shares`
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

// Expert parallelism: `size` ranks divide the experts of each layer among them.
struct ExpertOptions {
  std::int64_t size = 1;
  std::int64_t tensor = 0;  // ranks that divide one expert: 1, or 0 = the size of `tensor`
  ExpertDispatch dispatch = ExpertDispatch::all_to_all;
  // The most tokens that an expert accepts, as a multiple of the mean; the others are dropped. 0 =
  // no limit.
  double capacity = 0;
  double imbalance = 1;            // tokens of the fullest rank over the mean; used without `load`
  std::optional<ExpertLoad> load;  // shares of the experts, from which the imbalance follows
  ExpertOverlap overlap = ExpertOverlap::none;
  // Recomputation of operators stores the results of all-to-alls (true), or repeats the all-to-alls
  // (false; torchtitan 0.3.0).
  bool keep_exchanged = true;
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

// The order in which a stage processes micro-batches. parallel/schedules/ has one file for each
// family of schedules, with the papers.
enum class PipelineSchedule : std::uint8_t {
  gpipe,
  one_f_one_b,
  pipedream,      // never drained; backward uses the weights that its forward had
  pipedream_2bw,  // never drained, with two versions of the weights
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

// Whether all stages complete a step before any stage begins the next one, so that all stages use
// one version of the weights.
constexpr bool drains(PipelineSchedule schedule) {
  return schedule != PipelineSchedule::pipedream && schedule != PipelineSchedule::pipedream_2bw;
}

// Whether backward is divided into two actions: gradients of inputs, and gradients of weights.
constexpr bool splits_backward(PipelineSchedule schedule) {
  return schedule >= PipelineSchedule::zb1p;
}

// The part of a rank that waits until a message between stages has arrived.
enum class PipelineTransfers : std::uint8_t {
  stream,  // the device, before the kernels that need the message (PyTorch)
  host,    // the host, after every exchange (Megatron-LM's batch_p2p_sync; fact H51)
};
template <>
struct EnumNames<PipelineTransfers> {
  static constexpr std::array names{"stream", "host"};
};

// Pipeline parallelism: `stages` ranks in a row, each with `chunks` parts of the model.
struct PipelineOptions {
  std::int64_t stages = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::int64_t chunks = 0;           // parts of the model on each GPU; 0 = the schedule's default
  std::vector<std::int64_t> layers;  // blocks of each part in order; empty = as even as possible
  PipelineTransfers transfers = PipelineTransfers::stream;
  bool keep_outputs = true;     // an activation that was sent stays in memory until its backward
  bool return_outputs = false;  // outputs of the last part stay in memory until the next step
  // Slices of a micro-batch's tokens (TeraPipe: Li et al. 2021); 0 = the number and lengths that
  // take the least time.
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

// The whole mapping. `where` is its place in the scenario, for errors.
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
