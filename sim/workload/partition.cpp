// Implements cuts of a training step: finds the clean places, copies the layers of each part under
// new indices, and adds a "receive" and a "send" layer at the part's edges.
// Work that spans a cut is divided as a pipeline runs it: gradients of an activation are summed in
// the part of its readers, and a shared weight has one gradient in each part, which the stages
// all-reduce.
#include "workload/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

// The readers of every layer's output, and for each place (the gap before a layer) the activations
// that cross it.
class Crossings {
 public:
  explicit Crossings(const TrainingStep& step) : layers_(step.layers) {
    const int count = static_cast<int>(layers_.size());
    readers_.resize(layers_.size());
    for (int i = 0; i < count; ++i) {
      for (const int input : layer(i).inputs) {
        if (input >= 0) readers_[static_cast<std::size_t>(input)].push_back(i);
      }
    }
    crossing_.assign(layers_.size(), 0);
    value_.assign(layers_.size(), -1);
    for (int i = 0; i < count; ++i) {
      for (int place = i + 1; place <= last_reader(i); ++place) {
        ++crossing_[static_cast<std::size_t>(place)];
        value_[static_cast<std::size_t>(place)] = i;
      }
    }
    spoiled_.assign(layers_.size(), 0);
    for (int i = 0; i < count; ++i) spoil(i);
  }

  const std::vector<int>& readers(int layer) const {
    return readers_[static_cast<std::size_t>(layer)];
  }
  // The layer whose output crosses before layer `place`, the last such one if there are several.
  int value_at(int place) const { return value_[static_cast<std::size_t>(place)]; }
  int values_at(int place) const { return crossing_[static_cast<std::size_t>(place)]; }
  bool is_clean(int place) const {
    const auto at = static_cast<std::size_t>(place);
    return place > 0 && at < layers_.size() && crossing_[at] == 1 && spoiled_[at] == 0;
  }

 private:
  const Layer& layer(int i) const { return layers_[static_cast<std::size_t>(i)]; }
  int last_reader(int i) const { return readers(i).empty() ? -1 : readers(i).back(); }
  // Excludes the places that layer i makes unsuitable for a cut. Either its backward needs a tensor
  // from before the place, other than the crossing activation, which its stage does not have. Or
  // its forward overwrites the crossing activation in place, although the earlier stage still needs
  // it.
  void spoil(int i) {
    const bool writes = std::any_of(layer(i).forward.begin(), layer(i).forward.end(),
                                    [](const Kernel& kernel) { return kernel.launches > 0; });
    const auto crosses = [&](int place, int storage) {
      return value_at(place) >= 0 && layer(value_at(place)).output_storage == storage;
    };
    for (const int input : layer(i).inputs) {
      if (!writes || input < 0) continue;
      for (int place = input + 1; place <= i; ++place) {
        if (crosses(place, layer(i).output_storage)) spoiled_[static_cast<std::size_t>(place)] = 1;
      }
    }
    for (const SavedTensor& saved : layer(i).saved) {
      for (int place = saved.produced_by + 1; saved.produced_by >= 0 && place <= i; ++place) {
        if (!crosses(place, saved.storage)) spoiled_[static_cast<std::size_t>(place)] = 1;
      }
    }
  }

  const std::vector<Layer>& layers_;
  std::vector<std::vector<int>> readers_;  // by layer
  std::vector<int> crossing_, value_;      // by place
  std::vector<std::uint8_t> spoiled_;      // by place
};

// Writes one part: layers [first, end) of the whole step.
class PartWriter {
 public:
  PartWriter(const TrainingStep& step, const Crossings& crossings, int first, int end,
             bool keep_outputs)
      : whole_(step), crossings_(crossings), first_(first), end_(end), keeps_(keep_outputs) {}

  ModelPart write() {
    TrainingStep& step = part_.step;
    step.model = whole_.model;
    step.precision = whole_.precision;
    step.samples = whole_.samples;
    step.whole_layers = whole_.whole_layers;
    step.tokens = whole_.tokens;
    step.input_shape = whole_.input_shape;
    step.input_bytes = input_bytes();
    if (!is_first()) receive();
    for (int i = first_; i < end_; ++i) add(layer(i), i);
    if (!is_last()) send();
    if (is_last() && keeps_) keep_output();
    count_model(step);
    return std::move(part_);
  }

 private:
  bool is_first() const { return first_ == 0; }
  bool is_last() const { return end_ == static_cast<int>(whole_.layers.size()); }
  const Layer& layer(int i) const { return whole_.layers[static_cast<std::size_t>(i)]; }
  // Index in this part of layer i of the whole step. A layer of an earlier part is index 0, the
  // "receive" layer.
  int here(int i) const {
    if (i < 0) return -1;
    return i < first_ ? 0 : i - first_ + (is_first() ? 0 : 1);
  }
  // Storage id in this part; ids are dense and in the order of their first use.
  int storage(int of_whole) {
    return storages_.try_emplace(of_whole, static_cast<int>(storages_.size())).first->second;
  }

