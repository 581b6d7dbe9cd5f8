# Flags of every target: the warnings that hold on this code base, hardening, and the sanitizers by wish.
add_library(sbx_flags INTERFACE)
target_compile_options(sbx_flags INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wundef -Wvla
    -Wwrite-strings -Wcast-qual -Wpointer-arith -Wswitch-enum -Wconversion -Wsign-conversion
    -Wnull-dereference
    $<$<C_COMPILER_ID:GNU>:-Wimplicit-fallthrough=5>
    $<$<C_COMPILER_ID:GNU>:-Wduplicated-cond>
    $<$<C_COMPILER_ID:GNU>:-Wduplicated-branches>
    $<$<C_COMPILER_ID:GNU>:-Wlogical-op>
    $<$<C_COMPILER_ID:Clang>:-Wimplicit-fallthrough>
    $<$<BOOL:${SBX_WERROR}>:-Werror>)
# A fuzzer without the sanitizers would see only what crashes; their runtime also has what the coverage needs.
if(SBX_SANITIZE OR SBX_FUZZ)
    target_compile_options(sbx_flags INTERFACE -O1
        -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(sbx_flags INTERFACE -fsanitize=address,undefined)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug") # _FORTIFY_SOURCE needs an optimizing build, and blinds sanitizers
    target_compile_options(sbx_flags INTERFACE
        -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong)
endif()
if(SBX_FUZZ)
    target_compile_options(sbx_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_options(sbx_flags INTERFACE -Wl,-z,relro,-z,now)
include(CheckPIESupported)
check_pie_supported()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
