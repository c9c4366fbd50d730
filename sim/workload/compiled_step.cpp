// Implements the compilation of a training step. Two decisions are made for each graph, and then
// the kernels are rewritten.
// 1. Fusion follows Inductor's scheduler (torch/_inductor/scheduler.py): two streaming operators
// are joined if one reads the other and no matrix product, convolution or collective is on a path
// between them.
// 2. Saved tensors follow AOTAutograd's partitioner (torch/_functorch/partitioners.py, PyTorch
// 2.15). Results of products, and values that backward's products read, are never recomputed. The
// other values that backward reads are derived from the cheapest set of saved values, a minimum
// cut. A value that exists only to be saved has twice the weight, because it must be written and
// read.
// Streaming layers are called "fusible" here, all others "opaque".
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "workload/compile.hpp"
#include "workload/minimum_cut.hpp"

namespace lockstep {
namespace {

// Host work of entering a compiled graph, in eager operators: guards, the runtime wrapper, the
// graph's autograd function. This is an estimate without a measurement (the probe gpu_queue
// compares eager with compiled steps).
constexpr int graph_operators = 4;
// Number of kernels of a fused reduction over rows. The loss has one for maximum and sum of each
// row and one for the mean of all rows. Batch norm has one for the sums of each channel and one for
// the values.
constexpr int reduction_launches = 2;

// Whether a kernel reads and writes memory once and is of a kind that Inductor generates itself.
bool streams(const Kernel& kernel) {
  return kernel.kind == KernelKind::elementwise || kernel.kind == KernelKind::normalization ||
         kernel.kind == KernelKind::softmax || kernel.kind == KernelKind::copy;
}

bool launches(const std::vector<Kernel>& kernels) {
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const Kernel& kernel) { return kernel.launches > 0; });
}

// Whether kernels that Inductor generates compute the whole layer. Products, attention, pooling and
// exchanges call libraries instead.
bool is_fusible(const Layer& layer) {
  if (!layer.forward_exchanges.empty() || !layer.backward_exchanges.empty()) return false;
  if (layer.kind == "exchange" || layer.pieces > 1) return false;
  if (layer.boundary != Boundary::none || layer.is_attention) return false;
  const bool looks_up_positions = layer.kind == "position_embedding";
  return std::all_of(layer.forward.begin(), layer.forward.end(), [&](const Kernel& kernel) {
    return kernel.launches == 0 || streams(kernel) ||
           (looks_up_positions && kernel.kind == KernelKind::embedding);
  });
}

// Whether a backward kernel adds a parameter's gradient to wider gradients (2 + 4 bytes read, 4
// written), or is an AccumulateGrad node. Autograd does both outside the graph.
bool accumulates(const Layer& layer, const Kernel& kernel) {
  if (kernel.launches == 0) return true;
  return std::any_of(layer.parameters.begin(), layer.parameters.end(), [&](const Parameter& p) {
    const auto count = static_cast<double>(p.count);
    return kernel.bytes_read == 6 * count && kernel.bytes_written == 4 * count;
  });
}

// The layers of one graph, which are consecutive in the step.
struct Range {
  int first = 0, last = -1;
  bool holds(int layer) const { return layer >= first && layer <= last; }
};

// The graphs of a step. With Compile::blocks each repeated block, and the loss, is one graph;
// layers between them remain eager.
std::vector<Range> graphs_of(const TrainingStep& step, Compile compile) {
  const int count = static_cast<int>(step.layers.size());
  if (compile == Compile::whole) return {{0, count - 1}};
  std::vector<Range> graphs;
  for (int i = 0; i < count; ++i) {
    const Layer& layer = step.layers[i];
    if (layer.block.empty() && !layer.is_loss) continue;
    const bool continues = !layer.block.empty() && i > 0 && step.layers[i - 1].block == layer.block;
    if (!continues) graphs.push_back({i, i});
    graphs.back().last = i;
  }
  return graphs;
}

// Whether hand-written kernels join the layer with the layer before it, which is so for a gated
// activation and for a dropout with the residual sum.
bool joins(const Layer& layer, const Layer& before) {
  const bool gates = layer.kind == "multiply" && before.kind != "add" && before.inputs.size() == 1;
  return gates || (layer.kind == "add" && before.kind == "dropout");
}

