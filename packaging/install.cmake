# Run by `cmake --install`, with `program`, `emulator`, `packaging` and `work` set by cmake/packaging.cmake:
# manual page, completions and notices as the program prints them, and the service with the prefix's paths in
# it.
set(prefix ${CMAKE_INSTALL_PREFIX})

# write(FILE ARGUMENT...): what the program prints for these arguments.
function(write file)
  execute_process(COMMAND ${emulator} ${program} ${ARGN} OUTPUT_FILE ${work}/${file} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${program} ${ARGN}: status ${status}")
  endif()
endfunction()

file(MAKE_DIRECTORY ${work})
write(baleen.1 man)
write(baleen completions bash)
write(_baleen completions zsh)
write(baleen.fish completions fish)
write(notices.txt notices)
execute_process(COMMAND gzip -9nkf ${work}/baleen.1 COMMAND_ERROR_IS_FATAL ANY)

if(prefix STREQUAL "/usr")
  set(settings /etc/default)
  set(zsh_functions vendor-completions)
else()
  set(settings ${prefix}/etc/default)
  set(zsh_functions site-functions)
endif()
configure_file(${packaging}/baleen.service.in ${work}/baleen.service @ONLY)
configure_file(${packaging}/baleen.default ${work}/default/baleen COPYONLY)

file(INSTALL ${work}/baleen.1.gz DESTINATION ${prefix}/share/man/man1)
file(INSTALL ${work}/baleen DESTINATION ${prefix}/share/bash-completion/completions)
file(INSTALL ${work}/_baleen DESTINATION ${prefix}/share/zsh/${zsh_functions})
file(INSTALL ${work}/baleen.fish DESTINATION ${prefix}/share/fish/vendor_completions.d)
file(INSTALL ${work}/notices.txt DESTINATION ${prefix}/share/doc/baleen)
file(INSTALL ${work}/baleen.service DESTINATION ${prefix}/lib/systemd/system)
file(INSTALL ${work}/default/baleen DESTINATION ${settings})
