# compiled_in(SOURCES HEADER PATHS NAME): adds to the list SOURCES a C++ source that defines
# lockstep::NAME, the text of the files PATHS, one after the other. HEADER declares it.
set(COMPILED_IN_TEMPLATE ${CMAKE_CURRENT_LIST_DIR}/text_file.cpp.in)
function(compiled_in sources header paths name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${paths})
  set(content "")
  foreach(path IN LISTS paths)
    file(READ ${path} text)
    string(APPEND content "${text}")
  endforeach()
  configure_file(${COMPILED_IN_TEMPLATE} ${name}.cpp @ONLY)
  set(${sources} ${${sources}} ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp PARENT_SCOPE)
endfunction()