// One graph. Its layers are numbered from 0, and a number also denotes the value that the layer
// writes. The constructor analyses the graph; rewrite() replaces kernels, saved tensors and output
// sizes of its layers.
class CompiledGraph {
 public:
  // `gradients`: by layer of the step, whether backward computes the gradient of its output.
  // `storages`: the next free storage id. `by_hand`: true = hand-written fused kernels in an eager
  // step, false = a compiler's kernels.
  CompiledGraph(TrainingStep& step, Range range, const std::vector<bool>& gradients, int& storages,
                bool by_hand)
      : step_(step), range_(range), gradients_(gradients), storages_(storages), by_hand_(by_hand) {
    const int count = range.last - range.first + 1;
    nodes_.resize(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) describe(i);
    for (int i = 0; i < count; ++i) describe_saved(i);
    find_levels();
    find_groups();
  }

  void rewrite() {
    choose_saved();
    find_materialised();
    rename_storages();
    for (int i = 0; i < size(); ++i) save(i);
    for (const auto& [leader, members] : groups_) fuse(members);
    for (int i = 0; i < size(); ++i) {
      if (!nodes_[i].fusible) leave(i);
      layer(i).compiled = !by_hand_;
    }
    if (by_hand_) return;
    enter(step_.layers[range_.first].forward, true);
    enter(step_.layers[range_.last].backward, false);
  }

 private:
  // A layer of the graph and its value.
  struct Node {
    bool fusible = false;
    bool alias = false;  // a view of its input
    int value = 0;       // the node whose value this is: the node itself, or the input of an alias
    std::vector<int> inputs;         // values of the graph that it reads
    std::vector<int> outside;        // earlier layers of the step, outside the graph, that it reads
    std::vector<int> readers;        // layers of the graph that read it, without aliases
    bool leaves = false;             // a layer outside the graph reads it, or it is the loss
    std::vector<int> needs;          // fusible: values of the graph that its backward reads
    std::vector<int> needs_outside;  // fusible: layers before the graph that its backward reads
    // Saved tensors that are no values of the graph: statistics, masks, a product's copies.
    std::vector<SavedTensor> own;
    std::vector<std::pair<int, SavedTensor>> kept;  // opaque: values that its backward reads
    int level = 0, group = -1;  // set by find_levels() and find_groups(); group -1 = opaque
    bool needs_sign = false;    // its backward needs only the sign of its own value (ReLU)
    bool stays = false;         // the backward of an opaque layer reads it
    bool saved = false;         // saved in forward for backward
    bool materialised = true;   // whether some kernel writes it to memory
    double half_copy = 0;       // bytes of a half-precision copy that opaque readers read; 0 = none
    int half_readers = 0;       // opaque readers of that copy
  };

  int size() const { return static_cast<int>(nodes_.size()); }
  Layer& layer(int i) { return step_.layers[range_.first + i]; }
  const Layer& layer(int i) const { return step_.layers[range_.first + i]; }
  double bytes(int i) const { return layer(i).output_bytes; }
  bool needs_gradient(int i) const { return gradients_[range_.first + i]; }

  // Sets the neighbours of layer i in the graph. A view (same storage as its input, no kernel)
  // becomes an alias.
  void describe(int i) {
    Node& node = nodes_[i];
    node.value = i;
    node.fusible = is_fusible(layer(i));
    const int storage = layer(i).output_storage;
    for (const int input : layer(i).inputs) {
      if (!range_.holds(input)) {
        if (input >= 0) node.outside.push_back(input);
        continue;
      }
      const int value = nodes_[input - range_.first].value;
      node.inputs.push_back(value);
      const bool same = layer(input - range_.first).output_storage == storage;
      if (same && !launches(layer(i).forward)) {
        node.alias = true;
        node.value = value;
      }
    }
    if (!node.alias) {
      for (const int input : node.inputs) nodes_[input].readers.push_back(i);
    }
    node.leaves = layer(i).is_loss;
    for (std::size_t j = range_.last + 1; j < step_.layers.size(); ++j) {
      const std::vector<int>& read = step_.layers[j].inputs;
      if (std::find(read.begin(), read.end(), range_.first + i) != read.end()) node.leaves = true;
    }
    if (node.alias && node.leaves) nodes_[node.value].leaves = true;
  }

