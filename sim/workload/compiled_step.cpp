// Fusion follows Inductor's scheduler: streaming operators join where one reads the other and no
// matrix product, convolution or collective stands on a path between them (torch/_inductor/scheduler.py).
// Saved tensors follow torch/_functorch/partitioners.py (PyTorch 2.15): results of products and values
// that backward's products read are never computed again; the rest of what backward reads is the cheapest
// cut; a value that its readers' kernels would not write weighs twice.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "workload/compile.hpp"
#include "workload/minimum_cut.hpp"

namespace lockstep {
namespace {

// Host work of entering a compiled graph, in eager operators: guards, the runtime wrapper, the autograd
// function of the graph. An estimate: no source has measured it (gpu_queue: eager against compiled steps).
constexpr int graph_operators = 4;
// Loss kernels: maximum and sum of a row, then the mean of the rows; batch norm: sums, then values.
constexpr int reduction_launches = 2;

bool streams(const Kernel& kernel) {
  return kernel.kind == KernelKind::elementwise || kernel.kind == KernelKind::normalization ||
         kernel.kind == KernelKind::softmax || kernel.kind == KernelKind::copy;
}

bool launches(const std::vector<Kernel>& kernels) {
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const Kernel& kernel) { return kernel.launches > 0; });
}

// Inductor's own kernels compute the layer.
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

// Gradients of a parameter added to wider ones, or to those of the micro-batches before: autograd's own
// work, outside the graph.
bool accumulates(const Layer& layer, const Kernel& kernel) {
  if (kernel.launches == 0) return true;
  return std::any_of(layer.parameters.begin(), layer.parameters.end(), [&](const Parameter& p) {
    const auto count = static_cast<double>(p.count);
    return kernel.bytes_read == 6 * count && kernel.bytes_written == 4 * count;
  });
}

struct Range {
  int first = 0, last = -1;
  bool holds(int layer) const { return layer >= first && layer <= last; }
};

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

// Layers that hand-written kernels join with the layer before.
bool joins(const Layer& layer, const Layer& before) {
  const bool gates = layer.kind == "multiply" && before.kind != "add" && before.inputs.size() == 1;
  return gates || (layer.kind == "add" && before.kind == "dropout");
}

// One graph: its layers are numbered from 0; a layer stands for the value that it gives.
class CompiledGraph {
 public:
  // `gradients`: of which layers of the step backward gives the output's gradient to.
  // `by_hand`: fused kernels of eager layers, else those of a compiler.
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
  struct Node {
    bool fusible = false;
    bool alias = false;        // a view of its input
    int value = 0;             // whose value it is: its own, or of an alias the input's
    std::vector<int> inputs;   // values in the graph
    std::vector<int> outside;  // layers of the step before the graph
    std::vector<int> readers;  // layers that read it, aliases left out
    bool leaves = false;       // read outside the graph, or its result
    std::vector<int> needs;    // values that a fusible layer's backward reads
    std::vector<int> needs_outside;
    std::vector<SavedTensor>
        own;  // what it saves that is no value: statistics, masks, a product's copies
    std::vector<std::pair<int, SavedTensor>> kept;  // values that an opaque layer's backward reads
    int level = 0, group = -1;
    bool needs_sign = false;  // backward asks which elements of its own value are positive
    bool stays = false;       // some opaque layer's backward reads it
    bool saved = false;
    bool materialised = true;
    double half_copy = 0;  // bytes; opaque readers read a half-precision copy
    int half_readers = 0;
  };

  int size() const { return static_cast<int>(nodes_.size()); }
  Layer& layer(int i) { return step_.layers[range_.first + i]; }
  const Layer& layer(int i) const { return step_.layers[range_.first + i]; }
  double bytes(int i) const { return layer(i).output_bytes; }
  bool needs_gradient(int i) const { return gradients_[range_.first + i]; }

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

  // The value in the graph whose storage this is, as layer i sees it; -1 = none.
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

