// Does the reader of launch scripts find the options that a shell would have passed, without
// executing anything?
#include "training_configs/shell_script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_folder.hpp"
#include "training_configs/imported_config.hpp"

namespace lockstep::shell_script_test {
namespace {

// The options of the script as "name=value ...".
std::string options(const std::string& script) {
  const Node map = options_of(launch_script(script, "train.sh"), "train.sh");
  std::string text;
  for (const auto& [name, value] : map.entries())
    text += (text.empty() ? "" : " ") + name + "=" + value.scalar();
  return text;
}

TEST(LaunchScripts, PassPlainOptions) {
  EXPECT_EQ(options("torchrun --nproc_per_node=8 train.py --lr 1e-4 --fp16 --betas 0.9 0.95 -x\n"),
            "nproc_per_node=8 lr=1e-4 fp16=true betas=0.9 0.95 -x");
}

TEST(LaunchScripts, ExpandVariablesAndDefaults) {
  EXPECT_EQ(options("N=4\nM=${M:-2}\nexport K=\"$N\"\n: \"${D:=7}\"\npython t.py --a $N --b ${M} "
                    "--c \"$K\" --d $D\n"),
            "a=4 b=2 c=4 d=7");
  EXPECT_EQ(options("A=${1:-16}\npython t.py --a $A --b ${UNSET_ANYWHERE} --c $(hostname)\n"),
            "a=16 b=${UNSET_ANYWHERE} c=$(hostname)");
  EXPECT_EQ(options("A='$N'\npython t.py --a '$N' --b \\$N\n"), "a=$N b=$N");
}

TEST(LaunchScripts, Compute) {
  EXPECT_EQ(
      options(
          "G=8\nN=4\nW=$(($G*$N))\npython t.py --w $W --x $((W / 2 + 1)) --y $(expr 3 \\* 4)\n"),
      "w=32 x=17 y=12");
  EXPECT_EQ(options("python t.py --x $((1 / 0))\n"), "x=$((1 / 0))");
}

TEST(LaunchScripts, ReadArrays) {
  EXPECT_EQ(options("A=(--x 1 # a comment\n  --y 2)\nB=(\"--z 3\")\nA+=(\"${B[@]}\")\npython t.py "
                    "${A[@]} \"${B[@]}\"\n"),
            "x=1 y=2 z=3");
  EXPECT_EQ(options("declare -a A=(\n--x 1\n--y 2 \\\n)\npython t.py \"${A[@]}\" \\\n  --w 5\n"),
            "x=1 y=2 w=5");
}

TEST(LaunchScripts, ReadStringsOfOptions) {
  EXPECT_EQ(options("I=\"--x 1 \\\n  --y 2\"\nA=\"$I --z 3\"\nCMD=\"t.py $A\"\npython $CMD\n"),
            "x=1 y=2 z=3");
  EXPECT_EQ(
      options("L='python -m launch --nnodes 2'\nC='t.py --x 1'\nsrun --jobid 5 bash -c '$L $C'\n"),
      "nnodes=2 x=1");
}

TEST(LaunchScripts, DecideConditions) {
  const std::string script =
      "S=$SIZE_OF_RUN\nN=16\nif [ -z \"$S\" ]; then\n  A=1\nelse\n  A=2\nfi\n"
      "if [[ $N -ge 8 && \"a\" == \"a\" ]]; then B=big; elif [ 1 -eq 1 ]; then B=mid; else "
      "B=small; fi\n"
      "if some_command; then A=9; fi\npython t.py --a $A --b $B\n";
  EXPECT_EQ(options(script), "a=1 b=big");
  EXPECT_THAT(launch_script(script, "t.sh").notes,
              testing::ElementsAre(testing::HasSubstr("line 9 cannot be decided")));
}

TEST(LaunchScripts, TakeTheFirstRoundOfALoop) {
  EXPECT_EQ(options("for B in 8 16; do\n  python t.py --batch $B\ndone\n"), "batch=8");
}

// `done` of an inner loop ends that loop only.
TEST(LaunchScripts, SkipLoopsThatWait) {
  const std::string wait = "until ready; do sleep 1; done\n";
  EXPECT_EQ(options(wait + "python t.py --batch 8\n"), "batch=8");
  EXPECT_EQ(options("for B in 8 16; do\n" + wait + "python t.py --batch $B\ndone\n"), "batch=8");
}

TEST(LaunchScripts, CompareUnsetVariablesWithTheEmptyText) {
  EXPECT_EQ(options("if [ \"$S\" = \"\" ]; then A=1; else A=2; fi\n"
                    "if [ \"$S\" != \"\" ]; then B=1; else B=2; fi\npython t.py --a $A --b $B\n"),
            "a=1 b=2");
}

TEST(LaunchScripts, ReadBatchHeadersAndHeredocs) {
  const LaunchScript script = launch_script(
      "#!/bin/bash\n#SBATCH --nodes=12\nZ=2\ncat <<EOT > ds.json\n{\"stage\": $Z}\nEOT\n"
      "torchrun --nnodes $SLURM_NNODES t.py --deepspeed_config ds.json\n",
      "t.sbatch");
  ASSERT_EQ(script.documents.size(), 1U);
  EXPECT_EQ(script.documents.begin()->second, "{\"stage\": 2}\n");
  EXPECT_EQ(options_of(script, "t").find("nnodes")->scalar(), "12");
}

TEST(LaunchScripts, TakeTheCommandWithMostOptions) {
  EXPECT_EQ(options("mkdir --parents x\npip install --upgrade --quiet y\npython t.py --a 1 --b 2 "
                    "--c 3\nls --all\n"),
            "a=1 b=2 c=3");
}

TEST(LaunchScripts, AreNeverExecuted) {
  const std::string mark = test_folder().file("mark");
  const std::string script = "touch " + mark + "\nX=$(touch " + mark + ")\nY=`touch " + mark +
                             "`\n: ${Z:=$(touch " + mark + ")}\npython t.py --a $X --b $Y > " +
                             mark + "\n";
  EXPECT_THAT(options(script), testing::StartsWith("a=$(touch"));
  EXPECT_FALSE(test_folder().has("mark"));
}

TEST(LaunchScripts, ThatWouldNotEndCostAnError) {
  EXPECT_THROW(options("A=$A$A\npython t.py \"--x"), ConfigError);
  std::string bomb = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) bomb += "A=$A$A\n";
  EXPECT_THROW(options(bomb + "python t.py --a $A\n"), ConfigError);
  EXPECT_THROW(options("echo hello\n"), ConfigError);
  EXPECT_THROW(options("A=(1 2\n"), ConfigError);
  EXPECT_THROW(options("python t.py --a ${B\n"), ConfigError);
  EXPECT_EQ(options("while true; do python t.py --a 1; done\npython t.py --b 2\n"), "b=2");
  EXPECT_EQ(options("A=$((((((((((((((((((1))))))))))))))))))\npython t.py --a $A\n"), "a=1");
}

std::string scenario(const std::string& script) {
  const std::string file = test_folder().write("train.sh", script);
  const ImportedConfig config = imported_config({file}, {});
  std::string text;
  for (const ScenarioField& field : config.fields) text += field.path + " " + field.value + "\n";
  return text;
}

constexpr const char* gpt = R"(#!/bin/bash
GPUS_PER_NODE=8
NUM_NODES=16
DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES)
GPT_MODEL_ARGS=(--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048)
TRAINING_ARGS=(--micro-batch-size 1 --global-batch-size 1536 --train-iters 500000 --fp16 --clip-grad 1.0)
MODEL_PARALLEL_ARGS=(--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${GPT_MODEL_ARGS[@]} ${TRAINING_ARGS[@]} ${MODEL_PARALLEL_ARGS[@]} \
  --vocab-file vocab.json --merge-file merges.txt
)";

TEST(LaunchScripts, OfMegatronGiveScenarios) {
  const std::string text = scenario(gpt);
  for (const char* line :
       {"model megatron-gpt", "model_parameters.layers 96", "model_parameters.hidden 12288",
        "batch.micro 1", "batch.global 1536", "precision pure-fp16", "gpus 128",
        "parallel.tensor.size 8", "parallel.pipeline.stages 16", "strategies.ddp.overlap false",
        "model_parameters.vocabulary 51200"})
    EXPECT_THAT(text, testing::HasSubstr(std::string(line) + "\n"));
}

TEST(LaunchScripts, SayWhichGpusHoldNoReplica) {
  std::string one_node = gpt;
  one_node.replace(one_node.find("NUM_NODES=16"), 12, "NUM_NODES=1");
  try {
    scenario(one_node);
    FAIL() << "128 GPUs of a replica fit on 8";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("8 GPUs hold no whole replica of 128"));
  }
}

}  // namespace
}  // namespace lockstep::shell_script_test