  // The value of the graph that storage `storage` holds at the moment at which layer i reads it; -1
  // = none. An in-place layer writes a new value into the storage of its input.
  int value_in(int storage, int i) const {
    const std::vector<int>& read = layer(i).inputs;
    for (const int input : read) {
      const int inside = input - range_.first;
      if (range_.holds(input) && layer(inside).output_storage == storage) {
        const bool in_place = layer(i).output_storage == storage && !nodes_[i].alias;
        return in_place ? i : nodes_[inside].value;
      }
    }
    if (layer(i).output_storage == storage) return nodes_[i].value;
    for (int before = i - 1; before >= 0; --before) {
      if (layer(before).output_storage == storage) return nodes_[before].value;
    }
    return -1;
  }

  // The last layer before the graph whose output is in that storage; -1 = none.
  int layer_outside(int storage) const {
    for (int before = range_.first - 1; before >= 0; --before) {
      if (step_.layers[before].output_storage == storage) return before;
    }
    return -1;
  }

  // Translates the tensors that layer i saves in eager mode into needs of its backward. An opaque
  // layer saves the same tensors. The backward of a fusible layer may derive values from others, so
  // only tensors that cannot be derived (masks, small statistics) are its own.
  void describe_saved(int i) {
    Node& node = nodes_[i];
    if (uses(layer(i).forward, KernelKind::pooling) && !by_hand_) return describe_pooling(i);
    for (const SavedTensor& saved : layer(i).saved) {
      const int value = value_in(saved.storage, i);
      const int outside = value < 0 ? layer_outside(saved.storage) : -1;
      if (!node.fusible) {
        if (value < 0) {
          describe_own(i, saved);
        } else {
          nodes_[value].stays = true;
          node.kept.emplace_back(value, saved);
        }
      } else if (value == i && layer(i).kind == "relu" && !by_hand_) {
        node.needs_sign = true;
      } else if (value >= 0) {
        node.needs.push_back(value);
      } else if (outside >= 0) {
        node.needs_outside.push_back(outside);
      } else if (saved.mask || is_small(i, saved)) {
        node.own.push_back(saved);
      } else {  // an intermediate of the layer, derived from the layer's inputs
        node.needs.insert(node.needs.end(), node.inputs.begin(), node.inputs.end());
        node.needs_outside.insert(node.needs_outside.end(), node.outside.begin(),
                                  node.outside.end());
      }
    }
  }

  // Inductor's pooling saves no input. It stores the position of a maximum within its window in one
  // byte instead of an int64 (prims, _low_memory_max_pool_with_offsets).
  void describe_pooling(int i) {
    for (SavedTensor saved : layer(i).saved) {
      if (saved.name != "indices") continue;
      saved.bytes /= sizeof(std::int64_t);
      nodes_[i].own.push_back(saved);
    }
  }

  // Whether a saved tensor is the result of a reduction (statistics). As in the partitioner, this
  // is so if it has less than a quarter of the bytes of the layer's largest input or output. Such
  // results are always saved.
  bool is_small(int i, const SavedTensor& saved) const {
    double largest = bytes(i);
    for (const int input : nodes_[i].inputs) largest = std::max(largest, bytes(input));
    for (const int input : nodes_[i].outside) {
      largest = std::max(largest, step_.layers[input].output_bytes);
    }
    return saved.bytes * 4 < largest;
  }

  // Adds a tensor of an opaque layer's own. Autocast's half-precision copy of a product's input is
  // replaced by one copy that all products of that input share.
  void describe_own(int i, const SavedTensor& saved) {
    Node& node = nodes_[i];
    if (saved.produced_by == range_.first + i && saved.name == "input") {
      for (const int input : node.inputs) {
        if (saved.bytes * 2 != bytes(input)) continue;
        nodes_[input].half_copy = saved.bytes;
        ++nodes_[input].half_readers;
        node.kept.emplace_back(input, saved);
        return;
      }
    }
    node.own.push_back(saved);
  }

  // Sets the levels. The level of a layer is the number of opaque layers on the longest path to it.
  // A fusible layer may join its input's group only if both have the same level, because then no
  // opaque layer is between them. Batch norm must wait for the sums over all samples, so it also
  // begins a new level.
  void find_levels() {
    for (int i = 0; i < size(); ++i) {
      Node& node = nodes_[i];
      for (const int input : node.inputs) {
        const bool barrier = !nodes_[input].fusible || layer(i).kind == "batch_norm";
        node.level = std::max(node.level, nodes_[input].level + (barrier ? 1 : 0));
      }
    }
  }

