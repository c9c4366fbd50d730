# lockstep-fit-efficiency prints the block on stdout and its basis on stderr, and locates wrong
# input.
function(expect code_wanted out_pattern err_pattern)
  execute_process(COMMAND ${PROGRAM} ${ARGN} WORKING_DIRECTORY ${FOLDER}
                  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL code_wanted OR NOT out MATCHES "${out_pattern}" OR NOT err MATCHES "${err_pattern}")
    message(FATAL_ERROR "${ARGN}: exit code ${code}, expected ${code_wanted}, '${out_pattern}' and "
                        "'${err_pattern}'; stdout: ${out} stderr: ${err}")
  endif()
endfunction()

set(launch "launch:\n  back_to_back: {median: 1.5 us, iqr: 0 s, samples: 9}\n")
file(WRITE ${FOLDER}/fit_launch.yaml "device: a100-sxm4-80gb\n${launch}")
file(WRITE ${FOLDER}/fit_unknown_device.yaml "device: a100-sxm4\n${launch}")
file(WRITE ${FOLDER}/fit_nothing.yaml "device: a100-sxm4-80gb\n")
file(WRITE ${FOLDER}/fit_bad_key.yaml "device: a100-sxm4-80gb\ngemms: []\n")
file(WRITE ${FOLDER}/fit_no_time.yaml
     "device: a100-sxm4-80gb\ngemm:\n  - {math: fp32, m: 64, n: 64, k: 64}\n")
file(WRITE ${FOLDER}/fit_no_stride.yaml
     "device: a100-sxm4-80gb\nconvolution:\n  - {math: fp32, batch: 1, in_channels: 1, size: 8, "
     "out_channels: 1, kernel: 3, stride: 0, time: {median: 1 us}}\n")
set(most 2147483647)
file(WRITE ${FOLDER}/fit_absurd.yaml
     "device: a100-sxm4-80gb\nconvolution:\n  - {math: fp16, batch: ${most}, in_channels: ${most}, "
     "size: ${most}, out_channels: 1, kernel: 3, stride: 1, time: {median: 1 us}}\n")

expect(0 "^efficiency: {kernel_floor: 1.50 us}\n$" "matmul: left out: nothing was measured" fit_launch.yaml)
expect(0 "^efficiency: " "as h100-pcie-80gb" fit_launch.yaml --as h100-pcie-80gb)
expect(0 "^efficiency: " "as a100-sxm4-80gb" fit_unknown_device.yaml --as a100-sxm4-80gb)
expect(2 "^$" "fit_unknown_device.yaml: device: 'a100-sxm4' is no known device; name the device file with --as"
       fit_unknown_device.yaml)
expect(2 "^$" "fit_nothing.yaml: .*holds nothing" fit_nothing.yaml)
expect(2 "^$" "fit_bad_key.yaml:2:1: gemms: unknown key.*did you mean 'gemm'" fit_bad_key.yaml)
expect(2 "^$" "fit_no_time.yaml:3:5: gemm.0..time: has no median above 0 s" fit_no_time.yaml)
expect(2 "^$" "fit_no_stride.yaml:3:[0-9]+: convolution.0..stride: " fit_no_stride.yaml)
expect(2 "^$" "fit_absurd.yaml: convolution: " fit_absurd.yaml)
expect(2 "^$" "missing.yaml" missing.yaml)
expect(2 "^$" "unknown device 'b300'" fit_launch.yaml --as b300)
expect(2 "^$" "FILE" --as a100-sxm4-80gb)
