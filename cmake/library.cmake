# libmuster.a and libmuster.so from all folders.
#
# Both are made of one object in which everything that is not public has become local. Otherwise a program linked with
# libmuster.a would share one name space with Muster's insides, and a function of its own called random_init would
# replace ours without a word.

# What tests and benches link: the insides, folder by folder.
add_library(muster_internal INTERFACE)
target_link_libraries(muster_internal INTERFACE muster_cluster muster_run muster_simulate muster_observe muster_backend muster_kernel muster_io muster_platform muster_model muster_core
                                                muster_base)

get_property(folders GLOBAL PROPERTY MUSTER_FOLDERS)
set(archives)
foreach(folder ${folders})
    list(APPEND archives $<TARGET_FILE:${folder}>)
endforeach()
set(muster_object ${PROJECT_BINARY_DIR}/muster.o)
add_custom_command(
    OUTPUT ${muster_object}
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${muster_object} -Wl,--whole-archive ${archives} -Wl,--no-whole-archive
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${muster_object}
    DEPENDS ${folders}
    COMMENT "Joining muster.o"
    VERBATIM)
add_custom_target(muster_object DEPENDS ${muster_object})
set_source_files_properties(${muster_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)

add_library(muster SHARED ${muster_object})
add_library(muster_static STATIC ${muster_object})
foreach(library muster muster_static)
    add_dependencies(${library} muster_object)
    add_library(muster::${library} ALIAS ${library})
    target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_target_properties(${library} PROPERTIES OUTPUT_NAME muster LINKER_LANGUAGE C
                          LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endforeach()
add_library(muster::static ALIAS muster_static)
set_target_properties(muster_static PROPERTIES EXPORT_NAME static)
target_link_libraries(muster_static INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

set(map ${PROJECT_SOURCE_DIR}/src/muster.map)
target_link_libraries(muster PRIVATE $<BUILD_INTERFACE:Threads::Threads> $<BUILD_INTERFACE:${CMAKE_DL_LIBS}>)
target_link_options(muster PRIVATE -Wl,--version-script=${map} -Wl,--as-needed)
if(NOT MUSTER_SANITIZE)
    # Something that libc does not have must be noticed here, not when a program starts.
    target_link_options(muster PRIVATE -Wl,-z,defs)
endif()
set_target_properties(muster PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION
                                        ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                        LINK_DEPENDS ${map})