  // Finds the groups of layers that become one kernel: the connected components of joins, by
  // union-find. The leader of a group is its first layer.
  void find_groups() {
    std::vector<int> leader(nodes_.size());
    for (int i = 0; i < size(); ++i) leader[i] = i;
    const auto find = [&](int i) {
      while (leader[i] != i) i = leader[i];
      return i;
    };
    for (int i = 0; i < size(); ++i) {
      if (!nodes_[i].fusible) continue;
      for (const int input : nodes_[i].inputs) {
        if (!nodes_[input].fusible || nodes_[input].level != nodes_[i].level) continue;
        if (by_hand_ && !joins(layer(i), layer(input))) continue;
        const int a = find(i), b = find(input);
        leader[std::max(a, b)] = std::min(a, b);
      }
    }
    for (int i = 0; i < size(); ++i) {
      if (!nodes_[i].fusible) continue;
      nodes_[i].group = find(i);
      groups_[nodes_[i].group].push_back(i);
    }
  }

  // The partitioner's ban_recompute_used_far_apart: finds the fusible readers of a value that come
  // after the first opaque layer which the value reaches. They must not be recomputed, because the
  // value would have to live long for them.
  std::vector<bool> far_readers() const {
    std::vector<bool> far(nodes_.size(), false);
    for (int i = 0; i < size(); ++i) {
      if (!nodes_[i].fusible || nodes_[i].readers.size() < 2) continue;
      const int end = *std::max_element(nodes_[i].readers.begin(), nodes_[i].readers.end());
      const int opaque = first_opaque(i, end);
      for (const int reader : nodes_[i].readers) {
        if (nodes_[reader].fusible && reader > opaque) far[reader] = true;
      }
    }
    return far;
  }

  // Whether an opaque layer, another group, or a layer outside of the graph reads the value.
  bool is_written(const Node& node) const {
    return node.leaves || std::any_of(node.readers.begin(), node.readers.end(), [&](int reader) {
             return !nodes_[reader].fusible || nodes_[reader].group != node.group;
           });
  }

  // The first opaque layer, not after `end`, that the value of `from` reaches; `end` if there is
  // none. Searches the readers in execution order.
  int first_opaque(int from, int end) const {
    std::set<int> open(nodes_[from].readers.begin(), nodes_[from].readers.end());
    while (!open.empty()) {
      const int next = *open.begin();
      open.erase(open.begin());
      if (next > end) continue;
      if (!nodes_[next].fusible) return next;
      open.insert(nodes_[next].readers.begin(), nodes_[next].readers.end());
    }
    return end;
  }

  // Bytes of a boolean tensor with as many elements as value i.
  double sign_bytes(int i) const { return bytes(i) / activation_bytes(step_.precision); }

  // Chooses the values to save by a minimum cut between the values that cannot be recomputed
  // (sources) and the values that backward reads (sinks). A ReLU has an additional node for its
  // sign, so that the cut may save one byte per element instead of the value.
  void choose_saved() {
    CutGraph graph;
    graph.nodes.resize(nodes_.size());
    const std::vector<bool> far = far_readers();
    for (int i = 0; i < size(); ++i) {
      const Node& node = nodes_[i];
      CutGraph::Node& cut = graph.nodes[i];
      const bool fused = !node.leaves && std::all_of(node.readers.begin(), node.readers.end(),
                                                     [&](int r) { return nodes_[r].fusible; });
      cut.weight = bytes(i) * (fused && node.fusible ? 2 : 1);
      // The partitioner never recomputes concatenations.
      const bool joins_parts = layer(i).flow == GradientFlow::slices;
      cut.source = !node.fusible || node.stays || far[i] || node.inputs.empty() || joins_parts;
      if (by_hand_) {  // eager kernels save their inputs and outputs and recompute nothing else
        cut.source = cut.source || node.readers.size() != 1 || is_written(node);
      }
      cut.sink = node.stays;
      cut.inputs = node.inputs;
      if (node.fusible) continue;
      cut.inputs.clear();
    }
    for (const Node& node : nodes_) {
      for (const int value : node.needs) graph.nodes[value].sink = true;
    }
    std::vector<int> signs;  // layers whose sign may be saved, one byte per element
    for (int i = 0; i < size(); ++i) {
      if (!nodes_[i].needs_sign) continue;
      signs.push_back(i);
      graph.nodes.push_back({2 * sign_bytes(i), false, true, {i}});
    }
    const std::vector<bool> cut = minimum_cut(graph);
    for (int i = 0; i < size(); ++i) nodes_[i].saved = cut[i] || nodes_[i].stays;
    for (std::size_t k = 0; k < signs.size(); ++k) {
      const int i = signs[k];
      if (!cut[nodes_.size() + k]) {
        nodes_[i].needs.push_back(i);
        continue;
      }
      SavedTensor sign;
      sign.name = "sign";
      sign.bytes = sign_bytes(i);
      sign.storage = storages_++;
      sign.produced_by = range_.first + i;
      nodes_[i].own.push_back(sign);
    }
  }

