# Every third-party part, in one place; all come from Debian packages (scripts/packages.txt says why each).
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(libedit REQUIRED IMPORTED_TARGET libedit)
find_package(Boost 1.81 REQUIRED)
find_package(zstd REQUIRED)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)  # its CMake package wants curl too
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(openblas REQUIRED openblas)  # its headers; the library is loaded when a training begins
add_library(openblas_headers INTERFACE)
target_include_directories(openblas_headers SYSTEM INTERFACE ${openblas_INCLUDE_DIRS})
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