  // Bytes copied from host to device. Samples are copied to the first part, labels to the last.
  // Targets of tokens are as large as the ids, and an image has one label of 8 bytes.
  double input_bytes() const {
    const double labels =
        whole_.tokens > 0 ? whole_.input_bytes / 2 : 8.0 * static_cast<double>(whole_.samples);
    return (is_first() ? whole_.input_bytes - labels : 0) + (is_last() ? labels : 0);
  }

  // Appends a copy of layer i with indices of this part.
  void add(Layer copy, int i) {
    share_gradient_sums(copy, i);
    own_tied_parameter(copy, i);
    for (int& input : copy.inputs) input = here(input);
    copy.tied_layer = here(copy.tied_layer);
    copy.output_storage = storage(copy.output_storage);
    for (SavedTensor& saved : copy.saved) {
      saved.storage = storage(saved.storage);
      saved.produced_by = here(saved.produced_by);
    }
    part_.step.layers.push_back(std::move(copy));
    part_.layers.push_back(i);
  }

  // The builder has put the sum of all readers' gradients at the beginning of the layer's backward.
  // Readers in later parts sum their gradients there and send one gradient. In this part, one
  // summand (the "send" layer) replaces theirs.
  void share_gradient_sums(Layer& copy, int i) const {
    const std::vector<int>& readers = crossings_.readers(i);
    const auto later =
        std::count_if(readers.begin(), readers.end(), [&](int reader) { return reader >= end_; });
    if (later == 0 || copy.backward.empty()) return;
    const int sums = static_cast<int>(readers.size()) - 1;
    const int left = sums - static_cast<int>(later) + 1;
    const bool has_sums = sums > 0 && copy.backward.front().launches == sums &&
                          copy.backward.front().bytes_written == sums * copy.output_bytes;
    if (!has_sums) return;
    copy.backward.erase(copy.backward.begin());
    if (left > 0) {
      copy.backward.insert(copy.backward.begin(), gradient_sum(left, copy.output_bytes));
    }
  }

  // Divides shared weights at a cut. If the copy reads a weight of an earlier part, the weight
  // becomes a parameter of this part, with a gradient of its own. If a later part reads a weight of
  // the copy, the kernel by which the builder added the gradient of that use is removed.
  void own_tied_parameter(Layer& copy, int number) const {
    if (copy.tied_layer >= 0 && copy.tied_layer < first_) {
      const Layer& owner = layer(copy.tied_layer);
      copy.parameters.push_back(owner.parameters[static_cast<std::size_t>(copy.tied_parameter)]);
      const auto elements = static_cast<double>(copy.parameters.back().count);
      if (has_main_gradients(whole_.precision)) {
        Kernel& add = copy.backward.emplace_back();
        add.pass = Pass::backward;
        add.bytes_read = 6 * elements;  // bf16 added to fp32
        add.bytes_written = 4 * elements;
      }
      Kernel& accumulate = copy.backward.emplace_back();
      accumulate.pass = Pass::backward;
      accumulate.launches = 0;
      copy.tied_to.clear();
      copy.tied_layer = -1;
      copy.tied_parameter = 0;
      return;
    }
    for (int i = end_; i < static_cast<int>(whole_.layers.size()); ++i) {
      const Layer& other = layer(i);
      if (other.tied_layer != number) continue;
      const Parameter& parameter = copy.parameters[static_cast<std::size_t>(other.tied_parameter)];
      const double bytes = static_cast<double>(parameter.count) * parameter_bytes(whole_.precision);
      const auto is_sum = [&](const Kernel& kernel) {
        return kernel.kind == KernelKind::elementwise && kernel.bytes_read == 2 * bytes &&
               kernel.bytes_written == bytes &&
               kernel.flops == static_cast<double>(parameter.count);
      };
      const auto sum = std::find_if(copy.backward.rbegin(), copy.backward.rend(), is_sum);
      if (sum != copy.backward.rend()) copy.backward.erase(std::next(sum).base());
    }
  }

  // Adds the layer whose output is the activation that arrives. If several layers of this part read
  // it, its backward sums their gradients before one gradient is sent.
  void receive() {
    const int from = crossings_.value_at(first_);
    const std::vector<int>& readers = crossings_.readers(from);
    const auto here_count =
        static_cast<int>(std::count_if(readers.begin(), readers.end(), [&](int reader) {
          return reader >= first_ && reader < end_;
        }));
    Layer arrival;
    arrival.name = arrival.kind = "receive";
    arrival.boundary = Boundary::receive;
    arrival.output_bytes = layer(from).output_bytes;
    arrival.output_storage = storage(layer(from).output_storage);
    if (here_count > 1) {
      arrival.backward.push_back(gradient_sum(here_count - 1, arrival.output_bytes));
    }
    part_.step.layers.push_back(std::move(arrival));
    part_.layers.push_back(-1);
  }

