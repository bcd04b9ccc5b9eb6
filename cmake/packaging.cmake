# What is installed, and the Debian package made of it: `cmake --install build/release --prefix DIR`, or
# `cpack` in the build folder. Included before src/ because it only declares. The files are in packaging/.

# src/app/ installs PREFIX/bin/baleen, which finds its data again relative to itself (src/app/data_files.h).
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models/stories DESTINATION share/baleen/models)
install(FILES ${CMAKE_SOURCE_DIR}/tests/simulator/published.json DESTINATION share/baleen/tests/simulator)
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE packaging/copyright DESTINATION share/doc/baleen)

# The rest is written by the program itself, or names the prefix, which is known when it is installed.
install(CODE "set(program \"$<TARGET_FILE:baleen>\")
set(emulator \"${CMAKE_CROSSCOMPILING_EMULATOR}\")
set(packaging \"${CMAKE_SOURCE_DIR}/packaging\")
set(work \"${CMAKE_BINARY_DIR}/packaging\")")
install(SCRIPT packaging/install.cmake)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME baleen)
# For a package that others get: cpack -D CPACK_DEBIAN_PACKAGE_MAINTAINER="Name <address>".
set(CPACK_PACKAGE_CONTACT "The authors of Baleen")
set(CPACK_PACKAGE_DESCRIPTION "Runs, serves, plans and trains DeepSeek-V4 in one program,
on x86-64 and Arm processors and on NVIDIA GPUs since Ampere. A small model is
included; `baleen serve` offers the OpenAI and Anthropic APIs and a chat page.
The service baleen.service is installed, but neither enabled nor started.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libopenblas0)  # loaded by `baleen train`
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA conffiles postinst prerm postrm)
list(TRANSFORM CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA PREPEND ${CMAKE_SOURCE_DIR}/packaging/debian/)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_STRIP_FILES ON)
# Files under /etc are outside the prefix, so the tree is installed below DESTDIR.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
include(CPack)
