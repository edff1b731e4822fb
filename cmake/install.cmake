# What `cmake --install` puts where: libraries, headers, the command, its pages, and how others find all that. Both
# muster.pc and the CMake package find their prefix from where they lie, so an installed tree can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS muster muster_static EXPORT muster
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/muster DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
        PATTERN "*.hpp")
install(FILES include/muster_kernel.h include/muster_kernel_constants.h include/muster_kernel_math.h
              include/muster_kernel_math_two.h include/muster_kernel_math_double.h include/muster_kernel_math_fast.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# What the library starts and what it loads. src/platform/installed.c has the folders in which they are looked for.
set(MUSTER_HELPER_DIR ${CMAKE_INSTALL_LIBEXECDIR}/muster CACHE STRING "Where muster-helper is installed")
set(MUSTER_MODULE_DIR ${CMAKE_INSTALL_LIBDIR} CACHE STRING "Where libmuster-cluster.so is installed")
if(TARGET muster_helper)
    install(TARGETS muster_helper RUNTIME DESTINATION ${MUSTER_HELPER_DIR})
endif()
# The Python package finds the library in a folder above its own. Debian's Python looks there if the prefix is /usr; for others
# PYTHONPATH says so, or pip installs it.
set(MUSTER_PYTHON_DIR ${CMAKE_INSTALL_LIBDIR}/python3/dist-packages CACHE STRING "Where the Python package is installed")
install(DIRECTORY python/muster DESTINATION ${MUSTER_PYTHON_DIR} FILES_MATCHING PATTERN "*.py" PATTERN "py.typed"
        PATTERN "__pycache__" EXCLUDE)
if(TARGET muster_command)
    install(TARGETS muster_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET muster_cluster_library)
    install(TARGETS muster_cluster_library LIBRARY DESTINATION ${MUSTER_MODULE_DIR})
    configure_file(packaging/muster-worker.service.in ${PROJECT_BINARY_DIR}/muster-worker.service @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/muster-worker.service DESTINATION lib/systemd/system)
endif()
file(GLOB pages CONFIGURE_DEPENDS docs/man/*.1)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
# Help texts and errors name documents as docs/map.md and examples as examples/scenarios/loss.json: both are below this folder.
install(FILES README.md CHANGELOG.md packaging/muster.spdx.json DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN man EXCLUDE)
# Where bash, zsh and fish look for completions of what is installed under a prefix.
install(FILES cli/completion/muster.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME muster)
install(FILES cli/completion/_muster DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES cli/completion/muster.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/muster)
install(EXPORT muster NAMESPACE muster:: FILE musterTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/musterConfig.cmake.in ${PROJECT_BINARY_DIR}/musterConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/musterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/musterConfig.cmake ${PROJECT_BINARY_DIR}/musterConfigVersion.cmake
        DESTINATION ${package_dir})

file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file(muster.pc.in ${PROJECT_BINARY_DIR}/muster.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/muster.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
