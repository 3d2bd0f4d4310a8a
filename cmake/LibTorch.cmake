# Finds LibTorch without Torch's own CMake files, which demand a CUDA toolkit even for CPU use.
# Defines the imported target `torch_cpu` (libtorch_cpu + libc10) and, where the wheel has it, `c10_cuda`.
if(NOT TORCH_DIR)
  execute_process(COMMAND "${CMAKE_SOURCE_DIR}/scripts/find-torch" OUTPUT_VARIABLE TORCH_DIR
                  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing)
  if(torch_missing)
    message(FATAL_ERROR "No LibTorch of 2.11 or newer. Run scripts/setup, or set TORCH_DIR to a folder with include/ and lib/.")
  endif()
endif()
message(STATUS "LibTorch: ${TORCH_DIR}")

set(TORCH_LIB "${TORCH_DIR}/lib")
set(TORCH_CUDA_LIB "${TORCH_DIR}/../nvidia/cu13/lib")  # where the wheel's CUDA packages lie

function(torch_import name file)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${TORCH_LIB}/${file}")
  # SYSTEM: Torch's headers are not held to our warnings.
  target_include_directories(${name} SYSTEM INTERFACE "${TORCH_DIR}/include" "${TORCH_DIR}/include/torch/csrc/api/include")
endfunction()

torch_import(torch_c10 libc10.so)
torch_import(torch_cpu libtorch_cpu.so)
target_link_libraries(torch_cpu INTERFACE torch_c10)
# libtorch_cpu finds cudart and cupti by its own RPATH; the linker needs to be told.
target_link_options(torch_cpu INTERFACE "LINKER:-rpath-link,${TORCH_LIB}" "LINKER:-rpath-link,${TORCH_CUDA_LIB}"
                    "LINKER:--allow-shlib-undefined")
if(EXISTS "${TORCH_LIB}/libc10_cuda.so")
  torch_import(c10_cuda libc10_cuda.so)
  torch_import(torch_cuda libtorch_cuda.so)  # named as needed, so that Python's dlopen finds what it defines
endif()