  // Decides which fusible values are written to memory: values that are saved, that leave the
  // graph, or that another kernel reads. If all other kernels read the half-precision copy, the
  // kernel writes the value only in half precision.
  void find_materialised() {
    for (int i = 0; i < size(); ++i) {
      Node& node = nodes_[i];
      if (!node.fusible || node.alias) continue;
      const bool halved = node.half_copy > 0;
      int whole_readers = 0;
      for (const int reader : node.readers) {
        if (!nodes_[reader].fusible || nodes_[reader].group != node.group) ++whole_readers;
      }
      if (halved) whole_readers -= node.half_readers;
      const bool whole = node.saved || node.leaves || whole_readers > 0;
      node.materialised = whole || halved;
      if (!halved || whole) continue;
      layer(i).output_bytes = node.half_copy;  // the kernel writes half precision
      node.half_copy = 0;
    }
  }

  // Gives in-place results storages of their own, because a graph is functionalised and has no side
  // effects. Sets the bytes of values that remain in registers to 0.
  void rename_storages() {
    for (int i = 0; i < size(); ++i) {
      const Node& node = nodes_[i];
      if (node.alias) {
        layer(i).output_storage = layer(node.value).output_storage;
        layer(i).output_bytes = bytes(node.value);
        continue;
      }
      const bool in_place =
          std::any_of(layer(i).inputs.begin(), layer(i).inputs.end(), [&](int input) {
            return input >= 0 && step_.layers[input].output_storage == layer(i).output_storage;
          });
      if (in_place) layer(i).output_storage = storages_++;
    }
    for (int i = 0; i < size(); ++i) {
      if (nodes_[i].fusible && !nodes_[i].alias && !nodes_[i].materialised)
        layer(i).output_bytes = 0;
      if (nodes_[i].alias) layer(i).output_bytes = bytes(nodes_[i].value);
    }
  }

  // A saved tensor that refers to the value itself.
  SavedTensor reference(int value, const std::string& name) const {
    SavedTensor saved;
    saved.name = name;
    saved.bytes = bytes(value);
    saved.storage = layer(value).output_storage;
    saved.produced_by = range_.first + value;
    return saved;
  }

  // Replaces the saved tensors of layer i by the tensors that the compiled backward reads. For a
  // fusible layer, also records the saved values from which its needs are recomputed (frontier_),
  // for the bytes of its kernel.
  void save(int i) {
    Node& node = nodes_[i];
    std::vector<SavedTensor> saved = node.own;
    std::set<int> storages;
    const auto add = [&](SavedTensor tensor) {
      if (storages.insert(tensor.storage).second) saved.push_back(std::move(tensor));
    };
    for (const auto& [value, tensor] : node.kept) {
      if (tensor.produced_by != range_.first + i || nodes_[value].half_copy == 0) {
        add(reference(value, tensor.name));
      } else {  // both the value and its half copy exist; all readers use the first reader's copy
        const auto [first, is_new] = copies_.try_emplace(value, tensor);
        add(first->second);
      }
    }
    if (node.fusible) {
      std::set<int> outside(node.needs_outside.begin(), node.needs_outside.end());
      std::set<int> values;
      for (const int value : node.needs) find_kept(value, values, outside);
      for (const int value : values) add(reference(value, "kept"));
      for (const int before : outside) add(input_of_graph(before));
      frontier_[i] = {values, outside};
    }
    layer(i).saved = std::move(saved);
  }

