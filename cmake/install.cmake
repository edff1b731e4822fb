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
if(TARGET muster_command)
    install(TARGETS muster_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
file(GLOB pages CONFIGURE_DEPENDS docs/man/*.1)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES cli/completion/muster.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME muster OPTIONAL)

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
