# Installs, moves the folder, and asks the moved program for its files from another working
# directory.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/elsewhere)
unset(ENV{LOCKSTEP_DATA})

function(must_print text)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${FOLDER}/elsewhere RESULT_VARIABLE code
                  OUTPUT_VARIABLE out ERROR_VARIABLE err)
  string(FIND "${out}" "${text}" at)
  if(NOT code EQUAL 0 OR at EQUAL -1)
    message(FATAL_ERROR "${ARGN}: exit code ${code}, without '${text}': ${out}${err}")
  endif()
endfunction()

must_print("" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/first --strip)
file(RENAME ${FOLDER}/first ${FOLDER}/second)
set(program ${FOLDER}/second/bin/lockstep)
configure_file(${FOLDER}/second/share/lockstep/models/lenet5.yaml
               ${FOLDER}/second/share/lockstep/models/only-here.yaml COPYONLY)
must_print("only-here" ${program} list models)
must_print("samples/s" ${program} run ${FOLDER}/second/share/lockstep/scenarios/ovi2026/vgg16.yaml)
must_print("all tests of prediction" ${program} validate --summary)
foreach(file share/man/man1/lockstep.1 share/bash-completion/completions/lockstep
             share/zsh/site-functions/_lockstep share/fish/vendor_completions.d/lockstep.fish
             share/doc/lockstep/README.md share/lockstep/schema/scenario.schema.json)
  if(NOT EXISTS ${FOLDER}/second/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
# Headers and libraries, which only builds read, are not installed.
if(EXISTS ${FOLDER}/second/include OR EXISTS ${FOLDER}/second/lib)
  message(FATAL_ERROR "more than the program was installed")
endif()
file(REMOVE_RECURSE ${FOLDER})