  // A saved tensor that refers to the output of a layer before the graph.
  SavedTensor input_of_graph(int before) const {
    SavedTensor saved;
    saved.name = "input";
    saved.bytes = step_.layers[before].output_bytes;
    saved.storage = step_.layers[before].output_storage;
    saved.produced_by = before;
    return saved;
  }

  // Adds the saved values, and the layers before the graph, from which the value is recomputed.
  void find_kept(int value, std::set<int>& values, std::set<int>& outside) const {
    const Node& node = nodes_[value];
    if (node.saved || !node.fusible) {
      values.insert(value);
      return;
    }
    for (const int input : node.inputs) find_kept(input, values, outside);
    outside.insert(node.outside.begin(), node.outside.end());
  }

  static Kernel fused_kernel(Pass pass, KernelKind kind) {
    Kernel kernel;
    kernel.pass = pass;
    kernel.kind = kind;
    return kernel;
  }

  // The kind of a fused kernel is the most demanding kind among its layers: softmax, then
  // normalization, then elementwise.
  static KernelKind kind_of(const std::vector<const Layer*>& layers) {
    KernelKind kind = KernelKind::elementwise;
    for (const Layer* layer : layers) {
      for (const Kernel& kernel : layer->forward) {
        if (kernel.kind == KernelKind::softmax) return KernelKind::softmax;
        if (kernel.kind == KernelKind::normalization) kind = KernelKind::normalization;
      }
    }
    return kind;
  }

  // Replaces the kernels of a group by one fused kernel in forward and one in backward. A group of
  // only views has none.
  void fuse(const std::vector<int>& members) {
    std::vector<const Layer*> layers;
    for (const int i : members) layers.push_back(&layer(i));
    if (std::none_of(layers.begin(), layers.end(),
                     [](const Layer* l) { return launches(l->forward); })) {
      return;
    }
    const KernelKind kind = kind_of(layers);
    Kernel forward = fused_forward(members, kind);
    Kernel backward = fused_backward(members, kind);
    const bool reduces = std::any_of(layers.begin(), layers.end(), [](const Layer* l) {
      return l->is_loss || l->kind == "batch_norm";
    });
    if (reduces) forward.launches = forward.operators = reduction_launches;
    const bool runs_back = launches_back(members);
    if (reduces) backward.launches = backward.operators = reduction_launches;
    for (const int i : members) strip(i);
    layer(members.back()).forward.push_back(forward);
    std::vector<Kernel>& list = layer(members.front()).backward;
    if (runs_back) list.insert(list.begin(), backward);
  }

  bool launches_back(const std::vector<int>& members) const {
    return std::any_of(members.begin(), members.end(),
                       [&](int i) { return launches(layer(i).backward); });
  }

  // Traffic of the forward kernel: every value from outside the group is read once, and every value
  // that must be in memory is written once. Batch norm reads its input twice.
  Kernel fused_forward(const std::vector<int>& members, KernelKind kind) const {
    Kernel kernel = fused_kernel(Pass::forward, kind);
    std::set<int> read, outside;
    for (const int i : members) {
      for (const Kernel& part : layer(i).forward) kernel.flops += part.flops;
      for (const int input : nodes_[i].inputs) {
        if (nodes_[input].group != nodes_[i].group) read.insert(input);
        if (layer(i).kind == "batch_norm") kernel.bytes_read += bytes(input);
      }
      outside.insert(nodes_[i].outside.begin(), nodes_[i].outside.end());
      if (nodes_[i].inputs.empty() && nodes_[i].outside.empty()) {
        for (const Kernel& part : layer(i).forward) kernel.bytes_read += part.bytes_read;
      }
      if (!nodes_[i].alias) kernel.bytes_written += bytes(i) + nodes_[i].half_copy;
      for (const SavedTensor& own : nodes_[i].own) kernel.bytes_written += own.bytes;
    }
    for (const int value : read) kernel.bytes_read += bytes(value);
    for (const int before : outside) kernel.bytes_read += step_.layers[before].output_bytes;
    return kernel;
  }

