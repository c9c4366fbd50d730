# Wrong options end with exit code 2 and a helpful message, with or without a device.
function(expect_error pattern)
  execute_process(COMMAND ${PROGRAM} ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL 2 OR NOT err MATCHES "${pattern}")
    message(FATAL_ERROR "${ARGN}: exit code ${code}, expected 2 and '${pattern}', got: ${err}")
  endif()
  if(NOT out STREQUAL "")
    message(FATAL_ERROR "${ARGN}: an error belongs to stderr, stdout has: ${out}")
  endif()
endfunction()

expect_error("did you mean 'gemm'" --probes gem)
expect_error("is no CUDA device" --device cpu)
expect_error("is no CUDA device" --device cuda:x)
expect_error("is no CUDA device" --device cuda:)
expect_error("--nonsense" --nonsense)

# Without a device the program ends with exit code 77, prints the driver's message, and leaves
# stdout empty.
execute_process(COMMAND ${PROGRAM} --probes memory --quick RESULT_VARIABLE code OUTPUT_VARIABLE out
                ERROR_VARIABLE err)
if(code EQUAL 77)
  if(NOT err MATCHES "no CUDA device: driver: .*; nothing measured" OR NOT out STREQUAL "")
    message(FATAL_ERROR "without a device it said: ${err}${out}")
  endif()
elseif(NOT code EQUAL 0)
  message(FATAL_ERROR "exit code ${code}: ${err}")
endif()
