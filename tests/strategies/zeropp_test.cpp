// Does ZeRO++ send the bytes that it should, and does a step take the resulting time?
#include <gtest/gtest.h>

#include "tests/strategies/fsdp_fixture.hpp"

namespace lockstep::testing::zeropp_test {
namespace {

constexpr int nodes = 4, of_node = 8;

Toy two_nodes() {
  Toy toy;
  toy.units = 5;
  toy.elements = 240e6;
  toy.gpus = nodes * of_node;
  toy.options.version = 2;
  toy.costs.forward = 0.2;
  toy.costs.backward = 0.4;
  return toy;
}
double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}
double in_a_node(Collective kind, double bytes) {
  const Machine machine = toy_machine();
  return collective_cost(machine, group_of(machine, of_node), kind, bytes).seconds();
}
double between_nodes(Collective kind, double bytes) {
  Toy toy = two_nodes();
  const Job job = toy_job(toy);
  return collective_cost(job.machine, shard_groups(job, of_node, "").replica, kind, bytes)
      .seconds();
}
double compute_of(const Toy& toy) {
  return toy.units * (toy.costs.forward + toy.costs.backward) + toy.costs.update;
}

TEST(ZeroPlusPlus, QuantisedWeightsAreAByteEach) {
  Toy toy = two_nodes();
  toy.options.zeropp.quantized_weights = true;
  const double g = seconds_of(toy, Collective::all_gather, toy.elements);
  const double r = seconds_of(toy, Collective::reduce_scatter, 4 * toy.elements);
  EXPECT_LT(relative(run(toy).step, g + compute_of(toy) + r), 1e-9);
  toy.costs.forward = toy.costs.backward = 0.0005;
  EXPECT_LT(relative(run(toy).step, toy.units * (2 * g + r) + toy.costs.update), 1e-9);
}

// Quantized gradients have half a byte each. They go to the ranks of the node, and the node's sum
// goes to the other nodes.
TEST(ZeroPlusPlus, QuantisedGradientsGoThroughTheNode) {
  Toy toy = two_nodes();
  toy.options.zeropp.quantized_gradients = true;
  const double g = seconds_of(toy, Collective::all_gather, 4 * toy.elements);
  const double first = in_a_node(Collective::all_to_all, toy.elements / 2);
  const double second = between_nodes(Collective::all_to_all, toy.elements / 2 / of_node);
  EXPECT_LT(relative(run(toy).step, g + compute_of(toy) + first + second), 1e-9);
}

// With secondary shards, backward's all-gathers stay inside the node and leave the links between
// nodes to the reductions.
TEST(ZeroPlusPlus, SecondaryShardsAreGatheredInTheNode) {
  Toy toy = two_nodes();
  toy.costs.forward = toy.costs.backward = 1e-9;
  toy.options.zeropp.secondary_shards = true;
  const double g = seconds_of(toy, Collective::all_gather, 4 * toy.elements);
  const double again = in_a_node(Collective::all_gather, 4 * toy.elements);
  const double r = seconds_of(toy, Collective::reduce_scatter, 4 * toy.elements);
  ASSERT_LT(again, r);
  EXPECT_LT(relative(run(toy).step, toy.units * (g + r) + again + toy.costs.update), 1e-6);
  // Every node then keeps a copy of the model besides the shards.
  const MemoryUse with = Fsdp(toy.options).memory(toy_job(toy));
  toy.options.zeropp = {};
  const MemoryUse without = Fsdp(toy.options).memory(toy_job(toy));
  EXPECT_NEAR(with.allocated - without.allocated, toy.units * 4 * toy.elements / of_node, 1e6);
}

double bytes_between_nodes(Toy toy, const ZeroPlusPlus& options) {
  toy.options.zeropp = options;
  Job job = toy_job(toy);
  job.simulation.network = NetworkKind::flow;
  return in_child([&] {
    double bytes = 0;
    for (const LinkTraffic& traffic : Fsdp(toy.options).simulate(job).traffic) {
      if (traffic.link_class == "NIC") bytes += traffic.total_bytes;
    }
    return std::vector<double>{bytes};
  })[0];
}

// Wang et al. 2023, table 1, with parameters of 4 bytes: the three transfers of 4 bytes between
// nodes become 1, 0 and 1/2. A ring over all ranks sends all but a rank's own part, an all-to-all
// between nodes all but a node's own part.
TEST(ZeroPlusPlus, TrafficBetweenNodesIsAnEighth) {
  const Toy toy = two_nodes();
  const double plain = bytes_between_nodes(toy, {});
  const double ring = 1 - 1.0 / toy.gpus, between = 1 - 1.0 / nodes;
  EXPECT_LT(relative(bytes_between_nodes(toy, {true, false, false}), 6. / 12 * plain), 1e-3);
  EXPECT_LT(relative(bytes_between_nodes(toy, {false, true, false}), 8. / 12 * plain), 1e-3);
  EXPECT_LT(relative(bytes_between_nodes(toy, {true, true, true}),
                     (1 + 0.5 * between / ring) / 12 * plain),
            1e-3);
}

// Two kinds of kernels take the device time: the copy of the secondary shard in forward, and the
// quantization of gradients. After the last unit, no compute hides the sum of a node and the sum of
// all nodes.
TEST(ZeroPlusPlus, ItsKernelsTakeTheDevice) {
  constexpr double kernel = 0.01;
  Toy toy = two_nodes();
  toy.costs.stream_seconds = kernel;
  const double plain = run(toy).step;
  toy.options.zeropp.secondary_shards = true;
  EXPECT_LT(relative(run(toy).step - plain, toy.units * kernel), 1e-9);
  toy.options.zeropp = {};
  toy.options.zeropp.quantized_gradients = true;
  const double reduced = seconds_of(toy, Collective::reduce_scatter, 4 * toy.elements);
  const double first = in_a_node(Collective::all_to_all, toy.elements / 2);
  const double second = between_nodes(Collective::all_to_all, toy.elements / 2 / of_node);
  EXPECT_LT(relative(run(toy).step, plain - reduced + first + second + (toy.units + 2) * kernel),
            1e-9);
}

TEST(ZeroPlusPlus, NodesHaveGroupsWhereTheyHoldSomeShards) {
  Job job = toy_job(two_nodes());
  EXPECT_EQ(shards_of_node(job), of_node);
  job.mesh.data = of_node;
  EXPECT_EQ(shards_of_node(job), 0);
  job.mesh.data = 16;
  job.mesh.tensor = 2;
  EXPECT_EQ(shards_of_node(job), of_node / 2);
  job.mesh.tensor = of_node;
  EXPECT_EQ(shards_of_node(job), 0);
}

TEST(ZeroPlusPlus, OneNodeHasAllShards) {
  Toy toy = two_nodes();
  toy.gpus = of_node;
  const double plain = run(toy).step;
  toy.options.zeropp.secondary_shards = true;
  EXPECT_EQ(run(toy).step, plain);
  toy.options.zeropp.quantized_gradients = true;
  const double g = seconds_of(toy, Collective::all_gather, 4 * toy.elements);
  EXPECT_LT(relative(run(toy).step,
                     g + compute_of(toy) + in_a_node(Collective::all_to_all, toy.elements / 2)),
            1e-9);
}

}  // namespace
}  // namespace lockstep::testing::zeropp_test