  // Traffic of the backward kernel: saved values and arriving gradients are read, and gradients of
  // the group's inputs are written.
  Kernel fused_backward(const std::vector<int>& members, KernelKind kind) const {
    Kernel kernel = fused_kernel(Pass::backward, kind);
    const std::set<int> inside(members.begin(), members.end());
    std::set<int> values, outside, written;
    int arriving = 0;
    for (const int i : members) {
      for (const Kernel& part : layer(i).backward) {
        if (!accumulates(layer(i), part)) kernel.flops += part.flops;
      }
      const auto found = frontier_.find(i);
      values.insert(found->second.first.begin(), found->second.first.end());
      outside.insert(found->second.second.begin(), found->second.second.end());
      for (const SavedTensor& own : nodes_[i].own) kernel.bytes_read += own.bytes;
      if (layer(i).kind == "batch_norm") kernel.bytes_read += 2 * bytes_of_inputs(i);
      arriving += add_arriving(i, inside, kernel);
      for (const int input : nodes_[i].inputs) {
        if (!inside.contains(input) && needs_gradient(input)) written.insert(input);
      }
    }
    for (const int value : values) kernel.bytes_read += bytes(value);
    for (const int before : outside) kernel.bytes_read += step_.layers[before].output_bytes;
    add_written(members, inside, written, arriving, kernel);
    return kernel;
  }

  double bytes_of_inputs(int i) const {
    double sum = 0;
    for (const int input : nodes_[i].inputs) sum += bytes(input);
    for (const int input : nodes_[i].outside) sum += step_.layers[input].output_bytes;
    return sum;
  }

  // Adds the reading of gradients of value i that other kernels wrote: one for each opaque reader,
  // one for each other group, one from outside the graph. Returns their number.
  int add_arriving(int i, const std::set<int>& inside, Kernel& kernel) const {
    const Node& node = nodes_[i];
    if (node.alias) return 0;
    std::set<int> groups;
    int count = 0;
    for (const int reader : node.readers) {
      if (inside.contains(reader)) continue;
      if (nodes_[reader].fusible && !groups.insert(nodes_[reader].group).second) continue;
      kernel.bytes_read +=
          node.half_copy > 0 && !nodes_[reader].fusible ? node.half_copy : bytes(i);
      ++count;
    }
    if (node.leaves && !layer(i).is_loss) {
      kernel.bytes_read += bytes(i);
      ++count;
    }
    return count;
  }

  // Adds the writing of one gradient for each input of the group. Sums and views pass their
  // output's gradient on to all inputs, which share one tensor (`shared`).
  void add_written(const std::vector<int>& members, const std::set<int>& inside,
                   const std::set<int>& written, int arriving, Kernel& kernel) const {
    double shared = 0;
    int fresh = 0;
    const auto add = [&](const auto& readers_inside, double size) {
      const bool passes =
          readers_inside.size() == 1 && layer(readers_inside.front()).flow == GradientFlow::passes;
      if (passes) {
        shared = std::max(shared, size);
      } else {
        kernel.bytes_written += size;
        ++fresh;
      }
    };
    for (const int value : written) {
      std::vector<int> readers_inside;
      for (const int reader : nodes_[value].readers) {
        if (inside.contains(reader)) readers_inside.push_back(reader);
      }
      add(readers_inside, bytes(value));
    }
    std::map<int, std::vector<int>> before;
    for (const int i : members) {
      for (const int input : nodes_[i].outside) {
        if (gradients_[input]) before[input].push_back(i);
      }
    }
    for (const auto& [input, readers_inside] : before) {
      add(readers_inside, step_.layers[input].output_bytes);
    }
    // A single arriving gradient that is only passed on needs no write.
    if (arriving != 1 || members.size() > 1 || fresh > 0) kernel.bytes_written += shared;
  }