  // Adds the layer that reads the activation for the next part. It has no kernels and no bytes of
  // its own.
  void send() {
    const int from = crossings_.value_at(end_);
    Layer departure;
    departure.name = departure.kind = "send";
    departure.boundary = Boundary::send;
    departure.inputs = {here(from)};
    departure.output_storage = storage(layer(from).output_storage);
    part_.step.layers.push_back(std::move(departure));
    part_.layers.push_back(-1);
  }

  // The host holds the network's output, which is the input of the loss, to the end of backward. In
  // a chunked loss this is the last value before the chunks.
  void keep_output() {
    std::vector<Layer>& layers = part_.step.layers;
    for (const Layer& loss : layers) {
      if (!loss.is_loss) continue;
      for (int output : loss.inputs) {
        while (output >= 0 && layers[static_cast<std::size_t>(output)].pieces > 1) {
          output = layers[static_cast<std::size_t>(output)].inputs.front();
        }
        if (output >= 0) keep_until_backward_of(layers, 0, output);
      }
    }
  }

  const TrainingStep& whole_;
  const Crossings& crossings_;
  const int first_, end_;
  const bool keeps_;
  ModelPart part_;
  std::map<int, int> storages_;  // ids: of the whole step -> of this part
};

// Hint for an error: the clean place nearest to `place`, on either side.
std::string nearest_clean(const TrainingStep& step, const Crossings& crossings, int place) {
  const int layers = static_cast<int>(step.layers.size());
  for (int far = 1; far < layers; ++far) {
    for (const int other : {place - far, place + far}) {
      if (!crossings.is_clean(other)) continue;
      return fmt::format("the nearest place for a cut is before {}",
                         step.layers[static_cast<std::size_t>(other)].name);
    }
  }
  return "the model has no place for a cut";
}

// Throws ConfigError unless the step can be cut before layer `place`, if the part begins at layer
// `before`. The crossing activation must come from this part, because a part receives only from the
// part directly before it.
void check_place(const TrainingStep& step, const Crossings& crossings, int before, int place,
                 const Location& where) {
  const auto name = [&](int layer) {
    return layer < 0 || layer >= static_cast<int>(step.layers.size())
               ? std::string("the end")
               : step.layers[static_cast<std::size_t>(layer)].name;
  };
  if (place <= before || place >= static_cast<int>(step.layers.size())) {
    throw partition_misfit(where, fmt::format("a part without layers ends before {}", name(place)),
                           "every part has a layer");
  }
  if (!crossings.is_clean(place)) {
    throw partition_misfit(
        where,
        fmt::format("{} cannot be cut before {}: more than one activation crosses there",
                    step.model, name(place)),
        nearest_clean(step, crossings, place));
  }
  if (crossings.value_at(place) < before) {
    throw partition_misfit(
        where, fmt::format("two parts read the output of {}", name(crossings.value_at(place))),
        "a part sends to the next part only");
  }
}

}  // namespace

double sent_bytes(const ModelPart& part) {
  const std::vector<Layer>& layers = part.step.layers;
  const auto sent = static_cast<std::size_t>(layers.back().inputs.front());
  return layers[sent].output_bytes;
}

ConfigError partition_misfit(const Location& where, std::string message, std::string hint) {
  return ConfigError(
      Diagnostic{where, "parallel.pipeline.layers", std::move(message), std::move(hint)});
}

void keep_until_backward_of(std::vector<Layer>& layers, int first, int output) {
  const Layer& source = layers[static_cast<std::size_t>(output)];
  int producer = output;
  for (int i = first; i < output; ++i) {
    if (layers[static_cast<std::size_t>(i)].output_storage == source.output_storage) {
      producer = i;
      break;
    }
  }
  // The first layer saves it, because its backward is the last of the part.
  SavedTensor held{"output", source.output_bytes, source.output_storage, producer};
  held.held = true;
  layers[static_cast<std::size_t>(first)].saved.push_back(std::move(held));
}

std::vector<int> clean_places(const TrainingStep& step) {
  const Crossings crossings(step);
  std::vector<int> places;
  for (int place = 1; place < static_cast<int>(step.layers.size()); ++place) {
    if (crossings.is_clean(place)) places.push_back(place);
  }
  return places;
}

std::vector<ModelPart> cut(const TrainingStep& step, std::span<const int> first_layers,
                           bool keep_outputs, const Location& where) {
  const int layers = static_cast<int>(step.layers.size());
  // One part is the step itself, without "receive" and "send".
  if (first_layers.size() < 2) {
    ModelPart whole{step, std::vector<int>(step.layers.size())};
    std::iota(whole.layers.begin(), whole.layers.end(), 0);
    return {std::move(whole)};
  }
  const Crossings crossings(step);
  for (std::size_t part = 1; part < first_layers.size(); ++part) {
    check_place(step, crossings, first_layers[part - 1], first_layers[part], where);
  }
  std::vector<ModelPart> parts;
  for (std::size_t part = 0; part < first_layers.size(); ++part) {
    const int end = part + 1 < first_layers.size() ? first_layers[part + 1] : layers;
    parts.push_back(PartWriter(step, crossings, first_layers[part], end, keep_outputs).write());
  }
  return parts;
}

}  // namespace lockstep
