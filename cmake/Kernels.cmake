# Kernels (framework-free) and operators (LibTorch) as shared libraries that Python can load as well.

# The CPU kernels are compiled once per instruction set; kernels/cpu_level.h picks one at run time, so that what is
# built on one machine runs on another.
set(KERNEL_OBJECTS "")
file(GLOB SIMD_SOURCES CONFIGURE_DEPENDS src/kernels/*_simd.cpp)
foreach(level base v3 v4)
  add_library(siamese_kernels_${level} OBJECT ${SIMD_SOURCES})
  target_link_libraries(siamese_kernels_${level} PRIVATE siamese_flags)
  siamese_cached(siamese_kernels_${level})
  target_compile_definitions(siamese_kernels_${level} PRIVATE SIAMESE_SIMD=${level})
  # Sums may be reordered (that is what vectorising a reduction means); NaN and infinity keep their meaning.
  target_compile_options(siamese_kernels_${level} PRIVATE -O3 -fno-math-errno -fno-trapping-math -fassociative-math
                         -fno-signed-zeros -fopenmp-simd)
  if(level STREQUAL v3)
    target_compile_options(siamese_kernels_${level} PRIVATE -march=x86-64-v3)
  elseif(level STREQUAL v4)
    target_compile_options(siamese_kernels_${level} PRIVATE -march=x86-64-v4 -mprefer-vector-width=512)
  endif()
  list(APPEND KERNEL_OBJECTS $<TARGET_OBJECTS:siamese_kernels_${level}>)
endforeach()

# exp splits ln2 in two parts, which reordering would merge; the sums of these loops are vectorised by omp simd.
set_source_files_properties(src/kernels/swiglu_simd.cpp src/kernels/swiglu_rows_simd.cpp
                            src/kernels/cross_entropy_simd.cpp
                            PROPERTIES COMPILE_OPTIONS -fno-associative-math)

file(GLOB KERNEL_SOURCES CONFIGURE_DEPENDS src/kernels/*.cpp)
list(REMOVE_ITEM KERNEL_SOURCES ${SIMD_SOURCES})

add_library(siamese_ops SHARED ${OPS_SOURCES} ${KERNEL_SOURCES} ${KERNEL_OBJECTS})
target_link_libraries(siamese_ops PUBLIC siamese_flags torch_cpu)
target_precompile_headers(siamese_ops PRIVATE src/ops/torch_pch.h)
# No export symbol: the precompiled header serves the other targets too.
set_target_properties(siamese_ops PROPERTIES BUILD_RPATH "${TORCH_LIB}" DEFINE_SYMBOL "")

# libsiamese_cuda.so: built where nvcc is, opened at run time only where a driver is.
include(CheckLanguage)
if(SIAMESE_CUDA AND TARGET c10_cuda AND NOT SIAMESE_SANITIZE)
  check_language(CUDA)
endif()
if(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    if(DEFINED ENV{CUDAARCHS})
      set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80 90)  # newer GPUs take the PTX of the last
    endif()
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)  # what CMake 3.25 knows of nvcc 13
  file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS src/kernels/cuda/*.cu src/ops/cuda/*.cpp)
  # Hopper's matrix instructions exist in code for that GPU alone (90a), whatever else is built for.
  file(GLOB HOPPER_SOURCES CONFIGURE_DEPENDS src/kernels/cuda/gemm_*.cu src/kernels/cuda/attention_*.cu)
  list(REMOVE_ITEM CUDA_SOURCES ${HOPPER_SOURCES})
  add_library(siamese_hopper OBJECT ${HOPPER_SOURCES})
  set_target_properties(siamese_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real CUDA_RUNTIME_LIBRARY Shared)
  target_link_libraries(siamese_hopper PRIVATE siamese_flags)
  siamese_cached(siamese_hopper)
  add_library(siamese_cuda SHARED ${CUDA_SOURCES} $<TARGET_OBJECTS:siamese_hopper>)
  siamese_cached(siamese_cuda)
  target_include_directories(siamese_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_libraries(siamese_cuda PRIVATE siamese_flags siamese_ops torch_cuda c10_cuda)
  # Products and sums stay apart, so that random numbers are the same as on the CPU.
  set_source_files_properties(src/kernels/cuda/random.cu PROPERTIES COMPILE_OPTIONS -fmad=false)
  set_target_properties(siamese_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Shared
                        BUILD_RPATH "$ORIGIN;${TORCH_LIB};${TORCH_CUDA_LIB}")
endif()
