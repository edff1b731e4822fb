# muster_folder(core USES base): the folder's sources as the static library muster_core, which may use those others and
# nothing else of Muster's; LIBRARIES are the system's. A folder without sources is only a name, so that what uses it
# can already say so.
set_property(GLOBAL PROPERTY MUSTER_FOLDERS "")

function(muster_folder name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES;LIBRARIES")
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
    list(TRANSFORM arg_USES PREPEND muster_)
    set(target muster_${name})
    if(sources)
        add_library(${target} STATIC ${sources})
        target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
        target_link_libraries(${target} PUBLIC ${arg_USES} ${arg_LIBRARIES})
        set_property(GLOBAL APPEND PROPERTY MUSTER_FOLDERS ${target})
    else()
        add_library(${target} INTERFACE)
        target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
        target_link_libraries(${target} INTERFACE ${arg_USES} ${arg_LIBRARIES})
    endif()
endfunction()