  // Removes the kernels of layer i that the fused kernels replace. Gradients of weights remain, as
  // one reduction kernel, because they sum over other dimensions than the fused kernel.
  void strip(int i) {
    Layer& own = layer(i);
    own.forward.clear();
    std::vector<Kernel> kept;
    double weight_read = 0, weight_written = 0;
    for (const Kernel& kernel : own.backward) {
      if (accumulates(own, kernel)) {
        kept.push_back(kernel);
      } else if (kernel.pass == Pass::weight_gradient) {
        weight_read = std::max(weight_read, kernel.bytes_read);
        weight_written = kernel.bytes_written;
      }
    }
    if (weight_read > 0) {
      Kernel kernel = fused_kernel(Pass::weight_gradient, KernelKind::normalization);
      kernel.bytes_read = weight_read;
      kernel.bytes_written = weight_written;
      kept.insert(kept.begin(), kernel);
    }
    std::erase_if(kept, [](const Kernel& kernel) {
      return kernel.launches == 0 && kernel.bytes_read == 0 && kernel.kind == KernelKind::copy;
    });
    own.backward = std::move(kept);
    own.forward_workspace_bytes = own.backward_workspace_bytes = 0;
    own.casts_gradient_last = false;
    own.summed_rows = own.summed_columns = 0;
  }

  // Adjusts the kernels of an opaque layer. Products remain. Casts of its inputs become part of the
  // fused kernels that write the inputs, and casts of gradients part of the kernels that read them.
  // Views cost no host time in a graph. Sums of gradients become part of a fused reader's kernel.
  void leave(int i) {
    Layer& own = layer(i);
    const auto is_view = [](const Kernel& kernel) {
      return kernel.launches == 0 && kernel.kind == KernelKind::copy;
    };
    std::erase_if(own.forward, is_view);
    std::erase_if(own.backward, is_view);
    for (const auto& [value, tensor] : nodes_[i].kept) {
      if (tensor.produced_by != range_.first + i || !nodes_[value].fusible) continue;
      const double half = tensor.bytes;
      erase_one(own.forward, 2 * half, half);
      erase_one(own.backward, half, 2 * half);
    }
    const bool fusible_reader = std::any_of(nodes_[i].readers.begin(), nodes_[i].readers.end(),
                                            [&](int reader) { return nodes_[reader].fusible; });
    const int additions = static_cast<int>(nodes_[i].readers.size()) - 1;
    if (fusible_reader && additions > 0) {
      const Kernel sum = gradient_sum(additions, bytes(i));
      erase_one(own.backward, sum.bytes_read, sum.bytes_written);
    }
  }

  // Removes the first elementwise kernel with exactly this traffic, which identifies a cast or a
  // sum.
  static void erase_one(std::vector<Kernel>& kernels, double read, double written) {
    const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& kernel) {
      return kernel.kind == KernelKind::elementwise && kernel.bytes_read == read &&
             kernel.bytes_written == written;
    });
    if (found != kernels.end()) kernels.erase(found);
  }

  // Adds the host work of calling the graph, before its first kernel.
  static void enter(std::vector<Kernel>& kernels, bool forward) {
    Kernel call = fused_kernel(forward ? Pass::forward : Pass::backward, KernelKind::copy);
    call.launches = 0;
    call.operators = graph_operators;
    kernels.insert(kernels.begin(), call);
  }

  TrainingStep& step_;
  Range range_;
  const std::vector<bool>& gradients_;
  int& storages_;
  bool by_hand_;
  std::vector<Node> nodes_;
  std::map<int, std::vector<int>> groups_;  // members in order, by leader
  std::map<int, SavedTensor> copies_;       // shared half-precision copies, by value
  // By fusible layer: saved values, and layers before the graph, that its backward reads.
  std::map<int, std::pair<std::set<int>, std::set<int>>> frontier_;
};

// Rewrites every graph of the step. Storage ids of new tensors follow all ids of the step.
TrainingStep rewritten(TrainingStep step, const std::vector<Range>& graphs, bool by_hand) {
  int storages = storage_count(step);
  std::vector<bool> gradients;
  for (const Layer& layer : step.layers) {
    gradients.push_back(!layer.backward.empty());
  }
  for (const Range& graph : graphs) {
    CompiledGraph(step, graph, gradients, storages, by_hand).rewrite();
  }
  step.whole_layers = false;
  return step;
}

}  // namespace

TrainingStep compiled(TrainingStep step, Compile compile) {
  if (compile == Compile::none) return step;
  const std::vector<Range> graphs = graphs_of(step, compile);
  return rewritten(std::move(step), graphs, false);
}

TrainingStep with_fused_kernels(TrainingStep step) {
  const std::vector<Range> whole = graphs_of(step, Compile::whole);
  return rewritten(std::move(step), whole, true);
}

}  // namespace lockstep