  int layer_outside(int storage) const {
    for (int before = range_.first - 1; before >= 0; --before) {
      if (step_.layers[before].output_storage == storage) return before;
    }
    return -1;
  }

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
      } else {  // a step on the way, which follows from the inputs
        node.needs.insert(node.needs.end(), node.inputs.begin(), node.inputs.end());
        node.needs_outside.insert(node.needs_outside.end(), node.outside.begin(),
                                  node.outside.end());
      }
    }
  }

  // Backward of a pooling reads no input; a maximum's place in its window takes a byte (prims,
  // _low_memory_max_pool_with_offsets).
  void describe_pooling(int i) {
    for (SavedTensor saved : layer(i).saved) {
      if (saved.name != "indices") continue;
      saved.bytes /= sizeof(std::int64_t);
      nodes_[i].own.push_back(saved);
    }
  }

  bool is_small(int i, const SavedTensor& saved) const {
    double largest = bytes(i);
    for (const int input : nodes_[i].inputs) largest = std::max(largest, bytes(input));
    for (const int input : nodes_[i].outside) {
      largest = std::max(largest, step_.layers[input].output_bytes);
    }
    return saved.bytes * 4 < largest;  // the partitioner's "reduction"
  }

  // Autocast's copy of a product's input is one for all products that read it.
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

  // Opaque layers on the longest path to a layer; a fusible one joins its input's group at equal levels.
  void find_levels() {
    for (int i = 0; i < size(); ++i) {
      Node& node = nodes_[i];
      for (const int input : node.inputs) {
        const bool barrier = !nodes_[input].fusible || layer(i).kind == "batch_norm";
        node.level = std::max(node.level, nodes_[input].level + (barrier ? 1 : 0));
      }
    }
  }

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

  // ban_recompute_used_far_apart: a reader behind an opaque one that the value reaches first.
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

  // Another kernel reads the value.
  bool is_written(const Node& node) const {
    return node.leaves || std::any_of(node.readers.begin(), node.readers.end(), [&](int reader) {
             return !nodes_[reader].fusible || nodes_[reader].group != node.group;
           });
  }

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

  double sign_bytes(int i) const { return bytes(i) / activation_bytes(step_.precision); }

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
      // Concatenations are no operator that the partitioner computes again.
      const bool joins_parts = layer(i).flow == GradientFlow::slices;
      cut.source = !node.fusible || node.stays || far[i] || node.inputs.empty() || joins_parts;
      if (by_hand_) {  // eager kernels keep what they read and wrote
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
    std::vector<int> signs;  // layers whose sign may be kept, a byte an element
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

  // A value that was written over its input is one of its own in a graph without side effects.
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

  SavedTensor reference(int value, const std::string& name) const {
    SavedTensor saved;
    saved.name = name;
    saved.bytes = bytes(value);
    saved.storage = layer(value).output_storage;
    saved.produced_by = range_.first + value;
    return saved;
  }

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
      } else {  // beside the whole value: the first reader's copy serves all
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

  SavedTensor input_of_graph(int before) const {
    SavedTensor saved;
    saved.name = "input";
    saved.bytes = step_.layers[before].output_bytes;
    saved.storage = step_.layers[before].output_storage;
    saved.produced_by = before;
    return saved;
  }

  // The saved values that a value follows from.
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

  // Gradients that other kernels wrote: one of each opaque reader, one of each other group.
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

  // A gradient for each value and layer before; sums and views hand on the one that they get, which all their
  // inputs share.
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
    // One gradient arrives and goes on as it is: no kernel writes it again.
    if (arriving != 1 || members.size() > 1 || fresh > 0) kernel.bytes_written += shared;
  }

  // The layer's own kernels are in the fused ones: gradients of weights stay, one reduction each.
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

  // A product keeps its kernels; casts of inputs are part of the kernels that write these, casts of gradients of those
  // that read them, and views cost nothing.
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

  static void erase_one(std::vector<Kernel>& kernels, double read, double written) {
    const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& kernel) {
      return kernel.kind == KernelKind::elementwise && kernel.bytes_read == read &&
             kernel.bytes_written == written;
    });
    if (found != kernels.end()) kernels.erase(found);
  }

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
  std::map<int, std::vector<int>> groups_;
  std::map<int, SavedTensor> copies_;
  std::map<int, std::pair<std::set<int>, std::set<int>>> frontier_;
};

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
